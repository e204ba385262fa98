"""Prioritised sample + update at a million transitions: our tree against TorchRL and cpprb, interleaved in one run.

One round is the replay's work per gradient step: draw a batch with importance weights (α = .7, β = 1), then
set the priorities of that batch from new TD errors. There are two comparisons:

- `transitions`: with the batch's data: observation and next observation float32[4], action int64, reward float32,
  terminated bool. TorchRL: `ReplayBuffer(LazyTensorStorage, PrioritizedSampler)`, and `TensorDictReplayBuffer` with
  `update_tensordict_priority`, as its documentation shows it; cpprb: `PrioritizedReplayBuffer`; here: `PerSampler` and
  one `take` a column.
- `indices`: only indices and weights. TorchRL: its sampler without the buffer around it; cpprb: the same buffer over a
  single bool column, which it cannot do without; here: `PerSampler`.

Contenders alternate in turns of a few rounds each, in changing order; a ratio is the median over turns of their time
divided by ours in the same turn. One thread is used. Peers have their own environment:

    python -m venv peers && peers/bin/pip install -r benchmarks/peers.txt
    OMP_NUM_THREADS=1 PYTHONPATH=. peers/bin/python -P benchmarks/replay.py

A peer that is not installed is skipped with a message.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.table import Line
from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.per.sampler import PerSampler
from guidebench.harness.interfaces import Moment, Span, Update

ALPHA, BETA = 0.7, 1.0
Round = Callable[[], object]


def ours(size: int, batch: int, errors: np.ndarray, gather: bool) -> tuple[Round, PerSampler]:
    sampler = PerSampler(Per(alpha=ALPHA, beta=BETA), 1, size)
    sampler.tree.load_leaves(0, initial(size) ** ALPHA)
    turn = Turn(errors)
    moment = Moment(1, Span(0, size, size), [np.random.default_rng(0)], np.empty(0), None)  # type: ignore[arg-type]
    columns = list(transitions(size).values()) if gather else []

    def once() -> object:
        draw = sampler.draw(batch, moment)
        data = [column.take(draw.index[0], axis=0) for column in columns]
        sampler.feedback(draw.index, Update(turn.next()[None], {}))
        return data

    return once, sampler


def torchrl_rounds(size: int, batch: int, errors: np.ndarray) -> dict[str, tuple[str, Round]]:
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler

    torch.set_num_threads(1)
    data = TensorDict({name: torch.from_numpy(column) for name, column in transitions(size).items()}, batch_size=[size])
    tensors = [torch.from_numpy(row) for row in errors]

    def build(kind: type) -> ReplayBuffer:
        sampler = PrioritizedSampler(max_capacity=size, alpha=ALPHA, beta=BETA)
        extra = {"priority_key": "td_error"} if kind is TensorDictReplayBuffer else {}
        buffer = kind(storage=LazyTensorStorage(size), sampler=sampler, batch_size=batch, **extra)
        buffer.extend(data)
        buffer.update_priority(torch.arange(size), torch.from_numpy(initial(size)))
        return buffer

    plain, documented = build(ReplayBuffer), build(TensorDictReplayBuffer)
    turn = Turn(tensors)

    def lean() -> object:
        drawn, info = plain.sample(return_info=True)
        plain.update_priority(info["index"], turn.next())
        return drawn

    def by_the_book() -> object:
        drawn = documented.sample()
        drawn["td_error"] = turn.next()
        documented.update_tensordict_priority(drawn)
        return drawn

    def sampler_alone() -> object:
        index, info = plain.sampler.sample(plain.storage, batch)
        plain.sampler.update_priority(index, turn.next())
        return info

    return {
        "TorchRL ReplayBuffer": ("transitions", lean),
        "TorchRL TensorDictReplayBuffer": ("transitions", by_the_book),
        "TorchRL PrioritizedSampler": ("indices", sampler_alone),
    }


def cpprb_rounds(size: int, batch: int, errors: np.ndarray) -> dict[str, tuple[str, Round]]:
    from cpprb import PrioritizedReplayBuffer

    def build(columns: dict[str, np.ndarray]) -> Round:
        shapes = {name: {"shape": column.shape[1:] or 1, "dtype": column.dtype} for name, column in columns.items()}
        buffer = PrioritizedReplayBuffer(size, shapes, alpha=ALPHA)
        for start in range(0, size, 100_000):
            part = slice(start, start + 100_000)
            buffer.add(**{name: column[part] for name, column in columns.items()}, priorities=initial(size)[part])
        turn = Turn(errors)

        def once() -> object:
            drawn = buffer.sample(batch, BETA)
            buffer.update_priorities(drawn["indexes"], turn.next())
            return drawn

        return once

    columns = transitions(size)
    return {
        "cpprb": ("transitions", build(columns)),
        "cpprb, one bool column": ("indices", build({"terminated": columns["terminated"]})),
    }


class Turn:
    """Cycles through a list."""

    def __init__(self, items: object) -> None:
        self._items, self._at = list(items), 0  # type: ignore[call-overload]

    def next(self) -> np.ndarray:
        self._at = (self._at + 1) % len(self._items)
        return self._items[self._at]


def transitions(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "observation": rng.random((size, 4), np.float32),
        "action": rng.integers(5, size=size),
        "reward": rng.random(size, np.float32),
        "next_observation": rng.random((size, 4), np.float32),
        "terminated": np.zeros(size, bool),
    }


def initial(size: int) -> np.ndarray:
    return np.random.default_rng(2).exponential(size=size).astype(np.float32)


def measure(rounds: dict[str, tuple[str, Round]], turns: int, repeats: int) -> dict[str, np.ndarray]:
    """Return the seconds per round of each contender, [turns], in turns of `repeats` rounds."""
    times = {name: np.empty(turns) for name in rounds}
    order = np.random.default_rng(3)
    for turn in range(-turns // 10, turns):  # the first tenth warms up caches
        for name in order.permutation(list(rounds)):
            once = rounds[name][1]
            start = time.perf_counter()
            for _ in range(repeats):
                once()
            if turn >= 0:
                times[name][turn] = (time.perf_counter() - start) / repeats
    return times


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    ours = {row["compares"]: row for row in figures["rows"] if row["contender"].startswith("guidebench")}
    for row in figures["rows"]:
        if not row["contender"].startswith("guidebench"):
            goal = "5" if row["contender"].startswith("TorchRL") else "2"
            mine = ours[row["compares"]]["microseconds"]
            label = f"sample + update, {figures['size']:,}, {row['compares']}: {row['contender']}"
            yield Line(label, f"{mine:.0f} µs", f"{row['microseconds']:.0f} µs", row["ratio"], goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="transitions stored")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=10, help="rounds per turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("contenders are compared on one thread: set OMP_NUM_THREADS=1")
    errors = np.random.default_rng(4).exponential(size=(64, options.batch)).astype(np.float32)

    full_round, sampler = ours(options.size, options.batch, errors, gather=True)
    rounds = {
        "guidebench": ("transitions", full_round),
        "guidebench, indices": ("indices", ours(options.size, options.batch, errors, gather=False)[0]),
    }
    missing = []
    for peer, build in [("torchrl", torchrl_rounds), ("cpprb", cpprb_rounds)]:
        if importlib.util.find_spec(peer):
            rounds |= build(options.size, options.batch, errors)
        else:
            missing.append(peer)
    times = measure(rounds, options.turns, options.repeats)

    base = {"transitions": times["guidebench"], "indices": times["guidebench, indices"]}
    rows = [
        {
            "contender": name,
            "compares": kind,
            "microseconds": round(float(np.median(times[name])) * 1e6, 1),
            "ratio": round(float(np.median(times[name] / base[kind])), 2),
        }
        for name, (kind, _) in sorted(rounds.items(), key=lambda item: item[1][0], reverse=True)
    ]
    installed = ("numpy", "torch", "torchrl", "cpprb")
    report = {
        "size": options.size,
        "batch": options.batch,
        "rows": rows,
        "tree_bytes_per_transition": round(sampler.tree.nbytes / options.size, 2),
        "missing": missing,
        "versions": {name: importlib.metadata.version(name) for name in installed if importlib.util.find_spec(name)},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"sample + update, {options.size:,} transitions, batch {options.batch}, {options.turns} turns, one thread")
    print(f"{'contender':34}{'compares':14}{'median µs':>10}{'ratio':>8}")
    for row in rows:
        print(f"{row['contender']:34}{row['compares']:14}{row['microseconds']:10}{row['ratio']:8}")
    print(f"tree: {report['tree_bytes_per_transition']} bytes per transition")
    print("versions: " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    if missing:
        print(f"not installed, left out: {', '.join(missing)} (see benchmarks/peers.txt)")


if __name__ == "__main__":
    main()
