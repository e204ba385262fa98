"""Crafter without a goal: no reward and no success, scored by the achievements unlocked; for pre-training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import Array, State
from guidebench.suites.crafter.game import ACHIEVEMENTS
from guidebench.suites.crafter_ood.playing import VerbNounTask

if TYPE_CHECKING:
    from guidebench.suites.crafter_ood import CrafterOod


class FreePlay(VerbNounTask):
    """The reward is always 0, and an episode ends by death or after `suite.length` steps alone. Its sub-goals are the
    22 achievements, in no order, and no event ever occurs. An achievement counts for the whole episode, also for the
    worlds after a death."""

    def __init__(self, name: str, settings: CrafterOod) -> None:
        super().__init__(name, settings)
        self._unlocked = np.zeros(len(ACHIEVEMENTS), bool)

    def reset(self, seed: int | None = None) -> Array:
        self._unlocked[:] = False
        return super().reset(seed)

    def _begin_progress(self) -> None:
        """Do nothing: achievements count until the episode ends, also when a death begins a new world."""

    def _advance(self) -> None:
        unlocked = self._game.unlocked
        self._unlocked |= [name in unlocked for name in ACHIEVEMENTS]

    def subgoals(self) -> Mapping[str, bool]:
        """Return which achievements have been unlocked in this episode."""
        return dict(zip(ACHIEVEMENTS, map(bool, self._unlocked), strict=True))

    def score(self) -> float:
        """Return the number of achievements unlocked in this episode."""
        return float(self._unlocked.sum())

    def completion(self) -> float:
        """Return the share of the 22 achievements unlocked in this episode, in [0, 1]."""
        return float(self._unlocked.mean())

    def state(self) -> State:
        return {**super().state(), "unlocked": self._unlocked.copy()}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._unlocked[:] = state["unlocked"]
