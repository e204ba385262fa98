"""Real weights shared by the workers of a real command: loaded once, the same rows, and whatever is killed."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness import fork_server
from guidebench.harness.records import leases
from tests.conftest import require
from tests.harness.launchers import scheduled
from tests.harness.launchers.slurm_cluster import parent
from tests.harness.models import tiny_models
from tests.harness.models.hosts.test_hosts import hosts_of
from tests.logs import logged
from tests.programs import start_bench

require("transformers")

SETTINGS = (
    "method=vlm_rb", "judge=transformers", "judge.dtype=float32", "judge.batch_size=1", "judge.delay=16",
    "replay.clip_length=8", "drawing.tile_size=8", "training.steps=240", "evaluation.every=120",
    "evaluation.episodes=1", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64", "seeds=[0,1]",
)  # fmt: skip


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen_vl(tmp_path_factory.mktemp("models") / "qwen_vl")


@pytest.fixture(scope="module")
def alone(train_once: Callable[..., Path], qwen: Path) -> Path:
    """A study of the runs of SETTINGS, each with a model of its own; only to be read."""
    return train_once(*SETTINGS, f"judge.model={qwen}", packs=[(0,), (1,)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}.parquet"))]


def scores(study: Path) -> list[float]:
    runs = sorted(study.glob("*/*/*/seed-*"))
    return [row["score"] for run in runs for row in logged(run, "judgements")]


def begun(study: Path, qwen: Path) -> fork_server.Process:
    """Start the command of a study, which prints into a file beside it."""
    command = ["run", "suite=minigrid_doorkey", "profile=smoke", *SETTINGS, f"judge.model={qwen}", f"output={study}"]
    command += ["workers=2", "probes=0", "report=false", "checkpoint_every=40"]
    with open(study.with_suffix(".out"), "w") as out:
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        return start_bench(*command, stdout=out, stderr=out, env=environment)


def until(true: Callable[[], object], study: Path) -> None:
    """Wait as long as the study's files or its processes change."""
    scheduled.until(true, moves=lambda: (scheduled.progress(study), hosts(study)))


def ended(command: fork_server.Process, study: Path) -> str:
    """What the command has printed at its end."""
    command.wait()
    return study.with_suffix(".out").read_text()


def workers(study: Path) -> list[int]:
    """The processes that hold a run."""
    return [holder.pid for run in study.glob("*/*/*/seed-*") if (holder := leases.holder(run)) is not None]


def hosts(study: Path) -> list[int]:
    """The model host, and then its forks."""
    return hosts_of(study / "logs" / "models.log")


def loads(study: Path) -> int:
    log = study / "logs" / "models.log"
    return log.read_text().count("loaded judge 'transformers'") if log.exists() else 0


def training(command: fork_server.Process, study: Path) -> None:
    """Wait until a run has a checkpoint."""
    until(lambda: command.poll() is not None or [*study.glob("*/*/*/seed-*/**/checkpoint-*")], study)
    assert command.poll() is None, study.with_suffix(".out").read_text()


def assert_alike(study: Path, alone: Path) -> None:
    """Assert what holds after a kill, shared or not: a judge computes the first clip after each start in another way,
    which shows in the last digits of its score."""
    assert len(rows(alone, "evaluations")) == 2 and rows(study, "evaluations") == rows(alone, "evaluations")
    assert scores(study) == pytest.approx(scores(alone), abs=1e-5)


def nobody_is_left(study: Path) -> None:
    """Wait until no worker and no host of a study is left."""
    until(lambda: not workers(study) and not hosts(study), study)


def test_two_workers_load_the_weights_once_and_write_the_rows_of_runs_that_load_their_own(
    qwen: Path, alone: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    command = begun(study, qwen)
    training(command, study)
    host, *forks = hosts(study)
    assert 1 <= len(forks) <= 2 and {parent(fork) for fork in forks} == {host}
    said = ended(command, study)
    assert command.returncode == 0, said
    assert loads(study) == 1
    nobody_is_left(study)
    for name in ("evaluations", "judgements"):
        assert len(rows(alone, name)) == 2 and rows(study, name) == rows(alone, name)


def test_a_host_and_a_worker_that_are_killed_change_no_row(qwen: Path, alone: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    command = begun(study, qwen)
    training(command, study)
    os.kill(hosts(study)[0], signal.SIGKILL)
    until(lambda: loads(study) == 2 or command.poll() is not None, study)
    os.kill(workers(study)[0], signal.SIGKILL)
    said = ended(command, study)
    assert command.returncode == 0, said
    assert "was killed (SIGKILL)" in said and loads(study) == 2
    nobody_is_left(study)
    assert_alike(study, alone)


def test_a_command_that_is_stopped_or_killed_leaves_no_process(qwen: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    command = begun(study, qwen)
    training(command, study)
    os.kill(command.pid, signal.SIGINT)
    said = ended(command, study)
    assert command.returncode == 130 and "the same command continues" in said
    assert not hosts(study), "hosts end before the command"
    command = begun(study, qwen)
    until(lambda: len(hosts(study)) >= 2 or command.poll() is not None, study)
    command.kill()
    command.wait()
    nobody_is_left(study)
