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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.judged_training import served
from benchmarks.table import Line
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
    layouts: dict[bytes, Array] = {}
    for seed in itertools.count():
        task.reset(seed)
        layouts.setdefault(task.snapshot().tobytes(), task.snapshot())
        if len(layouts) == count:
            return list(layouts.values())
    raise AssertionError("the loop over layouts ends only by returning")


def in_one_batch(asks: QuestionQueue, questions: Sequence[Question]) -> None:
    asks.values(asks.send([(question, f"evaluation/0/{question.episode}") for question in questions], 0), lambda: False)


def one_by_one(asks: QuestionQueue, questions: Sequence[Question]) -> None:
    for question in questions:
        in_one_batch(asks, [question])


def measure(episodes: int, steps: int, latency: float) -> dict[str, Any]:
    """Return the seconds of all steps with one batch per step and with one question at a time, and their ratio."""
    figures: dict[str, Any] = {"episodes": episodes, "steps": steps, "latency": latency}
    ways: dict[str, Callable[[QuestionQueue, Sequence[Question]], None]] = {
        "batch": in_one_batch,
        "one_by_one": one_by_one,
    }
    with served(latency) as judge_settings:
        words = [f"{name}={value}" for name, value in judge_settings.items()]
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
        layouts = snapshots(suite, episodes * (steps + 1))
        for name, way in ways.items():
            with tempfile.TemporaryDirectory() as study:
                assignment = Assignment(
                    RegisteredPart("suite", cell.names.suite, asdict(suite)), "8x8",
                    {"judge": Voice(RegisteredPart("judge", "openai", asdict(judge)))}, asdict(cell.section("drawing")),
                    models=asdict(Models()), directory=str(study_models.folder(Path(study))),
                )  # fmt: skip
                process = ModelProcess(assignment, 900.0, 2 * episodes)
                asks = QuestionQueue(["CELL/0"], 0, process)
                nothing = np.zeros((1, 0), bool)
                questions = [
                    [Question(0, np.zeros(1, np.int64), layouts[step * episodes + number][None], nothing,
                              episode=number)
                     for number in range(episodes)]
                    for step in range(steps + 1)
                ]  # fmt: skip
                in_one_batch(asks, questions[0])  # start the process
                started = time.perf_counter()
                for step_questions in questions[1:]:
                    way(asks, step_questions)
                figures[f"{name}_seconds"] = time.perf_counter() - started
                process.close()
    return figures | {"ratio": figures["one_by_one_seconds"] / figures["batch_seconds"]}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    size = f"{figures['episodes']} episodes, {figures['latency']:g} s an answer"
    ways = [f"{figures[f'{way}_seconds']:.2f} s" for way in ("batch", "one_by_one")]
    yield Line(f"an evaluation that asks at each step ({size}): one by one", *ways, figures["ratio"], "8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.episodes, options.steps, options.latency)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{figures['episodes']} episodes, {figures['steps']} steps, {figures['latency']:g} s an answer:")
    print(f"one batch a step {figures['batch_seconds']:.2f} s, one by one {figures['one_by_one_seconds']:.2f} s")
    print(f"ratio {figures['ratio']:.1f}")


if __name__ == "__main__":
    main()
