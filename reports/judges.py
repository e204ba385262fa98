"""What judging took: clips, share of yes, waits and seconds per clip, per label and task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import results
from results import Study

if TYPE_CHECKING:
    import pandas as pd

KINDS = {
    "scripted": "hand-written for this task",
    "oracle": "privileged: it reads the task's own state",
    "external": "recorded by its own script",
}
"""What a reader must know of a backend; other backends are models and need no remark."""
YES = 0.5
"""A score of at least this counts as yes."""


class Judging(NamedTuple):
    """Judging of one label on one task, summed over its runs; None where it was not recorded."""

    label: str
    where: str
    judge: str
    remark: str
    clips: int
    yes: float | None
    delay: float | None
    """Mean number of steps from question to application."""
    waited: float | None
    """Seconds that training waited for late answers."""
    waited_share: float | None
    """The same as a share of the runs' time."""
    seconds_per_clip: float | None


def is_judge(backend: str) -> bool:
    """Whether a cell of this backend asked a judge; rows of `harness.Recorder` carry a backend and have none."""
    return backend not in ("", "external")


def remark(backend: str) -> str:
    """What a table must say beside a row of this backend; empty for a model."""
    return KINDS.get(backend, "")


def judging(study: Study, labels: Mapping[str, str]) -> list[Judging]:
    """One entry per cell with a judge; `labels`: cell id -> row label."""
    cells = [cell for cell in study.cells if is_judge(cell.backend)]
    if not cells:
        return []
    judged, timed = results.load(study, what="judgements"), results.load(study, what="timings")
    found = []
    for cell in cells:
        scores = judged[judged["cell"] == cell.id]
        clock = [_spent(rows) for _, rows in timed[timed["cell"] == cell.id].groupby("seed")]
        total = {name: sum(entry[name] for entry in clock) for name in (clock[0] if clock else ())}
        found.append(
            Judging(
                label=labels.get(cell.id, cell.label),
                where=f"{cell.suite}/{cell.task}",
                judge=f"{cell.model} ({cell.backend})",
                remark=remark(cell.backend),
                clips=len(scores),
                yes=float((scores["score"] >= YES).mean()) if len(scores) else None,
                delay=float((scores["applied"] - scores["asked"]).mean()) if len(scores) else None,
                waited=total.get("wait_seconds"),
                waited_share=_ratio(total.get("wait_seconds"), total.get("seconds")),
                seconds_per_clip=_ratio(total.get("judge_seconds"), total.get("clips")),
            )
        )
    return found


def _spent(rows: pd.DataFrame) -> dict[str, float]:
    """A run's share of its worker's clock.

    The clock is cumulative, starts anew where a resumed worker did not restore it, and is written alike to every
    seed that the worker packs.
    """
    ordered = rows.sort_values("step")
    packed = ordered["seeds"].to_numpy(float) if "seeds" in ordered else np.ones(len(ordered))
    spent = {}
    for name in ("seconds", "wait_seconds", "judge_seconds", "clips"):
        if name in ordered:
            values = ordered[name].fillna(0.0).to_numpy(float)
            change = np.diff(values, prepend=0.0)
            spent[name] = float(np.sum(np.where(change < 0, values, change) / packed))
    return spent


def _ratio(part: Any, whole: Any) -> float | None:
    return part / whole if part is not None and whole else None
