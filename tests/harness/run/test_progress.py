"""What a study prints while it runs, on a terminal of 80 columns and into a file."""

import io
import itertools
import re
from typing import Any

import pytest
from rich.console import Console

from guidebench.harness.identity.cells import record
from guidebench.harness.launchers.base import Event
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import progress

LONG = (
    "suite=minigrid_doorkey", "task=5x5,6x6", "method=vlm_rb", "replay.lambda_max=0.25,0.5", "replay.threshold=0.45",
    "learner.lr=0.00012", "profile=smoke", "training.steps=100000",
)  # fmt: skip


@pytest.fixture
def plan(tmp_path) -> Plan:
    return matrix.plan([*LONG, "seeds=3", f"output={tmp_path / 'none'}"])


def event(plan: Plan, cell: int, seeds: tuple[int, ...], kind: str, /, **content: Any) -> Event:
    job = Job(study=plan.name, directory="", cell=record(plan.cells[cell]), seeds=seeds)
    return Event(job, kind, content)


def screen(bars: progress.Bars, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(bars.table())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 200])
def test_a_long_row_name_leaves_room_for_bar_step_and_time_left(plan: Plan, width: int) -> None:
    bars = progress.Bars(plan)
    assert len(max(bars.rows.values(), key=len)) > 80
    for cell in range(4):
        bars(event(plan, cell, (0,), "started", step=0))
        bars(event(plan, cell, (0,), "progress", step=50_000, score=[0.25], rate=10.0))
    heading, total, *rows = screen(bars, width)
    assert heading.split() == ["step", "success", "left"] and len(rows) == 4
    assert re.search(r" 16% +━+╸? +0/12 runs +6 h 57 min$", total)  # 1,000,000 steps at 40 a second are 25,000 s
    for row in rows:
        assert len(row) <= width and re.search(r"seed 0 +━+╸? +50,000/100,000 +0\.25 +1 h 23 min$", row)
    assert len(set(rows)) == 4, "rows have different names"
    assert all(task in row for row, task in zip(rows, ("5x5", "5x5", "6x6", "6x6"), strict=True))


def test_how_many_questions_were_answered_is_not_cut_at_the_width_of_the_names(plan: Plan, monkeypatch) -> None:
    monkeypatch.setattr(progress.Bars, "answered", lambda self, jobs: "1,253 of 1,253 questions answered")
    bars = progress.Bars(plan)
    bars(event(plan, 0, (0,), "started", step=0))
    bars(event(plan, 0, (0,), "progress", step=50_000, score=[0.25], rate=10.0))
    assert screen(bars, 80)[-1] == "  1,253 of 1,253 questions answered"


def test_what_is_finished_before_counts_and_a_failed_seed_is_told(tmp_path, capsys) -> None:
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "method=uer", "seeds=3", f"output={tmp_path}"])
    StudyDirectory(tmp_path).run(plan.cells[0].directory, 0).update(status="finished", step=600, steps=600)
    (StudyDirectory(tmp_path).run(plan.cells[0].directory, 0).path / "evaluations.parquet").touch()
    lines = progress.Lines(plan)
    lines(event(plan, 0, (1, 2), "started", step=300))
    lines(event(plan, 0, (1, 2), "failed", seed=2, error="no longer finite"))
    lines(event(plan, 0, (1, 2), "progress", step=400, score=[0.5, 1.0], rate=20.0))
    steps = plan.cells[0].steps
    assert [(run.status, run.step) for run in lines.runs.values()] == [
        ("finished", steps), ("running", 400), ("failed", 300),
    ]  # fmt: skip
    lines(event(plan, 0, (1, 2), "finished"))
    assert [run.status for run in lines.runs.values()] == ["finished", "finished", "failed"]
    assert capsys.readouterr().out.endswith(": finished\n")
    lines(event(plan, 0, (2,), "finished"))
    assert not capsys.readouterr().out, "nothing is printed once all seeds of a worker have ended"


def test_seeds_that_train_after_others_in_one_worker_are_told_apart(tmp_path, capsys) -> None:
    plan = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "method=uer", "seeds=4", f"output={tmp_path}"])
    lines, steps, job = progress.Lines(plan), plan.cells[0].steps, (0, 1, 2, 3)
    lines(event(plan, 0, job, "started", step=0, seeds=[0, 1]))
    lines(event(plan, 0, job, "failed", seed=1, error="no longer finite"))
    lines(event(plan, 0, job, "progress", step=steps, score=[0.5, 0.5], rate=20.0, seeds=[0, 1]))
    assert [run.status for run in lines.runs.values()] == ["running", "failed", "waiting", "waiting"]
    capsys.readouterr()
    lines(event(plan, 0, job, "trained", seeds=[0, 1]))
    assert not capsys.readouterr().out
    lines(event(plan, 0, job, "started", step=0, seeds=[2, 3]))
    assert capsys.readouterr().out.endswith("seeds 2,3: started\n")
    lines(event(plan, 0, job, "progress", step=100, score=[1.0, 1.0], rate=20.0, seeds=[2, 3]))
    assert [(run.status, run.step) for run in lines.runs.values()] == [
        ("finished", steps), ("failed", 0), ("running", 100), ("running", 100),
    ]  # fmt: skip
    standing = lines.standing(event(plan, 0, job, "progress").job)
    assert (standing.step, standing.score) == (100, 1.0)


def test_a_file_gets_lines_about_the_whole_study_ever_more_seldom(plan: Plan, capsys) -> None:
    now = 0.0
    lines = progress.Lines(plan, clock=lambda: now)
    lines(event(plan, 0, (0, 1), "started", step=0))
    lines(event(plan, 1, (0,), "started", step=0))
    for second in range(1, 3_601):
        now = float(second)
        lines(event(plan, 0, (0, 1), "progress", step=10 * second, score=[0.2, 0.6], rate=10.0))
        lines(event(plan, 1, (0,), "progress", step=5 * second, score=[None], rate=5.0))
    out = capsys.readouterr().out.splitlines()
    first = next(index for index, line in enumerate(out) if line.startswith("[    10 s]"))
    assert [line.split(": ", 1)[1] for line in out[first : first + 3]] == [
        "step 100 of 100,000, 10 steps/s, success 0.40, about 2 h 46 min left",
        "step 45 of 100,000, 5 steps/s, about 5 h 33 min left",
        # 1,200,000 steps, of which 245 are done, at 10 + 10 + 5 steps a second
        "0% of all steps, 25 steps/s, about 13 h 20 min left, 0 of 12 runs finished, 9 waiting, 3 running",
    ]
    times = [int(line[1:8]) for line in out if "study: " in line]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps[0] == 10 and max(gaps) <= 3_600 / 30 and len(times) < 130


def test_a_cell_is_timed_once_by_twenty_seconds_of_its_learning_steps(plan: Plan, capsys) -> None:
    """Random steps have no rate. From step 1,000 on there are 10 steps a second: 100,000 take 10,000 seconds."""
    now, timed = 0.0, []

    class Forecast:
        def time(self, cell: str, seconds: float) -> str:
            timed.append((cell, seconds))
            return "corrected"

    lines = progress.Lines(plan, clock=lambda: now)
    lines.forecast = Forecast()  # type: ignore[assignment]
    for second, step, rate in ((5, 900, None), (10, 1_000, 50.0), (20, 1_100, 30.0), (30, 1_200, 20.0)):
        now = float(second)
        lines(event(plan, 0, (0,), "progress", step=step, score=[None], rate=rate))
    lines(event(plan, 0, (1,), "progress", step=5_000, score=[None], rate=10.0))
    now = 60.0
    lines(event(plan, 0, (1,), "progress", step=5_500, score=[None], rate=10.0))
    lines(event(plan, 1, (0,), "progress", step=5_500, score=[None], rate=10.0, phase="offline"))
    now = 90.0
    lines(event(plan, 1, (0,), "progress", step=5_900, score=[None], rate=10.0, phase="offline"))
    assert timed == [(plan.cells[0].id, 10_000.0)]
    assert capsys.readouterr().out.count("[    30 s] study: corrected\n") == 1


def test_a_study_of_one_run_has_no_line_of_its_own(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    plan = matrix.plan([*LONG[:1], "method=uer", "task=5x5", "seeds=1", f"output={tmp_path / 'a'}"])
    lines = progress.Lines(plan, lambda: now)
    lines(event(plan, 0, (0,), "started", step=0))
    now = 10.0
    lines(event(plan, 0, (0,), "progress", step=100, score=[0.0], rate=10.0))
    assert ": step 100 of " in (out := capsys.readouterr().out) and "study: " not in out


def test_many_workers_are_told_of_as_one_study(plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(progress, "MANY", 2)
    now = 0.0
    lines = progress.Lines(plan, clock=lambda: now)
    for cell in range(3):
        lines(event(plan, cell, (0,), "started", step=0))
    now = 10.0
    lines(event(plan, 0, (0,), "progress", step=100, score=[0.0], rate=10.0))
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("[    10 s]")]) == 1


def test_a_name_is_shortened_in_its_middle() -> None:
    assert progress.shortened("vlm_rb (replay.lambda_max=0.25)", 16) == "vlm_rb (re…0.25)"
    assert progress.shortened("short", 16) == "short"
    assert all(len(progress.shortened("x" * 50, width)) == width for width in range(1, 50))


def test_names_on_the_screen_leave_out_what_all_rows_share(plan: Plan, tmp_path) -> None:
    assert sorted(progress.short_names(plan).values()) == [
        f"{task} vlm_rb (replay.lambda_max={value})" for task in ("5x5", "6x6") for value in (0.25, 0.5)
    ]
    alone = matrix.plan([*LONG[:1], "task=5x5", "method=uer,per", "profile=smoke", "seeds=1"])
    assert sorted(progress.short_names(alone).values()) == ["per", "uer"]
