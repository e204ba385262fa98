"""Texts from outside are made safe to store and to print."""

import pytest

from guidebench.harness.texts import JSON, duration, each_text, mended, one_line, printable


def test_a_half_of_a_character_is_replaced_and_a_whole_one_kept() -> None:
    assert mended("a\ud83d b 😀") == "a\ufffd b 😀" and mended("\udc00").encode() == "\ufffd".encode()


def test_what_a_terminal_would_obey_is_written_as_an_escape() -> None:
    assert printable("\x1b]0;title\x07 a\tb\nc\r\x9b2J\u202ed é") == "\\x1b]0;title\\x07 a\tb\nc\\r\\x9b2J\\u202ed é"
    assert printable("\ud83d").isascii()
    assert one_line("a\x1b[2Jb\u202ec\nd é") == "a\\x1b[2Jb\\u202ec\\nd é"


def test_every_text_of_a_value_is_changed_and_depth_is_bounded() -> None:
    assert each_text({"a": ["b", 1, None, {"c": "d"}]}, str.upper) == {"A": ["B", 1, None, {"C": "D"}]}
    deep: object = 0
    for _ in range(101):
        deep = [deep]
    with pytest.raises(ValueError, match="more than 100 levels"):
        each_text(deep, str.upper)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "-Infinity", "9" * 400, "9" * 5_000])
def test_json_holds_numbers_that_one_can_compute_with(text: str) -> None:
    assert JSON.decode("[1, 1e308, -0.5]") == [1, 1e308, -0.5]
    with pytest.raises(ValueError, match=r"too large|no JSON number"):
        JSON.decode(f"[{text}]")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89.4, "89 s"), (90, "2 min"), (3_540, "59 min"), (3_599, "1 h 0 min"), (86_400, "1 d 0 h")],
)
def test_a_duration_has_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words
