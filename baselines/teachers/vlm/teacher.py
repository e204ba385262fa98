"""The teacher `vlm`: turns the last frames of a pair into a question, and the dialogue's value into a verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.baselines.preference.conversing import weighed
from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.harness.interfaces import Question


class VlmTeacher:
    """Asks a chat which of two frames is better. For segments of one transition it is the state after it, for longer
    ones their last state (RL-VLM-F's code, image_time_index)."""

    to: str = "chat"
    wants_snapshots = True

    def __init__(self, double_check: bool) -> None:
        self._double_check = double_check

    def question(self, pair: Pair) -> Question:
        """Return the question about one pair, which holds only the last snapshot of each segment, uint8 [2, n]."""
        assert pair.snapshots is not None, "snapshots were wanted"
        return Question(
            pair.row, np.array([pair.number]), pair.snapshots[:, -1].copy(), np.zeros((1, 0), bool), to="chat"
        )

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        """Return the verdict for the dialogue's value: the label is the index of the preferred segment. An invalid
        value is `unreadable`."""
        if value is None:
            return Verdict("failed")
        try:
            return weighed(value, self._double_check)
        except (KeyError, TypeError, ValueError, OverflowError):
            return Verdict("unreadable")
