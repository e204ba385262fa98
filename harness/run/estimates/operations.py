"""Seconds of a run by the operation counts that its parts declare."""

from __future__ import annotations

import functools

from guidebench.harness.plan.config import Cell

EVALUATION_STEPS = 60


def counted(cell: Cell) -> float:
    """Return the seconds of one run of `cell` by operation counts, on one core of the reference machine of suites and
    learners (AMD EPYC, Zen 4)."""
    return _count_seconds(*_key(cell))


def _key(cell: Cell) -> tuple[object, ...]:
    """Return everything that the operation counts depend on, as a cache key."""
    return (
        cell.section("suite"),
        cell.names.task,
        cell.section("agent"),
        tuple(cell.section(part.role) for part in cell.names.of("learner")),
        cell.section("training"),
        cell.section("evaluation"),
    )


@functools.lru_cache(maxsize=4096)
def _count_seconds(suite, task, agent, learners, training, evaluation) -> float:  # type: ignore[no-untyped-def]
    observations, actions = suite.spaces(task)
    observations = agent.observes(observations, actions)
    step = suite.seconds_per_step(task)
    steps = training.steps if agent.learns else 0
    train = steps * (step + sum(learner.seconds_per_step(observations, actions) for learner in learners))
    # Greedy episodes end early, at the goal or in a cycle: after a few dozen steps in measured runs.
    evaluations = -(-training.steps // evaluation.every)
    evaluate = (
        evaluations
        * evaluation.episodes
        * EVALUATION_STEPS
        * (step + max((learner.seconds_per_action(observations, actions) for learner in learners), default=0.0))
    )
    return float(train + evaluate)
