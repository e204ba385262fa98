"""Calls to a model outside any study, without cassette, budget or retries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.machine import visible_gpus
from guidebench.harness.models import keeping
from guidebench.harness.models.calls import Call, Failure, Reply


def judge(given: Mapping[str, Any]) -> Any:
    """Return the built configuration of a foundation model's judge from the command-line settings `judge` and
    `judge.FIELD`.

    Raises UserError if the judge is not a foundation model or does not have a given setting."""
    return model("judge", given)


def model(kind: str, given: Mapping[str, Any], role: str = "") -> Any:
    """Return the built configuration of a judge, chat or embedder, as `judge` does; `role` is the name of its settings
    if that differs from `kind`."""
    role = role or kind
    name = registry.meant(kind, str(given.get(role, "")), role)
    config = registry.get(kind, name)
    if not keeping.recorded(config):
        models = [each for each in registry.names(kind) if keeping.recorded(registry.get(kind, each))]
        raise UserError(f"{role}={name} ({config.backend}) stands for no foundation model; name {' or '.join(models)}")
    known = {f"{role}.{field}": entry for field, entry in settings.fields(config).items()}
    values = {}
    for key, value in given.items():
        if key == role:
            continue
        if key not in known:
            raise unknown("setting", key, known)
        values[known[key].name] = settings.from_command(known[key], value, key)
    return config(**values)


def device() -> str:
    """Return the device for calls outside a study: cuda if a GPU is visible, else cpu."""

    return "cuda" if visible_gpus() else "cpu"


def ask(config: Any, call: Call) -> Reply | Failure:
    """Build the model, make a single call within the configured `timeout`, close the model, and return the reply or
    failure.

    Raises UserError if the model cannot be built or called at all."""

    async def asked() -> Reply | Failure:
        model = keeping.loaded(config, device())
        try:
            return await asyncio.wait_for(model.answer(call), config.timeout)
        except TimeoutError:
            return Failure("timeout", f"no answer within {config.timeout:g} s")
        except Failure as failure:
            return failure
        finally:
            await model.close()

    return asyncio.run(asked())
