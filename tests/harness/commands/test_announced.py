"""What `bench run` prints before it begins, and when it asks the user for confirmation."""

import io
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

import guidebench
from guidebench.harness.commands import cli, run_
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study

LONG = ("suite=minigrid_doorkey", "method=uer", "seeds=5")
"""Three tasks of a million steps, which take days."""


class Terminal(NamedTuple):
    """A pseudo-terminal: the descriptor of the user's side, and the program's two streams."""

    user: int
    stdin: IO[str]
    stdout: IO[str]

    def type(self, text: str) -> None:
        os.write(self.user, text.encode())

    def screen(self) -> str:
        self.stdout.flush()
        output = b""
        while select.select([self.user], [], [], 0.2)[0]:
            output += os.read(self.user, 1 << 16)
        return output.decode()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    user, program = os.openpty()
    with open(program) as stdin, open(os.dup(program), "w") as stdout:
        yield Terminal(user, stdin, stdout)
    os.close(user)


@pytest.mark.parametrize(("typed", "begins"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False),
                                               ("\x04", False)])  # fmt: skip
def test_a_long_study_begins_on_a_terminal_only_after_a_yes(terminal: Terminal, typed: str, begins: bool) -> None:
    terminal.type(typed)
    if begins:
        run_._ask(30.0, terminal.stdin, terminal.stdout)
    else:
        with pytest.raises(UserError, match="nothing was begun and nothing written; yes=true begins without"):
            run_._ask(30.0, terminal.stdin, terminal.stdout)
    assert "This takes about 30 core-hours. Begin? [y/N] " in terminal.screen()


def test_nothing_is_asked_about_a_short_study_or_without_a_terminal(terminal: Terminal) -> None:
    run_._ask(12.0, terminal.stdin, terminal.stdout)
    stdout = io.StringIO()
    run_._ask(1e6, terminal.stdin, stdout)
    run_._ask(1e6, io.StringIO("n\n"), terminal.stdout)
    assert stdout.getvalue() == ""


def test_a_refusal_ends_the_command_with_nothing_written(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", terminal.stdin)
    monkeypatch.setattr(sys, "stdout", terminal.stdout)
    terminal.type("n\n")
    assert cli.main(["run", *LONG, f"output={tmp_path / 'study'}"]) == 2
    screen = terminal.screen()
    assert f"in {tmp_path / 'study'}: 3 cells × 5 seeds (0,1,2,3,4)" in screen and "core-hours. Begin?" in screen
    message = "bench: nothing was begun and nothing written; yes=true begins without a question\n"
    assert capsys.readouterr().err == message
    assert not list(tmp_path.iterdir())


class WouldWrite(Exception):
    """Raised in place of the first write of a command."""


@pytest.fixture
def asked_hours(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the hours named in each question of a command; the command ends before it writes anything."""
    estimates: list[float] = []

    def make(directory: Path) -> None:
        raise WouldWrite

    monkeypatch.setattr(run_, "_ask", lambda hours, stdin, stdout: estimates.append(hours))
    monkeypatch.setattr(study, "_make_directory", make)
    return estimates


def test_only_commands_ask_and_only_about_new_studies(asked_hours: list[float], tmp_path: Path) -> None:
    words = [*LONG, f"output={tmp_path / 'study'}"]
    for also, questions in (([], 1), (["yes=true"], 0), (["--json"], 0)):
        asked_hours.clear()
        with pytest.raises(WouldWrite):
            cli.main(["run", *words, *also])
        assert len(asked_hours) == questions, also
    asked_hours.clear()
    with pytest.raises(WouldWrite):
        guidebench.run(*words)
    StudyDirectory(tmp_path / "study").write("study", ["bench"], {})
    with pytest.raises(WouldWrite):
        cli.main(["run", *words])
    assert not asked_hours


def test_what_is_missing_is_said_before_anything_is_asked(
    asked_hours: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", *LONG[:1], "method=vlm_rb", "judge=transformers", "judge.model=/nowhere", "seeds=5"]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert not asked_hours and out == "" and "/nowhere" in err


def test_a_study_says_before_it_begins_what_it_will_do(
    asked_hours: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    words = ["suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "judge=openai", "judge.model=gpt-4o", "seeds=2"]
    with pytest.raises(WouldWrite):
        cli.main(["run", *words, "training.steps=1e6", f"output={tmp_path / 'study'}"])
    size, calls, most, hours = capsys.readouterr().out.splitlines()
    assert size.endswith(f"in {tmp_path / 'study'}: 1 cell × 2 seeds (0,1)")
    # test_usage.py: 31,250 clips and 212.50 USD a seed
    assert calls.startswith("gpt-4o is asked at least 62,500 clips (2,000,000 frames, 425.00 USD by the prices known)")
    assert most.startswith("  and at most about ")
    assert hours.startswith("about ") and hours.endswith("estimated by operation counts alone")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["suite=metaworld_mt10", "method=sac", "profile=quick"],
            ["quick runs 1 of 10 tasks of metaworld_mt10; task=reach,button-press-topdown,… for more, "
             "profile=quick_all for a short run of each "
             "(task=mt10 is one policy for all 10, another thing)"],
        ),
        (["suite=metaworld_mt10", "method=sac", "profile=paper"], []),
        (["suite=metaworld_mt10", "method=sac", "profile=quick", "task=reach"], []),
        (["suite=minigrid_doorkey", "method=uer", "profile=paper"],
         ["paper runs 3 of 6 tasks of minigrid_doorkey; task=8x8,5x5,… for more"]),
    ],
)  # fmt: skip
def test_tasks_that_the_profile_leaves_out_are_named(words: list[str], lines: list[str]) -> None:
    assert run_._left_out(matrix.plan(words)) == lines
