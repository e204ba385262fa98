"""The offline data: episodes of the scripted policies in layouts that nothing else uses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from guidebench.harness.episodes.datasets import play
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.trajectories import Trajectory
from guidebench.suites.bin_sorting import FAILURES, BinSorting, BinSortingData

ENTROPY = 23
"""Entropy of the layouts' seeds, distinct from those of training, evaluation, probes and other datasets."""
ATTEMPTS = 5
"""Maximum attempts per episode."""
DIRECTIONS = ("forward", "backward")


def gather(data: BinSortingData, suite: BinSorting) -> list[Trajectory]:
    """Return the dataset's episodes. Each kind has layouts of its own, so that the number of one kind changes no
    episode of another, and fewer episodes are the first of more. UserError where too many attempts end otherwise."""
    tasks = {name: suite.in_evaluation().make(name) for name in (*DIRECTIONS, "other")}
    episodes = []
    for group, name in enumerate(tasks):
        count = data.others if name == "other" else data.demonstrations
        episodes += _first(count, f"demonstrations of {name}", _demonstrations(tasks[name], name, group, data))
    failures = _failures(tasks, len(tasks), data.grip)
    others = len(episodes) - data.others
    return [*episodes[:others], *_first(data.failures, "failures", failures), *episodes[others:]]


def _first(count: int, description: str, attempts: Iterator[Trajectory | None]) -> list[Trajectory]:
    """Return the first `count` episodes of at most `ATTEMPTS` times as many attempts."""
    episodes: list[Trajectory] = []
    tried = 0
    while len(episodes) < count and tried < ATTEMPTS * count:
        episode = next(attempts)
        tried += 1
        if episode is not None:
            episodes.append(episode)
    if len(episodes) < count:
        raise UserError(
            f"{len(episodes)} of {tried} attempts gave {description} and {count} are needed: raise suite.length, in "
            f"which the scripted policy has to finish, or take fewer"
        )
    return episodes


def _demonstrations(task: Any, name: str, group: int, settings: BinSortingData) -> Iterator[Trajectory | None]:
    """Yield attempts: an episode that ends in success, or None."""
    for attempt in range(ATTEMPTS * 10**6):
        episode = play(task, name, _seed(group, attempt), _acting(task.expert, settings.grip))
        yield _shortened(episode, settings.tail) if episode.success[-1] else None


def _shortened(episode: Trajectory, tail: int | None) -> Trajectory:
    """Return a solved episode up to `tail` steps after the first step from which it stays solved, as one that a time
    limit ended; null: all of it."""
    solved = int(np.flatnonzero(~episode.success)[-1]) + 1 if not episode.success.all() else 0
    if tail is None or (length := solved + 1 + tail) >= episode.length:
        return episode
    steps: dict[str, Any] = {
        name: array[:length].copy()
        for name, array in episode._asdict().items()
        if isinstance(array, np.ndarray) and name != "opening"
    }
    steps["truncated"][-1] = True
    return episode._replace(**steps)


def _failures(tasks: Any, group: int, grip: float) -> Iterator[Trajectory | None]:
    """Yield attempts: an episode without success, or None."""
    for attempt in range(ATTEMPTS * 10**6):
        name, how = DIRECTIONS[attempt % 2], FAILURES[attempt // 2 % len(FAILURES)]
        task = tasks[name]
        episode = play(task, name, _seed(group, attempt), _acting(functools.partial(task.fail, how), grip))
        yield None if episode.success.any() else episode


def _acting(policy: Callable[[], Array], grip: float) -> Callable[[Array], Array]:
    """Return a function from observations to the actions of a scripted policy whose gripper entry, 1 or -1, is scaled
    to `grip` or -`grip`."""

    def act(observation: Array) -> Array:
        action = policy().copy()
        action[6] *= grip
        return action

    return act


def _seed(group: int, attempt: int) -> int:
    return int(np.random.SeedSequence(ENTROPY, spawn_key=(group, attempt)).generate_state(1)[0] >> 1)
