"""Estimates of hours, by timed cycles or by counts, and of what a study asks of foundation models."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.commands import cli
from guidebench.harness.interfaces import RunPhase
from guidebench.harness.launchers import local
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import Setup, Timing

SERVED = ("suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "judge=openai")


def test_a_run_asks_about_one_clip_for_each_stretch_of_its_length() -> None:
    """1,000,000 steps in clips of 32: 31,250 clips; a frame is 85 tokens of 2.50 USD a million: 212.50 USD."""
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "training.steps=1e6"]).cells
    found = estimates.questions(cell)
    assert found is not None
    assert (found.calls, found.images, found.tokens_in) == (31_250, 1_000_000, 85_000_000)
    assert found.usd == pytest.approx(212.5)


def test_a_price_of_one_s_own_counts_instead_of_the_recipe_s() -> None:
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "judge.price_in=1", "judge.price_out=1"]).cells
    found = estimates.questions(cell)
    assert found is not None and found.usd == pytest.approx(85.0)


@pytest.mark.parametrize(
    "chosen", [("method=uer",), ("method=vlm_rb", "judge=sprite"), ("method=vlm_rb", "judge=oracle")]
)
def test_who_asks_no_foundation_model_is_estimated_to_ask_none(chosen: tuple[str, ...]) -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=8x8", *chosen]).cells
    assert estimates.questions(cell) is None


def _plan(*overrides: str) -> Plan:
    return matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "seeds=3", *overrides])


@pytest.mark.parametrize(
    ("overrides", "judging", "seconds"),
    [
        (("workers=1",), 0.0, 600.0),  # two cells, three seeds, 100 seconds each
        (("workers=2",), 0.0, 300.0),
        (("workers=16",), 0.0, 300.0),  # six at a time on two cores: each takes three times as long
        (("workers=2",), 100.0, 600.0),  # beside each worker something draws for as long
        (("workers=4", "seeds=1"), 0.0, 100.0),
    ],
)
def test_workers_above_the_cores_save_no_time(monkeypatch, overrides, judging: float, seconds: float) -> None:
    monkeypatch.setattr(local, "cores", lambda: 2)
    words = [*overrides] if "seeds=1" in overrides else [*overrides, "seeds=3"]
    plan = matrix.plan(
        ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "learner.lr=0.1,0.2", *words]
    )
    cost = estimates.Cost(100.0, judging, "timed")
    found = estimates.elapsed(plan, [cost, cost], local.Local().slots(plan.execution))
    assert found.hours == pytest.approx(seconds / 3600)
    low, high = estimates.SPREAD["timed"]
    assert (found.low, found.high) == (pytest.approx(low * found.hours), pytest.approx(high * found.hours))


def test_core_hours_count_the_processes_beside_a_worker() -> None:
    plan = _plan("learner.lr=0.1,0.2", "workers=2")  # two cells, three seeds
    costs = [estimates.Cost(3600.0, 1800.0, "timed"), estimates.Cost(7200.0, 0.0, "timed")]
    assert estimates.core_hours(plan, costs, local.Local().slots(plan.execution)) == 3 * (1.5 + 2)


def test_an_estimate_rests_on_the_best_that_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    plan = _plan("learner.lr=0.1,0.2", "training.steps=1000,2000", "evaluation.every=500")
    places = local.Local().slots(plan.execution)
    assert {cost.basis for cost in estimates.costs(plan, places)} == {"counted"}
    first = plan.cells[0]
    estimates.keep(first, Setup(1, "cpu"), Timing(50.0, 4.0, 0.0, 6.0), "timed")
    found = dict(zip([(cell.settings["learner.lr"].value, cell.steps) for cell in plan.cells],
                     estimates.costs(plan, places), strict=True))  # fmt: skip
    assert found[0.1, 1000] == estimates.Cost(50.0 + 2 * 4.0, 6.0, "timed")
    assert found[0.1, 2000] == estimates.Cost(100.0 + 4 * 4.0, 12.0, "timed")
    assert {found[0.2, 1000].basis, found[0.2, 2000].basis} == {"scaled"}
    assert found[0.2, 1000].seconds == pytest.approx(58.0, rel=0.01), "as long as the one that was timed"


def test_a_worker_waits_for_a_judge_that_takes_longer_than_training() -> None:
    assert estimates._cost(cell("training.steps=600"), Timing(10.0, 1.0, 40.0, 5.0), "timed") == estimates.Cost(
        40.0 + 3 * 1.0, 45.0, "timed"
    )


def test_a_dry_run_times_cells_once_and_says_what_it_rests_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(estimates, "SECONDS", 1.0)
    asked: list[list[Setup]] = []

    def timed(cells, setups, seconds):
        asked.append(setups)
        return [Timing(7200.0, 0.0, 0.0, 0.0) for _ in cells]

    monkeypatch.setattr(estimates, "timed", timed)
    command = ["run", "suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "seeds=1", "--dry-run"]
    for _ in range(2):
        assert cli.main(command) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "about 2.0 hours" in told and "likely between 1.6 hours and 5.0 hours" in told
        assert "estimated by some of its own updates, timed here" in told
    assert asked == [[Setup(1, "cpu", 0)]]
    assert cli.main([*command, "env_workers=2"]) == 0
    assert asked[1:] == [[Setup(1, "cpu", 2)]], "another setup is timed on its own"


def test_a_cell_of_each_learner_is_timed_before_a_second_of_any() -> None:
    """Twelve kinds of cells, of which four are timed: both learners are among them, the longest task of each first."""
    plan = matrix.plan(["suite=minigrid_doorkey", "method=uer,per", "learner=dqn,iqn", "seeds=1"])
    assert len(plan.cells) == 12
    chosen = [(cell.names.part("learner"), cell.names.task) for cell in estimates._chosen(plan.cells)]
    assert sorted(chosen) == [("dqn", "16x16")] * 2 + [("iqn", "16x16")] * 2
    assert {learner for learner, _ in chosen[:2]} == {"dqn", "iqn"}


TINY = ("learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16")


def cell(*overrides: str) -> Cell:
    words = ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *TINY, *overrides]
    (found,) = matrix.plan(words).cells
    return found


class Loop:
    """A loop with a clock of its own: a step takes half a second, and one with an update 30 seconds more."""

    def __init__(self, *phases: RunPhase, first: float = 30.0) -> None:
        self.agent: Any = self
        self.phases = lambda: phases
        self.now, self.step, self.taken, self.updates, self._first = 0.0, 0, 0, 0, first

    def enter(self, phase: RunPhase) -> None: ...

    def advance(self, phase: RunPhase) -> None:
        self.step += 1
        self.taken += 1
        self.now += 0.5
        if (self.step >= 500 and self.step % 4 == 0) if phase.updates is None else phase.updates:
            self.now += 30.0 if self.updates else self._first
            self.updates += 1

    def trial(self) -> estimates.Trial:
        return estimates.Trial(self, lambda: np.array([self.now, self.now / 10]), lambda: self.now)  # type: ignore


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.8, 1.5, 4.0])
def test_filling_ends_by_count_and_the_only_update_is_timed(seconds: float) -> None:
    """64 steps of half a second take longer than the time allows, as does one update. A cycle warms up, in which the
    first update takes 90 seconds, and the next is timed: (4 · .5 + 30) / 4 = 8 s a step, after 500 steps of .5 s."""
    loop = Loop(RunPhase("train", 10_000), first=90.0)
    found = loop.trial().training(500, 64, 4, seconds)
    assert (loop.taken, loop.updates) == (64 + 4 + 4, 2)
    assert found.tolist() == pytest.approx([500 * 0.5 + 9_500 * 8.0, 25.0 + 9_500 * 0.8])


def test_as_many_cycles_are_timed_as_the_time_allows_after_three_that_warm_up() -> None:
    loop = Loop(RunPhase("train", 10_000))
    assert loop.trial().training(500, 64, 4, 100.0)[0] == 250.0 + 9_500 * 8.0
    assert loop.updates == 3 + 4  # of 32 seconds each; the fourth begins within 100 s


def test_the_common_cycle_is_that_of_all_parts_that_repeat_within_a_thousand_steps() -> None:
    assert [estimates.common_cycle(cycles) for cycles in ([1, 4, 6], [4, 5_000], [256, 1], [999, 1_000])] == [
        12, 4, 256, 1_000
    ]  # fmt: skip
    (found,) = matrix.plan(["suite=classic", "task=CartPole-v1", "profile=quick", "seeds=1"]).cells
    assert found.section("learner").cycle == 256, "128 gradient steps at every 256th step"


def test_a_phase_shorter_than_a_cycle_is_timed_as_a_whole_and_phases_add_up() -> None:
    loop = Loop(RunPhase("offline", 3, "none", updates=1), RunPhase("train", 602))
    found = loop.trial().training(500, 64, 4, 0.1)
    # three steps with an update each; the steps to 500 without; 105 steps from there on
    assert found[0] == pytest.approx(3 * 30.5 + 497 * 0.5 + 105 * 8.0)


def test_an_evaluation_that_takes_longer_than_the_time_allows_is_extrapolated_to_the_time_limit() -> None:
    """Of two episodes of at most 99 steps one ends after 4; each step takes a second, and 20 seconds are allowed."""
    loop = Loop()

    class Task:
        max_steps = 99

    def evaluator(agent, step, rows, watch, consult):
        for count in range(100):
            for number in (0, 1) if count <= 4 else (1,):
                loop.now += 1.0
                watch(number, Task(), None)

    found = loop.trial().evaluation(evaluator, [0], 20.0)  # type: ignore[arg-type]
    assert found[0] == pytest.approx(21 * (5 + 99) / 21)  # 21 resets and steps of 5 and of, at most, 99


def test_updates_are_timed_and_steps_before_learning_starts_count_as_what_they_take(tmp_path: Path) -> None:
    idle = cell("method=uer", "training.steps=100000", "learner.learning_starts=99999")
    busy = cell("method=uer", "training.steps=100000", "learner.learning_starts=100")
    acting, learning = (
        estimates.measure(each, (0,), "cpu", 0.3, tmp_path / each.id) for each in (idle, busy)
    )  # fmt: skip
    assert 0 < acting.training < learning.training / 2 and learning.evaluation > 0
    assert learning.judging == learning.stepping == 0.0


def test_processor_time_includes_that_of_processes_that_step_the_tasks(tmp_path: Path) -> None:
    found = estimates.measure(cell("method=uer"), (0, 1), "cpu", 0.1, tmp_path / "scratch", beside=1)
    assert found.training > 0 and found.stepping > 0


@pytest.mark.parametrize("overrides", [("method=vlm_rb", "judge=openai", "judge.base_url=http://127.0.0.1:9/v1"),
                                       ("method=vlm_rb", "judge=oracle")])  # fmt: skip
def test_no_foundation_model_is_asked_for_a_timing_or_waited_for(
    tmp_path: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "ANSWERED", 60.0)
    started = time.monotonic()
    found = estimates.measure(cell(*overrides), (0, 1), "cpu", 0.1, tmp_path / "scratch")
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
    cells = [cell("method=uer", "replay=breaks"), cell("method=uer")]
    broken, whole = estimates.timed(cells, [Setup(1, "cpu")] * 2, 0.1)
    assert broken is None and whole is not None and whole.training > 0


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "timings"


def test_a_timing_is_remembered_for_cells_of_any_length_and_for_no_others(directory: Path) -> None:
    short, long = cell("method=uer", "training.steps=1000"), cell("method=uer", "training.steps=3000")
    alone = Setup(1, "cpu")
    assert estimates.cached_timing(short, alone) is None
    estimates.keep(short, alone, Timing(10.0, 2.0, 1.0, 0.5), "timed")
    assert estimates.cached_timing(long, alone) == (Timing(30.0, 2.0, 3.0, 1.5), "timed")
    assert (
        estimates.cached_timing(long, Setup(2, "cpu")) is None
        and estimates.cached_timing(long, Setup(1, "cpu", 1)) is None
    )
    assert estimates.cached_timing(cell("method=uer", "learner.lr=0.1"), alone) is None
    (file,) = directory.glob("*.json")
    for content in ("{", "[]", json.dumps({"schema": 2, "basis": "guessed", "steps": 0})):
        file.write_text(content)
        assert estimates.cached_timing(short, alone) is None


def test_a_timing_of_the_former_method_is_not_used(directory: Path) -> None:
    short, alone = cell("method=uer", "training.steps=1000"), Setup(1, "cpu")
    estimates.keep(short, alone, Timing(10.0, 2.0, 1.0, 0.0), "recorded")
    (file,) = directory.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 1}))
    assert estimates.cached_timing(short, alone) is None
    estimates.keep(short, alone, Timing(3.0, 1.0, 1.0, 0.0), "timed")
    assert estimates.cached_timing(short, alone) == (Timing(3.0, 1.0, 1.0, 0.0), "timed")


def test_a_whole_run_tells_more_than_a_few_of_its_steps(directory: Path) -> None:
    here, alone = cell("method=uer", "training.steps=1000", "evaluation.every=100"), Setup(1, "cpu")
    clock = {"seconds": 130.0, "evaluation_seconds": 30.0, "checkpoint_seconds": 1.0, "wait_seconds": 5.0}
    estimates.record_run(here, alone, {**clock, "seconds": 3.0}, 0.0, 0.0)
    assert estimates.cached_timing(here, alone) is None, "too short to tell"
    estimates.record_run(here, alone, clock, 7.0, 2.0)
    recorded = (Timing(100.0, 3.0, 7.0, 2.0), "recorded")  # ten evaluations took 30 seconds
    assert estimates.cached_timing(here, alone) == recorded
    estimates.keep(here, alone, Timing(1.0, 1.0, 1.0, 1.0), "timed")
    assert estimates.cached_timing(here, alone) == recorded
    asked = cell("method=vlm_rb", "judge=openai", "training.steps=1000", "evaluation.every=100")
    estimates.record_run(asked, alone, clock, 7.0, 0.0)
    found: Any = estimates.cached_timing(asked, alone)
    assert found[0] == Timing(95.0, 3.0, 0.0, 0.0), "waiting for a foundation model is not the machine's time"
