"""Workers of a real command share real weights: they are loaded once, rows are unchanged, and kills do no harm."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from guidebench.harness import fork_server
from guidebench.harness.records import leases
from tests.conftest import require
from tests.harness.launchers import scheduled
from tests.harness.launchers.slurm_cluster import parent
from tests.harness.models import tiny_models
from tests.harness.models.hosts.test_hosts import hosts_of
from tests.programs import start_bench

require("transformers")

SETTINGS = (
    "method=vlm_rb", "judge.dtype=float32", "judge.delay=16", "replay.clip_length=8", "drawing.tile_size=8",
    "training.steps=240", "evaluation.every=120", "evaluation.episodes=1", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=64", "seeds=[0,1]",
)  # fmt: skip


NUMBERS = ["seed", "step", "episode", "return", "success", "length"]

# At the fifth call that a process answers, it kills the model host, and at a later one a worker: each once in a study.
MORTAL = """
    import asyncio, os, signal
    from dataclasses import dataclass
    from pathlib import Path
    from guidebench.harness.models.judges.transformers_ import Transformers
    from guidebench.harness.records import leases
    from guidebench.harness.registry import register
    from guidebench.suites.minigrid_doorkey import PROMPT

    @register.judge("mortal")
    @dataclass(frozen=True)
    class Mortal(Transformers):
        '''A local model whose processes are killed in the middle of their work.'''
        prompt: str = PROMPT

        def spawn_model(self, device):
            return Killing(super().spawn_model(device))

    class Killing:
        def __init__(self, model):
            self.model, self.calls, self.estimate, self.close = model, 0, model.estimate, model.close

        async def answer(self, call):
            self.calls += 1
            study = Path(os.environ["MORTAL_STUDY"])
            if self.calls == 5 and first(study.with_suffix(".host")):
                os.kill(os.getppid(), signal.SIGKILL)
                await asyncio.sleep(60)
            if self.calls == 5 and first(study.with_suffix(".worker")):
                holders = [leases.holder(run) for run in sorted(study.glob("*/*/*/seed-*"))]
                os.kill(next(holder.pid for holder in holders if holder is not None), signal.SIGKILL)
            return await self.model.answer(call)

    def first(file):
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
"""


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen_vl(tmp_path_factory.mktemp("models") / "qwen_vl")


@pytest.fixture(scope="module")
def own_models(train_once: Callable[..., Path], qwen: Path) -> Path:
    """Return a study of the runs of SETTINGS in which each run loaded its own model; only to be read."""
    return train_once(*SETTINGS, "judge=transformers", f"judge.model={qwen}", packs=[(0,), (1,)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}.parquet"))]


def evaluations(study: Path) -> list[list[Any]]:
    """Return the numbers of all evaluations, without the names of their cells."""
    paths = sorted(study.glob("*/*/*/seed-*/evaluations.parquet"))
    return [pq.read_table(path, columns=NUMBERS, partitioning=None).to_pylist() for path in paths]


def start_study(study: Path, qwen: Path, judge: str = "transformers") -> fork_server.Process:
    """Start the command of a study, which prints into a file beside the study."""
    command = ["run", "suite=minigrid_doorkey", "profile=smoke", *SETTINGS, f"judge={judge}", f"judge.model={qwen}"]
    command += [f"output={study}", "workers=2", "probes=0", "report=false", "checkpoint_every=40"]
    with open(study.with_suffix(".out"), "w") as out:
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "MORTAL_STUDY": str(study)}
        return start_bench(*command, stdout=out, stderr=out, env=environment)


def wait_until(true: Callable[[], object], study: Path) -> None:
    """Wait until `true()` holds, as long as the study's files or processes change."""
    scheduled.wait_until(true, moves=lambda: (scheduled.progress(study), hosts(study)))


def output_of(command: fork_server.Process, study: Path) -> str:
    """Wait for the command to end and return what it printed."""
    command.wait()
    return study.with_suffix(".out").read_text()


def workers(study: Path) -> list[int]:
    """Return the ids of the processes that hold a run."""
    return [holder.pid for run in study.glob("*/*/*/seed-*") if (holder := leases.holder(run)) is not None]


def hosts(study: Path) -> list[int]:
    """Return the id of the model host, followed by those of its forks."""
    return hosts_of(study / "logs" / "models.log")


def loads(study: Path) -> int:
    log = study / "logs" / "models.log"
    return log.read_text().count("loaded judge '") if log.exists() else 0


def wait_for_checkpoint(command: fork_server.Process, study: Path) -> None:
    """Wait until a run has a checkpoint."""
    wait_until(lambda: command.poll() is not None or [*study.glob("*/*/*/seed-*/**/checkpoint-*")], study)
    assert command.poll() is None, study.with_suffix(".out").read_text()


def nobody_is_left(study: Path) -> None:
    """Wait until no worker and no host of a study exists."""
    wait_until(lambda: not workers(study) and not hosts(study), study)


def test_two_workers_load_the_weights_once_and_write_the_rows_of_runs_that_load_their_own(
    qwen: Path, own_models: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    command = start_study(study, qwen)
    wait_for_checkpoint(command, study)
    host, *forks = hosts(study)
    assert 1 <= len(forks) <= 2 and {parent(fork) for fork in forks} == {host}
    output = output_of(command, study)  # waits for its end
    assert command.returncode == 0, output
    assert loads(study) == 1
    nobody_is_left(study)
    for name in ("evaluations", "judgements"):
        assert len(rows(own_models, name)) == 2 and rows(study, name) == rows(own_models, name)


@pytest.mark.release
def test_a_host_and_a_worker_that_are_killed_change_no_score(
    plugin: Any, qwen: Path, own_models: Path, tmp_path: Path
) -> None:
    """Calls that were not answered are made again, batched with other calls than before."""
    plugin("mortal_module", MORTAL, {"judge": "mortal"})
    study = tmp_path / "study"
    output = output_of(command := start_study(study, qwen, "mortal"), study)
    assert command.returncode == 0, output
    assert "was killed (SIGKILL)" in output and loads(study) == 2
    nobody_is_left(study)
    assert len(rows(own_models, "judgements")) == 2 and rows(study, "judgements") == rows(own_models, "judgements")
    assert evaluations(study) == evaluations(own_models)
