"""Columns of a run's logs, and the columns that identify a run. They contain no times and no paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.logs import Column, Log, amount, count, share
from guidebench.harness.scores import SUCCESS, Score

SCHEMA_VERSION = 2
STAGES = 4
"""Most pre-training stages of a cell."""

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
"""Columns of an episode record. `backend` (scripted, oracle, …) and `model` (sprite, …) describe the parts whose
answers guide the learner, several joined by "+"; both are empty if there are none. `step` counts environment steps of
this seed."""
SCORE = "score"
"""Additional float column of runs whose score is neither success nor return."""

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
"""Cumulative usage of a run's questions to models up to a step. Columns without prefix count recorded answers as if
they had been calls; columns with `billed_` count what was really sent to foundation models for the run's questions,
whether its answer was used or lost when the run was stopped. `failures` counts questions without a
usable answer, those that a fallback of the asking part stands for included."""

QUESTIONS: dict[str, type] = {"questions": int}
"""Ledger column that early records lack: all completed questions, of which `failures` had no usable answer."""
ROLES = "roles"
"""Ledger column that early records lack: the questions of each role that was asked, as `role_counts` writes them."""

_SPENT = {
    **{name: (count if kind is int else amount)(f"{name} so far") for name, kind in LEDGER.items()},
    **{name: count("questions that ended so far", optional=True) for name in QUESTIONS},
}
LOGS: Mapping[str, Log] = {
    "timings": Log(
        "training time up to an evaluation; further columns hold the time of evaluation, checkpoints and judging",
        {"step": count("environment step"), "seconds": Column(float, "seconds of training so far")},
    ),
    "metrics": Log(
        "metrics of the parts, each in a further column",
        {"step": count("environment step")},
    ),
    "ledger": Log(
        "cumulative usage of models by a run's questions up to a step",
        {
            "step": count("environment step"),
            **_SPENT,
            ROLES: Column(
                str, "questions so far by role, and of these the ones without a usable answer", optional=True
            ),
        },
    ),
    "spending": Log(
        "the ledger per role, for a cell that sends questions to several roles",
        {"step": count("environment step"), "role": Column(str, "role of the model that was asked"), **_SPENT},
    ),
    "probes": Log(
        "judge scores, critic values and learnt rewards along the task's reference episode",
        {
            "step": count("environment step"),
            "t": count("move of the reference episode"),
            "quantity": Column(str, "name of the quantity (`guidebench.harness.loop.probes.Point`)"),
            "value": Column(float, "value of the quantity"),
        },
    ),
    "subgoals": Log(
        "which subgoals of the task hold at the end of an evaluation episode",
        {
            "step": count("environment step"),
            "episode": count("evaluation episode"),
            "subgoal": Column(str, "name of the subgoal"),
            "met": Column(bool, "whether the subgoal holds"),
        },
    ),
    "outcomes": Log(
        "further numbers of an evaluation episode that the task counts, such as completion",
        {
            "step": count("environment step"),
            "episode": count("evaluation episode"),
            "outcome": Column(str, "name of the number"),
            "value": Column(float, "value of the number at the end of the episode"),
        },
    ),
}
"""The logs of every run, regardless of its parts; their table rows may have further columns."""
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
"""Kind of part -> the logs that the engine writes about questions to parts of that kind; of a judge, about clips."""
RESERVED = ("evaluations", "model_answers", *LOGS, *(name for logs in ASKING.values() for name in logs))
"""Log names that parts must not declare."""

ENOUGH_ANSWERED = 0.9
"""Minimum share of answered questions to foundation models for a table row to be ranked or marked as leading (choice:
a method that lost more than a tenth of its guidance was not measured as described)."""

ENTROPY, ENTROPY_SHARE, ENTROPY_BONUS = "entropy", "entropy_share", "entropy_bonus"
"""Metrics of a stochastic policy over continuous actions: its mean entropy over a batch in nats, its share of the
entropy of uniform actions, and the entropy times its coefficient α."""
SHAPING, TASK_REWARD = "guide/shaping", "guide/task_reward"
"""Metrics of a guide that shapes rewards: the mean absolute values over a batch of what it adds, and of the task's own
reward."""

STATUSES = ("waiting", "running", "stopped", "finished", "failed")

MATRICES = ("ablation", "perturbation")
"""Kinds of matrix in study.json."""


INSTRUMENT_CHECK = (
    "hand-written for this task: what a perturbation does to it is a check of the instrument, "
    "not a finding about any model"
)
"""Remark on a scripted judge in a perturbation matrix."""


def folder_of(task: str) -> str:
    """Return the name of a task's folder, in which `/` and `:` of a Gymnasium id are `_`."""
    return task.replace("/", "_").replace(":", "_")


def directory_of(suite: str, task: str, method: str, cell: str) -> str:
    """Return the directory of a cell, relative to its study."""
    return f"{suite}/{folder_of(task)}/{method}-{cell}"


def evaluation(score: Score) -> dict[str, type]:
    """Return the columns of the episode records of a run with this score."""
    return {**EVALUATION, SCORE: float} if score.recorded else EVALUATION


def score_of(content: Mapping[str, Any]) -> Score:
    """Return the score in a cell record, or success if it has none. Raise UserError for an invalid entry."""
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
    """Return whether a value, or each of an array, lies in the score's range, with a tolerance of 1e-6 of the range."""
    slack = 1e-6 * (score.span or 1.0)
    import numpy as np  # here, since help of every command imports this module

    low, high = -np.inf if score.low is None else score.low, np.inf if score.high is None else score.high
    return (np.asarray(values) >= low - slack) & (np.asarray(values) <= high + slack)


def limits(score: Score) -> str:
    """Format the range of a score."""
    low, high = ("no bound" if end is None else f"{end:g}" for end in (score.low, score.high))
    return f"[{low}, {high}]"


class Identity(NamedTuple):
    """The columns that identify the run of an episode record: the leading columns of `EVALUATION`, `seed` included."""

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
    """Return the row name of a method in tables and legends, with its model and profile.

    >>> label("vlm_rb", "scripted", "sprite", "quick")
    'vlm_rb · sprite · quick'
    """
    name = f"{method} ({variant})" if variant else method
    return " · ".join(part for part in (name, model or backend, profile) if part)
