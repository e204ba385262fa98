"""Cost of every replay per gradient step: four new transitions, a draw and its feedback, for one seed and for five.

    python -m benchmarks.samplers [--size 1000000] [--batch 128] [--rounds 200]

The task is DoorKey 8x8 with the paper's network and a full buffer with random priorities and features. AER's cost
includes encoding four observations and the current one, and finding the nearest of up to four batches of candidates;
ERO's includes its replay policy's evaluation of four batches. One thread is used. Figures are microseconds for all
seeds together, medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.harness import registry
from guidebench.harness.interfaces import Moment, Transition, Update
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

TRAIN_EVERY = 4
SEEDS = (1, 5)


def round_seconds(replay: str, seeds: int, size: int, batch: int, rounds: int) -> list[float]:
    """Return the seconds of each round, early in the run, when AER's pool is four batches."""
    from guidebench.baselines.storage import Storage

    parts = roles.parts_of("minigrid_doorkey", "8x8", replay, "paper", {})
    names = Names("minigrid_doorkey", "8x8", replay, "paper", parts)
    cell = config.resolve(names, {"training.steps": size, "training.capacity": size}, {})
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        build = make_build(cell, range(seeds), "cpu", [Path(directory) / str(seed) for seed in range(seeds)])
        sampler = build.parts["replay"].spawn(build)
        storage = Storage(build, (), sampler.columns)
        _fill(sampler, storage, seeds, size, rng)
        task = build.parts["suite"].make("8x8")
        observation = np.stack([task.reset(0)] * seeds)
        nothing = np.zeros(seeds, bool)
        transition = Transition(
            observation, np.zeros(seeds, int), np.zeros(seeds, np.float32), nothing, nothing, observation,
            np.stack([task.events()] * seeds), None, nothing,
        )  # fmt: skip
        update = Update(rng.random((seeds, batch), np.float32), {}, rng.normal(size=(seeds, batch)).astype(np.float32))
        rngs = [streams.sample for streams in build.streams]
        seconds = []
        for _ in range(rounds):
            slots = []
            for _ in range(TRAIN_EVERY):
                slots.append(storage.written % storage.size)
                storage.written += 1
            started = time.perf_counter()
            for slot in slots:
                sampler.added(slot, storage.live, transition)
            draw = sampler.draw(batch, Moment(1, storage.live, rngs, observation, storage))
            sampler.feedback(draw.index, update)
            seconds.append(time.perf_counter() - started)
        return seconds


def _fill(sampler: Any, storage: Any, seeds: int, size: int, rng: np.random.Generator) -> None:
    """Put the replay into the state after storing and learning from `size` transitions."""
    storage.written = size
    for row in range(seeds):
        state = sampler.state(row)
        for name in ("priority", "features", "judged"):
            if name in state:
                state[name][:size] = rng.random((size, *state[name].shape[1:])) if name != "judged" else True
        sampler.load_state(row, state)
        if "features" in storage._columns:
            features = storage._columns["features"][row]
            block = rng.random((4096, features.shape[1]), np.float32)
            for start in range(0, size, len(block)):
                features[start : start + len(block)] = block[: len(features) - start]


def measure(replays: Sequence[str], size: int, batch: int, rounds: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    rows = []
    for replay in replays:
        for seeds in SEEDS:
            taken = round_seconds(replay, seeds, size, batch, rounds + 5)[5:]  # the first ones warm up
            rows.append({"replay": replay, "seeds": seeds, "microseconds": 1e6 * statistics.median(taken)})
    return {"size": size, "batch": batch, "rounds": rounds, "rows": rows}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        label = f"draw + feedback, {figures['size']:,}, S = {row['seeds']}: {row['replay']}"
        yield Line(label, f"{row['microseconds']:.0f} µs", "", row["microseconds"], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000, help="stored transitions")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(registry.names("replay"), options.size, options.batch, options.rounds)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{'replay':10}{'seeds':>6}{'µs':>10}")
    for row in figures["rows"]:
        print(f"{row['replay']:10}{row['seeds']:6}{row['microseconds']:10.0f}")


if __name__ == "__main__":
    main()
