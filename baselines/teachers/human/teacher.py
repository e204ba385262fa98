"""A person as teacher: a pair becomes a question of numbers and snapshots, and a label becomes a verdict.

The question's content is JSON with `instruction`, `meanings` (name -> words) and `segments`: for each segment, name ->
points [H][n] of moving objects, [n] of constant ones; null for a number that is not finite.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.human.files import is_label
from guidebench.harness.interfaces import Array, Coordinates, Question

DECIMALS = 4
"""Decimals of coordinates (choice: a tenth of a millimetre)."""
OBSERVATION_WORDS = "what the agent observes"


class HumanTeacher:
    """Asks a person, in the role `human`."""

    to: str = "human"

    def __init__(self, instruction: str, things: Sequence[Coordinates], wants_snapshots: bool) -> None:
        """`things` are the coordinates shown to the person; if empty, the whole observation is shown."""
        self.instruction, self.things, self.wants_snapshots = instruction, tuple(things), wants_snapshots

    def question(self, pair: Pair) -> Question:
        """Return the question, with snapshots of the first segment, then of the second, uint8 [2·H, n]; no rewards."""
        things = self.things or (
            Coordinates("observation", OBSERVATION_WORDS, tuple(range(pair.observations.shape[2]))),
        )
        content = {
            "instruction": self.instruction,
            "meanings": {thing.name: thing.meaning for thing in things},
            "segments": [{thing.name: _points(thing, segment) for thing in things} for segment in pair.observations],
        }
        drawn = None if pair.snapshots is None else pair.snapshots.reshape(-1, pair.snapshots.shape[-1])
        return Question(pair.row, np.array([pair.number]), drawn, np.zeros((1, 0), bool), json.dumps(content), "human")

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        """Return the verdict for {"label": 0, 0.5, 1 or None}. Equally good segments are trained with label ½; for None
        the pair is left out (Christiano et al. 2017, §2.2.2). Any other value is `unreadable`."""
        if not (isinstance(value, dict) and value.keys() == {"label"} and is_label(value["label"])):
            return Verdict("unreadable")
        label = value["label"]
        if label is None:
            return Verdict("skipped")
        return Verdict("equal" if label == 0.5 else "labelled", float(label), is_used=True)


def _points(thing: Coordinates, segment: Array) -> Any:
    points = np.asarray(segment, np.float64)[:, list(thing.entries)].round(DECIMALS) + 0.0
    told = np.where(np.isfinite(points), points, None).tolist()  # type: ignore[call-overload]  # of objects
    return told[0] if thing.constant else told
