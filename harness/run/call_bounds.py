"""Upper bounds of what runs send to foundation models, for `bench run --dry-run`.

A part says which conversations a run may have in a role (`AskingPart.at_most`), and clips that a replay sends to a
judge are counted here. A conversation takes the calls of its dialogue; a call takes attempts, and each attempt of one
whose answer has to fit a schema takes repairs. A token is at least a byte of text, as in a budget's reservations.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guidebench.harness import lengths
from guidebench.harness.interfaces.questions import WritesObjects
from guidebench.harness.loop.probes import clip_starts
from guidebench.harness.models import contact, study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.answers import BEGUN, OUR_WORDS, REPAIRS, SPOKEN
from guidebench.harness.models.backends.recipes import IMAGE_TOKENS
from guidebench.harness.models.calls import ChatCall, ChoiceCall, JudgeCall, Usage
from guidebench.harness.models.checkup import tiny
from guidebench.harness.parts import CHOICE, MESSAGE, SCHEMA, AskingPart, CellView, Most, ReplayPart, clip_length
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Chosen
from guidebench.harness.run.estimates import priced

OPTIONAL_FIELDS = 2
"""Fields of a request that a server may reject once in each call under way, after which they are left out."""


def of_run(cell: Cell, part: Chosen) -> Usage | None:
    """Return an upper bound of the usage of the model `part` by one run; None if a part that asks it knows no bound."""
    model, bounds = cell.section(part.role), conversations(cell, part.role)
    if bounds is None:
        return None
    longest = schema_bytes(cell, part.role)
    total = functools.reduce(Usage.plus, (questions(bound, model, part.kind, longest) for bound in bounds), Usage())
    if part.kind in ("chat", "judge") and model.backend == "openai":
        total = total.plus(Usage(OPTIONAL_FIELDS * model.policy().in_flight))
    return priced(model, total)


def schema_bytes(cell: Cell, role: str) -> int:
    """Return the bytes of the longest schema under which the chat in a role writes; 0 where it answers otherwise."""
    return max((len(json.dumps(schema)) for schema in role_schemas(cell, role)), default=0)


def role_schemas(cell: Cell, role: str) -> list[Mapping[str, Any]]:
    """Return the schemas under which the chat in a role writes, of those that depend on the question the longest; none
    where it answers otherwise. Makes the task."""
    if cell.section(role).answer_form != SCHEMA:
        return []
    schemas: list[Mapping[str, Any]] = []
    for other in cell.sections.values():
        if isinstance(other, AskingPart) and role in other.needs:
            dialogue = other.dialogue(cell.section("suite"), cell.names.task, role)
            schemas += dialogue.schemas if isinstance(dialogue, WritesObjects) else ()
    return schemas


def conversations(cell: Cell, role: str) -> list[Most] | None:
    """Return upper bounds of the conversations of one run in a role, clips to a judge included; None if no part asks in
    it, or one that does knows no bound."""
    place = config.cell_view(cell)
    bounds = list(clips(cell, place, role))
    for other in cell.sections.values():
        if isinstance(other, AskingPart) and role in other.needs:
            bound = other.at_most(place, role)
            if bound is None:
                return None
            bounds += bound
    is_used = any(
        isinstance(other, (AskingPart, ReplayPart)) and role in other.needs for other in cell.sections.values()
    )
    return bounds if is_used else None


def clips(cell: Cell, view: CellView, role: str) -> Iterator[Most]:
    """Yield upper bounds of the clips that are sent to the judge in a role: those of each replay, and those that probes
    make of the reference episode. Episodes end within clips, so there may be more clips than steps allow at full
    length; each is counted with the frames of a full one."""
    needing = [other for other in cell.sections.values() if isinstance(other, ReplayPart) and role in other.needs]
    longest = max((other.judged_transitions for other in needing), default=0)
    if not longest:
        return
    prompt = len(f"{view[role].prompt}{BEGUN}".encode())
    for replay in needing:
        if length := replay.judged_transitions:
            collected = lengths.stretches(view, length, int(view["training"].steps))
            count = lengths.demonstrated_stretches(view, length) + collected
            yield Most(count, prompt=prompt, images=longest)
    if role == cell.judge:
        reference = clip_starts(view.suite.horizon(view.task), clip_length(view.parts))
        yield Most(len(reference), prompt=prompt, images=longest)


def questions(bound: Most, model: Any, kind: str = "chat", longest: int = 0) -> Usage:
    """Return an upper bound of the usage of a model for conversations, every attempt, repair and retry included;
    arguments as of `attempt`."""
    return _times(attempt(bound, model, kind, longest), bound.questions * model.policy().attempts)


def attempt(bound: Most, model: Any, kind: str = "chat", longest: int = 0) -> Usage:
    """Return an upper bound of the usage of a model for one conversation whose calls take one attempt each.
    `kind`: the model's kind of part; `longest`: bytes of the longest schema under which a chat writes.

    In a conversation with a prompt of P tokens, request k (from 0) reads P + k (M + R) tokens: the prompt, the k
    earlier replies of at most M tokens, and the texts of at most R tokens that answered them. A choice is one request,
    and another if it is calibrated."""
    recipe = recipes.recipe(model.model)
    image_tokens = bound.images * ((recipe.tokens_per_image if recipe else 0) or IMAGE_TOKENS)
    if model.answer_form == CHOICE:
        choice = model.choice_bound(bound.prompt)
        images = Usage(tokens_in=choice.calls * image_tokens, images=choice.calls * bound.images)
        return _times(choice.plus(images), 1 + model.calibrate)
    tokens_out = SPOKEN if kind == "judge" else 0
    if kind == "chat":
        tokens_out = int(model.max_tokens) + model.reasoning_tokens
    by_schema = bound.schema or model.answer_form == SCHEMA
    requests = bound.calls * (1 + REPAIRS if by_schema else 1) * (model.clip_requests if kind == "judge" else 1)
    prompt = bound.prompt + image_tokens + (MESSAGE if bound.prompt else 0) + OUR_WORDS * by_schema + longest
    prompt += model.clip_words if kind == "judge" else 0
    more = max(bound.reminder, OUR_WORDS * by_schema) + 2 * MESSAGE
    read = requests * prompt + requests * (requests - 1) // 2 * (tokens_out + more if bound.prompt else 0)
    return Usage(requests, read, requests * tokens_out, requests * bound.images)


def first_calls(cells: Sequence[Cell]) -> dict[str, Usage]:
    """Return model -> an upper bound of what the calls before training take (`models.contact`)."""
    named: dict[int, str] = {}
    contacts = []
    for cell in cells:
        for part in cell.models:
            model = cell.section(part.role)
            contacts.append(contact.StudyModel(part.role, part.kind, model))
            named[id(model)] = cell.called(part)
    totals: dict[str, Usage] = {}
    for study_model in contact.distinct(contacts):
        name, model, call = (
            named[id(study_model.config)],
            study_model.config,
            tiny(study_model.config, study_model.kind),
        )
        times = min(contact.ATTEMPTS, model.policy().attempts) + OPTIONAL_FIELDS
        usage = Usage(times)
        if isinstance(call, JudgeCall):
            clip = Most(1, prompt=len(f"{call.prompt}{BEGUN}".encode()), images=len(call.clip))
            usage = priced(model, _times(attempt(clip, model, "judge"), times))
        if isinstance(call, ChoiceCall):
            texts = [
                *call.candidates,
                call.prefix,
                *(str(text) for message in call.messages for text in message.content),
            ]
            usage = priced(model, _times(model.choice_bound(sum(len(text.encode()) for text in texts)), times))
        if isinstance(call, ChatCall):
            texts = [str(text) for message in call.messages for text in message.content]
            texts += [json.dumps(call.schema) + " " * OUR_WORDS] if call.schema is not None else []
            read = sum(len(text.encode()) + MESSAGE for text in texts)
            usage = priced(model, Usage(times, times * read, times * (call.max_tokens + model.reasoning_tokens)))
        totals[name] = totals.get(name, Usage()).plus(usage)
    return totals


def _times(usage: Usage, times: int) -> Usage:
    """Return the usage of so many equal attempts."""
    return Usage(usage.calls * times, usage.tokens_in * times, usage.tokens_out * times, usage.images * times)


def by_model(cells: Sequence[Cell], seeds: int, contacted: bool) -> dict[str, Usage]:
    """Return model -> an upper bound of what the runs of `seeds` seeds of each cell send to it, with the calls before
    training if models are `contacted`; without the models of which some role has no bound."""
    totals = first_calls(cells) if contacted else {}
    unbounded: set[str] = set()
    for cell in cells:
        for part in cell.models:
            if not study_models.is_recorded(cell.section(part.role)):
                continue
            name, bound = cell.called(part), of_run(cell, part)
            if bound is None:
                unbounded.add(name)
                continue
            for _ in range(seeds):
                totals[name] = totals.get(name, Usage()).plus(bound)
    return {name: usage for name, usage in totals.items() if name not in unbounded}
