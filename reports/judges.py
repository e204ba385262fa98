"""What judging took and how often it agreed with the task's own events, per label and task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.reports.listings import Listing, maybe
from guidebench.results import Cell

if TYPE_CHECKING:
    import pandas as pd

KINDS = {
    "scripted": "hand-written for this task",
    "oracle": "privileged: it is told the task's own events",
    "external": "recorded by its own script",
    "human": "a person",
}
"""What a reader must know of a backend that is no foundation model."""
TAUGHT = "privileged: it is told the task's own reward"
"""The same of an oracle that teaches."""
SERVED = {"openai": "served: what the model is, is its server's word"}
"""What a reader must know of a foundation model by how it is reached."""
THRESHOLD = 0.5
"""A score above this counts as positive where the method has no threshold of its own."""

COLUMNS = ("asked", "applied", "score")
"""Of the log `judgements`."""
BESIDE_EVENTS = "Judges beside the task's own events: privileged information, for diagnosis only"
"""What stands over every number of an `Agreement`."""


class Share(NamedTuple):
    """`part` of `whole` clips."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part / self.whole:.3f} of {self.whole:,}" if self.whole else "—"


class Agreement(NamedTuple):
    """A judge's word beside the task's own events, over the clips whose events are on record."""

    agree: Share
    """Positive with an event or not positive without one, of all these clips."""
    hits: Share
    """Positive, of those with an event: the true-positive rate."""
    false_alarms: Share
    """Positive, of those without: the false-positive rate."""


class Judging(NamedTuple):
    """Judging of one label on one task, summed over its runs; None where it was not recorded."""

    label: str
    where: str
    judge: str
    remark: str
    positive: Share
    """Clips that the method counts as positive, of those that got an answer."""
    unanswered: Share
    """Clips that got no usable answer, of all that were asked about."""
    agreement: Agreement | None
    """None where the task tells of no events."""
    delay: float | None
    """Mean number of steps from question to application."""
    waited: float | None
    """Seconds that training waited for late answers."""
    waited_share: float | None
    """The same as a share of the runs' time."""
    seconds_per_clip: float | None
    judging_share: float | None
    """Drawing and judging, beside the training, as a share of the runs' time."""
    steps_per_second: float | None
    """Environment steps of a worker while it trains, each seed's counted: evaluation and checkpoints left out, waiting
    for answers not."""


def is_judge(backend: str) -> bool:
    """Whether a cell of this backend asked a judge; rows of `guidebench.Recorder` carry a backend and have none."""
    return backend not in ("", "external")


def answering(cell: Cell) -> str:
    """Which kinds of part answer in a cell, joined by "+"; a judge, where a record does not say."""
    return "+".join(dict.fromkeys(part.kind for part in cell.parts.values() if part.answers)) or "judge"


def remark(cell: Cell) -> str:
    """What a table must say beside a row of this cell, or "": of all that answers in it."""
    known = {**KINDS, **SERVED}
    found = [(part.backend, part.kind) for part in cell.parts.values() if part.answers] or [(cell.backend, "")]
    remarks = (TAUGHT if each == ("oracle", "teacher") else known.get(each[0], "") for each in found)
    return "; ".join(dict.fromkeys(filter(None, remarks)))


def judging(
    cells: Iterable[Cell], judged: pd.DataFrame, timed: pd.DataFrame, labels: Mapping[str, str]
) -> list[Judging]:
    """One entry per cell with a judge, from the rows of `judgements` and `timings`; `labels`: cell id -> row label."""
    found = []
    for cell in cells:
        if not (is_judge(cell.backend) and "judge" in answering(cell).split("+") and "judgements" in cell.logs):
            continue
        asked = judged[judged["cell"] == cell.id]
        scores = asked[asked["score"].notna()]
        clocks = [clock(rows) for _, rows in timed[timed["cell"] == cell.id].groupby("seed")]
        total = {name: sum(entry.get(name, 0.0) for entry in clocks) for name in {key for e in clocks for key in e}}
        found.append(
            Judging(
                label=labels.get(cell.id, cell.label),
                where=f"{cell.suite}/{cell.task}",
                judge=f"{cell.model} ({cell.backend})",
                remark=remark(cell),
                positive=Share(int((scores["score"] > _threshold(cell)).sum()), len(scores)),
                unanswered=Share(len(asked) - len(scores), len(asked)),
                agreement=_agreement(scores, _threshold(cell)),
                delay=float((scores["applied"] - scores["asked"]).mean()) if len(scores) else None,
                waited=total.get("wait_seconds"),
                waited_share=_ratio(total.get("wait_seconds"), total.get("seconds")),
                seconds_per_clip=seconds_per_clip(total),
                judging_share=_ratio(total.get("judge_seconds"), total.get("seconds")),
                steps_per_second=steps_per_second(total),
            )
        )
    return found


def listings(found: Sequence[Judging]) -> list[Listing]:
    """What was judged and what it took; then, where tasks tell of events, how often judges agreed with them."""
    if not found:
        return []
    took = Listing(
        "What was judged, and what it took",
        ("Task", "Judge", "Positive, of clips judged", "Mean delay, steps", "Waited, s", "Waited, share of run",
         "Seconds per clip", "Judging, share of run", "Unanswered, of clips", "Steps per second"),
        [
            (
                each.label, each.where, each.judge, str(each.positive), maybe(each.delay, 0), maybe(each.waited, 1),
                maybe(each.waited_share, 3), maybe(each.seconds_per_clip, 4), maybe(each.judging_share, 3),
                str(each.unanswered), maybe(each.steps_per_second, 1),
            )
            for each in found
        ],
        on="page",
        words=2,
        tags={each.judge: each.remark for each in found if each.remark},
    )  # fmt: skip
    known = [(each, each.agreement) for each in found if each.agreement]
    if not known:
        return [took]
    beside = Listing(
        BESIDE_EVENTS,
        ("Task", "Agreement, of clips", "Hit rate, of clips with an event", "False-alarm rate, of clips without"),
        [(each.label, each.where, *map(str, agreement)) for each, agreement in known],
        on="page",
        words=1,
    )
    brief = Listing(
        BESIDE_EVENTS,
        ("positive,\nof clips judged", "agreement", "hit rate, of\nclips with event",
         "false-alarm rate,\nof the others"),
        [(f"{each.label} on {each.where}", str(each.positive), *map(str, agreement)) for each, agreement in known],
        on="terminal",
    )  # fmt: skip
    return [took, beside, brief]


def _threshold(cell: Cell) -> float:
    """What a score must exceed to count for this cell's replay."""
    entry = cell.settings.get("replay.threshold")
    value = entry.get("value") if isinstance(entry, Mapping) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else THRESHOLD


def _agreement(scores: pd.DataFrame, threshold: float) -> Agreement | None:
    known = scores[scores["events"].notna()] if "events" in scores else scores.iloc[:0]
    if known.empty:
        return None
    positive, eventful = known["score"] > threshold, known["events"] > 0

    def share(part: pd.Series[bool], whole: pd.Series[bool]) -> Share:
        return Share(int((part & whole).sum()), int(whole.sum()))

    return Agreement(
        agree=Share(int((positive == eventful).sum()), len(known)),
        hits=share(positive, eventful),
        false_alarms=share(positive, ~eventful),
    )


def clock(rows: pd.DataFrame) -> dict[str, float]:
    """A run's share of its worker's clock.

    The clock is cumulative, starts anew where a resumed worker did not restore it, and is written alike to every
    seed that the worker packs.
    """
    ordered = rows.sort_values("step")
    packed = ordered["seeds"].to_numpy(float) if "seeds" in ordered else np.ones(len(ordered))
    spent = {}
    for name in ("seconds", "evaluation_seconds", "checkpoint_seconds", "wait_seconds", "judge_seconds", "clips"):
        if name in ordered:
            values = ordered[name].fillna(0.0).to_numpy(float)
            change = np.diff(values, prepend=0.0)
            spent[name] = float(np.sum(np.where(change < 0, values, change) / packed))
    spent["steps"] = float(ordered["step"].max())
    return spent


def seconds_per_clip(clock: Mapping[str, float]) -> float | None:
    """Of drawing and judging."""
    return _ratio(clock.get("judge_seconds"), clock.get("clips"))


def steps_per_second(clock: Mapping[str, float]) -> float | None:
    """While a worker trains; see `Judging.steps_per_second`."""
    training = clock.get("seconds", 0.0) - clock.get("evaluation_seconds", 0.0) - clock.get("checkpoint_seconds", 0.0)
    return _ratio(clock.get("steps"), training)


def _ratio(part: Any, whole: Any) -> float | None:
    return part / whole if part is not None and whole else None
