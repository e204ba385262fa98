"""A run killed at any moment and continued in another packing writes the same evaluation and probe rows."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guidebench.harness.loop import checkpoints
from guidebench.harness.records import leases
from tests import programs

TINY = (
    "method=vlm_rb", "evaluation.every=100", "evaluation.episodes=2", "judge.delay=25", "drawing.tile_size=8",
    "seeds=[0,1]", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64", "learner.target_every=100",
)  # fmt: skip


def rows(study: Path) -> dict[str, bytes]:
    """Return the bytes of the runs' files that depend on no clock: evaluations and probes."""
    names = ("evaluations.parquet", "probes.parquet")
    paths = (path for name in names for path in study.glob(f"*/*/*/seed-*/{name}"))
    return {str(path.relative_to(study)): path.read_bytes() for path in paths}


def words(output: Path, steps: int, checkpoint_every: int, pack: int) -> list[str]:
    """Return the command of a study of two seeds."""
    return [
        "run", "suite=minigrid_doorkey", "profile=smoke", *TINY, f"training.steps={steps}", f"output={output}",
        f"checkpoint_every={checkpoint_every}", f"pack={pack}", "report=false",
    ]  # fmt: skip


def newest(study: Path) -> int:
    """Return the step of the newest checkpoint of any run."""
    return max((checkpoints.step_of(path) for path in study.glob("*/*/*/seed-*/checkpoint-*")), default=0)


@pytest.mark.release
def test_kill_9_of_command_and_worker_at_random_moments_changes_no_byte(train, tmp_path: Path) -> None:
    steps, spacing, study = 400, 40, tmp_path / "killed"
    undisturbed = train(*TINY, f"training.steps={steps}", packs=[(0, 1)], probes=10)  # as many as a command takes
    generator = random.Random(7)
    for victim in ("worker", "command", "worker"):
        process = programs.start_bench(*words(study, steps, spacing, generator.choice([1, 2])))
        moment = newest(study) + generator.randint(1, 2) * spacing
        while process.poll() is None and newest(study) < moment:
            time.sleep(0.002)
        holders = [leases.holder(run) for run in study.glob("*/*/*/seed-*")]
        assert process.poll() is None, "the study ended before it was killed"
        workers = [holder.pid for holder in holders if holder is not None]
        os.kill(generator.choice(workers) if victim == "worker" else process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    done = programs.bench(*words(study, steps, spacing, 2))
    assert done.code == 0, done.err
    assert rows(study) == rows(undisturbed) and len(rows(undisturbed)) == 4


def test_ctrl_c_writes_a_checkpoint_and_the_same_command_continues(tmp_path: Path) -> None:
    command = [
        "run", "suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke", "seeds=[0,1]", "training.steps=3000",
        "evaluation.every=3000", "evaluation.episodes=1", "learner.hidden=[8]", "learner.batch_size=8",
        f"output={tmp_path / 'study'}", "checkpoint_every=100000", "pack=1", "report=false",
    ]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "guidebench", *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.poll() is None and not [*(tmp_path / "study").glob("*/*/*/seed-*/.live.json")]:
        time.sleep(0.05)  # until a run has taken a step
    process.send_signal(signal.SIGINT)
    process.send_signal(
        signal.SIGTERM
    )  # sent at once, as `timeout` does: it must not count as a second request, which would kill
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command continues" in output
    assert list((tmp_path / "study").glob("*/*/*/seed-*/checkpoint-*"))
    resumed = programs.bench(*command)
    assert resumed.code == 0, resumed.err
    assert "resumed at step" in resumed.out
