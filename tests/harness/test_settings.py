"""Settings have a type, bounds, a unit and a source; a wrong value is reported with what would fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from guidebench.harness import settings
from guidebench.harness.settings import Bounds, Text, Unit
from tests.refusals import check_refused


@dataclass(frozen=True)
class Example:
    rate: Annotated[float, Bounds(0, 1), Unit("per step")] = 0.5
    """Share of things (Somebody (2020), table 3)."""
    kind: Literal["small", "maximum"] = "small"
    """Which one (choice)."""
    widths: tuple[int, ...] = (4, 4)
    """Layers."""
    limit: Annotated[int | None, Bounds(1)] = None
    """At most so many."""


def test_a_field_carries_bounds_unit_meaning_and_source() -> None:
    rate = settings.fields(Example)["rate"]
    assert (rate.bounds, rate.unit, rate.meaning, rate.source) == (
        Bounds(0, 1),
        "per step",
        "Share of things",
        "Somebody (2020), table 3",
    )


@pytest.mark.parametrize(
    ("name", "setting", "typed"),
    [
        ("rate", 1, 1.0),
        ("limit", None, None),
        ("limit", 1e3, 1000),
        ("widths", [8, 2], (8, 2)),
        ("kind", "maximum", "maximum"),
    ],
)
def test_values_are_taken_as_the_field_s_type(name: str, setting: object, typed: object) -> None:
    value = settings.check(settings.fields(Example)[name], setting, name)
    assert value == typed and type(value) is type(typed)


@pytest.mark.parametrize(
    ("name", "setting", "says"),
    [
        ("rate", 1.5, r"part.rate=1.5: expected float in \[0, 1\] \(per step\)"),
        ("rate", "abc", "part.rate=abc"),
        ("rate", float("nan"), "part.rate=nan"),
        ("rate", True, "part.rate=true"),
        ("kind", "large", "one of 'small', 'maximum'"),
        ("widths", [1.5], "list of int"),
        ("limit", 0, "int or null at least 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_fits(name: str, setting: object, says: str) -> None:
    check_refused(says, settings.check, settings.fields(Example)[name], setting, f"part.{name}")


def test_building_names_the_nearest_setting() -> None:
    check_refused(
        r"unknown setting 'part.rtae'; did you mean 'part.rate'", settings.build, Example, {"rtae": 1}, "part"
    )


@dataclass(frozen=True)
class PromptedPart:
    prompt: Annotated[str, Text] = ""
    """What is asked."""
    name: str = ""
    """Who is asked."""


PROMPT = settings.fields(PromptedPart)["prompt"]


def test_a_text_may_be_named_by_a_file_and_the_text_is_the_value(tmp_path: Path) -> None:
    file = tmp_path / "a prompt.txt"
    file.write_bytes("\ufeffIs it späť?\r\nSay so.\n\n".encode())
    assert settings.from_command(PROMPT, f"file:{file}", "judge.prompt") == "Is it späť?\nSay so."
    assert settings.from_command(PROMPT, "Is it?", "judge.prompt") == "Is it?"


def test_a_text_that_begins_like_a_file_s_name_is_not_read_once_it_is_a_value(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text(f"file:{tmp_path / 'secret'}")
    text = settings.from_command(PROMPT, f"file:{file}", "judge.prompt")
    assert settings.build(PromptedPart, {"prompt": text}, "judge").prompt == f"file:{tmp_path / 'secret'}"
    assert settings.from_command(settings.fields(PromptedPart)["name"], "file:none", "judge.name") == "file:none"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read .No such file"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"caf\xe9", "not text in UTF-8 .byte 3"),
        (b"a" * (settings.LONGEST_TEXT + 1), "longer than 65,536 bytes"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "prompt.txt"
    if content is not None:
        file.write_bytes(content)
    check_refused(
        rf"^judge.prompt=file:{file}: {file}.*{says}", settings.from_command, PROMPT, f"file:{file}", "judge.prompt"
    )


def test_a_directory_is_no_text(tmp_path: Path) -> None:
    check_refused("cannot be read", settings.from_command, PROMPT, f"file:{tmp_path}", "judge.prompt")
