"""Demonstrations by OGBench's own scripted oracles, one subgoal after the other.

The package runs its oracles during data collection, where it draws targets at random and passes them in `info`. Here
the targets are those of a task's solution, passed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from ogbench.manipspace.oracles.markov.button_markov import ButtonMarkovOracle
from ogbench.manipspace.oracles.markov.cube_markov import CubeMarkovOracle
from ogbench.manipspace.oracles.markov.drawer_markov import DrawerMarkovOracle
from ogbench.manipspace.oracles.markov.window_markov import WindowMarkovOracle

from guidebench.harness.episodes.demonstrations import first_success, play
from guidebench.harness.interfaces import Array
from guidebench.harness.trajectories import Demonstration
from guidebench.suites.ogbench_scene.task import Scene

Info = dict[str, Any]


class Aim(NamedTuple):
    """One subgoal: an oracle, and the target passed to it, given the scene's info."""

    oracle: Callable[..., Any]
    target: Callable[[Info], Info]


def button(number: int, state: int) -> Aim:
    """Press a button until it is in `state`."""

    def target(info: Info) -> Info:
        return {
            "target_button": number,
            "target_button_state": state,
            "target_button_top_pos": info[f"privileged/button_{number}_top_pos"],
        }

    return Aim(ButtonMarkovOracle, target)


def _slide(thing: str, oracle: Callable[..., Any], axis: Array, goal: float) -> Aim:
    """Move a sliding object along `axis` of the world to `goal` of its joint."""

    def target(info: Info) -> Info:
        way = goal - info[f"privileged/{thing}_pos"][0]
        return {f"target_{thing}_handle_pos": info[f"privileged/{thing}_handle_pos"] + way * axis}

    return Aim(oracle, target)


def drawer(goal: float) -> Aim:
    """Slide the drawer to `goal`: -0.16 m is open, 0 closed."""
    return _slide("drawer", DrawerMarkovOracle, np.array([0.0, -1.0, 0.0]), goal)


def window(goal: float) -> Aim:
    """Slide the window to `goal`: 0.2 m is open, 0 closed."""
    return _slide("window", WindowMarkovOracle, np.array([1.0, 0.0, 0.0]), goal)


def cube(position: Sequence[float]) -> Aim:
    """Carry the cube to `position` (x, y, z)."""
    target = {"target_block": 0, "target_block_pos": np.array(position), "target_block_yaw": np.zeros(1)}
    return Aim(CubeMarkovOracle, lambda info: target)


OPEN, CLOSED = -0.16, 0.0
TIDY = (button(0, 1), drawer(OPEN), cube((0.33, -0.24, 0.066)), drawer(CLOSED))
"""Put the cube into the open drawer; closing the drawer takes the cube to its goal."""
SOLUTIONS = {
    "task3": (button(1, 1), window(0.0), drawer(OPEN), cube((0.4, 0.15, 0.02))),
    "task4": TIDY,
    "task5": (*TIDY, button(0, 0), button(1, 1), window(0.2), button(1, 0)),
    "button": (button(0, 1),),
    "drawer": (drawer(OPEN),),
    "unlock_window": (button(1, 1), window(0.0)),
}


class Expert:
    """Acts on a scene that has just been reset: runs each oracle in turn until it reports that it is done."""

    def __init__(self, task: Scene, solution: Sequence[Aim], seed: int) -> None:
        """`seed` determines where the arm withdraws to between two subgoals."""
        self._task, self._env, self._seed = task, task._env, seed
        self._remaining_aims = iter(enumerate(solution))
        self._next()

    def _next(self) -> None:
        number, aim = next(self._remaining_aims, (-1, None))
        if aim is None:
            return
        self._oracle, self._target = aim.oracle(env=self._env), aim.target
        with _global_generator((self._seed, number)):
            self._oracle.reset(None, None)

    def __call__(self, observation: Array) -> Array:
        """Return the action in the current state, float32 [5] in [-1, 1]; after the last subgoal, the last oracle's."""
        if self._oracle.done:
            self._next()
        info = self._task.info()
        for number, site in enumerate(self._env._button_site_ids):
            info[f"privileged/button_{number}_top_pos"] = self._env.data.site_xpos[site].copy()
        info |= {f"privileged/{name}": value for name, value in self._target(info).items()}
        return np.asarray(self._oracle.select_action(None, info), np.float32)


@contextmanager
def _global_generator(seed: Sequence[int]) -> Iterator[None]:
    """Seed NumPy's global generator, from which the oracles draw, and restore it afterwards."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


def demonstrate(name: str, seed: int) -> Demonstration | None:
    """Return a solution of layout `seed` of the task of that name; None if an oracle fails."""
    task = Scene(name)
    return play(task, seed, Expert(task, SOLUTIONS[name], seed))


def goal_snapshot(name: str, seed: int) -> Array | None:
    """Return the snapshot of the first state that solves the task of that name in layout `seed`; None where an oracle
    fails."""
    task = Scene(name)
    return first_success(task, seed, Expert(task, SOLUTIONS[name], seed))
