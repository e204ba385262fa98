"""Dialogues with real models that run in the test's process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from guidebench.harness.models.calls import Answer, AskModel, Call


def converse(model: Any, talk: Callable[[AskModel], Awaitable[Any]]) -> Any:
    """Return the result of `talk(ask)`, whose calls the model answers; the answers must have no fault."""

    async def ask(call: Call) -> Answer:
        reply = await model.answer(call)
        assert call.fault(reply.value) == ""
        return Answer(reply.value, usage=reply.usage)

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
