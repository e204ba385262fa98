"""Dialogues with real models that run in the test's process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from guidebench.harness.models.calls import Call, CallResult


def converse(model: Any, talk: Callable[[Callable[[Call], Awaitable[CallResult]]], Awaitable[Any]]) -> Any:
    """What `talk(ask)` ends with, whose calls the model answers, without a fault."""

    async def ask(call: Call) -> CallResult:
        reply = await model.answer(call)
        assert call.fault(reply.value) == ""
        return CallResult(reply.value, usage=reply.usage)

    async def run() -> Any:
        try:
            return await talk(ask)
        finally:
            await model.close()

    return asyncio.run(run())


def transformers(directory: Path) -> Any:
    from guidebench.harness.models.backends.transformers_.loaded_model import Source
    from guidebench.harness.models.backends.transformers_.model import TransformersModel

    return TransformersModel(Source(str(directory), dtype="float32"))
