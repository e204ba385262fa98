"""A round repeats its command until the study has finished, compares it with the reference, and keeps what differs."""

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tools.chaos import comparing, plan
from tools.chaos import rounds as chaos_rounds
from tools.chaos.carrying_out import Outcome
from tools.chaos.families import FAMILIES
from tools.chaos.rounds import REPEATS, Chaos, Report, Unusable

RUN = "point_maze/umaze/cal_ql-0123456789/seed-0"


class Commands:
    """Stands in for real commands: each ends with the next exit code, and one that ends with 0 writes the next
    policy."""

    def __init__(self, codes: Sequence[int], policies: Sequence[bytes]) -> None:
        self.codes, self.policies = iter([0, *codes]), iter(policies)
        self.carried_out: list[plan.Command] = []

    def __call__(self, words: Any, command: plan.Command, place: Any, *_: Any) -> Outcome:
        code = next(self.codes)
        self.carried_out.append(command)
        run = place.study / RUN
        run.mkdir(parents=True, exist_ok=True)
        if code == 0:
            (run / "policy.safetensors").write_bytes(next(self.policies))
        return Outcome(code, 1.0, f"{command.fault.kind} worker (process 1)" if command.fault else "", "said")


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`report(codes, policies)` runs a round whose commands end with these codes, and returns its report and the
    commands. The first policy is the reference's."""
    numbers = itertools.count()
    monkeypatch.setattr(comparing, "misspent", lambda *_: [])
    monkeypatch.setenv("GUIDEBENCH_CHAOS_HANG", "")

    def run(codes: Sequence[int], policies: Sequence[bytes]) -> tuple[Report, Commands]:
        commands = Commands(codes, policies)
        monkeypatch.setattr(chaos_rounds, "carry_out", commands)
        directory = tmp_path / f"{next(numbers)}"
        directory.mkdir()
        chaos = Chaos(directory, "mark", time.monotonic() + 60, lambda text: None, {})
        kill = plan.Fault(plan.KILL, "worker", 8, 0.0)
        disturbed = (plan.Command(1, 1, 0, False, kill), plan.Command(2, 2, 1, False, kill))
        return chaos.run(plan.Round(4, "offline", (*disturbed, plan.Command(2, 1, 0, False)))), commands

    yield run


def test_a_study_that_finishes_early_is_equal(report: Any) -> None:
    round_report, commands = report([0], [b"policy", b"policy"])
    assert not round_report.failed and round_report.applied == ["kill worker (process 1)"]
    assert commands.carried_out[0] == plan.UNDISTURBED and len(commands.carried_out) == 2


def test_each_disturbed_command_is_followed_by_the_next_and_the_last_is_repeated(report: Any) -> None:
    round_report, commands = report([1, -9, 130, 0], [b"policy", b"policy"])
    assert not round_report.failed and len(round_report.applied) == 2
    _, *disturbed = commands.carried_out
    assert [(command.pack, command.workers, command.env_workers) for command in disturbed] == [
        (1, 1, 0), (2, 2, 1), (2, 1, 0), (2, 1, 0),
    ]  # fmt: skip


def test_a_difference_is_told_with_both_paths_which_are_kept(report: Any) -> None:
    round_report, _ = report([0], [b"policy", b"another"])
    differs, compare = round_report.differences
    assert differs == f"{RUN}/policy.safetensors differs"
    reference, copy = (Path(word.rstrip(";")) for word in compare.split() if word.startswith("/") and "log" not in word)
    assert (reference / RUN / "policy.safetensors").read_bytes() == b"policy"
    assert (copy / RUN / "policy.safetensors").read_bytes() == b"another"


def test_a_study_that_never_finishes_is_a_finding(report: Any) -> None:
    round_report, commands = report([1] * 9, [b"policy"])
    assert round_report.differences[0] == f"not finished after {REPEATS} commands without a fault; the last said: said"
    assert len(commands.carried_out) == 1 + 2 + REPEATS


def test_a_family_that_fails_undisturbed_is_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_rounds, "carry_out", lambda *_: Outcome(2, 1.0, "", "no such setting"))
    monkeypatch.setenv("GUIDEBENCH_CHAOS_HANG", "")
    chaos = Chaos(tmp_path, "mark", time.monotonic() + 60, lambda text: None, {})
    with pytest.raises(Unusable, match="offline fails undisturbed, with exit code 2: no such setting"):
        chaos.run(plan.draw(0, [*FAMILIES].index("offline"), {"offline": FAMILIES["offline"]}))
