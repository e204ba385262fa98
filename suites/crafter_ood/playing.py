"""What all tasks on Crafter share: their start, verb-noun actions over the package's dynamics, and their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness.capabilities import INSTRUCTION
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.crafter.captions import DEEDS
from guidebench.suites.crafter.game import ACTIONS, Game
from guidebench.suites.crafter.game_views import GameViews
from guidebench.suites.crafter.observations import observed
from guidebench.suites.crafter_ood.actions import STATIONS, actions, material, primitive
from guidebench.suites.crafter_ood.goals import VECTORS
from guidebench.suites.crafter_ood.navigation import CODE, ExploredMap, directions, find
from guidebench.suites.crafter_ood.quests import LONGEST, QUESTS

if TYPE_CHECKING:
    from guidebench.suites.crafter_ood import CrafterOod

NUMBER = {name: number for number, name in enumerate(ACTIONS)}
WORLDS = 50
"""Largest number of worlds to try for one that holds what a task needs."""
BESIDE = ((1, 0), (-1, 0), (0, -1), (0, 1))
"""Cells beside the player, in the order in which a table at the start is tried."""


class VerbNounTask(GameViews, ABC):
    """One task; its name is a key of `guidebench.suites.crafter_ood.quests.QUESTS`.

    The reward is 1 in a step of success, which ends the episode, and else 0. Impossible actions do nothing and are
    counted. Subclasses define progress (`_begin_progress`, `_advance`, `completion`).
    """

    def __init__(self, name: str, settings: CrafterOod) -> None:
        self._settings, self._shows_goal = settings, settings.shows_goal(name)
        self._take(settings.turns(name)[0])
        zombies = self.quest.zombies if settings.zombies == "task" else settings.zombies == "on"
        self._game = Game(settings.area, settings.view, settings.size, 0, zombies, settings.hunger)
        self._observed = observed(
            settings.observation, settings.area, settings.view, settings.size, self.text, settings.longest_text
        )
        self._space, _ = settings.spaces(name)
        self._actions = actions(settings.actions)
        self._explored = ExploredMap(settings.area)
        self._new = np.zeros(LONGEST, bool)
        self._elapsed = self.impossible = self.deaths = 0
        self._caption = ""
        self.max_steps = settings.length

    def _take(self, name: str) -> None:
        """Make the task of this name the one that is played."""
        self.quest = QUESTS[name]
        self.instruction = self.quest.instruction

    def reset(self, seed: int | None = None) -> Array:
        self._elapsed = self.impossible = self.deaths = 0
        self._caption = ""
        self._begin(seed)
        return self._with_parts(self._observed.first(self._game))

    def _begin(self, seed: int | None) -> None:
        """Begin an episode in the first world, from seed `seed` on (None: the next of the stream), that holds what the
        task needs. UserError after `WORLDS` worlds without."""
        for attempt in range(WORLDS):
            self._game.begin(seed if attempt == 0 else None)
            if self._start():
                self._explored.forget()
                self._explored.look(self._game)
                self._begin_progress()
                self._new[:] = False
                return
        raise UserError(
            f"none of {WORLDS} worlds of suite.area={self._settings.area} holds the start of the task "
            f"{self.instruction!r}: {', '.join(self.quest.sought)}{' and room for a table' * self.quest.table}; raise "
            f"suite.area"
        )

    def _start(self) -> bool:
        """Give the player what it begins with; return whether this world holds what the task needs."""
        game, quest = self._game, self.quest
        cows = any(type(thing).__name__ == "Cow" for thing in game.world.objects)
        present = {name for name, code in CODE.items() if (game.world._mat_map == code).any()}
        if not set(quest.sought) <= present | ({"cow"} if cows else set()):
            return False
        if quest.table:
            x, y = game.player.pos.tolist()
            free = [at for at in ((x + dx, y + dy) for dx, dy in BESIDE) if game.player.is_free(at)]
            if not free:
                return False
            game.world[free[0]] = "table"
        game.player.inventory.update(quest.inventory)
        game.changed()
        return True

    def step(self, action: Any) -> Step:
        game, chosen = self._game, self._actions[int(action)]
        name: str | None
        if game.player.sleeping:  # the package sleeps on, whatever the action
            name = "noop"
        elif chosen.verb == "find":
            name = self._towards(chosen.noun)
        else:
            name = primitive(chosen, game)
        self.impossible += name is None
        game.step(NUMBER[name or "noop"])
        self._caption = game.caption
        self._elapsed += 1
        self._explored.look(game)
        self._advance()
        success, dead = self._succeeded(), game.dead
        if dead and not success:
            self.deaths += 1
            if self._settings.death == "restart":
                new = self._new.copy()
                self._begin(None)
                self._new[:], dead = new, False
        return Step(
            self._with_parts(self._observed.next(game)),
            float(success),
            success or dead,
            self._elapsed >= self.max_steps,
            success,
        )

    def _with_parts(self, observation: Array) -> Array:
        """Return the observation, with the possible actions and the goal's vector if they are shown."""
        parts = {"admissible": self.admissible()} if self._settings.impossible == "masked" else {}
        if self._shows_goal:
            parts[INSTRUCTION] = VECTORS[self.instruction]
        if not parts:
            return observation
        record = self._space.join(observation[None], **{name: part[None] for name, part in parts.items()})[0]
        return np.asarray(record, self._space.numpy)

    def admissible(self) -> Array:
        """Return which actions are possible now, bool [actions]. Actions that find something always are, those for what
        the player places once it has been in view; a sleeping player can do nothing."""
        if self._game.player.sleeping:
            return np.array([action.verb == "do nothing" for action in self._actions])
        return np.array(
            [
                self._exists(action.noun) if action.verb == "find" else primitive(action, self._game) is not None
                for action in self._actions
            ]
        )

    def _exists(self, noun: str) -> bool:
        """Return whether a noun of `find` may be somewhere: the world has it, or it was placed and has been in view."""
        return noun not in STATIONS or bool(self._explored.locate(material(noun)).any())

    def _towards(self, noun: str) -> str | None:
        """Return Crafter's next action on the way to a noun, or None without a way."""
        return find(self._explored, self._game, material(noun)) if self._exists(noun) else None

    def action_of(self, name: str) -> int:
        """Return the number of an action that does Crafter's action `name` in the present state, or of `do nothing`."""
        for number, action in enumerate(self._actions):
            if action.verb != "find" and primitive(action, self._game) == name:
                return number
        return 0

    # Progress

    @abstractmethod
    def _begin_progress(self) -> None:
        """Forget the progress of the world before: another has begun, in a new episode or after a death."""

    @abstractmethod
    def _advance(self) -> None:
        """Note the progress of the last step; `_new` holds the sub-goals that it met."""

    def _succeeded(self) -> bool:
        """Return whether the goal is reached."""
        return False

    def events(self) -> Array:
        """Return which sub-goals the last step met, bool [15], by their numbers; a task with fewer leaves the rest."""
        return self._new.copy()

    @abstractmethod
    def completion(self) -> float:
        """Return the share of the task that is done in this episode, in [0, 1]."""

    def outcomes(self) -> Mapping[str, float]:
        """Return `completion`; `alive`, 1 unless the player has died in this episode; and the number of its
        `impossible actions`."""
        return {
            "completion": self.completion(),
            "alive": float(self.deaths == 0),
            "impossible actions": float(self.impossible),
        }

    # Observations

    def text(self) -> str:
        """Return the present state in sentences, with `suite.directions` also where the things of the task were last
        in view (`guidebench.suites.crafter_ood.navigation.directions`)."""
        sentences = super().text()
        if not self._settings.directions:
            return sentences
        places = directions(self._explored, self._game, {noun: material(noun) for noun in self.quest.things})
        return f"{sentences} {places}".strip()

    def measures(self) -> Array:
        """Return which deeds the player could do next, float32 [deeds]; for a furnace, a table must be in view."""
        measures = super().measures()
        materials, _ = self._game.visible_cells()
        measures[DEEDS.index("place furnace")] *= (materials == CODE["table"]).any()
        return measures

    def caption(self) -> str:
        """Return what the player did in the last step, such as `chop tree` (`guidebench.suites.crafter.captions`)."""
        return self._caption

    def find(self, noun: str) -> int | None:
        """Return the action of the next step towards `noun` through explored cells; None if the player faces it already
        or there is no path (`guidebench.suites.crafter_ood.navigation.find`)."""
        name = self._towards(noun)
        return None if name is None else self.action_of(name)

    def position(self) -> None:
        """Return None: the dynamics are random."""
        return None

    def state(self) -> State:
        """Return the complete state, including that of later episodes; call after the first `reset`."""
        return {
            "game": self._game.state(),
            "observed": self._observed.state(),
            "seen": self._explored.state(),
            "elapsed": self._elapsed,
            "impossible": self.impossible,
            "deaths": self.deaths,
        }

    def load_state(self, state: State) -> None:
        self._game.load_state(state["game"])
        self._observed.load_state(state["observed"])
        self._explored.load_state(state["seen"])
        self._new[:] = False
        self._caption = ""
        self._elapsed = int(state["elapsed"])
        self.impossible, self.deaths = int(state["impossible"]), int(state["deaths"])
