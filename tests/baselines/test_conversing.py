"""A conversation ends with a reply that can be read, or when its retries are used up or a call fails."""

import asyncio
from typing import Any

from guidebench.baselines.conversing import ECHOED, Conversation, Misread, converse, filled, misfit
from guidebench.harness.models.calls import Failure, Message
from tests.baselines.teachers.llm.talking import CUT, Ask


def number(reply: str) -> int:
    if not reply.isdigit():
        raise Misread("unreadable", "it is no number")
    return int(reply)


def talk(*replies: Any, retries: int = 2) -> tuple[Conversation[int], Ask]:
    ask = Ask(*replies)
    asked = (Message("user", ("How many?",)),)
    return asyncio.run(converse(ask, asked, number, lambda fault: f"Again: {fault}.", retries)), ask


def test_an_unreadable_reply_is_asked_for_again_with_what_is_wrong_with_it() -> None:
    said, ask = talk("many", "9" + CUT, "3")
    assert said[:2] == (3, "") and said.retries == 2 and ask.done
    assert [message.content[0] for message in ask.calls[1].messages] == ["How many?", "many", "Again: it is no number."]
    assert ask.asked(2) == "Again: it was cut off before its end."


def test_it_ends_when_the_retries_are_used_up_or_a_call_fails() -> None:
    said, ask = talk("many", "x" * (ECHOED + 5), retries=1)
    assert said.value is None and (said.fault, said.retries) == ("unreadable", 1) and ask.done
    assert len(str(said.messages[-1].content[0])) == ECHOED
    assert talk(Failure("server", ""))[0].fault == "failed"
    assert talk("many", Failure("server", ""))[0][1::2] == ("unreadable", 1)


def test_placeholders_are_filled_once_and_checked() -> None:
    assert filled("{a} and {b}", {"a": "{b}", "b": 1}) == "{b} and 1"
    assert misfit("{a}", ["a"], ["b"]) == "" and "lacks {a}" in misfit("{b}", ["a"], ["b"])
    assert "holds {c}, which nothing fills in" in misfit("{a} {c}", ["a"], ["b"])
