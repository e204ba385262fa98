"""A difficulty is its words: the same cells as typing them, with typed words before it, on suites that declare it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from guidebench import testing
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.plan import difficulties, matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.settings import cite
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

SUITES = registry.names("suite")
METHODS = {name: registry.get("method", name) for name in registry.names("method")}
PAGES = Path(__file__).parents[3] / "docs" / "suites"
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "small": {
        "task": cite("5x5", "few steps"),
        "profile": "quick",
        "training.steps": cite(9_000, "three minutes"),
        "learner.dqn.channels": 16,
        "learner.sac.hidden": (64, 64),
        "replay.per.alpha": 0.5,
    },
    "large": {"task": "8x8", "profile": "quick", "suite.test_length": 90},
}


@pytest.fixture
def doorkey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MiniGridDoorKey, "difficulties", LEVELS)


def cells(*words: str) -> tuple[Cell, ...]:
    return matrix.plan(["suite=minigrid_doorkey", *words]).cells


def cell(*words: str) -> Cell:
    (only,) = cells(*words)
    return only


@pytest.mark.parametrize("suite", SUITES)
def test_every_difficulty_is_the_cell_of_its_words(suite: str) -> None:
    names = [*registry.get("suite", suite).difficulties]
    assert len(names) >= 4 or not registry.get("suite", suite).tasks
    for name in names:
        (level,) = matrix.plan([f"suite={suite}", f"difficulty={name}"]).cells
        (typed,) = matrix.plan([f"suite={suite}", *difficulties.typed(level.names, name)]).cells
        assert (level.id, level.variant) == (typed.id, typed.variant)
        assert level.names.task == difficulties.chosen(suite, name)["task"]
        testing.check_difficulties(suite)


@pytest.mark.parametrize("suite", sorted({method.suite for method in METHODS.values()} & {*SUITES}))
def test_the_methods_of_a_suite_can_run_at_every_difficulty(suite: str) -> None:
    methods = [name for name, method in METHODS.items() if method.suite == suite]
    names = [*registry.get("suite", suite).difficulties]
    words = [f"suite={suite}", f"method={','.join(methods)}", f"difficulty={','.join(names)}", "models=scripted"]
    assert {cell.names.method for cell in matrix.plan(words).cells} == {*methods}


@pytest.mark.parametrize("suite", SUITES)
def test_every_difficulty_says_why_and_is_on_its_suites_page(suite: str) -> None:
    page = (PAGES / f"{suite.removesuffix('_mt10').removesuffix('_pbrl')}.md").read_text()
    for name, words in difficulties.every(suite).items():
        assert f"| `{name}` |" in page, f"{suite}: its page has no row of {name}"
        assert all(word.source for word in words.values())


def test_a_typed_word_has_precedence_in_any_form(doorkey: None) -> None:
    level = cell("difficulty=small")
    assert (level.names.task, level.names.profile, level.steps, level.section("learner").channels) == (
        "5x5", "quick", 9_000, 16
    )  # fmt: skip
    assert level.settings["training.steps"] == (9_000, "command line", "three minutes")
    other = cell("difficulty=small", "task=6x6", "training.steps=8000", "learner.channels=24")
    assert (other.names.task, other.steps, other.section("learner").channels) == ("6x6", 8_000, 24)
    assert other.id == cell("task=6x6", "profile=quick", "training.steps=8000", "learner.channels=24").id
    assert cell("difficulty=small", "profile=smoke").names.profile == "smoke"


def test_settings_of_parts_that_a_cell_lacks_are_left_out_of_it(doorkey: None) -> None:
    levels = {level.names.method: level for level in cells("difficulty=small", "method=uer,per,random")}
    assert levels["per"].section("replay").alpha == 0.5
    assert "replay.alpha" not in levels["uer"].settings and levels["random"].steps == 9_000
    with pytest.raises(UserError, match=r"unknown setting 'learner\.sac\.hidden'"):  # typed, it is an error
        cell("difficulty=small", "learner.sac.hidden=[8,8]")


def test_difficulties_sweep_and_may_be_varied(doorkey: None) -> None:
    levels = cells("difficulty=small,large", "method=uer,per")
    assert [(level.names.task, level.names.method) for level in levels] == [
        ("5x5", "uer"), ("5x5", "per"), ("8x8", "uer"), ("8x8", "per")
    ]  # fmt: skip
    plan = matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "difficulty=large"])
    varied = variations.ablations(plan, ["lambda_max"])
    assert len(varied.cells) > 2 and {level.names.task for level in varied.cells} == {"8x8"}
    assert {level.settings["suite.test_length"].value for level in varied.cells} == {90}
    assert varied.command[:2] == ("bench", "ablate") and "difficulty=large" in varied.command


def test_a_stage_takes_what_typed_words_would_give_it(doorkey: None) -> None:
    words = ("method=uer", "pretraining=per")
    level = cell("difficulty=small", *words)
    typed = cell(
        "task=5x5", "profile=quick", "training.steps=9000", "learner.channels=16", "replay.per.alpha=.5", *words
    )
    assert level.id == typed.id and level.stages[0].section("replay").alpha == 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite=minigrid_doorkey", "difficulty=smal"), r"of suite 'minigrid_doorkey': 'smal'; did you mean 'small'"),
        (("suite=minigrid_doorkey", "difficulty=6x6"), r"6x6 is a task of this suite; write task=6x6"),
        (("suite=minigrid_doorkey", "difficulty=zzz"), r"\(known: large, small\); `bench show suite=minigrid_doorkey`"),
        (("suite=minigrid_doorkey,classic", "difficulty=small"), r"of suite 'classic': 'small'; suite minigrid"),
        (("suite=minigrid_doorkey", "level=small"), r"unknown setting 'level'; write difficulty=small"),
        (("suite=minigrid_doorkey", "dificulty=small"), r"did you mean 'difficulty'\?"),
        (("suite=minigrid_doorkey", "small"), r"write difficulty=small"),
        (("suite=minigrid_doorkey", "task=large"), r"large is a difficulty of suite minigrid_"),
        (("suite=minigrid_doorkey", "difficulty="), r"expected a name \(small, large\)"),
        (("suite=minigrid_doorkey", "difficulty=small", "difficulty=large"), r"difficulty= is given twice"),
        (("suite=minigrid_doorkey", "pretraining=per", "pretraining.difficulty=small"), r"a stage takes the"),
        (("difficulty=small",), r"add suite=minigrid_doorkey, which has that difficulty"),
    ],
)  # fmt: skip
def test_a_wrong_difficulty_is_refused(words: tuple[str, ...], message: str, doorkey: None) -> None:
    with pytest.raises(UserError, match=message):
        matrix.plan(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"task": "9x9"}, "unknown task of suite 'minigrid_doorkey': '9x9'"),
        ({"profile": "quik"}, "did you mean 'quick'"),
        ({"suite.test_lenght": 5}, r"did you mean 'suite\.test_length'"),
        ({"learner.dqn.chanels": 8}, r"did you mean 'learner\.dqn\.channels'"),
        ({"learner.chanels": 8}, r"did you mean 'learner\.channels'"),
        ({"learner.dqm.channels": 8}, "did you mean 'dqn'"),
        ({"lerner.channels": 8}, "did you mean 'learner'"),
        ({"learner": "iqn"}, "'learner' is no word of a difficulty"),
        ({"training.steps": "many"}, r"training\.steps=many: expected int"),
    ],
)
def test_a_difficulty_with_a_word_that_no_command_has_breaks_the_contract(
    words: Mapping[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MiniGridDoorKey, "difficulties", {"wrong": words})
    with pytest.raises(AssertionError, match=f"minigrid_doorkey, difficulty=wrong: .*{message}"):
        testing.check_suite("minigrid_doorkey", [])


def test_show_and_list_name_the_difficulties(doorkey: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "suite=minigrid_doorkey"]) == 0
    printed = capsys.readouterr().out
    assert "difficulty=small\n    task=5x5\n        few steps\n" in printed
    assert "    training.steps=9000\n        three minutes\n" in printed and "difficulty=large" in printed
    assert cli.main(["show", "suite=minigrid_doorkey", "difficulty=large"]) == 0
    assert "difficulty=small" not in capsys.readouterr().out
    assert cli.main(["list", "suites"]) == 0
    assert "16x16  difficulties: small, large\n" in capsys.readouterr().out
