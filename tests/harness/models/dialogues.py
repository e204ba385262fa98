"""Run dialogues through a real desk with a cassette in a test's directory."""

import asyncio
from pathlib import Path
from typing import Any

from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Dialogue, Unusable
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Answer, Call, Ticket


def unwrap_answer(outcome: Any) -> tuple[Any, bool]:
    """Return the value that a part receives from a dialogue's outcome, and whether the question counts as answered."""
    return (outcome.value, False) if isinstance(outcome, Unusable) else (outcome, outcome is not None)


def hold_dialogue(
    dialogue: Dialogue, content: Any, frames: Array | None, chat: Any, directory: Path, models: Models
) -> tuple[Any, int]:
    """Run a dialogue with a chat; return its outcome and the number of calls that were billed."""

    async def run() -> tuple[Any, int]:
        desk, billed = study_models.desk(chat, models, directory, "cpu"), 0

        async def ask(call: Call) -> Answer:
            nonlocal billed
            reply = await desk.answer(chat.sampled(call), Ticket("cell/0", 3, 5_000))
            billed += reply.billed.calls
            return reply

        try:
            return await dialogue(content, frames, ask), billed
        finally:
            await desk.close()

    return asyncio.run(run())
