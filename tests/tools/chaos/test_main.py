"""The command prints its seed and what it found, keeps both studies of a difference, and ends with the time it has."""

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.chaos import __main__ as chaos
from tools.chaos.carrying_out import OutOfTime
from tools.chaos.plan import Round
from tools.chaos.rounds import Report, Unusable


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[Report | Exception]:
    """Return the list of reports and exceptions that the rounds of the command return or raise, without any process."""
    outcomes: list[Report | Exception] = []

    @contextlib.contextmanager
    def unmarked(*_: object) -> Iterator[None]:
        yield

    def run(_: object, round: Round) -> Report:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        outcome.round = round
        return outcome

    monkeypatch.setattr(chaos, "marked_run", unmarked)
    monkeypatch.setattr(chaos, "install", lambda directory: None)
    monkeypatch.setattr(chaos, "hide_mounts", lambda: None)
    monkeypatch.setattr(chaos.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(chaos.Chaos, "run", run)
    for variable in ("GUIDEBENCH_CACHE", "HF_HUB_OFFLINE", "GUIDEBENCH_CHAOS_HANG"):
        monkeypatch.setenv(variable, "")
    return outcomes


def report(**values: object) -> Report:
    return Report(None, **values)  # type: ignore[arg-type]


def test_equal_rounds_end_with_a_table_and_leave_nothing(rounds, capsys: pytest.CaptureFixture[str]) -> None:
    rounds += [report(applied=["kill worker (process 1)"]), report(applied=["kill worker (process 2)"], missed=1)]
    rounds += [OutOfTime()]
    assert chaos.main(["--seed", "7", "--families", "offline"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("seed 7: make chaos SEED=7 FAMILIES='offline' draws the same rounds\n")
    assert re.search(r"^offline +2 +2 +1 +\d+  equal$", out, re.MULTILINE)
    assert "faults: 2 kill worker" in out and "seed 7, 2 rounds" in out and "kept" not in out


def test_a_difference_ends_with_exit_code_1_and_what_is_kept(rounds, capsys: pytest.CaptureFixture[str]) -> None:
    rounds += [report(differences=["policy.safetensors differs"]), report()]
    assert chaos.main(["--seed", "7", "--rounds", "2", "--families", "offline,learner"]) == 1
    out = capsys.readouterr().out
    assert "FOUND policy.safetensors differs" in out and "1 rounds with findings" in out
    directory = Path(out.rpartition("kept: ")[2].strip())
    assert directory.is_dir()
    shutil.rmtree(directory)


def test_a_family_that_fails_undisturbed_is_left_out_and_told(rounds, capsys: pytest.CaptureFixture[str]) -> None:
    rounds += [Unusable("it fails"), report(), report(), OutOfTime()]
    assert chaos.main(["--seed", "7", "--families", "offline,learner"]) == 1
    out = capsys.readouterr().out
    assert (
        "FOUND it fails" in out and len(re.findall(r" +2 .* equal$| +0 .* fails undisturbed$", out, re.MULTILINE)) == 2
    )
    shutil.rmtree(Path(out.rpartition("kept: ")[2].strip()))


def test_a_seed_is_drawn_and_printed_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--plan"]) == 0
    first = capsys.readouterr().out
    seed = first.partition(":")[0].removeprefix("seed ")
    assert chaos.main(["--plan", "--seed", seed]) == 0
    assert capsys.readouterr().out == first


def test_an_unknown_family_is_named_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"no family lerner; choose of: learner, "):
        chaos.main(["--families", "lerner"])
