import json
import time
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.models.backends.answers import (
    Unreadable,
    answer_index,
    in_schema,
    with_repair,
    with_schema,
    yes_or_no,
)
from guidebench.harness.models.calls import Failure, Message

pytest.importorskip("jsonschema")
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "why": {"type": "string"}},
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 0.5}',
        'Here it is:\n```json\n{"score": 0.5}\n```\nAnything else?',
        'Weights {w} are fine. {"score": 0.5} {"score": 2}',
    ],
)
def test_the_first_object_is_found_whatever_stands_around_it(text: str) -> None:
    assert in_schema(text, SCHEMA) == {"score": 0.5}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I cannot tell.", "no JSON object"),
        ("[0.5]", "no JSON object"),
        ('{"score": 0.5', "cannot be parsed"),
        ('{"score": NaN}', "NaN is no JSON number"),
        ('{"score": 1e999}', "the number 1e999 is too large"),
        ('{"score": 1, "n": -%s}' % ("9" * 400), "the number -9999999999999999999 is too large"),
        ('{"score": 2}', r"at \['score'\]: 2 is greater than the maximum"),
        ('{"why": "so"}', "'score' is a required property"),
        ('{"score": 1, "run": "rm"}', "'run' was unexpected"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        in_schema(text, SCHEMA)


@pytest.mark.parametrize("text", ["{" * 1_000_000, '{"a":' * 200_000, "[" * 500_000 + "{"])
def test_an_answer_of_a_megabyte_is_refused_in_no_time(text: str) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable):
        in_schema(text, SCHEMA)
    assert time.process_time() - started < 2


def test_a_chat_is_continued_by_what_was_wrong() -> None:
    chat = with_schema((Message("system", ("Be brief.",)), Message("user", ("Score it.",))), SCHEMA)
    assert chat[0].content == ("Be brief.",) and json.dumps(SCHEMA) in str(chat[1].content[-1])
    longer = with_repair(chat, "no", Unreadable("it holds no JSON object"))
    assert longer[:2] == chat and longer[2] == Message("assistant", ("no",))
    assert "it holds no JSON object" in str(longer[3].content[0])


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Answer: Yes", 1.0),
        (" answer :\n**NO**.", 0.0),
        ("No key is left on the floor. Answer: Yes", 1.0),
        ("yes, it opened", 1.0),
        ("**No**", 0.0),
        ("There is no key. Answer: Yes", 1.0),
        ("Answer: no? Wait, the door moves. Answer: yes", 1.0),
    ],
)
def test_yes_and_no_are_read_as_words(text: str, score: float) -> None:
    assert yes_or_no(text) == score


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("Answer: maybe", "malformed"),
        ("是", "malformed"),
        ("I have no way of seeing images", "malformed"),
        ("No way of seeing images is given to me.", "malformed"),
        ("I cannot say yes or no", "malformed"),
        ("Yes. Answer: I cannot tell", "malformed"),
    ],
)
def test_neither_is_a_failure(text: str, kind: str) -> None:
    with pytest.raises(Failure) as caught:
        yes_or_no(text)
    assert caught.value.kind == kind


def test_the_token_that_answers_stands_behind_the_last_answer() -> None:
    tokens = ["There", " is", " no", " key", ".", " Answer", ":", " Yes"]
    texts = ["".join(tokens[: index + 1]) for index in range(len(tokens))]
    words = [token.strip() in ("no", "Yes") for token in tokens]
    assert answer_index(texts, words) == 7
    with pytest.raises(Failure, match="expected yes or no"):
        answer_index(texts[:4], words[:4])
    with pytest.raises(Failure, match="no single token"):
        answer_index(["Y", "Yes"], [False, False])


def test_an_object_is_nested_only_so_deeply_and_holds_whole_characters() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(Unreadable, match="more than 100 levels"):
        in_schema(json.dumps(deep), {"type": "object"})
    assert in_schema('{"a\\udc00": "\\ud83d", "b": "\\ud83d\\ude00"}', {"type": "object"}) == {
        "a\ufffd": "\ufffd",
        "b": "😀",
    }


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_a_schema_that_leads_elsewhere_makes_nothing_open(scheme: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "any.json"
    elsewhere.write_text("{}")
    place = elsewhere.as_uri() if scheme == "file" else "http://127.0.0.1:9/any.json"
    schema = {"type": "object", "properties": {"b": {"$ref": place}}}
    with pytest.raises(Unreadable, match="cannot be used"):
        in_schema('{"b": {}}', schema)
    assert in_schema('{"a": {}}', schema) == {"a": {}}
