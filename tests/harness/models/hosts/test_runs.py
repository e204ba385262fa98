"""Real weights shared by the workers of a real command: loaded once, the same rows, and whatever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.models.calls import JudgeCall
from guidebench.harness.models.hosts.client import HostedModel
from guidebench.harness.models.hosts.process import Together
from guidebench.harness.models.messages import Registered
from tests.conftest import require
from tests.harness.models import tiny_models
from tests.logs import logged

require("transformers")

SETTINGS = (
    "method=vlm_rb", "judge=transformers", "judge.dtype=float32", "judge.batch_size=1", "judge.delay=16",
    "replay.clip_length=8", "drawing.tile_size=8", "training.steps=400", "evaluation.every=200",
    "evaluation.episodes=2", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64", "seeds=[0,1,2]",
)  # fmt: skip
MARK = "MARK_OF_A_TEST"
"""Environment variable by which the processes of a command are known; they inherit it."""


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen_vl(tmp_path_factory.mktemp("models") / "qwen_vl")


@pytest.fixture(scope="module")
def alone(train_once: Callable[..., Path], qwen: Path) -> Path:
    """A study of the runs of SETTINGS, each with a model of its own; only to be read."""
    return train_once(*SETTINGS, f"judge.model={qwen}", packs=[(0,), (1,), (2,)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}.parquet"))]


def scores(study: Path) -> list[float]:
    runs = sorted(study.glob("*/*/*/seed-*"))
    return [row["score"] for run in runs for row in logged(run, "judgements")]


def begun(study: Path, qwen: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "guidebench", "run", "suite=minigrid_doorkey", "profile=smoke", *SETTINGS]
    command += [f"judge.model={qwen}", f"output={study}", "workers=2", "probes=0", "report=false"]
    command += ["checkpoint_every=100", *more]
    marked = os.environ | {MARK: str(study), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=marked)


def processes(study: Path, *words: bytes) -> list[int]:
    """The processes of a study's command with one of these words in their command lines."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"{MARK}={study}".encode() in (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marked and any(word in line for word in words):
            found.append(int(entry.name))
    return found


def hosts(study: Path) -> list[int]:
    """The model host, and then its forks."""
    found = processes(study, b"models.hosts.process")
    return sorted(found, key=lambda pid: _parent(pid) in found)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def loads(study: Path) -> int:
    log = study / "logs" / "models.log"
    return log.read_text().count("loaded judge 'transformers'") if log.exists() else 0


def training(command: subprocess.Popen[str], study: Path) -> None:
    """Wait until a run has a checkpoint."""
    while command.poll() is None and not [*study.glob("*/*/*/seed-*/**/checkpoint-*")]:
        time.sleep(0.05)
    assert command.poll() is None, command.communicate()[0]


def assert_alike(study: Path, alone: Path) -> None:
    """Assert what holds after a kill, shared or not: a judge computes the first clip after each start in another way,
    which shows in the last digits of its score."""
    assert len(rows(alone, "evaluations")) == 3 and rows(study, "evaluations") == rows(alone, "evaluations")
    assert scores(study) == pytest.approx(scores(alone), abs=1e-5)


def gone(study: Path) -> bool:
    """Whether no process of a study's command is left within a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not processes(study, b""):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_two_workers_load_the_weights_once_and_write_the_rows_of_runs_that_load_their_own(
    qwen: Path, alone: Path, tmp_path: Path
) -> None:
    command = begun(tmp_path / "study", qwen)
    training(command, tmp_path / "study")
    (host, *forks) = hosts(tmp_path / "study")
    assert 1 <= len(forks) <= 2 and {_parent(fork) for fork in forks} == {host}
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said
    assert loads(tmp_path / "study") == 1 and gone(tmp_path / "study")
    for name in ("evaluations", "judgements"):
        assert len(rows(alone, name)) == 3 and rows(tmp_path / "study", name) == rows(alone, name)


@pytest.mark.slow
def test_a_host_and_a_worker_that_are_killed_change_no_row(qwen: Path, alone: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    command = begun(study, qwen)
    training(command, study)
    os.kill(hosts(study)[0], signal.SIGKILL)
    while loads(study) < 2 and command.poll() is None:
        time.sleep(0.05)
    os.kill(processes(study, b"harness.run.worker")[0], signal.SIGKILL)
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said
    assert "was killed (SIGKILL)" in said and loads(study) == 2 and gone(study)
    assert_alike(study, alone)


@pytest.mark.slow
def test_a_command_that_is_stopped_or_killed_leaves_no_process(qwen: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    command = begun(study, qwen)
    training(command, study)
    command.send_signal(signal.SIGINT)
    said, _ = command.communicate(timeout=60)
    assert command.returncode == 130 and "the same command continues" in said
    assert not hosts(study), "hosts end before the command"
    command = begun(study, qwen)
    while len(hosts(study)) < 2 and command.poll() is None:
        time.sleep(0.05)
    command.kill()
    command.communicate()
    assert gone(study)


def test_clips_of_two_workers_are_judged_in_one_batch_where_one_process_serves_both(qwen: Path) -> None:
    from guidebench.harness import registry

    settings = {"model": str(qwen), "dtype": "float32"}
    model: Any = registry.get("judge", "transformers")(**settings).spawn_model("cpu")
    batches: list[int] = []
    compute = model._batcher._compute
    model._batcher._compute = lambda batch: batches.append(len(batch)) or compute(batch)
    together = Together(model)
    command, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def connect() -> None:
        for _ in range(2):
            _, (handle,), _, _ = socket.recv_fds(command, 2**18, 1)
            together.begin(socket.socket(fileno=handle))

    threading.Thread(target=connect, daemon=True).start()
    noise = np.random.default_rng(0)
    calls = [JudgeCall(noise.integers(0, 256, (4, 56, 56, 3), np.uint8), "Does it move?") for _ in range(8)]

    async def judged() -> list[float]:
        workers: list[Any] = [HostedModel(requests, Registered("judge", "transformers", settings)) for _ in range(2)]
        for each in workers:
            await asyncio.to_thread(each.spawn, "cpu")
        asked = [workers[number % 2].answer(call) for number, call in enumerate(calls)]
        found = [reply.value for reply in await asyncio.gather(*asked)]
        for each in workers:
            await each.close()
        return found

    shared = asyncio.run(judged())
    assert max(batches) == 4 and len(batches) < len(calls)
    wanted = [asyncio.run(model.answer(call)).value for call in calls]
    assert shared == pytest.approx(wanted, abs=1e-5), "a batch's composition shows in the last digits alone"
    for each in (command, requests):
        each.close()
