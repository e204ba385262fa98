"""Each tracker, read back by its own means, has every point exactly once, whatever was killed or deleted."""

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import Stopped
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.trackers import following
from guidebench.harness.trackers.points import ALL
from tests import programs
from tests.harness.trackers.readers import READERS, TrackedRun

pytestmark = pytest.mark.waits
SETTINGS = (
    "method=uer", "training.steps=400", "evaluation.every=50", "evaluation.episodes=2", "seeds=[0]",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64",
)  # fmt: skip

HEAVY = ("mlflow", "wandb")
"""Trackers whose clients take seconds to begin."""
KILLED = """
import os, signal, sys
from pathlib import Path
from guidebench.harness.trackers import following
one = following.Following(Path(sys.argv[1]), sys.argv[2])
one._save = lambda: os.kill(os.getpid(), signal.SIGKILL)
one.look()
raise SystemExit(f"not killed: {one.errors}")
"""
"""A program that follows a study and kills itself before it records what it has sent."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty database of MLflow, whose tables take seconds to create."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store_directory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of all local stores; no tracker uses the network."""
    stores = tmp_path / "stores"
    stores.mkdir()
    if request.getfixturevalue("name") == "mlflow":
        shutil.copy(request.getfixturevalue("database"), stores / "mlflow.db")
    for name, value in {
        "WANDB_MODE": "offline", "WANDB_DIR": str(stores), "TRACKIO_DIR": str(stores / "trackio"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{stores / 'mlflow.db'}", "MLFLOW_DISABLE_TELEMETRY": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    if "trackio" in sys.modules:  # trackio reads its directory when it is imported
        from trackio import sqlite_storage, utils

        for module in (utils, sqlite_storage):
            monkeypatch.setattr(module, "TRACKIO_DIR", stores / "trackio")
    monkeypatch.chdir(stores)
    return stores


def look(study: Path, name: str) -> dict[str, str]:
    with following.Following(study, name) as follower:
        follower.look()
        return dict(follower.errors)


def kill_follower(study: Path, name: str) -> None:
    """Follow the study in a process that is killed before it records what it has sent."""
    done = programs.python(KILLED, str(study), name, timeout=120)
    assert done.code == -signal.SIGKILL, done.err


@contextlib.contextmanager
def hold_run(study: Path) -> Iterator[None]:
    """Make the study's only run look as if a worker held it, while the context lasts."""
    (run,) = (run for _, run in StudyDirectory(study).runs())
    status, lock = run.status, Lease(run.path, "run")
    lock.acquire()
    run.update(status="running")
    yield
    run.update(status=status)
    lock.release()


def expected_points(study: Path, until: int = ALL) -> dict[str, list[tuple[int, float]]]:
    """Return series -> points of the study's only run."""
    (run,) = following.runs(StudyDirectory(study))
    points: dict[str, list[tuple[int, float]]] = {}
    for step, numbers in run.points(-1, until):
        for series, value in numbers.items():
            points.setdefault(series, []).append((step, value))
    return points


def check_single_run(runs: list[TrackedRun], points: dict[str, list[tuple[int, float]]]) -> None:
    """Check that there is one run with exactly these points (TensorBoard keeps 32 bits of a number)."""
    (run,) = runs
    assert {name: [step for step, _ in pairs] for name, pairs in run.series.items()} == {
        name: [step for step, _ in pairs] for name, pairs in points.items()
    }
    for name, pairs in points.items():
        assert [value for _, value in run.series[name]] == pytest.approx([value for _, value in pairs], rel=1e-6), name


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.release) if name in HEAVY else name for name in registry.names("tracker")],
)
def test_a_run_that_was_killed_and_resumed_has_each_point_once(
    train, store_directory: Path, tmp_path: Path, name: str
) -> None:
    study, stop = tmp_path / "study", (call == 330 for call in range(1, 10_000)).__next__
    with pytest.raises(Stopped):
        train(*SETTINGS, packs=[(0,)], directory=study, stop=stop, checkpoint_every=130)
    with hold_run(study):  # the tracker has the run open when it is killed
        kill_follower(study, name)
    assert look(study, name) == {}
    first = expected_points(study, 330)
    assert [step for step, _ in first["evaluations/return"]] == [50, 100, 150, 200, 250, 300]
    check_single_run(READERS[name](study, store_directory), first)

    (newest,) = sorted(study.glob("*/*/*/seed-0/checkpoint-*"))[-1:]
    shutil.rmtree(newest)  # as after a kill between two checkpoints: the run restarts before its last point
    assert look(study, name) == {}
    check_single_run(READERS[name](study, store_directory), first)

    train(*SETTINGS, packs=[(0,)], directory=study, checkpoint_every=130)
    kill_follower(study, name)
    assert look(study, name) == {} and look(study, name) == {}
    all_points = expected_points(study)
    assert [step for step, _ in all_points["evaluations/return"]] == [*range(50, 401, 50)] and len(all_points) > 5
    runs = READERS[name](study, store_directory)
    for series in [series for series in all_points if series.startswith("timings/")]:
        # Times are written with each checkpoint; the tracker has shown that of the lost checkpoint too.
        del all_points[series]
        assert [step for step, _ in runs[0].series.pop(series)] == [130, 260, 330, 390, 400]
    check_single_run(runs, all_points)
    assert runs[0].settings["method"] == "uer" and str(runs[0].settings["learner.batch_size"]) == "16"


@pytest.fixture(scope="module")
def finished_study(train_once) -> Path:
    return train_once(*SETTINGS, packs=[(0,)], checkpoint_every=130)


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names("tracker"))
def test_a_run_that_was_deleted_at_the_other_end_is_sent_again(
    finished_study: Path, store_directory: Path, tmp_path, name
) -> None:
    study = tmp_path / "study"
    shutil.copytree(finished_study, study)
    assert look(study, name) == {}
    if name == "tensorboard":
        shutil.rmtree(study / "tensorboard")
    elif name == "wandb":
        (run,) = store_directory.glob("wandb/offline-run-*")
        shutil.rmtree(run)
    elif name == "trackio":
        import trackio

        (run,) = trackio.Api().runs(f"guidebench-{json.loads((study / 'study.json').read_text())['study']}-runs")
        assert run.delete()
    else:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=os.environ["MLFLOW_TRACKING_URI"])
        (experiment,) = (candidate for candidate in client.search_experiments() if candidate.name != "Default")
        (run,) = client.search_runs([experiment.experiment_id])
        client.delete_run(run.info.run_id)
        client.delete_experiment(experiment.experiment_id)
    assert look(study, name) == {}
    check_single_run(READERS[name](study, store_directory), expected_points(study))


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("wandb", "WANDB_DIR", "{}/file/below"),
        ("mlflow", "MLFLOW_TRACKING_URI", "sqlite:///{}/file/below/mlflow.db"),
        ("tensorboard", "", ""),
    ],
)
def test_a_store_that_cannot_be_written_loses_nothing(
    finished_study: Path,
    store_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    variable: str,
    value: str,
) -> None:
    study = tmp_path / "study"
    shutil.copytree(finished_study, study)
    (tmp_path / "file").write_text("")
    with monkeypatch.context() as patched:
        if variable:
            patched.setenv(variable, value.format(tmp_path))
        else:
            (study / "tensorboard").write_text("")
        ((_, error),) = look(study, name).items()
        assert "cannot be written" in error, error
    if not variable:
        (study / "tensorboard").unlink()
    assert look(study, name) == {}
    check_single_run(READERS[name](study, store_directory), expected_points(study))


def test_without_a_login_wandb_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from guidebench.harness.errors import UserError

    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"`wandb login`, or set WANDB_MODE=offline"):
        following.ready(["wandb"])
