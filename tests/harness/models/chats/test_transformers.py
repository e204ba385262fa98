"""The chat `transformers`: its settings, and a real model of a few thousand weights that continues a conversation."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import ChatCall, Message
from guidebench.harness.models.chats.transformers_ import Transformers
from tests.cell_views import cell_view


def test_a_model_that_answers_no_chats_or_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    assert "GPT-2" in Transformers(model="gpt2").fits(cell_view()) and Transformers().fits(cell_view()) == ""
    with pytest.raises(UserError, match="nothing"):
        Transformers(model=str(tmp_path / "nothing")).ready()


def test_it_continues_a_conversation_in_free_text(tiny: Callable[..., Path]) -> None:
    chat = Transformers(model=str(tiny("llama")), dtype="float32", max_tokens=8)
    chat.ready()
    talk = (Message("user", ("Which?",)), Message("assistant", ("1",)), Message("user", ("Why?",)))

    async def run() -> None:
        model = chat.spawn_model("cpu")
        replies = [await model.answer(chat.sampled(ChatCall(talk))) for _ in range(2)]
        await model.close()
        assert isinstance(replies[0].value, str) and replies[0].value == replies[1].value, "at temperature 0"
        assert 0 < replies[0].usage.tokens_out <= 8 and replies[0].usage.usd == 0

    asyncio.run(run())
