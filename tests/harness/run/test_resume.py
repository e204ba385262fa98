"""A run killed at any moment and continued, in another packing, writes the same evaluation and probe rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import Stopped

TINY = (
    "training.steps=300",
    "evaluation.every=50",
    "evaluation.episodes=2",
    "judge.delay=25",
    "drawing.tile_size=8",
    "seeds=[0,1,2]",
    "learner.channels=4",
    "learner.features=8",
    "learner.hidden=[8]",
    "learner.batch_size=16",
    "learner.learning_starts=64",
    "learner.target_every=100",
)


def rows(study: Path) -> dict[str, bytes]:
    """What the runs wrote that holds no clock: evaluations, and what was seen along the reference episode."""
    names = ("evaluations.parquet", "probes.parquet")
    found = (path for name in names for path in study.glob(f"*/*/*/seed-*/{name}"))
    return {str(path.relative_to(study)): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("method", "learner"), [*((name, "dqn") for name in registry.names("replay")), ("per", "iqn"), ("vlm_rb", "iqn")]
)
def test_stopping_anywhere_and_continuing_in_another_packing_changes_no_byte(train, method: str, learner: str) -> None:
    judged = "judge" in registry.get("replay", method).needs
    tiny = (text for text in TINY if judged or not text.startswith(("judge", "drawing")))
    settings = (f"method={method}", f"learner={learner}", *tiny)
    whole = train(*settings, packs=[(0, 1, 2)], checkpoint_every=35, probes=4)
    for moment, first, then in [(116, [(0, 1, 2)], [(0,), (1, 2)]), (203, [(0, 2)], [(0, 2), (1,)])]:
        directory = whole.with_name(f"interrupted-{moment}")
        stop = (call == moment for call in range(1, 10_000)).__next__
        with pytest.raises(Stopped):
            train(*settings, packs=first, checkpoint_every=35, probes=4, directory=directory, stop=stop)
        train(*settings, packs=then, checkpoint_every=35, probes=4, directory=directory)
        assert rows(directory) == rows(whole)


def settings(steps: int, seeds: int) -> list[str]:
    """Of a longer study."""
    given = [text for text in TINY if not text.startswith(("training", "evaluation.every", "seeds"))]
    return ["method=vlm_rb", *given, "evaluation.every=500", f"training.steps={steps}", f"seeds={seeds}"]


def bench(output: Path, steps: int, checkpoint_every: int = 130, pack: int = 2, seeds: int = 3) -> list[str]:
    return [
        sys.executable, "-m", "guidebench", "run", "suite=minigrid_doorkey", "profile=smoke", *settings(steps, seeds),
        f"output={output}", f"checkpoint_every={checkpoint_every}", f"pack={pack}", "report=false",
    ]  # fmt: skip


def family(pid: int) -> dict[str, list[int]]:
    """The processes of a command: itself, its workers, and what judges for them. A process that a worker has forked
    carries the worker's command line until it starts its own program, so only the command's children are workers."""
    found = [pid]
    kinds: dict[str, list[int]] = {"parent": [pid], "worker": [], "judge": []}
    for parent in found:
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rsplit(")", 1)[1].split()
                words = (status.parent / "cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(status.parent.name))
                if parent == pid and b"guidebench.harness.run.worker" in words:
                    kinds["worker"].append(found[-1])
                if b"spawn_main" in words:
                    kinds["judge"].append(found[-1])
    return kinds


@pytest.mark.slow
def test_kill_9_of_parent_worker_and_judge_twice_each_at_random_moments_changes_no_byte(train, tmp_path: Path) -> None:
    whole = train(*settings(3_000, seeds=3), packs=[(0, 1, 2)], probes=10)  # as many as a command takes
    generator = random.Random(7)
    left = 2 * ["parent", "worker", "judge"]
    for _ in range(30):
        command = bench(tmp_path / "killed", 3_000, pack=generator.choice([1, 2, 3]))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if left:
            # Wait until a worker trains, then a moment more.
            assert process.stdout is not None
            for line in process.stdout:
                if "started" in line or "resumed" in line:
                    break
            time.sleep(generator.uniform(0.0, 0.6))
            victims = family(process.pid)[left[0]]
            if process.poll() is None and victims:
                try:
                    os.kill(generator.choice(victims), signal.SIGKILL)
                    left.pop(0)
                except ProcessLookupError:
                    pass
                time.sleep(generator.uniform(0.0, 0.5))
            process.kill()  # else the study would go on to its end with what is left
        output, _ = process.communicate(timeout=300)
        if process.returncode == 0:
            break
    assert process.returncode == 0, output
    assert not left, f"the study ended before these were killed: {left}; make it longer"
    assert len(rows(tmp_path / "killed")) == 6
    assert rows(tmp_path / "killed") == rows(whole)


def test_ctrl_c_writes_a_checkpoint_and_the_same_command_continues(tmp_path: Path) -> None:
    command = bench(tmp_path / "study", 2_000, checkpoint_every=100_000, pack=1, seeds=2)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.poll() is None and not [*(tmp_path / "study").glob("*/*/*/seed-*/.live.json")]:
        time.sleep(0.05)  # until a run has taken a step
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # at once, as `timeout` does: not a second wish, which would kill
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command continues" in output
    assert list((tmp_path / "study").glob("*/*/*/seed-*/checkpoint-*"))
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "resumed at step" in again.stdout
    third = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert third.returncode == 0 and "started" not in third.stdout
