"""Cost of array answers compared with JSON: in the pipe, the cassette, the replay ring and checkpoints.

    python -m benchmarks.arrays [--numbers 1024] [--stretch 32] [--questions 60] [--transitions 500000] [--seeds 3]

An embedder's answers about consecutive transitions are processed as in a run: checked and cast, sent over a pipe,
recorded, applied to a late column, and read back from the cassette. As JSON, the same numbers are a list in the pipe
and a text in the cassette. The variants alternate question by question; figures are medians per transition. An
embedder's own answers are float32, so its cassette holds float32, whatever dtype a part declares.

Checkpoints are of full stores in which every transition has its answer, with 5,000 new answers since the last
checkpoint. JSON answers in a checkpoint would have to be rewritten each time; that is timed with fewer answers and
scaled up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.table import Line
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Array, ArraySpec, Build, Observations, Transition, TransitionColumn
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.build import SPACING
from guidebench.harness.models.calls import Answer, EmbedCall, Form, Ticket, Usage
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from guidebench.harness.models.messages import Served
from guidebench.harness.plan.arrays import Declared, fitted
from guidebench.harness.streams import Streams

TOOK = Usage(calls=1)
SCALED = 2_000
"""Transitions whose answers are timed as JSON before scaling up."""


class Listed(EmbedCall):
    """An embed call whose answers are encoded as lists."""

    array: ClassVar[Form | None] = None

    @classmethod
    def encode(cls, value: Any) -> Any:
        return value.tolist()

    @classmethod
    def decode(cls, stored: Any) -> Any:
        return np.asarray(stored, np.float32)


def store(directory: Path, seeds: int, capacity: int, columns: tuple[TransitionColumn, ...]) -> Storage:
    """Return a store of transitions with four-number observations."""
    build = Build(
        seeds=tuple(range(seeds)), observations=Observations((4,), "float32"), actions=Actions(count=2), horizon=500,
        events=(), steps=capacity, device="cpu", streams=[Streams(seed) for seed in range(seeds)],
        directories=tuple(directory / f"seed-{seed}" for seed in range(seeds)), capacity=capacity,
        slots=capacity + 2 * SPACING + 1,
    )  # fmt: skip
    return Storage(build, columns)


def fill(storage: Storage, seeds: int, count: int) -> None:
    observation, none = np.zeros((seeds, 4), np.float32), np.zeros(seeds, bool)
    transition = Transition(
        observation, np.zeros(seeds, np.int16), np.zeros(seeds, np.float32), none, none, observation,
        np.zeros((seeds, 0), bool), None, none,
    )  # fmt: skip
    for _ in range(count):
        storage.append(transition)


def answers(numbers: int, stretch: int, questions: int) -> dict[str, dict[str, float]]:
    """Return for each encoding the bytes per transition in pipe, cassette and ring, and the microseconds per transition
    from the model's answer to the ring and from the cassette to the ring."""
    random = np.random.default_rng(0)
    sender, receiver = Pipe()
    ear = ThreadPoolExecutor(1)
    figures: dict[str, dict[str, float]] = {}
    ways = {"float16": EmbedCall, "float32": EmbedCall, "JSON": Listed}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        stores = {
            way: store(directory / way, 1, stretch, (TransitionColumn("vector", "late", (numbers,), _dtype(way)),))
            for way in ways
        }
        cassettes = {way: Cassette([], directory / f"shard-{way}.sqlite") for way in ways}
        live: dict[str, list[float]] = {way: [] for way in ways}
        replayed: dict[str, list[float]] = {way: [] for way in ways}
        sizes: dict[str, int] = {}
        keys = np.arange(stretch)
        for storage in stores.values():
            fill(storage, 1, stretch)

        def arrive(way: str, value: Array) -> None:
            """Move an answer from the model process into the ring."""
            if way == "JSON":
                answer_value: Any = value.astype(np.float64).tolist()
            else:
                answer_value, _ = fitted(
                    value, Declared(ArraySpec("vector", (numbers,), way), "guide 'mine'", "seer"), stretch
                )
            message = Served(Ticket("cell/0", 0, 1), Answer(answer_value, "", TOOK, TOOK))
            coming = ear.submit(receiver.recv)  # a pipe's buffer is smaller than an answer
            sender.send(message)
            got = coming.result().answer.value
            sizes[way] = len(ForkingPickler.dumps(message)) if way not in sizes else sizes[way]
            stores[way].apply("vector", 0, keys, np.asarray(got, _dtype(way)))

        for number in range(questions):
            vectors = random.normal(size=(stretch, numbers)).astype(np.float32)
            for way, kind in ways.items():
                call = kind(tuple(f"{number} {n}" for n in range(stretch))).request({"model": "m"}, None)
                ticket = Ticket("cell/0", number, number)

                def record(way: str = way, call: Any = call, ticket: Ticket = ticket, vectors: Array = vectors) -> None:
                    cassettes[way].record(CassetteEntry(call, ticket, "m", Answer(vectors, "", TOOK, TOOK), {}, TOOK))
                    arrive(way, vectors)

                def replay(way: str = way, call: Any = call, ticket: Ticket = ticket) -> None:
                    outcome = cassettes[way].find(call, ticket)
                    assert outcome is not None
                    arrive(way, outcome.value)

                live[way].append(_seconds(record))
                replayed[way].append(_seconds(replay))
        for way in ways:
            cassettes[way].close()
            figures[way] = {
                "pipe_bytes": sizes[way] / stretch,
                "cassette_bytes": (directory / f"shard-{way}.sqlite").stat().st_size / stretch / questions,
                "ring_bytes": numbers * np.dtype(_dtype(way)).itemsize,
                "live_microseconds": 1e6 * statistics.median(live[way]) / stretch,
                "replay_microseconds": 1e6 * statistics.median(replayed[way]) / stretch,
            }
    return figures


def _dtype(way: str) -> str:
    return "float32" if way == "JSON" else way


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def saved(storage: Storage, directory: Path, seeds: int, step: int) -> tuple[float, int]:
    """Return seconds and bytes of a checkpoint of all seeds."""
    started = time.perf_counter()
    paths = [checkpoints.save(directory / f"seed-{row}", step, {"storage": storage.state(row)}) for row in range(seeds)]
    seconds = time.perf_counter() - started
    return seconds, sum(file.stat().st_size for path in paths for file in path.iterdir())


def checkpoint(numbers: int, transitions: int, seeds: int, repeats: int) -> dict[str, Any]:
    """Return seconds and bytes of writing a checkpoint of all seeds and seconds of loading it, without and with a late
    column, and the additional cost of JSON answers."""
    figures: dict[str, Any] = {"transitions": transitions, "seeds": seeds, "numbers": numbers}
    random = np.random.default_rng(0)
    for dtype in ("", "float16"):
        with tempfile.TemporaryDirectory() as name:
            columns = (TransitionColumn("vector", "late", (numbers,), dtype, float("nan")),) if dtype else ()
            storage = store(Path(name), seeds, transitions, columns)
            block = random.normal(size=(SPACING, numbers)).astype(np.float16)

            def grow(count: int, storage: Storage = storage, dtype: str = dtype, block: Array = block) -> None:
                fill(storage, seeds, count)
                for row in range(seeds) if dtype else ():
                    storage.apply("vector", row, np.arange(storage.written - count, storage.written), block[:count])

            for begin in range(0, transitions, SPACING):
                grow(min(SPACING, transitions - begin))
            saved(storage, Path(name), seeds, 0)
            rows = []
            for number in range(1, repeats + 1):
                grow(min(SPACING, transitions))
                rows.append(saved(storage, Path(name), seeds, number))
            states = [storage.state(row) for row in range(seeds)]
            fresh = store(Path(name), seeds, transitions, columns)
            way = "late_column" if dtype else "none"
            figures[f"{way}_seconds"] = statistics.median(seconds for seconds, _ in rows)
            figures[f"{way}_bytes"] = rows[-1][1]
            figures[f"{way}_resume_seconds"] = _seconds(
                lambda fresh=fresh, states=states: [fresh.load_state(row, state) for row, state in enumerate(states)]
            )
            if dtype:
                ring = Path(name) / "seed-0" / "replay" / "vector.bin"
                figures["ring_bytes"] = seeds * ring.stat().st_blocks * 512
    count = min(SCALED, transitions)
    listed = random.normal(size=(count, numbers)).astype(np.float32).tolist()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state.json"

        def write() -> None:
            with open(path, "w") as file:
                json.dump(listed, file)
                file.flush()
                os.fsync(file.fileno())

        times = [_seconds(write) for _ in range(repeats)]
        scale = transitions * seeds / count
        figures["json_seconds"], figures["json_bytes"] = statistics.median(times) * scale, path.stat().st_size * scale
    return figures


def measure(numbers: int, stretch: int, questions: int, transitions: int, seeds: int, repeats: int) -> dict[str, Any]:
    rows = answers(numbers, stretch, questions)
    ratios = {
        way: {measure_name: rows["JSON"][measure_name] / figure for measure_name, figure in row.items()}
        for way, row in rows.items()
    }
    return {
        "numbers": numbers, "answers": rows, "ratios": ratios,
        "checkpoint": checkpoint(numbers, transitions, seeds, repeats),
    }  # fmt: skip


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    wording = {"live": "asked, recorded and stored", "replay": "from the cassette and stored"}
    for way in ("float16", "float32"):
        for label, words in wording.items():
            microseconds = [
                f"{figures['answers'][encoding][f'{label}_microseconds']:,.0f} µs" for encoding in (way, "JSON")
            ]
            ratio = figures["ratios"][way][f"{label}_microseconds"]
            yield Line(f"an answer of {figures['numbers']:,} {way}, {words}: JSON", *microseconds, ratio, "")
    row = figures["checkpoint"]
    label = f"checkpoint of {row['seeds']} × {row['transitions']:,} answers of {row['numbers']:,} float16: in JSON"
    times = f"{row['late_column_seconds']:.2f} s", f"{row['json_seconds']:,.0f} s"
    yield Line(label, *times, row["json_seconds"] / row["late_column_seconds"], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, default=1_024, help="numbers in the answer about one transition")
    parser.add_argument("--stretch", type=int, default=32, help="transitions per question")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--transitions", type=int, default=500_000, help="transitions per seed in a checkpoint")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    costs = measure(
        options.numbers, options.stretch, options.questions, options.transitions, options.seeds, options.repeats
    )
    if options.json:
        print(json.dumps(costs))
        return
    print(f"{'a transition':24}" + "".join(f"{way:>12}{'x JSON':>9}" for way in costs["answers"]))
    for measure_name in costs["answers"]["JSON"]:
        figures = ((row[measure_name], costs["ratios"][way][measure_name]) for way, row in costs["answers"].items())
        print(
            f"{measure_name.replace('_', ' '):24}"
            + "".join(f"{figure:12,.1f}{ratio:9.2f}" for figure, ratio in figures)
        )
    row = costs["checkpoint"]
    print(f"\ncheckpoint of {row['seeds']} seeds, {row['transitions']:,} transitions of {row['numbers']:,} numbers")
    for way in ("none", "late_column", "json"):
        print(f"{way.replace('_', ' '):24}{row[f'{way}_seconds']:12.2f} s{row[f'{way}_bytes'] / 1e6:14,.1f} MB")
    print(f"resume {row['none_resume_seconds']:.2f} s, {row['late_column_resume_seconds']:.2f} s with the late column")


if __name__ == "__main__":
    main()
