"""Checks that each model of a cell answers the kinds of calls that other parts make to it.

A model's configuration declares the kinds in `answers`, a part with dialogues in `puts` (`harness/parts.py`). Without
a declaration, the default kind of call applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.parts import EVERY_CALL, AskingPart, ModelPart, Part

if TYPE_CHECKING:
    from guidebench.harness.plan.names import Chosen

USUAL: Mapping[str, str] = {"judge": "judge", "chat": "chat", "embedder": "embed"}
"""Kind of model -> its default kind of call."""


def answered(kind: str, config: ModelPart | type[ModelPart]) -> tuple[str, ...]:
    """Return the kinds of calls that a model answers. `kind`: the model's kind of part."""
    if config.answers == EVERY_CALL:
        return tuple(registry.names("call"))
    return config.answers or (USUAL[kind],)


def put(parts: Sequence[Chosen], role: str) -> dict[str, str]:
    """Return kind of call -> role of the part that makes such calls to the model in `role`."""
    askers: dict[str, str] = {}
    for asker, config in _needing(parts, role):
        declared = config.puts if issubclass(config, AskingPart) else {}
        for kind in declared.get(role, (USUAL[config.needs[role]],)):
            askers.setdefault(kind, asker)
    return askers


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


@registry.cached(4096)
def check(parts: tuple[Chosen, ...]) -> None:
    """Raise UserError if a part makes a kind of call that its model does not answer or that is not registered, or if
    two parts have different dialogues with one model."""
    for role, of, name in (part for part in parts if part.kind in registry.MODELS):
        answers = answered(of, registry.get(of, name))
        for kind, asker in put(parts, role).items():
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
