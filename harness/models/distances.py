"""How well distances between an embedder's vectors follow distances in the world: a check of an embedder for rewards.

Three episodes of random actions are drawn and embedded. The distances of all pairs of frames of an episode are ranked
beside the distances between the states that they show: of the gripper, and of the task's object where the suite tells
where it is. Privileged, like every comparison with the state: it is a check, and no method sees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.capabilities import Locates, Projects, shows_goal
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

SEEDS = (0, 1, 2)
"""Layouts of the three episodes."""
FRAMES = 101
"""Most frames of an episode, evenly spread over it."""
GAP = 0.25
"""Difference of the distances to the goal image from which FuRL ranks two frames (FuRL, released code)."""


class Distances(NamedTuple):
    """The comparison of an embedder's distances with the true ones, over all pairs of frames of an episode."""

    rank_correlation: float
    """Spearman's ρ of the distances between vectors and between states."""
    median: float
    """Median distance between two vectors."""
    ranked: float | None
    """Share of pairs whose distances to the goal image's vector differ by more than `GAP`; None without such an
    image."""
    pairs: int


def measure(
    embed: Callable[[Sequence[Array]], Array], suite: Any, task: str, drawing: Any, seeds: Sequence[int] = SEEDS
) -> Distances:
    """Return how the distances between vectors follow those between states.

    `embed`: frames uint8 [height, width, 3] -> vectors [n, width]; `drawing`: a built configuration of the suite's.
    Raise UserError for a suite that does not tell where its gripper is."""
    if not isinstance(suite, Projects):
        raise UserError(
            f"distances between states need a suite that tells where its gripper is, which {type(suite).__name__} does "
            f"not; choose suite=metaworld_mt10, or leave out suite= to make one call alone"
        )
    draw, between_vectors, between_states, ranked = drawing.spawn(task), [], [], []
    for seed in seeds:
        home: Any = suite.of_run(seed) if hasattr(suite, "of_run") else suite
        snapshots, places = _episode(home, task, seed)
        goal = home.goal_snapshot(task, seed) if shows_goal(home, task) else None
        frames = draw(snapshots if goal is None else np.concatenate([snapshots, goal[None]]))
        vectors = np.asarray(embed(list(frames)), np.float64)
        count = len(snapshots)
        between_vectors.append(_pairs(vectors[:count]))
        between_states.append(_pairs(places))
        if goal is not None:
            to_goal = np.linalg.norm(vectors[:count] - vectors[count], axis=1)
            ranked.append(_pairs(to_goal[:, None]) > GAP)
    return Distances(
        spearman(np.concatenate(between_vectors), np.concatenate(between_states)),
        float(np.median(np.concatenate(between_vectors))),
        float(np.concatenate(ranked).mean()) if ranked else None,
        sum(map(len, between_vectors)),
    )


def _episode(suite: Any, task: str, seed: int) -> tuple[Array, Array]:
    """Return snapshots of an episode of random actions, uint8 [n, bytes], and the places of gripper and object in them,
    metres, float64 [n, 3] or [n, 6]."""
    acting, random = suite.make(task), np.random.default_rng(seed)
    actions = suite.spaces(task)[1]
    observations, ended = [acting.reset(seed)], False
    snapshots = [acting.snapshot()]
    while not ended and len(snapshots) <= suite.horizon(task):
        step = acting.step(random.uniform(-1, 1, actions.shape).astype(np.float32))
        observations.append(step.observation)
        snapshots.append(acting.snapshot())
        ended = step.terminated or step.truncated
    chosen = np.unique(np.linspace(0, len(snapshots) - 1, FRAMES).round().astype(int))
    shots = np.stack([snapshots[at] for at in chosen])
    places = [suite.tip(task, np.stack([observations[at] for at in chosen]))]
    if isinstance(suite, Locates):
        with contextlib.suppress(UserError):  # the scene of a task may mark no place
            places.append(np.stack([suite.located(task, shot)[0] for shot in shots]))
    return shots, np.concatenate(places, axis=1)


def _pairs(points: Array) -> Array:
    """Return the distances of all pairs of points [n, d], float64 [n (n - 1) / 2]."""
    distances: Array = np.linalg.norm(points[:, None] - points[None], axis=2)
    return distances[np.triu_indices(len(points), 1)]


def spearman(first: Array, second: Array) -> float:
    """Return Spearman's rank correlation of two arrays [n], equal values having their mean rank; NaN if either is
    constant."""
    from scipy import stats

    ranks = [stats.rankdata(sample) for sample in (first, second)]
    if any(np.ptp(sample) == 0 for sample in ranks):
        return float("nan")
    return float(np.corrcoef(*ranks)[0, 1])
