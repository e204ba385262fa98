"""The whole game of Crafter as a task: the package's reward, and its 22 achievements as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.crafter.game import ACHIEVEMENTS, Game
from guidebench.suites.crafter.game_views import GameViews
from guidebench.suites.crafter.observations import observed

if TYPE_CHECKING:
    from guidebench.suites.crafter import Crafter

NOTHING = np.zeros(len(ACHIEVEMENTS), bool)
NOTHING.flags.writeable = False
INSTRUCTION = "survive, and unlock as many different achievements as possible"


class CrafterTask(GameViews):
    """One game. An action is one of the package's 17, in its order.

    The reward is the package's: 1 in a step that unlocks achievements, and a tenth of the change of health. An episode
    is terminated by death and truncated after `settings.length` steps; it is a success once all 22 achievements are
    unlocked.
    """

    def __init__(self, settings: Crafter) -> None:
        self._game = Game(settings.area, settings.view, settings.size, settings.length)
        self._observed = observed(settings.observation, settings.area, settings.view, settings.size, self.text)
        self._events: Array = NOTHING
        self.instruction = INSTRUCTION
        self.max_steps = settings.length

    def reset(self, seed: int | None = None) -> Array:
        self._game.begin(seed)
        self._events = NOTHING
        return self._observed.first(self._game)

    def step(self, action: Any) -> Step:
        game = self._game
        before = game.unlocked.copy()
        _, reward, _, _ = game.step(int(action))
        gained = game.unlocked - before
        self._events = np.array([name in gained for name in ACHIEVEMENTS]) if gained else NOTHING
        return Step(
            self._observed.next(game),
            float(reward),
            game.dead,
            game.steps >= self.max_steps,
            len(game.unlocked) == len(ACHIEVEMENTS),
        )

    def events(self) -> Array:
        """Return which achievements the last step unlocked, bool [22]."""
        return self._events

    def subgoals(self) -> Mapping[str, bool]:
        """Return which achievements have been unlocked in this episode."""
        return {name: name in self._game.unlocked for name in ACHIEVEMENTS}

    def outcomes(self) -> Mapping[str, float]:
        """Return `completion`, the share of the 22 achievements unlocked in this episode, and `alive`, 1 unless the
        player has died in it."""
        return {"completion": len(self._game.unlocked) / len(ACHIEVEMENTS), "alive": float(not self._game.dead)}

    def score(self) -> float:
        """Return the number of achievements unlocked in this episode."""
        return float(len(self._game.unlocked))

    def caption(self) -> str:
        """Return what the player did in the last step, such as `chop tree` (`guidebench.suites.crafter.captions`)."""
        return self._game.caption

    def position(self) -> None:
        """Return None: the reward is dense and the dynamics are random."""

    def state(self) -> State:
        """Return the complete state, including that of later episodes; call after the first `reset`."""
        return {"game": self._game.state(), "observed": self._observed.state()}

    def load_state(self, state: State) -> None:
        self._game.load_state(state["game"])
        self._observed.load_state(state["observed"])
        self._events = NOTHING
