"""What a cell's steps take on this machine, by its own updates, and how that is remembered."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guidebench.harness.interfaces import RunPhase
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import timing
from guidebench.harness.run.timing import Timing

TINY = ("learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "timings"


def cell(*overrides: str) -> Cell:
    (found,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *TINY, *overrides]).cells
    return found


def test_updates_are_timed_and_steps_before_learning_starts_count_as_what_they_take(tmp_path: Path) -> None:
    idle = cell("method=uer", "training.steps=100000", "learner.learning_starts=99999")
    busy = cell("method=uer", "training.steps=100000", "learner.learning_starts=100")
    acting, learning = (
        timing.measure(each, (0,), "cpu", 0.3, tmp_path / each.id) for each in (idle, busy)
    )  # fmt: skip
    assert 0 < acting.training < learning.training / 2 and learning.evaluation > 0 and learning.judging == 0.0


def test_steps_slower_than_the_time_allows_are_timed_by_the_later_half_of_four() -> None:
    """A first step of 9 s, in which something is compiled, and three of 1 s: the mean of the last two."""
    seconds = iter([0.0, 9.0, 9.0, 10.0, 10.0, 11.0, 11.0, 12.0])
    loop = SimpleNamespace(agent=SimpleNamespace(phases=tuple), advance=lambda phase: None)
    trial = timing.Trial(loop, lambda: next(seconds))  # type: ignore[arg-type]
    assert trial._mean(RunPhase("train", 1000), 1000, seconds=0.0, warm=timing.WARM) == 1.0


@pytest.mark.parametrize("overrides", [("method=vlm_rb", "judge=openai", "judge.base_url=http://127.0.0.1:9/v1"),
                                       ("method=vlm_rb", "judge=oracle")])  # fmt: skip
def test_no_foundation_model_is_asked_for_a_timing_or_waited_for(
    tmp_path: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "ANSWERED", 60.0)
    started = time.monotonic()
    found = timing.measure(cell(*overrides), (0, 1), "cpu", 0.1, tmp_path / "scratch")
    assert found.training > 0 and found.judging == 0.0
    assert time.monotonic() - started < 60.0


def test_the_process_tells_a_line_for_each_cell_and_none_for_one_that_cannot_be_timed(
    plugin: Callable[..., Path],
) -> None:
    source = """
        from dataclasses import dataclass
        from guidebench.baselines.replay.uer import Uer
        from guidebench.harness.registry import register

        @register.replay("breaks")
        @dataclass(frozen=True)
        class Breaks(Uer):
            def spawn(self, build):
                raise RuntimeError("broken")
    """
    plugin("breaks_replay", source, {"replay": "breaks"})
    broken, whole = timing.timed([cell("method=uer", "replay=breaks"), cell("method=uer")], 1, "cpu", 0.1)
    assert broken is None and whole is not None and whole.training > 0


def test_a_timing_is_remembered_for_cells_of_any_length_and_for_no_others(directory: Path) -> None:
    short, long = cell("method=uer", "training.steps=1000"), cell("method=uer", "training.steps=3000")
    assert not timing.remembered() and timing.kept(short, 1, "cpu") is None
    timing.keep(short, 1, "cpu", Timing(10.0, 2.0, 1.0), "timed")
    assert timing.remembered()
    assert timing.kept(long, 1, "cpu") == (Timing(30.0, 2.0, 3.0), "timed")
    assert timing.kept(long, 2, "cpu") is None and timing.kept(cell("method=uer", "learner.lr=0.1"), 1, "cpu") is None
    (file,) = directory.glob("*.json")
    for content in ("{", "[]", json.dumps({"schema": 1, "basis": "guessed", "steps": 0})):
        file.write_text(content)
        assert timing.kept(short, 1, "cpu") is None


def test_a_whole_run_tells_more_than_a_few_of_its_steps() -> None:
    here = cell("method=uer", "training.steps=1000", "evaluation.every=100")
    job = Job("s", "d", {}, (0,))
    clock = {"seconds": 130.0, "evaluation_seconds": 30.0, "checkpoint_seconds": 1.0, "wait_seconds": 5.0}
    timing.record_run(here, job, {**clock, "seconds": 3.0}, 0.0)
    assert timing.kept(here, 1, "cpu") is None, "too short to tell"
    timing.record_run(here, job, clock, 7.0)
    recorded = (Timing(100.0, 3.0, 7.0), "recorded")  # ten evaluations took 30 seconds
    assert timing.kept(here, 1, "cpu") == recorded
    timing.keep(here, 1, "cpu", Timing(1.0, 1.0, 1.0), "timed")
    assert timing.kept(here, 1, "cpu") == recorded
    asked = cell("method=vlm_rb", "judge=openai", "training.steps=1000", "evaluation.every=100")
    timing.record_run(asked, dataclasses.replace(job), clock, 7.0)
    found: Any = timing.kept(asked, 1, "cpu")
    assert found[0] == Timing(95.0, 3.0, 0.0), "waiting for a foundation model is not the machine's time"
