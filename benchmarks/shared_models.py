"""Seconds and memory of a study whose workers share a local judge, and of one whose workers each load it.

    python -m benchmarks.shared_models [--json] [--rounds 3] [--hidden 1024] [--layers 8]

Each study is a `bench run` of four runs of DoorKey on two workers, judged by a Qwen2.5-VL with random weights on the
CPU; the two take turns. Memory is the largest sum, over all processes of the command, of their proportional set sizes
(a page that several processes hold counts once), seen ten times a second. Other load on the machine distorts the wall
time more than the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

STUDY = (
    "suite=minigrid_doorkey", "profile=smoke", "method=vlm_rb", "judge=transformers", "judge.dtype=float32",
    "judge.delay=8", "replay.clip_length=8", "drawing.tile_size=8", "training.steps=240", "evaluation.every=240",
    "evaluation.episodes=1", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64", "seeds=4", "workers=2", "probes=0", "report=false", "device=cpu",
)  # fmt: skip
EVERY = 0.1
"""Seconds between two measurements of the memory."""
FIELDS = ("seconds", "processor", "gibibytes", "loads")


def measure(model: Path, share: bool) -> dict[str, float]:
    """Return the wall and processor seconds of a study, the peak of its memory in GiB, and how often its hosts have
    loaded the model."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started, peak = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as directory:
        words = [*STUDY, f"judge.model={model}", f"models.share={str(share).lower()}", f"output={directory}/study"]
        with open(Path(directory) / "said", "w+") as output:
            command = subprocess.Popen(
                [sys.executable, "-m", "guidebench", "run", *words], stdout=output, stderr=output,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "GUIDEBENCH_CACHE": f"{directory}/cache"},
            )  # fmt: skip
            ended = threading.Event()
            threading.Thread(target=lambda: (command.wait(), ended.set()), daemon=True).start()
            while not ended.wait(EVERY):
                peak = max(peak, sum(map(held, family(command.pid))))
            output.seek(0)
            if command.returncode:
                raise RuntimeError(output.read())
        log = Path(directory) / "study" / "logs" / "models.log"
        loads = log.read_text().count(" loaded judge ") if log.exists() else 0
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor": processor, "gibibytes": peak / 2**30, "loads": loads}


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    members = [pid]
    for member in members:
        members += children.get(member, [])
    return members


def held(pid: int) -> int:
    """Return the proportional set size of a process in bytes, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=1024, help="features of the model (default %(default)s)")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    from tests.harness.models.tiny_models import qwen_vl

    with tempfile.TemporaryDirectory() as directory:
        model = qwen_vl(Path(directory) / "qwen_vl", hidden=options.hidden, layers=options.layers)
        weights = (model / "model.safetensors").stat().st_size
        rounds = [{share: measure(model, share) for share in (False, True)} for _ in range(options.rounds)]
    figures: dict[str, Any] = {"weights_gibibytes": weights / 2**30, "load_average": os.getloadavg()[0]}
    for name, share in (("own", False), ("shared", True)):
        figures[name] = {
            field: statistics.median(round_figures[share][field] for round_figures in rounds) for field in FIELDS
        }
        figures[name]["rounds"] = [round_figures[share] for round_figures in rounds]
    if options.json:
        print(json.dumps(figures))
        return
    print(f"weights of {figures['weights_gibibytes']:.2f} GiB; load average {figures['load_average']:.1f}")
    print(f"shared weights were loaded {figures['shared']['loads']} time(s) by a host\n")
    print("| each worker loads | shared | median of |\n| --- | --- | --- |")
    for field in FIELDS[:3]:
        print(f"| {figures['own'][field]:.4g} | {figures['shared'][field]:.4g} | {field} |")


if __name__ == "__main__":
    main()
