"""The chat `transformers`: its settings, and a real model of a few thousand weights that continues a conversation."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import ChatCall, Message
from guidebench.harness.models.chats.transformers_ import Transformers
from tests.harness.models import tiny_models
from tests.there import there


def test_how_it_is_reached_is_no_part_of_a_cells_id() -> None:
    known = {field.name for field in dataclasses.fields(Transformers)}
    assert known - set(settings.identity(Transformers())) == {
        "device", "batch_size", "in_flight", "timeout", "attempts",
    }  # fmt: skip


def test_every_setting_says_what_it_means_and_where_its_default_is_from() -> None:
    assert all(field.meaning and field.source for field in settings.fields(Transformers).values())
    assert next(iter(settings.fields(Transformers))) == "model"


def test_its_configuration_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers"}
    asked = f"import sys, guidebench.harness.models.chats.transformers_; print(sorted({heavy} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_model_that_answers_no_chats_or_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    assert "GPT-2" in Transformers(model="gpt2").fits(there()) and Transformers().fits(there()) == ""
    with pytest.raises(UserError, match="nothing"):
        Transformers(model=str(tmp_path / "nothing")).ready()


def test_it_continues_a_conversation_in_free_text(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    chat = Transformers(model=str(tiny_models.llama(tmp_path / "llama")), dtype="float32", max_tokens=8)
    chat.ready()
    talk = (Message("user", ("Which?",)), Message("assistant", ("1",)), Message("user", ("Why?",)))

    async def run() -> None:
        model = chat.spawn_model("cpu")
        said = [await model.answer(chat.sampled(ChatCall(talk))) for _ in range(2)]
        await model.close()
        assert isinstance(said[0].value, str) and said[0].value == said[1].value, "at temperature 0"
        assert 0 < said[0].usage.tokens_out <= 8 and said[0].usage.usd == 0

    asyncio.run(run())
