"""The states that one seed has asked about, and the goals that were suggested for each."""

from __future__ import annotations

import json
from pathlib import Path

from guidebench.baselines.appended import Appended
from guidebench.harness.interfaces import State

FILE = Path("replay", "goals.jsonl")
"""The file in a run's directory that holds states and goals; it is deleted with the stored transitions."""


class StateGoals:
    """A map from states in words to their goals; none for a failed question. A checkpoint appends new states to a
    file."""

    def __init__(self, directory: Path) -> None:
        """`directory`: the run's directory."""
        self._file = Appended(directory / FILE, "states and goals")
        self._clear()

    def _clear(self) -> None:
        self._goals: dict[str, tuple[str, ...] | None] = {}
        self._stored = 0
        """States in the file."""
        self.failed = self.suggested = 0
        """States whose question failed, and goals of all states."""

    def __len__(self) -> int:
        return len(self._goals)

    def __contains__(self, state: str) -> bool:
        return state in self._goals

    def get(self, state: str) -> tuple[str, ...]:
        """Return the goals for a state; () for a state that was not asked about, or whose question failed."""
        return self._goals.get(state) or ()

    def add(self, state: str, goals: tuple[str, ...] | None) -> None:
        """Store the goals for a new state; None if its question failed."""
        self._goals[state] = goals
        self.failed += goals is None
        self.suggested += len(goals or ())

    def state(self) -> State:
        """Append the new states to the file, and return the number of stored states and where the file ends."""
        new = [*self._goals.items()][self._stored :]
        self._stored = len(self)
        content = "".join(f"{json.dumps([state, goals])}\n" for state, goals in new)
        return {"states": self._stored, **self._file.append(content.encode())}

    def load_state(self, state: State) -> None:
        """Read the states of a checkpoint; UserError if the file does not hold them any more."""
        self._clear()
        for line in self._file.restore(state).splitlines():
            description, goals = json.loads(line)
            self.add(description, None if goals is None else tuple(goals))
        self._stored = len(self)
