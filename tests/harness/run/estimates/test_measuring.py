"""A cell is timed with its updates and its processes, and without foundation models."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import Setup, trial

TINY = ("learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16")


def cell(*overrides: str) -> Cell:
    words = ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *TINY, *overrides]
    (planned_cell,) = matrix.plan(words).cells
    return planned_cell


def test_updates_are_timed_and_steps_before_learning_starts_count_as_what_they_take(tmp_path: Path) -> None:
    idle = cell("method=uer", "training.steps=100000", "learner.learning_starts=99999")
    busy = cell("method=uer", "training.steps=100000", "learner.learning_starts=100")
    acting, learning = (
        estimates.measure(timed_cell, (0,), "cpu", 0.3, tmp_path / timed_cell.id) for timed_cell in (idle, busy)
    )  # fmt: skip
    assert 0 < acting.training < learning.training / 2 and learning.evaluation > 0
    assert learning.judging == learning.stepping == 0.0


def test_processor_time_includes_that_of_processes_that_step_the_tasks(tmp_path: Path) -> None:
    timing = estimates.measure(cell("method=uer"), (0, 1), "cpu", 0.1, tmp_path / "scratch", beside=1)
    assert timing.training > 0 and timing.stepping > 0


@pytest.mark.parametrize("overrides", [("method=vlm_rb", "judge=openai", "judge.base_url=http://127.0.0.1:9/v1"),
                                       ("method=vlm_rb", "judge=oracle")])  # fmt: skip
def test_no_foundation_model_is_asked_for_a_timing_or_waited_for(
    tmp_path: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "ANSWERED", 60.0)
    started = time.monotonic()
    timing = estimates.measure(cell(*overrides), (0, 1), "cpu", 0.1, tmp_path / "scratch")
    assert timing.training > 0 and timing.judging == 0.0
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
    cells = [cell("method=uer", "replay=breaks"), cell("method=uer")]
    broken, intact = estimates.timed(cells, [Setup(1, "cpu")] * 2, 0.1)
    assert broken is None and intact is not None and intact.training > 0
