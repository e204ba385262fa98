"""What a dry run says a study will ask of foundation models."""

from pathlib import Path

import pytest

from guidebench.harness.commands import cli, run_
from guidebench.harness.launchers import local
from guidebench.harness.plan import matrix
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run import estimates, timing

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


def test_an_estimate_rests_on_the_best_that_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    plan = _plan("learner.lr=0.1,0.2", "training.steps=1000,2000", "evaluation.every=500")
    places = local.Local().slots(plan.execution)
    assert {cost.basis for cost in estimates.costs(plan, places)} == {"counted"}
    first = plan.cells[0]
    timing.keep(first, 1, "cpu", timing.Timing(50.0, 4.0, 0.0), "timed")
    found = dict(zip([(cell.settings["learner.lr"].value, cell.steps) for cell in plan.cells],
                     estimates.costs(plan, places), strict=True))  # fmt: skip
    assert found[0.1, 1000] == estimates.Cost(50.0 + 2 * 4.0, 0.0, "timed")
    assert found[0.1, 2000] == estimates.Cost(100.0 + 4 * 4.0, 0.0, "timed")
    assert {found[0.2, 1000].basis, found[0.2, 2000].basis} == {"scaled"}
    assert found[0.2, 1000].seconds == pytest.approx(58.0, rel=0.01), "as long as the one that was timed"


def test_a_dry_run_times_cells_once_and_says_what_it_rests_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(estimates, "SECONDS", 1.0)
    asked: list[int] = []

    def timed(cells, seeds, device, seconds):
        asked.append(len(cells))
        return [timing.Timing(7200.0, 0.0, 0.0) for _ in cells]

    monkeypatch.setattr(timing, "timed", timed)
    command = ["run", "suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "seeds=1", "--dry-run"]
    for _ in range(2):
        assert cli.main(command) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "about 2.0 hours" in told and "likely between 1.6 hours and 5.0 hours" in told
        assert "a few seconds of their own updates" in told
    assert asked == [1]


def test_what_estimates_rest_on_is_told_of_one_cell_and_of_several() -> None:
    told = run_._rests_on(["timed", "timed", "scaled"])
    assert told.startswith("2 cells by a few seconds of their own updates, timed here; 1 cell by operation counts")
    assert run_._rests_on(["timed", "recorded"]).endswith("1 cell by a few seconds of its own updates, timed here")


def test_a_study_of_seconds_is_not_said_to_take_no_minutes() -> None:
    assert [run_._hours(seconds / 3600) for seconds in (0, 20, 120, 7200)] == [
        "1 second", "20 seconds", "2 minutes", "2.0 hours"
    ]  # fmt: skip


def test_a_cell_of_each_learner_is_timed_before_a_second_of_any() -> None:
    """Twelve kinds of cells, of which four are timed: both learners are among them, the longest task of each first."""
    plan = matrix.plan(["suite=minigrid_doorkey", "method=uer,per", "learner=dqn,iqn", "seeds=1"])
    assert len(plan.cells) == 12
    chosen = [(cell.names.part("learner"), cell.names.task) for cell in estimates._chosen(plan.cells)]
    assert sorted(chosen) == [("dqn", "16x16")] * 2 + [("iqn", "16x16")] * 2
    assert {learner for learner, _ in chosen[:2]} == {"dqn", "iqn"}
