"""Which kinds of calls a model answers, and which the parts of a cell put to it.

A model's configuration declares `answers`, and a part that leads dialogues declares `puts` (`harness/parts.py`). What
declares neither stands for the usual kind of call.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.parts import AskingPart, ModelPart, Part

if TYPE_CHECKING:
    from guidebench.harness.plan.names import Chosen

USUAL: Mapping[str, str] = {"judge": "judge", "chat": "chat", "embedder": "embed"}
"""Kind of part that is a model -> the kind of call that it is usually put."""


def answered(kind: str, config: ModelPart | type[ModelPart]) -> tuple[str, ...]:
    """The kinds of calls that a model answers. `kind`: of part that it is."""
    return config.answers or (USUAL[kind],)


def put(chosen: Sequence[Chosen], role: str) -> dict[str, str]:
    """Kind of call -> the role of the part of a cell that puts it to the model in `role`."""
    found: dict[str, str] = {}
    for asker, config in _needing(chosen, role):
        declared = config.puts if issubclass(config, AskingPart) else {}
        for kind in declared.get(role, (USUAL[config.needs[role]],)):
            found.setdefault(kind, asker)
    return found


@functools.lru_cache(maxsize=4096)
def consulted(chosen: tuple[Chosen, ...]) -> frozenset[str]:
    """The roles of a cell whose answers are waited for at once."""
    parts = (registry.get(part.kind, part.name) for part in chosen)
    return frozenset(role for config in parts if issubclass(config, AskingPart) for role in config.consults)


def speakers(chosen: Sequence[Chosen], role: str) -> list[str]:
    """The roles of the parts of a cell that lead dialogues with the model in `role`."""
    return [asker for asker, config in _needing(chosen, role) if config.needs[role] in registry.SPOKEN_TO]


def _needing(chosen: Sequence[Chosen], role: str) -> Iterator[tuple[str, type[Part]]]:
    """The roles of the parts that need another one, and their configurations."""
    for part in chosen:
        config: type[Part] = registry.get(part.kind, part.name)
        if role in config.needs:
            yield part.role, config


@functools.lru_cache(maxsize=4096)
def check(chosen: tuple[Chosen, ...]) -> None:
    """UserError where a part of a cell asks a model for a kind of call that the model does not answer, or that nobody
    defines, and where two parts lead dialogues with one model."""
    for role, of, name in (part for part in chosen if part.kind in registry.MODELS):
        answers = answered(of, registry.get(of, name))
        for kind, asker in put(chosen, role).items():
            registry.get("call", kind)
            if kind not in answers:
                raise UserError(
                    f"the {asker} puts calls of kind {kind!r} to its {role}, and {of} {name!r} answers only "
                    f"{' and '.join(answers)}; choose another {role}=…"
                )
        if len(leading := speakers(chosen, role)) > 1:
            raise UserError(
                f"the {' and the '.join(leading)} both lead dialogues with the {of} in the role {role!r}; have one of "
                f"them need it in a role of another name"
            )
