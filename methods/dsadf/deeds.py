"""Deeds: what the steps of a plan can be, which of them are possible, and which actions do them.

Where a suite does not say otherwise (`ShowsDeeds`), a deed is an action by its name, which is possible where the
observation's mask admits it, and the thing in a sub-goal to find something may be any word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guidebench.baselines.masks import admitted
from guidebench.harness.capabilities import NamesActions, ShowsDeeds
from guidebench.harness.interfaces import Array, Suite


def shows(suite: Suite, task: str) -> bool:
    """Return whether the observations of a task show which deeds are possible."""
    return isinstance(suite, ShowsDeeds) or bool(suite.spaces(task)[0].masking)


class Deeds:
    """The deeds of a task: their names, and which of them an observation makes possible."""

    def __init__(self, suite: Suite, task: str) -> None:
        """`suite`: one that names its actions."""
        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        self._suite, self._task = suite, task
        self._actions = suite.action_names(task)
        self._mask = suite.spaces(task)[0].masking
        self.names, self.things, self.listed = self._actions, frozenset[str](), self._actions
        """The names; the things that can be found, empty where any word may be one; and how a prompt lists the
        names."""
        if isinstance(suite, ShowsDeeds):
            patterns, stands = suite.deed_forms(task)
            self.names = suite.deeds(task)
            self.things = frozenset(name for names in stands.values() for name in names)
            self.listed = (*patterns, *(f"{word} is one of: {', '.join(names)}" for word, names in stands.items()))
        self.others = bool(self.things)
        """Whether the deeds have other names than the actions."""
        self.shows_possible = shows(suite, task)
        """Whether observations show which deeds are possible."""

    def possible(self, observation: Array) -> list[Mapping[str, int]]:
        """Return the deeds that are possible in each of the observations [n, …], name -> number of the action; all of
        them where the observations do not show it."""
        if isinstance(self._suite, ShowsDeeds):
            return [*self._suite.doable(self._task, observation)]
        if not self._mask:
            return [{name: number for number, name in enumerate(self._actions)}] * len(observation)
        return [
            {self._actions[number]: number for number in numbers.tolist()}
            for numbers in admitted(observation[self._mask])
        ]

    def effects(self, possible: Mapping[str, int]) -> dict[str, str]:
        """Return action -> deed, the deed that each action would do now; {} where deeds and actions have the same
        names. `possible`: deed -> number of the action, as of `possible`."""
        return {self._actions[number]: name for name, number in possible.items()} if self.others else {}


def done(action: int, possible: Mapping[str, int]) -> Sequence[str]:
    """Return the deeds that an action does, of those that are possible.

    >>> done(5, {"grab mug": 5}), done(0, {"grab mug": 5})
    (['grab mug'], [])
    """
    return [name for name, number in possible.items() if number == action]
