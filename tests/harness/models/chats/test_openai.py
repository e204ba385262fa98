"""The chat `openai`: its settings, and calls that go through a desk to a server on loopback."""

import asyncio
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Call, ChatCall, EmbedCall, Message
from guidebench.harness.models.chats.openai_ import OpenAI
from tests.cell_views import cell_view
from tests.conftest import require
from tests.harness.models.canned import completion, serving

require("openai")
CALL = ChatCall((Message("user", ("Which is better?",)),))


def test_it_writes_as_its_settings_say_and_leaves_other_calls_alone() -> None:
    call = OpenAI(temperature=0.7, max_tokens=50).sampled(CALL)
    assert isinstance(call, ChatCall)
    assert (call.messages, call.schema, call.temperature, call.max_tokens) == (CALL.messages, None, 0.7, 50)
    embed = EmbedCall(("a",))
    assert OpenAI().sampled(embed) is embed
    paper = OpenAI().sampled(CALL)
    assert isinstance(paper, ChatCall) and (paper.temperature, paper.max_tokens) == (0.0, 1000)


def test_a_model_that_answers_no_chats_is_refused() -> None:
    assert OpenAI().fits(cell_view()) == OpenAI(model="gpt-4o-mini-2024-07-18").fits(cell_view()) == ""
    assert OpenAI(model="someones-own").fits(cell_view()) == ""
    assert "Sentence-BERT" in OpenAI(model="sbert").fits(cell_view())


def test_without_a_key_it_says_what_to_set_and_what_else_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"chat\.base_url=.*set OPENAI_API_KEY.*chat=scripted"):
        OpenAI().ready()
    OpenAI(base_url="http://127.0.0.1:9/v1").ready()


def test_a_call_reaches_the_model_as_it_was_asked(tmp_path: Path) -> None:
    """Neither configuration nor server adds words of its own to a chat in free text."""
    conversations: list[Call] = []
    with serving(
        lambda path, body, headers: (conversations.append(body["messages"]), (200, completion("0")))[1]
    ) as url:  # type: ignore[func-returns-value]

        async def run() -> None:
            model = OpenAI(base_url=url).spawn_model("cpu")
            talk = (*CALL.messages, Message("assistant", ("0",)), Message("user", ("Why?",)))
            await model.answer(ChatCall(talk))
            await model.close()

        asyncio.run(run())
    assert conversations == [[
        {"role": "user", "content": "Which is better?"},
        {"role": "assistant", "content": "0"},
        {"role": "user", "content": "Why?"},
    ]]  # fmt: skip
