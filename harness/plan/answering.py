"""Checks that each model of a cell answers the kinds of calls that other parts make to it.

A model's configuration declares the kinds in `answers`, a part with dialogues in `puts` (`harness/parts.py`). Without
a declaration, the default kind of call applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.parts import CHOICE, EVERY_CALL, SCHEMA, TEXT, AskingPart, ModelPart, Part

if TYPE_CHECKING:
    from guidebench.harness.plan.names import Chosen

USUAL: Mapping[str, str] = {"judge": "judge", "chat": "chat", "embedder": "embed"}
"""Kind of model -> its default kind of call."""


def answered(kind: str, config: ModelPart | type[ModelPart]) -> tuple[str, ...]:
    """Return the kinds of calls that a model answers. `kind`: the model's kind of part."""
    if config.answers == EVERY_CALL:
        return tuple(registry.names("call"))
    return config.answers or (USUAL[kind],)


def put(parts: Sequence[Chosen], role: str, form: str = TEXT) -> dict[str, str]:
    """Return kind of call -> role of the part that makes such calls to the model in `role`. `form`: the form of its
    answers; a choice is a call of its own kind, in place of a chat's."""
    askers: dict[str, str] = {}
    for asker, config in _needing(parts, role):
        declared = config.puts if issubclass(config, AskingPart) else {}
        for kind in declared.get(role, (USUAL[config.needs[role]],)):
            askers.setdefault(formed(kind, form), asker)
    return askers


def formed(kind: str, form: str) -> str:
    """Return the kind of the calls that are made in place of those of `kind` to a model whose answers have a form."""
    return CHOICE if form == CHOICE and kind == USUAL["chat"] else kind


@registry.cached(4096)
def consulted_roles(cell_parts: tuple[Chosen, ...]) -> frozenset[str]:
    """Return the roles of a cell whose answers are awaited synchronously."""
    parts = (registry.get(part.kind, part.name) for part in cell_parts)
    return frozenset(role for config in parts if issubclass(config, AskingPart) for role in config.consults)


def speakers(parts: Sequence[Chosen], role: str) -> list[str]:
    """Return the roles of the parts that have a dialogue with the model in `role`."""
    return [asker for asker, config in _needing(parts, role) if role in registry.spoken(config)]


def shown_clips(parts: Sequence[Chosen]) -> list[str]:
    """Return the roles of the judges that get clips: those with which no part has a dialogue."""
    return [part.role for part in parts if part.kind == "judge" and not speakers(parts, part.role)]


def _needing(parts: Sequence[Chosen], role: str) -> Iterator[tuple[str, type[Part]]]:
    """Yield role and configuration class of the parts that need `role`."""
    for part in parts:
        config: type[Part] = registry.get(part.kind, part.name)
        if role in config.needs:
            yield part.role, config


def check_choices(parts: Sequence[Chosen], role: str, model: ModelPart) -> None:
    """Raise UserError if a model's settings have no effect, such as those for choices where it answers in text, or if a
    part uses the probabilities of its choices and it tells none."""
    config: Any = type(model)
    if model.answer_form == SCHEMA and not model.constrains:
        raise UserError(
            f"{role}.answer=schema: {model.backend} models write by code, and no schema constrains them; leave it out, "
            f"or choose {role}=openai or {role}=transformers"
        )
    declared = settings.fields(config)
    choosing = CHOICE in put(parts, role, model.answer_form)
    weighing = [
        asker for asker, asking in _needing(parts, role) if role in getattr(asking, "uses_probabilities", ())
    ]  # fmt: skip
    if choosing and weighing and model.unweighed:
        raise UserError(
            f"the {weighing[0]} uses the probabilities of the candidates in the role {role!r}, and "
            f"{role}.{model.unweighed} tells none but the chosen candidate; choose another value"
        )
    reasons = {
        name: (
            f"applies to choices, and the {role} answers {'by schema' if model.answer_form == SCHEMA else 'in text'}; "
            f"set {role}.answer=choice, or leave it out"
        )
        for name in (() if choosing else model.choice_settings)
    }
    if choosing and model.reasoning_tokens:
        raise UserError(
            f"{role}.thinking={model.reasoning_tokens} has the model reason before it answers, and a choice reads the "
            f"first words of its answer; set {role}.thinking=off, or leave {role}.answer={CHOICE} out"
        )
    if choosing and weighing:
        reasons["acts"] = f"has no effect, since the {weighing[0]} uses the probabilities of all candidates"
    if choosing and model.backend == "scripted":
        reasons["candidate_score"] = "divides by the length of a candidate, and a hand-written chat gives each a weight"
    if choosing and model.backend == "oracle":
        reasons |= dict.fromkeys(model.choice_settings, "has no effect, since a privileged chat answers by itself")
    if choosing:
        reasons["temperature"] = "is for answers in text; acts=sample draws a choice"
    for name, reason in reasons.items():
        if name in declared and (chosen := getattr(model, name)) != declared[name].default:
            raise UserError(f"{role}.{name}={settings.show(chosen)} {reason}")


@registry.cached(4096)
def check(parts: tuple[Chosen, ...], forms: tuple[tuple[str, str], ...] = ()) -> None:
    """Raise UserError if a part does not take answers in the form that its model gives, if it makes a kind of call that
    its model does not answer or that is not registered, or if two parts have different dialogues with one model.
    `forms`: role and form of the answers (`ModelPart.answer_form`) of models that do not answer in text."""
    for role, of, name in (part for part in parts if part.kind in registry.MODELS):
        answers, form = answered(of, registry.get(of, name)), dict(forms).get(role, TEXT)
        for asker, config in _needing(parts, role) if form != TEXT else ():
            taken = (TEXT, *getattr(config, "answer_forms", {}).get(role, ()))
            if form not in taken:
                raise UserError(
                    f"{of} {name!r} answers by {form} in the role {role!r}, and the {asker} takes answers there as "
                    f"{' or '.join(taken)}; leave {role}.answer={form} out, or choose another {role}=…"
                )
        for kind, asker in put(parts, role, form).items():
            registry.get("call", kind)
            if kind not in answers:
                raise UserError(
                    f"the {asker} makes calls of kind {kind!r} to its {role}, and {of} {name!r} answers only "
                    f"{' and '.join(answers)}; choose another {role}=…"
                )
        leading = speakers(parts, role)
        same = {getattr(config, "shares", {}).get(role) for _, config in _needing(parts, role)}
        if len(leading) > 1 and (len(same) > 1 or None in same):
            raise UserError(
                f"the {' and the '.join(leading)} both have a dialogue with the {of} in the role {role!r}; give the "
                f"role another name in the `needs` of one of them"
            )
