"""An evaluation whose agent asks a served model at every step: one batch per step against one question at a time.

    python -m benchmarks.consulting [--episodes 32] [--steps 3] [--latency 0.3]

The model is a judge behind a loopback server that delays each answer by `--latency` seconds, with one concurrent call
per episode. Both variants ask the same questions through the same process, desk and cassette as a run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.judged_training import served
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Question
from guidebench.harness.models import study_models
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix


def snapshots(suite: Any, count: int) -> list[Array]:
    """Return the initial snapshots of `count` distinct layouts."""
    task = suite.make("8x8")
    found: dict[bytes, Array] = {}
    for seed in itertools.count():
        task.reset(seed)
        found.setdefault(task.snapshot().tobytes(), task.snapshot())
        if len(found) == count:
            return list(found.values())
    raise AssertionError("the loop over layouts ends only by returning")


def together(asks: QuestionQueue, questions: Sequence[Question]) -> None:
    asks.values(asks.send([(each, f"evaluation/0/{each.episode}") for each in questions], 0), lambda: False)


def apart(asks: QuestionQueue, questions: Sequence[Question]) -> None:
    for each in questions:
        together(asks, [each])


def measure(episodes: int, steps: int, latency: float) -> dict[str, Any]:
    """Return the seconds of all steps for either variant."""
    found: dict[str, Any] = {"episodes": episodes, "steps": steps, "latency": latency}
    ways: dict[str, Callable[[QuestionQueue, Sequence[Question]], None]] = {"batch": together, "one_by_one": apart}
    with served(latency) as given:
        words = [f"{name}={value}" for name, value in given.items()]
        plan = matrix.plan(
            [
                "suite=minigrid_doorkey",
                "task=8x8",
                "method=vlm_rb",
                "profile=smoke",
                f"judge.in_flight={episodes}",
                *words,
            ]
        )
        cell = plan.cells[0]
        suite, judge = cell.section("suite"), cell.section("judge")
        seen = snapshots(suite, episodes * (steps + 1))
        for name, way in ways.items():
            with tempfile.TemporaryDirectory() as study:
                assignment = Assignment(
                    RegisteredPart("suite", cell.names.suite, asdict(suite)), "8x8",
                    {"judge": Voice(RegisteredPart("judge", "openai", asdict(judge)))}, asdict(cell.section("drawing")),
                    models=asdict(Models()), directory=str(study_models.folder(Path(study))),
                )  # fmt: skip
                process = ModelProcess(assignment, 900.0, 2 * episodes)
                asks = QuestionQueue(1, 0, process)
                nothing = np.zeros((1, 0), bool)
                questions = [
                    [Question(0, np.zeros(1, np.int64), seen[step * episodes + number][None], nothing, episode=number)
                     for number in range(episodes)]
                    for step in range(steps + 1)
                ]  # fmt: skip
                together(asks, questions[0])  # start the process
                started = time.perf_counter()
                for each in questions[1:]:
                    way(asks, each)
                found[f"{name}_seconds"] = time.perf_counter() - started
                process.close()
    return found | {"ratio": found["one_by_one_seconds"] / found["batch_seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure(asked.episodes, asked.steps, asked.latency)
    if asked.json:
        print(json.dumps(found))
        return
    print(f"{found['episodes']} episodes, {found['steps']} steps, {found['latency']:g} s an answer:")
    print(f"one batch a step {found['batch_seconds']:.2f} s, one by one {found['one_by_one_seconds']:.2f} s")
    print(f"ratio {found['ratio']:.1f}")


if __name__ == "__main__":
    main()
