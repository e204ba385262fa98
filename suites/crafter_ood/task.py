"""A task of DSADF on Crafter: its sub-goals in order, the last of which is its goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import State
from guidebench.suites.crafter_ood.navigation import beside
from guidebench.suites.crafter_ood.playing import VerbNounTask
from guidebench.suites.crafter_ood.quests import Subgoal

if TYPE_CHECKING:
    from guidebench.suites.crafter_ood import CrafterOod


class OodTask(VerbNounTask):
    """A task with a goal: the step that reaches it has reward 1 and ends the episode."""

    def __init__(self, name: str, settings: CrafterOod) -> None:
        super().__init__(name, settings)
        self._met = np.zeros(len(self.quest.subgoals), bool)

    def _begun(self) -> None:
        self._met[:] = False
        self._advance()

    def _succeeded(self) -> bool:
        return self._reached(self.quest.goal)

    def _reached(self, subgoal: Subgoal) -> bool:
        return bool(self._game.player.achievements[subgoal.achievement] >= subgoal.times)

    def _advance(self) -> None:
        """Note which sub-goals are met now. One to find something is met beside it if all before it are, or if what it
        is to be found for has been done."""
        self._new[:] = False
        for number, subgoal in enumerate(self.quest.subgoals):
            if not self._met[number]:
                met = self._reached(subgoal)
                if subgoal.find and not met:
                    met = bool(self._met[:number].all()) and beside(self._game, subgoal.find)
                self._met[number] = self._new[number] = met

    def subgoals(self) -> Mapping[str, bool]:
        """Return which sub-goals have been met in this episode, by number and name."""
        return dict(zip(self.quest.names, map(bool, self._met), strict=True))

    def completion(self) -> float:
        """Return the share of the sub-goals that have been met, in [0, 1]: DSADF's completion rate."""
        return float(self._met.mean())

    def expert(self) -> int:
        """Return the scripted player's action: it works on the first sub-goal that is not met, and eats, drinks,
        sleeps and defends itself. Impossible steps of it are `do nothing`."""
        from guidebench.suites.crafter_ood.expert import Expert

        left = [subgoal for subgoal, met in zip(self.quest.subgoals, self._met, strict=True) if not met]
        name = Expert(self._game, self._explored).act(left[0] if left else self.quest.goal)
        return self.action_of(name)

    def state(self) -> State:
        return {**super().state(), "met": self._met.copy()}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._met[:] = state["met"]
