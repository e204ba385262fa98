"""The teacher `llm`: turns a pair into a question, and the dialogue's value into a verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from guidebench.baselines.preference.conversing import expect, weighed
from guidebench.baselines.preference.decision_transformer import DecisionTransformer, ExpertTrajectory
from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.llm.reading import Fault
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Build, Question

if TYPE_CHECKING:
    from guidebench.baselines.teachers.llm import Llm

ATTEMPTS = 3
"""Attempts per wanted episode, since a solver may fail."""
BECAME = ("kept", "failed", *get_args(Fault))
"""Possible outcomes of an imagined trajectory."""


class LlmTeacher:
    """Asks a chat which of two segments is better, and for a segment that is better than both."""

    to: str = "chat"
    wants_snapshots = False

    def __init__(self, settings: Llm, build: Build) -> None:
        self._settings, self._build = settings, build
        self._experts: dict[Any, DecisionTransformer] = {}
        """Decision Transformers by the suite of a run; seeds with the same layouts share one."""

    def question(self, pair: Pair) -> Question:
        """Return a question with the segments' states only; a model must not see rewards."""
        content = json.dumps({"segments": np.asarray(pair.observations, np.float32).tolist()})
        return Question(pair.row, np.array([pair.number]), None, np.zeros((1, 0), bool), content, "chat")

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        """Return the verdict for the dialogue's value: the label is the index of the preferred segment (equations 3 and
        4). An invalid value is `unreadable`."""
        if value is None:
            return Verdict("failed")
        try:
            return self._verdict(value, pair)
        except (KeyError, TypeError, ValueError, OverflowError):
            return Verdict("unreadable")

    def _verdict(self, value: Any, pair: Pair) -> Verdict:
        found = weighed(value, self._settings.double_check)
        if found.outcome in ("equal", "inconsistent") and self._settings.undecided == "soft":
            return found._replace(label=0.5, is_used=self._settings.keep_sampled)
        if found.label is None:
            return found
        notes = dict(found.notes)
        imagined = None
        if self._settings.augment == "llm":
            notes["imagined"] = became = value["imagined"]
            expect(isinstance(became, str) and became in BECAME)
            imagined = _states(value["states"], pair.observations.shape[1:]) if became == "kept" else None
        elif self._settings.augment == "decision_transformer":
            notes["imagined"], imagined = "kept", self._imagine(pair.row, pair.observations[int(found.label)])
        return found._replace(is_used=self._settings.keep_sampled, imagined=imagined, notes=notes)

    def _imagine(self, row: int, preferred: Array) -> Array:
        """Return the Decision Transformer's segment from the first state of the preferred segment [H, D] of a seed."""
        suite, task = self._build.suite(row), self._build.task
        if suite not in self._experts:
            episodes = demonstrated(suite, task, self._settings.expert_episodes, len(preferred))
            self._experts[suite] = DecisionTransformer(episodes, len(preferred), self._settings.expert_updates)
        imagined = self._experts[suite].imagine(preferred[0])
        for thing in suite.coordinates(task):
            if thing.constant:
                imagined[:, list(thing.entries)] = preferred[0, list(thing.entries)]
        return imagined


def demonstrated(suite: Any, task: str, count: int, length: int) -> list[ExpertTrajectory]:
    """Return episodes of the suite's solver, each up to its first success and longer than the `length` of a segment;
    the result is deterministic. UserError if too few attempts give one.

    Steps after a success are dropped: the solver may open a door too far and so lose the success.
    """
    found: list[ExpertTrajectory] = []
    succeeded = 0
    for attempt in range(ATTEMPTS * count):
        episode = suite.demonstrate(task, attempt)
        if episode is None:
            continue
        succeeded += 1
        steps = int(np.argmax(episode.success)) + 1
        if steps > length:
            observations, rewards = episode.observation[:steps], episode.reward[:steps]
            found.append(ExpertTrajectory(np.asarray(observations, np.float32), np.asarray(rewards, np.float64)))
        if len(found) == count:
            return found
    raise UserError(
        f"teacher.expert_episodes={count} are wanted, and of {ATTEMPTS * count} attempts to demonstrate {task} "
        f"{succeeded} succeeded and {len(found)} took more than guide.segment={length} steps until they did; lower "
        f"teacher.expert_episodes{' or guide.segment' if succeeded > len(found) else ''}, or choose another "
        f"teacher.augment"
    )


def _states(value: Any, shape: tuple[int, ...]) -> Array:
    """Return imagined states as float32 [H, D]; ValueError for another shape or values that are not finite."""
    found = np.asarray(value)
    expect(found.shape == shape and found.dtype.kind in "if")
    with np.errstate(over="ignore"):
        narrow = found.astype(np.float32)
    expect(bool(np.isfinite(narrow).all()))
    return narrow
