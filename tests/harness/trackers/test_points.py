"""The points of a run's curves, compared with numbers worked by hand."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.loop import checkpoints
from guidebench.harness.records import attempts
from guidebench.harness.records.compact import log_to_parquet
from guidebench.harness.records.leases import Lease
from guidebench.harness.trackers import points
from guidebench.harness.trackers.points import ALL, FollowedRun, Point

CELL = {
    "cell": "c0ffee", "suite": "grid", "task": "8x8", "method": "uer", "backend": "", "model": "", "profile": "quick",
    "steps": 400, "logs": {"waypoints": {}},
    "settings": {"learner.lr": {"value": 0.001, "layer": "profile quick"}, "learner.hidden": {"value": [8, 8]}},
}  # fmt: skip


def append_rows(directory: Path, log: str, *rows: dict[str, Any], end: str = "") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / f"{log}.jsonl", "a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows) + end)


@pytest.fixture
def run(tmp_path: Path) -> FollowedRun:
    directory = tmp_path / "seed-3"
    (directory).mkdir()
    (directory / "run.json").write_text(json.dumps({"status": "running"}))
    return FollowedRun("mine", directory, CELL, 3)


def test_a_point_is_the_mean_of_the_rows_of_its_step(run: FollowedRun) -> None:
    for step, successes in ((100, (True, False, False, True)), (200, (True, True, True, False))):
        append_rows(run.directory, "evaluations", *(
            {"study": "mine", "seed": 3, "step": step, "episode": n, "return": step / 100 + n, "success": success}
            for n, success in enumerate(successes)
        ))  # fmt: skip
    append_rows(
        run.directory, "metrics", {"step": 150, "loss": 0.25, "reward": None}, {"step": 200, "loss": float("inf")}
    )
    append_rows(run.directory, "subgoals", {"step": 200, "episode": 0, "subgoal": "open door", "met": True},
            {"step": 200, "episode": 0, "subgoal": "reach goal", "met": False})  # fmt: skip
    append_rows(run.directory, "judgements", {"ordinal": 0, "asked": 90, "applied": 120, "score": 0.5})
    append_rows(run.directory, "waypoints", {"step": 210, "x": 2, "note": "text"}, {"step": 210, "x": 4, "trial": 7})
    assert run.points(-1, ALL) == [
        Point(100, {"evaluations/return": 2.5, "evaluations/success": 0.5}),
        Point(150, {"metrics/loss": 0.25}),
        Point(200, {"evaluations/return": 3.5, "evaluations/success": 0.75, "subgoals/open door/met": 1.0,
                    "subgoals/reach goal/met": 0.0}),
        Point(210, {"waypoints/x": 3.0}),
    ]  # fmt: skip
    run = FollowedRun(run.study, run.directory, {**CELL, "logs": {"judgements": {}}}, 3)
    assert run.points(100, 150) == [Point(120, {"judgements/score": 0.5}), Point(150, {"metrics/loss": 0.25})]


@pytest.mark.parametrize("after", [-1, 0, 4_999, 5_000, 19_998, 19_999, 30_000])
def test_rows_after_a_step_are_found_in_a_long_log(run: FollowedRun, after: int) -> None:
    """20,000 steps with two rows each are a megabyte, far more than is read at once."""
    append_rows(run.directory, "metrics", *({"step": n // 2, "loss": float(n % 2)} for n in range(40_000)))
    assert (run.directory / "metrics.jsonl").stat().st_size > 8 * points.BLOCK
    later = run.points(after, ALL)
    assert [point.step for point in later] == list(range(after + 1, 20_000))
    assert all(point.values == {"metrics/loss": 0.5} for point in later)


def test_a_damaged_or_unfinished_line_hides_no_other(run: FollowedRun) -> None:
    append_rows(run.directory, "metrics", {"step": 1, "loss": 1.0}, end="{damaged\n")
    append_rows(run.directory, "metrics", {"step": 2, "loss": 2.0}, end='{"step": 3, "lo')
    assert [point.step for point in run.points(-1, ALL)] == [1, 2]


def test_series_have_names_that_every_tracker_takes(run: FollowedRun) -> None:
    append_rows(run.directory, "metrics", {"step": 1, "größe <b>": 1.0})
    assert run.points(-1, ALL) == [Point(1, {"metrics/gr__e _b_": 1.0})]


def test_what_a_checkpoint_holds_is_final_and_nothing_else(run: FollowedRun) -> None:
    assert run.standing() == (-1, "stopped")  # no process holds it
    lock = Lease(run.directory, "run")
    lock.acquire()
    assert run.standing() == (-1, "running")
    checkpoints.save(run.directory, 130, {"offsets": {}, "loop": {"step": 130}})
    assert run.standing() == (130, "running")
    checkpoints.save(run.directory, 260, {"offsets": {}, "loop": {"step": 260, "pending": True}})
    assert run.standing() == (259, "running"), "the evaluation of step 260 is still to come"
    (run.directory / "checkpoint-0000000260" / "state.json").write_text("{")
    assert run.standing() == (130, "running")
    checkpoints.save(run.directory, 400, {"offsets": {}, "loop": {"step": 400}})
    assert run.standing() == (399, "running"), "the ledger of the last step is written when all calls have ended"
    lock.release()
    (run.directory / "run.json").write_text(json.dumps({"status": "finished"}))
    (run.directory / "evaluations.jsonl").touch()
    for path in checkpoints.existing(run.directory):
        shutil.rmtree(path)
    assert run.standing() == (ALL, "finished")


def test_a_run_that_goes_on_in_an_attempt_is_held_by_its_own_directory(run: FollowedRun) -> None:
    lock = Lease(run.directory, "run")
    lock.acquire()
    append_rows(attempts.begin(run.directory, 2), "metrics", {"step": 10, "loss": 1.5})
    checkpoints.save(run.directory / "attempt-2", 130, {"offsets": {}, "loop": {"step": 130}})
    assert run.standing() == (130, "running")
    assert run.points(-1, 130) == [Point(10, {"metrics/loss": 1.5})]


def test_the_files_of_a_finished_run_give_the_same_points(run: FollowedRun) -> None:
    append_rows(run.directory, "metrics", {"step": 10, "loss": 1.5}, {"step": 20, "loss": 2.5, "entropy": 0.5})
    before = run.points(-1, ALL)
    log_to_parquet(run.directory / "metrics.jsonl", run.directory / "metrics.parquet")
    (run.directory / "metrics.jsonl").unlink()
    assert run.points(-1, ALL) == before and len(before) == 2


def test_the_record_of_the_cell_is_told_as_settings(run: FollowedRun) -> None:
    assert run.key == "c0ffee/3" and run.name == "grid/8x8 uer · quick · seed 3"
    assert run.settings["learner.lr"] == 0.001 and run.settings["learner.hidden"] == [8, 8]
    assert run.settings["seed"] == 3 and run.settings["steps"] == 400
