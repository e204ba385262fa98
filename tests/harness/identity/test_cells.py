"""A cell's record is read back as the same cell; a record of another version is refused with the difference."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from guidebench.harness import settings
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.plan import matrix
from guidebench.harness.records.parts import RecordedPart, read
from tests.refusals import check_refused

WORDS = ["suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "profile=smoke", "replay.alpha=0.25"]


@pytest.fixture
def content() -> dict[str, Any]:
    (cell,) = matrix.plan(WORDS).cells
    return json.loads(json.dumps(record(cell)))


def test_a_record_gives_the_cell_back(content: dict[str, Any]) -> None:
    (cell,) = matrix.plan(WORDS).cells
    assert recorded(content).sections == cell.sections and recorded(content).id == cell.id
    assert content["parts"]["judge"] == {"kind": "judge", "name": "sprite", "backend": "scripted", "model": "sprite"}
    assert content["parts"]["replay"] == {"kind": "replay", "name": "vlm_rb"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.update(schema=1), "has schema 1, and this version reads 2: use the version of guidebench"),
        (lambda c: c["settings"].pop("replay.alpha"), "lacks the setting 'replay.alpha', which this version has"),
        (lambda c: c["settings"].update({"replay.beta9": {"value": 1}}), "has a setting 'replay.beta9' that this"),
        (lambda c: c["settings"]["replay.alpha"].update(value="x"), r"replay.alpha=x: expected float in \[0, 1\]"),
        (lambda c: c["settings"]["replay.alpha"].update(value=7), r"replay.alpha=7: expected float in \[0, 1\]"),
        (lambda c: c.update(cell="0" * 10), "was recorded by another version of its parts"),
    ],
)
def test_what_this_version_would_not_have_written_is_named(
    content: dict[str, Any], change: Callable[[dict[str, Any]], object], says: str
) -> None:
    change(content)
    check_refused(says, recorded, content)


@pytest.mark.parametrize(
    ("role", "entry", "says"),
    [
        (
            "planner",
            {"kind": "segmenter", "name": "x"},
            "'planner' is a 'segmenter': this version has no such kind of part",
        ),
        (
            "chat",
            {"kind": "judge", "name": "x"},
            "'chat' is a 'judge': a role called 'chat' must be of the kind 'chat'",
        ),
        ("seeds", {"kind": "chat", "name": "x"}, "'seeds' is a 'chat': this word is reserved"),
        ("a b", {"kind": "chat", "name": "x"}, "'a b' is a 'chat': a role is a word of lower-case letters"),
        ("planner", {"kind": "chat"}, "expected an object with kind, name, backend, model"),
        ("planner", {"kind": "chat", "name": 3}, "expected printable text"),
        ("planner", {"kind": "chat", "name": "\x1b[2J"}, "expected printable text"),
        ("planner", "openai", "expected an object with kind, name, backend, model"),
    ],
)
def test_a_role_that_nobody_knows_is_named(role: str, entry: Any, says: str) -> None:
    check_refused(f"the part in the role .*{says}", read, {"learner": {"kind": "learner", "name": "dqn"}, role: entry})


def test_parts_of_packages_that_are_not_installed_are_read() -> None:
    entry = {"kind": "chat", "name": "theirs", "backend": "theirs", "model": "large"}
    assert read({"planner": entry}) == {"planner": RecordedPart("chat", "theirs", "theirs", "large")}
    check_refused("it names 51 parts; at most 50 are read", read, {f"role_{number}": entry for number in range(51)})


def test_a_setting_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: Counter[str] = Counter()
    check = settings.check

    def counting(field: settings.Field, value: Any, key: str) -> Any:
        checked[key] += 1
        return check(field, value, key)

    monkeypatch.setattr(settings, "check", counting)
    (cell,) = matrix.plan([*WORDS, "replay.lambda_max=0.321"]).cells
    assert cell.section("replay").lambda_max == 0.321
    assert [times for key, times in checked.items() if key == "replay.lambda_max"] == [1]
