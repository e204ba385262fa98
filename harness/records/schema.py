"""Columns of what a run records, and the identity of a run. Nothing here depends on a clock or a path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.logs import Column, Log, amount, count, share
from guidebench.harness.scores import SUCCESS, Score

SCHEMA_VERSION = 2

EVALUATION: dict[str, type] = {
    "study": str,
    "cell": str,
    "suite": str,
    "task": str,
    "method": str,
    "learner": str,
    "backend": str,
    "model": str,
    "profile": str,
    "seed": int,
    "step": int,
    "episode": int,
    "return": float,
    "success": bool,
    "length": int,
}
"""One row per evaluation episode. `backend` is how what answers is reached (scripted, oracle, …) and `model` its
name (sprite, …), several joined by "+", both empty for a method that asks nobody; `step` counts environment steps of
this seed."""
SCORE = "score"
"""The further column of runs whose score is neither success nor return, float."""

LEDGER: dict[str, type] = {
    "failures": int,
    **{
        f"{prefix}{name}": kind
        for prefix in ("", "billed_")
        for name, kind in (
            ("calls", int), ("tokens_in", int), ("tokens_out", int), ("images", int),
            ("seconds", float), ("usd", float),
        )
    },
}  # fmt: skip
"""What a run's questions to models took up to a step: as if nothing had been cached, and `billed_`, what was really
asked of a model. Questions that got no usable answer are counted in `failures` too."""

QUESTIONS: dict[str, type] = {"questions": int}
"""A column of the ledger that early records lack: all questions that ended, of which `failures` had no answer."""

_SPENT = {
    **{name: (count if kind is int else amount)(f"{name} so far") for name, kind in LEDGER.items()},
    **{name: count("questions that ended so far", optional=True) for name in QUESTIONS},
}
LOGS: Mapping[str, Log] = {
    "timings": Log(
        "the clock of a run up to an evaluation; further columns tell of evaluation, checkpoints, waiting and judging",
        {"step": count("environment step"), "seconds": Column(float, "seconds of training so far")},
    ),
    "metrics": Log(
        "numbers that parts tell of their work, each a further column under a name of its own",
        {"step": count("environment step")},
    ),
    "ledger": Log(
        "what a run's questions to models took up to a step",
        {
            "step": count("environment step"),
            **_SPENT,
        },
    ),
    "spending": Log(
        "the ledger of each role apart, of a cell that asks in several",
        {"step": count("environment step"), "role": Column(str, "role of the model that was asked"), **_SPENT},
    ),
    "probes": Log(
        "what judge, critic and learnt reward say along the task's reference episode",
        {
            "step": count("environment step"),
            "t": count("move of the reference episode"),
            "quantity": Column(str, "what is told (`guidebench.harness.loop.probes.Point`)"),
            "value": Column(float, "its value"),
        },
    ),
    "subgoals": Log(
        "which parts of its success hold at the end of an evaluation episode",
        {
            "step": count("environment step"),
            "episode": count("evaluation episode"),
            "subgoal": Column(str, "name of the part"),
            "met": Column(bool, "whether it holds"),
        },
    ),
}
"""The logs of every run, whatever its parts declare; further columns may stand in their rows."""
ASKING: Mapping[str, Mapping[str, Log]] = {
    "judge": {
        "judgements": Log(
            "one question to the judge: a clip and its score",
            {
                "role": Column(str, "role of the judge; missing where that is judge", optional=True),
                "ordinal": count("number of the question, from 0", optional=True),
                "asked": count("environment step at which the clip was sent"),
                "applied": count("environment step from which the answer counts"),
                "slots": count("stored transitions that the clip still has", optional=True),
                "score": share("P(yes); missing where there was no usable answer", optional=True),
                "failure": Column(str, "why there was no usable answer", optional=True),
                "mass": share("probability that the model gave to yes and no together", optional=True),
                "events": count("events of the task in the clip, for diagnosis", optional=True),
            },
        )
    }
}
"""Kind of part -> the logs that the engine writes of what a cell asks it."""
RESERVED = ("evaluations", *LOGS, *(name for logs in ASKING.values() for name in logs))
"""What no part may call a log of its own."""

ENOUGH_ANSWERED = 0.9
"""Least share of a row's questions to foundation models that were answered for the row to be ranked or marked as
leading (choice: a method that lost more than a tenth of its guidance was not measured as it is described)."""

STATUSES = ("waiting", "running", "stopped", "finished", "failed")

MATRICES = ("ablation", "perturbation")
"""Kinds of matrix that study.json knows."""

PROFILES_RANKED = ("paper", "quick", "smoke")

INSTRUMENT_CHECK = (
    "hand-written for this task: what a perturbation does to it is a check of the instrument, "
    "not a finding about any model"
)
"""Of a scripted judge in a perturbation matrix."""


def evaluation(score: Score) -> dict[str, type]:
    """The columns of the evaluation rows of a run with this score."""
    return {**EVALUATION, SCORE: float} if score.recorded else EVALUATION


def score_of(content: Mapping[str, Any]) -> Score:
    """The score that a cell's record names, success where it names none; UserError where it is not one."""
    if SCORE not in content:
        return SUCCESS
    entry = content[SCORE]
    names = [field.name for field in fields(Score)]
    if not isinstance(entry, Mapping) or set(entry) != set(names):
        raise UserError(f"score is {entry!r}; expected an object with {', '.join(names)}")
    for end in ("low", "high"):
        if entry[end] is not None and type(entry[end]) not in (int, float):
            raise UserError(f"score.{end} is {entry[end]!r}; expected a number or null")
    for name in ("name", "direction"):
        if not isinstance(entry[name], str):
            raise UserError(f"score.{name} is {entry[name]!r}; expected text")
    return Score(**entry)


def within(score: Score, values: Any) -> Any:
    """Whether an episode, or each of an array, can be worth so much; a millionth of the range is left for rounding."""
    slack = 1e-6 * (score.span or 1.0)
    import numpy as np  # here, since help of every command imports this module

    low, high = -np.inf if score.low is None else score.low, np.inf if score.high is None else score.high
    return (np.asarray(values) >= low - slack) & (np.asarray(values) <= high + slack)


def limits(score: Score) -> str:
    """The range of a score in words."""
    low, high = ("no bound" if end is None else f"{end:g}" for end in (score.low, score.high))
    return f"[{low}, {high}]"


class Identity(NamedTuple):
    """What names the rows of a run: the leading columns of `EVALUATION`, `seed` included."""

    study: str
    cell: str
    suite: str
    task: str
    method: str
    learner: str
    backend: str
    model: str
    profile: str
    seed: int

    def row(self, **values: Any) -> dict[str, Any]:
        return {**self._asdict(), **values}


def label(method: str, backend: str, model: str, profile: str, variant: str = "") -> str:
    """Row name of a method in every table and legend: it keeps what judged it and the profile.

    >>> label("vlm_rb", "scripted", "sprite", "quick")
    'vlm_rb · sprite · quick'
    """
    name = f"{method} ({variant})" if variant else method
    return " · ".join(part for part in (name, model or backend, profile) if part)
