"""Hours that a cell will take on this machine, from operation counts and a short measurement of the machine."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from harness.config import Cell
from harness.foundation import keeping, recipes
from harness.foundation.calls import Usage

REFERENCE_SECONDS = 0.0020
"""Seconds of the probe below on the machine whose costs the suites and learners state (AMD EPYC (Zen 4), one core)."""


@functools.cache
def machine_speed() -> float:
    """How fast one core of this machine is, relative to the reference: the best of many short probes, so that what
    else runs here counts little. No matrix product, whose library would start threads."""
    values = np.random.default_rng(0).standard_normal(40_000)
    best = float("inf")
    for _ in range(40):
        started = time.perf_counter()
        np.sort(np.exp(np.sin(values)))
        best = min(best, time.perf_counter() - started)
    return REFERENCE_SECONDS / best


def seconds(cell: Cell, speed: float) -> float:
    """Seconds that one run of `cell` takes on one core of a machine of this speed."""
    return _reference_seconds(*_key(cell)) / speed


def questions(cell: Cell) -> Usage | None:
    """The least that one run of `cell` asks of a foundation model, tokens of prompts and answers left out, by the
    prices of its recipe or settings; None where it asks none. Clips that end with an episode come on top."""
    judge: Any = cell.section("judge")
    length = getattr(cell.section("replay"), "clip_length", 0)
    if not keeping.recorded(judge) or not length:
        return None
    found = recipes.recipe(judge.model)
    clips = cell.steps // length
    images = clips * length
    usage = Usage(clips, tokens_in=images * (found.tokens_per_image if found else 0), images=images)
    own = getattr(judge, "price_in", None)
    usd = recipes.price(judge.model, usage) if own is None else usage.tokens_in * own / recipes.MILLION
    return usage._replace(usd=usd if judge.backend != "transformers" else 0.0)


def _key(cell: Cell) -> tuple[object, ...]:
    """What the estimate depends on; most cells of a matrix share it."""
    return (
        cell.section("suite"),
        cell.names.task,
        cell.section("learner"),
        cell.section("training"),
        cell.section("evaluation"),
    )


@functools.lru_cache(maxsize=4096)
def _reference_seconds(suite, task, learner, training, evaluation) -> float:  # type: ignore[no-untyped-def]
    observations, actions = suite.spaces(task)
    step = suite.seconds_per_step(task)
    train = training.steps * (step + learner.seconds_per_step(observations, actions))
    # Greedy episodes end early, at the goal or in a cycle: a few dozen steps, drawn from measured runs.
    evaluations = -(-training.steps // evaluation.every)
    evaluate = (
        evaluations
        * evaluation.episodes
        * EVALUATION_STEPS
        * (step + learner.seconds_per_action(observations, actions))
    )
    return float(train + evaluate)


EVALUATION_STEPS = 60
