"""The memory M of System 1's proficiencies at rewarded sub-goals, in subspaces by verb (DSADF, §3.1 and 4.1).

It is part of the policy's file, which may come from anybody: it is parsed as JSON and every field is validated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

RECENT = 10
"""Attempts of a sub-goal that are remembered one by one (choice: enough to tell a share of tenths)."""
NAME = re.compile(r"[a-z]+( [a-z]+){0,7}")
BETWEEN = ": "
"""What stands between an episode's goal and a sub-goal in a key of M; no sub-goal has it."""
LONGEST_GOAL = 500
"""Most characters of an episode's goal in a policy's memory (choice)."""


def divided(key: str) -> tuple[str, str]:
    """Return the goal and the sub-goal of a key of M; the goal is "" where the task has a single one."""
    goal, _, name = key.rpartition(BETWEEN)
    return goal, name


@dataclass
class Skill:
    """The attempts at one sub-goal u, and its proficiency p. An attempt begins when u becomes the present sub-goal, and
    ends when u is reached or the episode ends."""

    attempts: int = 0
    completed: int = 0
    recent: list[tuple[int, bool]] = field(default_factory=list)
    """Steps taken, and whether u was reached, of the last attempts, the oldest first."""
    rewarded: bool = False
    """Whether an attempt was rewarded, so that u is in M."""
    proficiency: float | None = None
    """The scorer's p in [0, 1]; None until it has given a usable score."""
    scored: bool = False
    """Whether p accounts for all attempts."""

    def attempted(self, steps: int, completed: bool) -> None:
        """Record an attempt that took `steps` steps and, if `completed`, reached the sub-goal."""
        self.attempts += 1
        self.completed += completed
        self.recent = [*self.recent, (steps, completed)][-RECENT:]
        self.scored = False

    def stored(self) -> list[Any]:
        """Return all fields as a JSON list."""
        recent = [[steps, int(done)] for steps, done in self.recent]
        return [self.attempts, self.completed, recent, int(self.rewarded), self.proficiency, int(self.scored)]


class Memory:
    """The sub-goals that one seed has tried: the rewarded ones, which are in M, and the others, which are not. Where
    the goal changes from episode to episode, they are kept by goal."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}

    def skill(self, name: str, goal: str = "") -> Skill:
        """Return the record of a sub-goal, in M or not; an empty one is added if it was never tried. `goal`: that of
        the episode in which it is tried, "" where the task has a single one."""
        return self._skills.setdefault(f"{goal}{BETWEEN}{name}" if goal else name, Skill())

    def proficiency(self, name: str, goal: str = "") -> float | None:
        """Return the proficiency p of a sub-goal in an episode with this goal (`find`); None if it is not in M or has
        no score."""
        skill = self.find(name, goal)
        return None if skill is None else skill.proficiency

    def find(self, name: str, goal: str = "") -> Skill | None:
        """Return the record of a sub-goal in M, for an episode with this goal; None if it is not in M.

        In a memory by goals it is that of the episode's goal alone. Only for a goal that the memory has never met are
        those of all goals joined: their attempts, and the mean of their proficiencies (choice).
        """
        by_goal = [(*divided(key), skill) for key, skill in self.skills.items()]
        goals = {present for present, _, _ in by_goal}
        kept_under = goal if goal in goals else ""
        skills = [
            skill for present, other, skill in by_goal if other == name and (present == kept_under or not kept_under)
        ]
        return skills[0] if len(skills) == 1 else joined(skills)

    @property
    def skills(self) -> dict[str, Skill]:
        """Return key -> skill of the sub-goals in M: a sub-goal's name, or its goal and its name (`divided`)."""
        return {name: skill for name, skill in self._skills.items() if skill.rewarded}

    def subspaces(self) -> dict[str, dict[str, float | None]]:
        """Return the subspaces U_i of M, verb -> noun -> proficiency p, None for a sub-goal without a score."""
        subspaces: dict[str, dict[str, float | None]] = {}
        for key, skill in self.skills.items():
            verb, _, noun = divided(key)[1].partition(" ")
            subspaces.setdefault(verb, {})[noun] = skill.proficiency
        return subspaces

    def knows(self, noun: str) -> bool:
        """Return whether a thing is the noun, or a word of the noun, of a sub-goal in M."""
        names = {divided(key)[1] for key in self.skills}
        return any(noun in name.split()[1:] or name.partition(" ")[2] == noun for name in names)

    def unknown(self, nouns: Iterable[str]) -> list[str]:
        """Return those of the nouns that no sub-goal in M has, in order (`knows`)."""
        return [noun for noun in nouns if not self.knows(noun)]

    def state(self) -> dict[str, Any]:
        """Return all sub-goals, in M or not, for a checkpoint."""
        return {name: skill.stored() for name, skill in self._skills.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._skills = _read(state)

    def packed(self, size: int) -> Array:
        """Return M as JSON in UTF-8, padded with zeros, uint8 [size]. Raise UserError if it is longer than `size`."""
        text = json.dumps({name: skill.stored() for name, skill in self.skills.items()}, separators=(",", ":"))
        if len(text) > size:
            raise UserError(
                f"the memory of {len(self.skills)} sub-goals takes {len(text):,} bytes, and agent.memory={size:,}; "
                f"raise agent.memory"
            )
        padded = np.zeros(size, np.uint8)
        padded[: len(text)] = np.frombuffer(text.encode(), np.uint8)
        return padded

    def unpack(self, packed: Array) -> None:
        """Replace all sub-goals by those that `packed` returned as uint8 [size]; all zeros are an empty M. Raise
        UserError for anything else."""
        text = np.asarray(packed, np.uint8).tobytes().rstrip(b"\0")
        try:
            self._skills = _read(json.loads(text or b"{}"))
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"the memory in this policy cannot be read ({str(error)[:200]}); train the run, or its pre-training "
                f"stage, anew"
            ) from None


def joined(skills: Sequence[Skill]) -> Skill | None:
    """Return a record of a sub-goal's attempts under several goals, with the mean of its proficiencies; None without
    any."""
    if not skills:
        return None
    scores = [skill.proficiency for skill in skills if skill.proficiency is not None]
    return Skill(
        sum(skill.attempts for skill in skills),
        sum(skill.completed for skill in skills),
        rewarded=True,
        proficiency=sum(scores) / len(scores) if scores else None,
    )


def _read(skills: Any) -> dict[str, Skill]:
    """Return name -> skill of a state of `Memory.state`, parsed from JSON. ValueError where it is anything else."""
    if not isinstance(skills, Mapping):
        raise ValueError("it is no JSON object")
    return {_name(name): _skill(name, stored) for name, stored in skills.items()}


def _name(name: Any) -> str:
    goal, subgoal = divided(str(name))
    if not isinstance(name, str) or not NAME.fullmatch(subgoal) or len(goal) > LONGEST_GOAL or not goal.isprintable():
        raise ValueError(f"{str(name)[:60]!r} is no name of a sub-goal")
    return name


def _skill(name: str, stored: Any) -> Skill:
    if not isinstance(stored, list) or len(stored) != 6:
        raise ValueError(f"{name}: expected six values")
    attempts, completed, recent, rewarded, proficiency, scored = stored
    if not all(type(number) is int and number >= 0 for number in (attempts, completed)) or completed > attempts:
        raise ValueError(f"{name}: attempts {str(attempts)[:20]}, completed {str(completed)[:20]}")
    if not isinstance(recent, list) or len(recent) > RECENT or not all(map(_attempt, recent)):
        raise ValueError(f"{name}: recent attempts {str(recent)[:60]}")
    if rewarded not in (0, 1) or scored not in (0, 1):
        raise ValueError(f"{name}: rewarded {str(rewarded)[:20]}, scored {str(scored)[:20]}")
    if proficiency is not None and not (type(proficiency) in (int, float) and 0 <= proficiency <= 1):
        raise ValueError(f"{name}: proficiency {str(proficiency)[:20]} is neither null nor in [0, 1]")
    if proficiency is None and scored:
        raise ValueError(f"{name}: it counts as scored, and has no proficiency")
    attempts_made = [(int(steps), bool(done)) for steps, done in recent]
    p = None if proficiency is None else float(proficiency)
    return Skill(attempts, completed, attempts_made, bool(rewarded), p, bool(scored))


def _attempt(attempt: Any) -> bool:
    return (
        isinstance(attempt, list)
        and len(attempt) == 2
        and type(attempt[0]) is int
        and attempt[0] >= 0
        and attempt[1] in (0, 1)
    )
