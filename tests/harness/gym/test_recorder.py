"""A user's own training script records its episodes and appears in the report beside runs of the harness."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import pytest

import guidebench
from guidebench.harness.errors import Notice
from guidebench.harness.records import attempts, leases
from guidebench.harness.records.schema import EVALUATION
from tests.refusals import check_refused


def recorder(output: Path, **changes) -> guidebench.Recorder:
    defaults = {"suite": "classic", "task": "CartPole-v1", "method": "my_dqn", "seed": 0, "steps": 100}
    return guidebench.Recorder(output, **{**defaults, **changes})


def cartpole_at_random(log: guidebench.Recorder, seed: int, episodes: int = 3) -> list[tuple[int, float, int]]:
    """Evaluate a random policy after 50 and 100 steps of a user's own loop; return (step, return, length) of each
    episode."""
    environment = gymnasium.make("CartPole-v1")
    environment.action_space.seed(seed)
    episode_rows = []
    for step in (50, 100):
        for episode in range(episodes):
            environment.reset(seed=1_000 * seed + 10 * step + episode)
            total, length, over = 0.0, 0, False
            while not over:
                _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
                total, length, over = total + float(reward), length + 1, terminated or truncated
            log.episode(step=step, ret=total, success=False, length=length)
            episode_rows.append((step, total, length))
    return episode_rows


def only_run(study: Path) -> Path:
    (run,) = study.glob("classic/CartPole-v1/my_dqn-*/seed-*")
    return run


def test_a_foreign_loop_is_recorded_in_the_columns_of_every_other_run(tmp_path: Path) -> None:
    with recorder(tmp_path, settings={"lr": 1e-3}, learner="dqn") as log:
        episode_rows = cartpole_at_random(log, seed=0)
    run = only_run(tmp_path)
    rows = pq.read_table(run / "evaluations.parquet").to_pylist()
    assert list(rows[0]) == list(EVALUATION)
    assert [(row["step"], row["return"], row["length"]) for row in rows] == episode_rows
    assert [row["episode"] for row in rows] == [0, 1, 2, 0, 1, 2]
    assert {(row["method"], row["learner"], row["backend"], row["seed"]) for row in rows} == {
        ("my_dqn", "dqn", "external", 0)
    }
    run_record = json.loads((run / "run.json").read_text())
    assert (run_record["status"], run_record["step"], run_record["steps"]) == ("finished", 100, 100)
    assert not (run / "evaluations.jsonl").exists()


def test_settings_and_not_the_seed_decide_the_cell(tmp_path: Path) -> None:
    for seed, lr in [(0, 1e-3), (1, 1e-3), (0, 1e-4)]:
        with recorder(tmp_path, seed=seed, settings={"lr": lr}) as log:
            log.episode(step=100, ret=1.0, success=True, length=1)
    cells = json.loads((tmp_path / "study.json").read_text())["cells"].values()
    assert sorted(cell["seeds"] for cell in cells) == [[0], [0, 1]]


def test_an_error_in_the_loop_leaves_the_run_failed_with_its_reason_and_it_can_be_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), recorder(tmp_path) as log:
        log.episode(step=50, ret=1.0, success=True, length=1)
        1 / 0  # noqa: B018
    run = only_run(tmp_path)
    run_record = json.loads((run / "run.json").read_text())
    assert (run_record["status"], run_record["step"]) == ("failed", 50)
    assert run_record["error"] == "ZeroDivisionError: division by zero"
    assert not (run / "evaluations.parquet").exists()
    with recorder(tmp_path) as log:
        log.episode(step=100, ret=2.0, success=True, length=1)
    assert [row["return"] for row in pq.read_table(run / "evaluations.parquet").to_pylist()] == [2.0]


def test_a_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    with recorder(tmp_path) as log:
        log.episode(step=100, ret=2.0, success=True, length=1)
        log.finish()  # closed by hand and again at the end of the block
    check_refused("is finished; delete it to record it anew", recorder, tmp_path)


def test_two_recorders_of_one_run_are_refused(tmp_path: Path) -> None:
    with recorder(tmp_path) as log:
        check_refused(r"is being written by another process \(pid \d+\)", recorder, tmp_path)
        with recorder(tmp_path, seed=1):
            pass  # another seed is another run
        log.episode(step=100, ret=2.0, success=True, length=1)
    assert len(list(tmp_path.glob("*/*/*/seed-*/evaluations.parquet"))) == 2


@pytest.mark.parametrize("name", ["suite", "task", "method", "profile", "learner", "model"])
@pytest.mark.parametrize("value", ["..", "../up", "a/b", ".hidden", "two\nlines", "\x1b[31mred", "nul\0"])
def test_names_that_are_no_plain_names_are_refused_before_anything_is_written(
    tmp_path: Path, name: str, value: str
) -> None:
    check_refused(f"{name}=.*: expected a plain name", recorder, tmp_path / "study", **{name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"method": ""}, "method='': expected a plain name"),
        ({"seed": -1}, "seed=-1: expected a whole number of at least 0"),
        ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"steps": 0}, "steps=0: expected a whole number of at least 1"),
        ({"steps": 1e5}, "steps=100000.0: expected a whole number"),
        ({"settings": {"layers": {64, 32}}}, "not JSON serializable; give numbers, strings, lists and null"),
        ({"settings": {"lr": float("nan")}}, "settings=.*nan.*not JSON compliant"),
    ],
)
def test_what_a_study_cannot_hold_is_refused(tmp_path: Path, wrong: dict, says: str) -> None:
    check_refused(says, recorder, tmp_path / "study", **wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"step": 101}, "step=101: expected a whole number from 50 to 100"),
        ({"step": 49}, "step=49: expected a whole number from 50 to 100"),
        ({"step": 60.5}, "step=60.5: expected a whole number"),
        ({"ret": float("inf")}, "ret=inf: expected a finite return"),
        ({"length": -1}, "length=-1: expected a whole number of at least 0"),
    ],
)
def test_an_episode_that_cannot_be_is_refused_and_the_others_stay(tmp_path: Path, wrong: dict, says: str) -> None:
    episode = {"step": 50, "ret": 1.0, "success": True, "length": 7}
    with recorder(tmp_path) as log:
        log.episode(**episode)
        check_refused(says, log.episode, **{**episode, **wrong})
        log.episode(**episode)
    rows = pq.read_table(only_run(tmp_path) / "evaluations.parquet").to_pylist()
    assert [(row["step"], row["episode"]) for row in rows] == [(50, 0), (50, 1)]


def test_numpy_s_numbers_are_as_good_as_python_s(tmp_path: Path) -> None:
    with recorder(tmp_path, seed=np.int64(3), steps=np.int32(100)) as log:
        log.episode(step=np.int64(50), ret=np.float32(0.5), success=np.bool_(True), length=np.int32(7))
    (row,) = pq.read_table(only_run(tmp_path) / "evaluations.parquet").to_pylist()
    assert (row["seed"], row["step"], row["return"], row["success"], row["length"]) == (3, 50, 0.5, True, 7)


def test_a_script_that_slept_records_nothing_of_a_run_that_another_machine_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 0.5)
    monkeypatch.setattr(leases, "_keep", lambda lease: None)  # it sleeps and gives no sign of life
    slept = recorder(tmp_path)
    slept.episode(step=50, ret=1.0, success=False, length=1)
    run = only_run(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(leases, "machine", lambda: "another")
        with pytest.warns(Notice, match="last sign of life"):
            second = recorder(tmp_path)
    second.episode(step=100, ret=2.0, success=True, length=2)
    assert (run / "attempt-2").is_dir()
    check_refused("another process records it by now", slept.finish)
    slept.fail("it woke up")
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    check_refused("another process records it by now", slept.episode, step=100, ret=1.0, success=False, length=1)
    second.finish()
    rows = pq.read_table(run / "evaluations.parquet").to_pylist()
    assert [(row["step"], row["return"]) for row in rows] == [(100, 2.0)]
    assert json.loads((run / "run.json").read_text())["status"] == "finished" and not attempts.remain(run)
