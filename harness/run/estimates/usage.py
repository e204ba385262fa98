"""Calls, tokens and price of the foundation models that runs use, as their parts expect them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from guidebench.harness.models import study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage
from guidebench.harness.parts import CHOICE, AskingPart, Part, ReplayPart
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Chosen


def questions(cell: Cell) -> Usage | None:
    """Return the estimated usage of all foundation models by one run of `cell`, or None if it uses none."""
    usages = by_model(cell)
    return functools.reduce(Usage.plus, (usage for _, usage in usages)) if usages else None


def by_model(cell: Cell) -> list[tuple[str, Usage]]:
    """Return name and estimated usage, by role, of the foundation models that one run of `cell` calls, priced by recipe
    or settings. For a judge it is a lower bound, without clips cut short by the end of an episode and without tokens of
    prompts and answers. For other models it is the estimate of the part that uses them (`expected_usage` of its
    configuration)."""
    return [
        (cell.called(part), priced(cell.section(part.role), usage))
        for part in cell.models
        if (usage := _expected_usage(part, cell))
    ]


def all_questions(runs: Iterable[tuple[Cell, float]]) -> Usage:
    """Return the estimated usage of all models by the given number of runs of each cell, which may be fractional."""
    total = Usage()
    for cell, count in runs:
        if (usage := questions(cell)) is not None:
            calls, read, tokens_out, images, seconds, usd = (amount * count for amount in usage)
            total = total.plus(Usage(round(calls), round(read), round(tokens_out), round(images), seconds, usd))
    return total


def _expected_usage(part: Chosen, cell: Cell) -> Usage | None:
    """Return a run's estimated usage of the model in a role, or None if it is no foundation model."""
    parts, model = cell.sections, cell.section(part.role)
    if not study_models.is_recorded(model):
        return None
    view = config.cell_view(cell)
    needing = [other for other in parts.values() if isinstance(other, Part) and part.role in other.needs]
    expected = [other.expected_usage(view, part.role) for other in needing if isinstance(other, AskingPart)]
    usages = [usage for usage in expected if usage is not None]
    if model.answer_form == CHOICE:
        usages = [model.choice_expected(usage) for usage in usages]
    length = max((other.judged_transitions for other in needing if isinstance(other, ReplayPart)), default=0)
    if clips := parts["training"].steps // length if length else 0:
        recipe = recipes.recipe(model.model)
        requests = clips * model.clip_requests
        images = requests * length
        usages.append(Usage(requests, tokens_in=images * (recipe.tokens_per_image if recipe else 0), images=images))
    return functools.reduce(Usage.plus, usages) if usages else None


def priced(model: Any, usage: Usage) -> Usage:
    """Return the usage with its price; a model that runs on this machine is free."""
    if model.backend == "transformers":
        return usage
    usd = 0.0
    for name, side in (("price_in", usage._replace(tokens_out=0)), ("price_out", usage._replace(tokens_in=0))):
        price = model.price_in if name == "price_in" else model.price_out
        tokens = side.tokens_in + side.tokens_out
        usd += recipes.price(model.model, side) if price is None else tokens * price / recipes.MILLION
    return usage._replace(usd=usd)
