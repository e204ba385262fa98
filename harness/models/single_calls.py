"""Calls to a model outside any study, without cassette, budget or retries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.machine import visible_gpus
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Call, Failure, Reply


def judge(arguments: Mapping[str, Any]) -> Any:
    """Return the built configuration of a foundation model's judge from the command-line settings `judge` and
    `judge.FIELD`.

    Raises UserError if the judge is not a foundation model or does not have a given setting."""
    return model("judge", arguments)


def model(kind: str, arguments: Mapping[str, Any], role: str = "") -> Any:
    """Return the built configuration of a judge, chat or embedder, as `judge` does; `role` is the name of its settings
    if that differs from `kind`."""
    role = role or kind
    name = registry.meant(kind, str(arguments.get(role, "")), role)
    config = registry.get(kind, name)
    if not study_models.is_recorded(config):
        models = [part for part in registry.names(kind) if study_models.is_recorded(registry.get(kind, part))]
        raise UserError(f"{role}={name} ({config.backend}) stands for no foundation model; name {' or '.join(models)}")
    fields = {f"{role}.{field}": entry for field, entry in settings.fields(config).items()}
    chosen = {}
    for key, value in arguments.items():
        if key == role:
            continue
        if key not in fields:
            raise unknown("setting", key, fields)
        chosen[fields[key].name] = settings.from_command(fields[key], value, key)
    return config(**chosen)


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
