"""Which kinds of calls a model answers, and which the parts of a cell put to it.

A model's configuration declares `answers`, and a part that leads dialogues declares `puts` (`harness/parts.py`). What
declares neither stands for the usual kind of call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.parts import AskingPart, ModelPart, Part

if TYPE_CHECKING:
    from guidebench.harness.config import Chosen

USUAL: Mapping[str, str] = {"judge": "judge", "chat": "chat", "embedder": "embed"}
"""Kind of part that is a model -> the kind of call that it is usually put."""


def answered(kind: str, config: ModelPart) -> tuple[str, ...]:
    """The kinds of calls that a model answers. `kind`: of part that it is."""
    return config.answers or (USUAL[kind],)


def put(parts: Mapping[str, Any], role: str) -> dict[str, str]:
    """Kind of call -> the role of the part that puts it to the model in `role`. `parts`: section -> built
    configuration."""
    found: dict[str, str] = {}
    for asker, config in parts.items():
        if isinstance(config, Part) and role in config.needs:
            declared = config.puts if isinstance(config, AskingPart) else {}
            for kind in declared.get(role, (USUAL[config.needs[role]],)):
                found.setdefault(kind, asker)
    return found


def speakers(parts: Mapping[str, Any], role: str) -> list[str]:
    """The roles of the parts that lead dialogues with the model in `role`."""
    return [
        asker
        for asker, config in parts.items()
        if isinstance(config, Part) and config.needs.get(role) in registry.SPOKEN_TO
    ]


def check(chosen: Sequence[Chosen], parts: Mapping[str, Any]) -> None:
    """UserError where a part asks a model for a kind of call that the model does not answer, or that nobody defines,
    and where two parts lead dialogues with one model. `parts`: section -> built configuration."""
    for role, of, _ in (each for each in chosen if each.kind in registry.MODELS):
        model: Any = parts[role]
        for kind, asker in put(parts, role).items():
            registry.get("call", kind)
            answers = answered(of, model)
            if kind not in answers:
                raise UserError(
                    f"the {asker} puts calls of kind {kind!r} to its {role}, and {model.model or model.backend!r} "
                    f"answers only {' and '.join(answers)}; choose another {role}=…"
                )
        if len(leading := speakers(parts, role)) > 1:
            raise UserError(
                f"the {' and the '.join(leading)} both lead dialogues with the {of} in the role {role!r}; have one of "
                f"them need it in a role of another name"
            )
