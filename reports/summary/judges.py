"""The cost of judging, and how often judges agreed with the task's own events, per label and task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.records.parts import RecordedPart
from guidebench.reports.summary import registered
from guidebench.reports.summary.listings import Listing, maybe
from guidebench.reports.summary.records import value_of
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd

KINDS = {
    "scripted": "hand-written for this task",
    "oracle": "privileged: it is told the task's own events",
    "placebo": "placebo: answers given to other questions, which hold no information",
    "external": "recorded by its own script",
    "human": "a person",
}
"""Backend other than a foundation model -> remark shown beside its rows, unless a part declares its own
(`ModelPart.remark`)."""
ORACLES = {
    "teacher": "privileged: it is told the task's own reward",
    "agent": "privileged: the suite's solver, which knows the task's state, acts",
    "chat": "privileged: it is told of the task's state what no method may know",
}
"""Kind of part -> remark on an oracle of that kind; judges are in `KINDS`."""
INSTRUMENTS = ("scripted", "oracle", "placebo")
"""Backends of models that know the task, or nothing of the question: rows with one check the instrument."""
SERVED = {"openai": "served: what the model is, is its server's word"}
"""Backend of a foundation model -> remark shown beside its rows."""
THRESHOLD = 0.5
"""A score above this counts as positive if the method has no threshold of its own."""

COLUMNS = ("asked", "applied", "score")
"""Columns of the log `judgements` that are read."""
BESIDE_EVENTS = "Judges beside the task's own events: privileged information, for diagnosis only"
"""Headings of an `Agreement`'s numbers."""


class Share(NamedTuple):
    """A share of clips: `part` of `total`."""

    part: int
    total: int

    def __str__(self) -> str:
        return f"{self.part / self.total:.3f} of {self.total:,}" if self.total else "—"


class Agreement(NamedTuple):
    """Agreement of a judge's answers with the task's own events, over the clips whose events are recorded."""

    agree: Share
    """Share of all these clips that are positive with an event, or not positive without one."""
    hits: Share
    """Positive clips among those with an event: the true-positive rate."""
    false_alarms: Share
    """Positive clips among those without: the false-positive rate."""


class Judging(NamedTuple):
    """Statistics of one judge in the runs of one row; None where something was not recorded."""

    label: str
    task_id: str
    judge: str
    """The judge's name, with its role if there are several."""
    remark: str
    positive: Share
    """Clips that the method counts as positive, of those with an answer."""
    unanswered: Share
    """Clips without a usable answer, of all that were asked about."""
    agreement: Agreement | None
    """None if the task has no events."""
    delay: float | None
    """Mean number of steps from question to application."""
    waited: float | None
    """Seconds that training waited for late answers."""
    waited_share: float | None
    """The same as a share of the runs' time."""
    seconds_per_clip: float | None
    judging_share: float | None
    """Drawing and judging, concurrent with training, as a share of the runs' time."""
    steps_per_second: float | None
    """Environment steps per second of a training worker, counting each seed's; the time includes waiting for answers,
    but not evaluation and checkpoints."""


def is_judge(backend: str) -> bool:
    """Return whether a cell of this backend asked a judge; runs of `guidebench.Recorder` have a backend and no
    judge."""
    return backend not in ("", "external")


def answering(cell: CellRecord) -> str:
    """Return the kinds of part that answer questions in a cell and its stages, joined by "+"; "judge" if the record
    does not say."""
    return "+".join(dict.fromkeys(part.kind for part in cell.answering)) or "judge"


def remark(cell: CellRecord) -> str:
    """Return the remark that tables show beside a row: which of the models in the cell and its stages are hand-written,
    privileged or served, and what parts declare of themselves; "" if none are."""
    return _remark(cell.answering or [RecordedPart("", "", cell.backend)])


def _remark(parts: Iterable[RecordedPart]) -> str:
    """Return the remark for these answering parts; "" if there is none."""
    return "; ".join(dict.fromkeys(filter(None, map(_remark_of, parts))))


def _remark_of(part: RecordedPart) -> str:
    declared = str(getattr(registered.get(part.kind, part.name), "remark", "")) if part.kind else ""
    usual = {**KINDS, **SERVED}.get(part.backend, "")
    return declared or (ORACLES.get(part.kind, usual) if part.backend == "oracle" else usual)


def judging(
    cells: Iterable[CellRecord], judged: pd.DataFrame, timed: pd.DataFrame, labels: Mapping[str, str]
) -> list[Judging]:
    """Return the statistics of each judge of each cell. `judged`: records of `judgements`; `timed`: records of
    `timings`; `labels`: cell id -> row label.

    Clocks count all of a cell's judges together, so with several judges no time is attributed to any.
    """
    judgings = []
    for cell in cells:
        if not (is_judge(cell.backend) and "judge" in answering(cell).split("+") and "judgements" in cell.logs):
            continue
        cell_rows = judged[judged["cell"] == cell.id]
        clocks = [clock(rows) for _, rows in timed[timed["cell"] == cell.id].groupby("seed")]
        total = {name: sum(entry.get(name, 0.0) for entry in clocks) for name in {key for e in clocks for key in e}}
        roles = [role for role, part in cell.parts.items() if part.kind == "judge" and part.answers]
        for role in roles or ["judge"]:
            alone = len(roles) < 2
            judge_rows = cell_rows if alone else cell_rows[_role(cell_rows) == role]
            judgings.append(
                _judging(cell, role, judge_rows, total, alone)._replace(label=labels.get(cell.id, cell.label))
            )
    return judgings


def _role(rows: pd.DataFrame) -> pd.Series[str]:
    """Return the role of the judge of each record."""
    import pandas as pd

    return rows["role"].fillna("judge") if "role" in rows else pd.Series("judge", index=rows.index)


def _judging(cell: CellRecord, role: str, rows: pd.DataFrame, total: Mapping[str, float], alone: bool) -> Judging:
    """Return the statistics of a cell's judge in a role from its records `rows`; `total`: summed clocks of the runs;
    `alone`: whether it is the cell's only judge."""
    scores = rows[rows["score"].notna()]
    part = cell.parts.get(role)
    model, backend = (part.model, part.backend) if part is not None else (cell.model, cell.backend)
    threshold = _threshold(cell) if alone or role == "judge" else THRESHOLD
    times = total if alone else {}
    return Judging(
        label=cell.label,
        task_id=cell.task_id,
        judge=f"{'' if alone else f'{role}: '}{model} ({backend})",
        remark=_remark([RecordedPart("judge", "" if part is None else part.name, backend)]),
        positive=Share(int((scores["score"] > threshold).sum()), len(scores)),
        unanswered=Share(len(rows) - len(scores), len(rows)),
        agreement=_agreement(scores, threshold),
        delay=float((scores["applied"] - scores["asked"]).mean()) if len(scores) else None,
        waited=times.get("wait_seconds"),
        waited_share=_ratio(times.get("wait_seconds"), times.get("seconds")),
        seconds_per_clip=seconds_per_clip(times),
        judging_share=_ratio(times.get("judge_seconds"), times.get("seconds")),
        steps_per_second=steps_per_second(total),
    )


def listings(judgings: Sequence[Judging]) -> list[Listing]:
    """Return tables of what was judged and at what cost and, if tasks have events, of how often judges agreed with
    them."""
    if not judgings:
        return []
    took = Listing(
        "What was judged, and what it took",
        ("Task", "Judge", "Positive, of clips judged", "Mean delay, steps", "Waited, s", "Waited, share of run",
         "Seconds per clip", "Judging, share of run", "Unanswered, of clips", "Steps per second"),
        [
            (
                judging.label, judging.task_id, judging.judge, str(judging.positive), maybe(judging.delay, 0),
                maybe(judging.waited, 1), maybe(judging.waited_share, 3), maybe(judging.seconds_per_clip, 4),
                maybe(judging.judging_share, 3), str(judging.unanswered), maybe(judging.steps_per_second, 1),
            )
            for judging in judgings
        ],
        on="page",
        words=2,
        tags={judging.judge: judging.remark for judging in judgings if judging.remark},
    )  # fmt: skip
    compared = [(judging, judging.agreement) for judging in judgings if judging.agreement]
    if not compared:
        return [took]
    beside = Listing(
        BESIDE_EVENTS,
        ("Task", "Agreement, of clips", "Hit rate, of clips with an event", "False-alarm rate, of clips without"),
        [
            (judging.label, f"{judging.task_id}{_which(judging, judgings)}", *map(str, agreement))
            for judging, agreement in compared
        ],
        on="page",
        words=1,
    )
    brief = Listing(
        BESIDE_EVENTS,
        ("positive,\nof clips judged", "agreement", "hit rate, of\nclips with event",
         "false-alarm rate,\nof the others"),
        [
            (
                f"{judging.label} on {judging.task_id}{_which(judging, judgings)}", str(judging.positive),
                *map(str, agreement),
            )
            for judging, agreement in compared
        ],
        on="terminal",
    )  # fmt: skip
    return [took, beside, brief]


def _which(judging: Judging, judgings: Sequence[Judging]) -> str:
    """Return ", JUDGE" if the row of a judge has several judges on its task, else ""."""
    several = sum((other.label, other.task_id) == (judging.label, judging.task_id) for other in judgings) > 1
    return f", {judging.judge}" if several else ""


def _threshold(cell: CellRecord) -> float:
    """Return the score above which a clip counts as positive for this cell's replay."""
    setting = cell.settings.get("replay.threshold")
    value = value_of(setting)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else THRESHOLD


def _agreement(scores: pd.DataFrame, threshold: float) -> Agreement | None:
    checked = scores[scores["events"].notna()] if "events" in scores else scores.iloc[:0]
    if checked.empty:
        return None
    positive, eventful = checked["score"] > threshold, checked["events"] > 0

    def share(part: pd.Series[bool], base: pd.Series[bool]) -> Share:
        return Share(int((part & base).sum()), int(base.sum()))

    return Agreement(
        agree=Share(int((positive == eventful).sum()), len(checked)),
        hits=share(positive, eventful),
        false_alarms=share(positive, ~eventful),
    )


def clock(rows: pd.DataFrame) -> dict[str, float]:
    """Return a run's share of its worker's clock: seconds by activity, number of clips, and steps.

    The clock is cumulative, restarts if a resumed worker did not restore it, and is written equally to every seed that
    the worker trains together.
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
    """Return the seconds of drawing and judging per clip, from a clock; None without clips."""
    return _ratio(clock.get("judge_seconds"), clock.get("clips"))


def steps_per_second(clock: Mapping[str, float]) -> float | None:
    """Return the environment steps per second of a training worker, from a clock (`Judging.steps_per_second`); None
    without time."""
    training = clock.get("seconds", 0.0) - clock.get("evaluation_seconds", 0.0) - clock.get("checkpoint_seconds", 0.0)
    return _ratio(clock.get("steps"), training)


def _ratio(part: Any, total: Any) -> float | None:
    return part / total if part is not None and total else None
