"""Hours that a cell will take on this machine, from operation counts and a short measurement of the machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from harness import config
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
    """About what one run of `cell` asks of foundation models, by the prices of their recipes or settings; None where it
    asks none. Of a judge it is the least: clips that end with an episode, and tokens of prompts and answers, come on
    top. Of other models it is what the part that asks them says (`asked(parts) -> Usage` of its configuration)."""
    parts = {section: cell.section(section) for section in config.SECTIONS}
    found = [_priced(parts[kind], usage) for kind in config.ANSWERING if (usage := _asked(kind, parts))]
    return functools.reduce(Usage.plus, found) if found else None


def all_questions(runs: Iterable[tuple[Cell, float]]) -> Usage:
    """About what so many runs of each cell ask, in whole and in part, of all models together."""
    total = Usage()
    for cell, count in runs:
        if (usage := questions(cell)) is not None:
            calls, read, written, images, seconds, usd = (amount * count for amount in usage)
            total = total.plus(Usage(round(calls), round(read), round(written), round(images), seconds, usd))
    return total


def _asked(kind: str, parts: Mapping[str, Any]) -> Usage | None:
    """What a run asks of a model of this kind, if that is a foundation model."""
    if not keeping.recorded(parts[kind]):
        return None
    if kind == "judge":
        length = getattr(parts["replay"], "clip_length", 0)
        clips = parts["training"].steps // length if length else 0
        recipe = recipes.recipe(parts[kind].model)
        images = clips * length
        return (
            Usage(clips, tokens_in=images * (recipe.tokens_per_image if recipe else 0), images=images)
            if clips
            else None
        )
    asking = (parts[part] for part in ("teacher", "guide", "agent"))
    found = next((part for part in asking if kind in getattr(part, "asks", ()) and hasattr(part, "asked")), None)
    return None if found is None else found.asked(parts)


def _priced(model: Any, usage: Usage) -> Usage:
    """With what it costs; a model that runs here costs nothing."""
    if model.backend == "transformers":
        return usage
    usd = 0.0
    for name, side in (("price_in", usage._replace(tokens_out=0)), ("price_out", usage._replace(tokens_in=0))):
        own = getattr(model, name, None)
        tokens = side.tokens_in + side.tokens_out
        usd += recipes.price(model.model, side) if own is None else tokens * own / recipes.MILLION
    return usage._replace(usd=usd)


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
