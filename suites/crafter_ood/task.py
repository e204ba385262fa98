"""A task of DSADF on Crafter: its sub-goals in order, the last of which is its goal; and several tasks in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import Array, State
from guidebench.suites.crafter_ood.navigation import beside
from guidebench.suites.crafter_ood.playing import VerbNounTask
from guidebench.suites.crafter_ood.quests import Subgoal

if TYPE_CHECKING:
    from guidebench.suites.crafter_ood import CrafterOod


class OodTask(VerbNounTask):
    """A task with a goal: the step that reaches it has reward 1 and ends the episode."""

    def __init__(self, name: str, settings: CrafterOod) -> None:
        super().__init__(name, settings)
        self._begin_unmet()

    def _begin_unmet(self) -> None:
        self._met = np.zeros(len(self.quest.subgoals), bool)

    def _begin_progress(self) -> None:
        self._begin_unmet()
        self._advance()

    def _succeeded(self) -> bool:
        return self._reached(self.quest.goal)

    def _reached(self, subgoal: Subgoal) -> bool:
        return bool(self._game.player.achievements[subgoal.achievement] >= subgoal.times)

    def _advance(self) -> None:
        """Update which sub-goals are met. A sub-goal to find something is met when the player stands beside it and all
        earlier sub-goals are met, or when its achievement has been reached."""
        self._new[:] = False
        for number, subgoal in enumerate(self.quest.subgoals):
            if not self._met[number]:
                is_met = self._reached(subgoal)
                if subgoal.find and not is_met:
                    is_met = bool(self._met[:number].all()) and beside(self._game, subgoal.find)
                self._met[number] = self._new[number] = is_met

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

        open_subgoals = [subgoal for subgoal, met in zip(self.quest.subgoals, self._met, strict=True) if not met]
        name = Expert(self._game, self._explored).act(open_subgoals[0] if open_subgoals else self.quest.goal)
        return self.action_of(name)

    def state(self) -> State:
        return {**super().state(), "met": self._met.copy()}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._met = np.array(state["met"], bool)


class TurnsTask(OodTask):
    """Several tasks in turn by episode: `reset` takes the next one, `reset(seed)` the one that the seed draws, so that
    evaluations, whose episodes have seeds of their own, have about as many of each."""

    def __init__(self, name: str, settings: CrafterOod) -> None:
        self._names, self._turn = settings.turns(name), 0
        super().__init__(name, settings)

    def reset(self, seed: int | None = None) -> Array:
        count = len(self._names)
        self._turn = (self._turn + 1) % count if seed is None else int(np.random.default_rng(seed).integers(count))
        self._take(self._names[self._turn])
        return super().reset(seed)

    def subgoals(self) -> Mapping[str, bool]:
        """Return whether the task of this episode is solved, under its name."""
        return {self._names[self._turn]: self._succeeded()}

    def snapshot(self) -> Array:
        """Return what a picture shows, and in a last byte which of the tasks it is, uint8 [2655] for a view of 9
        cells."""
        return np.append(super().snapshot(), np.uint8(self._turn))

    def state(self) -> State:
        return {**super().state(), "turn": self._turn}

    def load_state(self, state: State) -> None:
        self._turn = int(state["turn"])
        self._take(self._names[self._turn])
        super().load_state(state)
