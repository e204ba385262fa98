"""Asks models of random weights, loaded as a run loads them."""

import asyncio
from pathlib import Path
from typing import Any

from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.calls import Call


def model(directory: Path, **settings: Any) -> TransformersModel:
    return TransformersModel(Source(str(directory), dtype="float32"), **settings)


def ask(model: TransformersModel, *calls: Call) -> list[Any]:
    """Return the reply to each call, or its failure; all of them wait together."""

    async def together() -> list[Any]:
        return await asyncio.gather(*(model.answer(call) for call in calls), return_exceptions=True)

    return asyncio.run(together())
