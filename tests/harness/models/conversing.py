"""Dialogues held through a real desk, with a cassette in a test's directory."""

import asyncio
from pathlib import Path
from typing import Any

from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Dialogue, Unusable
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Asker, Call, CallResult


def said(found: Any) -> tuple[Any, bool]:
    """The value that a part receives from what a dialogue returned, and whether the question counts as answered."""
    return (found.value, False) if isinstance(found, Unusable) else (found, found is not None)


def held(
    dialogue: Dialogue, content: Any, frames: Array | None, chat: Any, directory: Path, models: Models
) -> tuple[Any, int]:
    """The answer of a dialogue with a chat, and the calls that were really made."""

    async def run() -> tuple[Any, int]:
        desk, billed = study_models.desk(chat, models, directory, "cpu"), 0

        async def ask(call: Call) -> CallResult:
            nonlocal billed
            told = await desk.answer(chat.sampled(call), Asker("cell/0", 3, 5_000))
            billed += told.billed.calls
            return told

        try:
            return await dialogue(content, frames, ask), billed
        finally:
            await desk.close()

    return asyncio.run(run())
