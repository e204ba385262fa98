"""Calls to a model outside any study, without cassette, budget or retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array
from guidebench.harness.machine import visible_gpus
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Call, EmbedCall, Failure, Reply
from guidebench.harness.parts import FilePart
from guidebench.harness.plan import answering


def judge(arguments: Mapping[str, Any]) -> Any:
    """Return the built configuration of a foundation model's judge from the command-line settings `judge` and
    `judge.FIELD`.

    Raises UserError if the judge is not a foundation model or does not have a given setting."""
    return model("judge", arguments)


def model(kind: str, arguments: Mapping[str, Any], role: str = "") -> Any:
    """Return the built configuration of a judge, chat or embedder, as `judge` does; `role` is the name of its settings
    if that differs from `kind`."""
    role = role or kind
    config, name = _part(kind, arguments, role)
    if not study_models.is_recorded(config):
        models = [part for part in registry.names(kind) if study_models.is_recorded(registry.get(kind, part))]
        raise UserError(f"{role}={name} ({config.backend}) stands for no foundation model; name {' or '.join(models)}")
    return _built(config, arguments, role)


def _part(kind: str, arguments: Mapping[str, Any], role: str) -> tuple[Any, str]:
    """Return the configuration class of the part in a role, and its name."""
    name = registry.meant(kind, str(arguments.get(role, "")), role)
    return registry.get(kind, name), name


def _built(config: Any, arguments: Mapping[str, Any], role: str) -> Any:
    """Return a configuration built from the command-line settings `ROLE.FIELD`; UserError for one that it lacks."""
    fields = {f"{role}.{field}": entry for field, entry in settings.fields(config).items()}
    chosen = {}
    for key, value in arguments.items():
        if key == role:
            continue
        if key not in fields:
            raise unknown("setting", key, fields)
        chosen[fields[key].name] = settings.from_command(fields[key], value, key)
    built = config(**chosen)
    return built.resolved() if isinstance(built, FilePart) else built


def embedding(
    kind: str, arguments: Mapping[str, Any], role: str, suite: Any, task: str
) -> Callable[[Sequence[Array]], Array]:
    """Return the function that embeds frames uint8 [height, width, 3], giving [n, width], by an embedder that the
    command-line settings name: a foundation model or hand-written code. Raise UserError for an embedder that embeds no
    frames, and if a call fails."""
    config_class, name = _part(kind, arguments, role)
    config = _built(config_class, arguments, role)
    if "embed" not in answering.answered(kind, config) or config.backend == "placebo":
        raise UserError(f"{role}={name} embeds no frames; choose embedder=transformers, scripted or spatial")
    if not study_models.is_recorded(config):
        answer = config.spawn(suite, task)
        return lambda frames: np.asarray(answer(EmbedCall(tuple(frames))))

    def embed(frames: Sequence[Array]) -> Array:
        reply = ask(config, EmbedCall(tuple(frames)))
        if isinstance(reply, Failure):
            raise UserError(f"{role}={name} gave no vectors: {reply.kind}: {reply}; check it with bench doctor")
        return np.asarray(reply.value)

    return embed


def device() -> str:
    """Return the device for calls outside a study: cuda if a GPU is visible, else cpu."""

    return "cuda" if visible_gpus() else "cpu"


def ask(config: Any, call: Call) -> Reply | Failure:
    """Build the model, make a single call within the configured `timeout`, close the model, and return the reply or
    failure.

    Raises UserError if the model cannot be built or called at all."""

    async def attempt() -> Reply | Failure:
        model = study_models.load_model(config, device())
        try:
            return await asyncio.wait_for(model.answer(call), config.timeout)
        except TimeoutError:
            return Failure("timeout", f"no answer within {config.timeout:g} s")
        except Failure as failure:
            return failure
        finally:
            await model.close()

    return asyncio.run(attempt())
