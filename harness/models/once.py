"""A model asked outside any study: no cassette, no budget, no retries."""

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
    """The built configuration of a foundation model's judge, from `judge` and `judge.field` as a command line has them.

    UserError where the judge is none, or a setting is not one of its."""
    return model("judge", given)


def model(kind: str, given: Mapping[str, Any], role: str = "") -> Any:
    """The same of a judge, a chat or an embedder, in a role that may be called otherwise than its kind."""
    role = role or kind
    name = str(given.get(role, ""))
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
        values[known[key].name] = settings.given(known[key], value, key)
    return config(**values)


def device() -> str:
    """Where a model is run when asked outside a study: on the first GPU, if there is one."""

    return "cuda" if visible_gpus() else "cpu"


def ask(config: Any, call: Call) -> Reply | Failure:
    """The answer to a single call, within the judge's `timeout`, by a model that is built for it and closed again.

    UserError where the model cannot be built or asked at all."""

    async def asked() -> Reply | Failure:
        model = config.spawn_model(device())
        try:
            return await asyncio.wait_for(model.answer(call), config.timeout)
        except TimeoutError:
            return Failure("timeout", f"no answer within {config.timeout:g} s")
        except Failure as failure:
            return failure
        finally:
            await model.close()

    return asyncio.run(asked())
