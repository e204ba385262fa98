"""Upper bounds of what runs send to foundation models, for `bench run --dry-run`.

A part says how many questions a run may ask in a role (`AskingPart.at_most`). A question takes the calls of its
dialogue; a call takes attempts, and each attempt of one whose answer has to fit a schema takes repairs. A token is at
least a byte of text, as in a budget's reservations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from guidebench.harness.models import contact, keeping
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.answers import OUR_WORDS, REPAIRS
from guidebench.harness.models.backends.recipes import IMAGE_TOKENS
from guidebench.harness.models.calls import ChatCall, Usage
from guidebench.harness.models.checkup import tiny
from guidebench.harness.parts import AskingPart, Most, Part
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Chosen
from guidebench.harness.run.estimates import priced

MESSAGE = 64
"""Tokens of a message besides its content: its role and what separates it from others."""
OPTIONAL_FIELDS = 2
"""Fields of a request that a server may reject once in each call under way, after which they are left out."""


def of_run(cell: Cell, part: Chosen) -> Usage | None:
    """Return an upper bound of what one run sends to the model in a role; None if a part that asks it knows none."""
    model, place = cell.section(part.role), config.there(cell)
    needing = [other for other in cell.sections.values() if isinstance(other, Part) and part.role in other.needs]
    bounds = [other.at_most(place, part.role) if isinstance(other, AskingPart) else None for other in needing]
    known = [bound for bound in bounds if bound is not None]
    if not known or len(known) < len(bounds):
        return None
    total = functools.reduce(Usage.plus, (questions(bound, model) for bound in known))
    if part.kind == "chat" and model.backend == "openai":
        total = total.plus(Usage(OPTIONAL_FIELDS * model.policy().in_flight))
    return priced(model, total)


def questions(bound: Most, model: Any) -> Usage:
    """Return what a model may take for a role's questions, every attempt, repair and retry included.

    Of C requests of a question with a prompt of P tokens, the k-th reads P + k (M + R): also the k replies of M tokens
    before it, and what was said to each, R.
    """
    recipe, written = recipes.recipe(model.model), int(getattr(model, "max_tokens", 0))
    requests = bound.calls * (1 + REPAIRS if bound.schema else 1)
    shown = bound.images * ((recipe.tokens_per_image if recipe else 0) or IMAGE_TOKENS)
    prompt = bound.prompt + shown + (MESSAGE if bound.prompt else 0) + OUR_WORDS * bound.schema
    more = max(bound.reminder, OUR_WORDS * bound.schema) + 2 * MESSAGE
    read = requests * prompt + requests * (requests - 1) // 2 * (written + more if bound.prompt else 0)
    times = bound.questions * model.policy().attempts
    return Usage(times * requests, times * read, times * requests * written, times * requests * bound.images)


def first_calls(cells: Sequence[Cell]) -> dict[str, Usage]:
    """Return model -> an upper bound of what the calls before training take (`models.contact`)."""
    named: dict[int, str] = {}
    asked = []
    for cell in cells:
        for part in cell.models:
            model = cell.section(part.role)
            asked.append(contact.Asked(part.role, part.kind, model))
            named[id(model)] = cell.called(part)
    found: dict[str, Usage] = {}
    for each in contact.distinct(asked):
        name, model, call = named[id(each.config)], each.config, tiny(each.config, each.kind)
        times = min(contact.ATTEMPTS, model.policy().attempts) + OPTIONAL_FIELDS
        usage = Usage(times)
        if isinstance(call, ChatCall):
            texts = [str(text) for message in call.messages for text in message.content]
            read = sum(len(text.encode()) + MESSAGE for text in texts)
            usage = priced(model, Usage(times, times * read, times * call.max_tokens))
        found[name] = found.get(name, Usage()).plus(usage)
    return found


def by_model(cells: Sequence[Cell], seeds: int, contacted: bool) -> dict[str, Usage]:
    """Return model -> an upper bound of what the runs of `seeds` seeds of each cell send to it, with the calls before
    training if models are `contacted`; without the models of which some role has no bound."""
    found = first_calls(cells) if contacted else {}
    unbounded: set[str] = set()
    for cell in cells:
        for part in cell.models:
            if not keeping.recorded(cell.section(part.role)):
                continue
            name, bound = cell.called(part), of_run(cell, part)
            if bound is None:
                unbounded.add(name)
                continue
            for _ in range(seeds):
                found[name] = found.get(name, Usage()).plus(bound)
    return {name: usage for name, usage in found.items() if name not in unbounded}
