"""Which kinds of calls a model answers, and which the parts of a cell put to it.

A model's configuration declares `answers`, and a part that leads dialogues declares `puts` (`harness/parts.py`). What
declares neither stands for the usual kind of call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.parts import AskingPart, ModelPart, Part

USUAL: Mapping[str, str] = {"judge": "judge", "chat": "chat", "embedder": "embed"}
"""Kind of part that is a model -> the kind of call that it is usually put."""


def answered(part: str, config: ModelPart) -> tuple[str, ...]:
    """The kinds of calls that a model answers. `part`: the kind of part that it is."""
    return config.answers or (USUAL[part],)


def put(parts: Mapping[str, Part | None], role: str) -> dict[str, str]:
    """Kind of call -> the part that puts it to the model in a role. `parts`: kind of part -> built configuration."""
    found: dict[str, str] = {}
    for asker, config in parts.items():
        if config is not None and role in config.needs:
            declared = config.puts if isinstance(config, AskingPart) else {}
            for kind in declared.get(role, (USUAL[config.needs[role]],)):
                found.setdefault(kind, asker)
    return found


def check(parts: Mapping[str, Any]) -> None:
    """UserError where a part asks a model for a kind of call that the model does not answer, or that nobody defines."""
    for role in USUAL:
        model: Any = parts.get(role)
        for kind, asker in put(parts, role).items() if model is not None else ():
            registry.get("call", kind)
            answers = answered(role, model)
            if kind not in answers:
                raise UserError(
                    f"the {asker} puts calls of kind {kind!r} to its {role}, and {model.model or model.backend!r} "
                    f"answers only {' and '.join(answers)}; choose another {role}=…"
                )
