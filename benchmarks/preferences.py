"""Cost of learning a reward from preferences: PEBBLE's training against SAC's, reward updates, relabelling.

    python -m benchmarks.preferences [--pairs 2] [--turns 2] [--task button-press]

The task is MetaWorld with the sizes of RL-SaLLM-F and one thread each. Training: every pair is two new processes that
alternate (see benchmarks/turns.py). A turn is the interval between feedback sessions and contains one session: twenty
queries to the scripted teacher, reward learning from all labels so far, and relabelling of all stored transitions.
Turns begin after pre-training. Updates: an epoch of an ensemble over its labels, against the same networks as separate
PyTorch modules and optimisers, one after the other, on the same batches. Relabelling: a full buffer, through the store.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.table import Line
from benchmarks.turns import Contender, cell_arguments, interleave

METHODS = ("sac", "pebble")
OBSERVED, LENGTH, MEMBERS, BATCH, HIDDEN = 17, 10, 3, 128, (256, 256, 256)
"""Sizes of RL-SaLLM-F (app. A and B.1)."""


def training(task: str, profile: str, pairs: int, turns: int, settings: Mapping[str, int]) -> dict[str, Any]:
    """Return steps per second of PEBBLE and of SAC, and the median, lowest and highest ratio over pairs."""
    every, start = settings["guide.every"], settings["guide.pretraining"] + settings["guide.every"] // 2
    pair_rates: list[dict[str, float]] = []
    for _ in range(pairs):
        rivals = {}
        for method in METHODS:
            cell = {"suite": "metaworld_pbrl", "task": task, "profile": profile, "method": method}
            method_settings = {
                key: value for key, value in settings.items() if method == "pebble" or not key.startswith("guide.")
            }
            arguments = cell_arguments(
                start, every, {**cell, **method_settings, "training.steps": start + every * (turns + 2)}
            )
            rivals[method] = Contender("benchmarks.turns", arguments)
        interleave([*rivals.values()], turns)
        for rival in rivals.values():
            rival.close()
        seconds = {method: sum(taken["seconds"] for taken in rival.turns) for method, rival in rivals.items()}
        pair_rates.append({method: every * turns / taken for method, taken in seconds.items()})
    ratios = sorted(pair["pebble"] / pair["sac"] for pair in pair_rates)
    return {
        **{f"{method}_steps_per_second": statistics.median(pair[method] for pair in pair_rates) for method in METHODS},
        "ratio": statistics.median(ratios), "ratio_lowest": ratios[0], "ratio_highest": ratios[-1],
        "pairs": pairs, "turn": every, "turns": turns, "task": task, "profile": profile,
    }  # fmt: skip


def build(seeds: int, directory: Path, capacity: int) -> Any:
    from guidebench.harness.interfaces import Actions, Build, Observations
    from guidebench.harness.streams import Streams

    directories = tuple(directory / str(seed) for seed in range(seeds))
    return Build(
        seeds=tuple(range(seeds)), observations=Observations((OBSERVED,), "float32"), actions=Actions(shape=(4,)),
        steps=capacity, horizon=500, events=(), device="cpu", streams=[Streams(seed) for seed in range(seeds)],
        directories=directories, capacity=capacity, slots=capacity,
    )  # fmt: skip


def updates(labels: int, rounds: int) -> dict[str, Any]:
    """Return seconds of an epoch over `labels` labels: ours, and networks trained one after the other."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn

    from guidebench.baselines.preference.reward_inputs import States
    from guidebench.baselines.preference.rewards import Preferences, RewardEnsemble

    rng = np.random.default_rng(0)
    preferences = Preferences(LENGTH, OBSERVED)
    pairs = rng.standard_normal((labels, 2, LENGTH, OBSERVED), np.float32)
    preferences.add(list(pairs), (rng.random(labels) < 0.5).astype(float).tolist())
    with tempfile.TemporaryDirectory() as directory:
        built = build(1, Path(directory), 1)
        ensemble = RewardEnsemble(built, States(built, HIDDEN).network, MEMBERS, 3e-4, BATCH, 0.0)

    def ours() -> None:
        ensemble.train([preferences], np.array([True]), [rng], 1, 2.0)

    widths = (OBSERVED, *HIDDEN)
    layers = [[nn.Linear(a, b) for a, b in itertools.pairwise(widths)] for _ in range(MEMBERS)]
    models = [
        nn.Sequential(
            *(part for layer in member_layers for part in (layer, nn.LeakyReLU())), nn.Linear(HIDDEN[-1], 1), nn.Tanh()
        )
        for member_layers in layers
    ]
    optimisers = [torch.optim.Adam(model.parameters(), 3e-4) for model in models]

    def theirs() -> None:
        for model, optimiser in zip(models, optimisers, strict=True):
            order = rng.permutation(labels)
            for first in range(0, labels, BATCH):
                chosen = order[first : first + BATCH]
                batch = torch.from_numpy(preferences.pairs[chosen])
                targets = torch.from_numpy(preferences.labels[chosen]).long()
                loss = F.cross_entropy(model(batch).sum((2, 3)), targets)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    taken = [[_seconds(work) for work in (ours, theirs)] for _ in range(rounds + 1)][1:]
    ratios = sorted(b / a for a, b in taken)
    mine, other = (statistics.median(column) for column in zip(*taken, strict=True))
    return {
        "labels": labels, "ours_seconds": mine, "loop_seconds": other, "ratio": statistics.median(ratios),
        "ratio_lowest": ratios[0], "ratio_highest": ratios[-1],
    }  # fmt: skip


def relabelling(transitions: int, rounds: int) -> dict[str, Any]:
    """Return seconds of relabelling a full buffer with an ensemble's reward, as the guide does it."""
    import numpy as np

    from guidebench.baselines.guides.preference import Preference
    from guidebench.baselines.guides.preference.guide import PreferenceGuide
    from guidebench.baselines.storage import Storage
    from guidebench.baselines.teachers.oracle import Oracle
    from guidebench.harness.interfaces import Transition

    with tempfile.TemporaryDirectory() as directory:
        built = build(1, Path(directory), transitions)
        built.parts["teacher"] = Oracle()
        guide = PreferenceGuide(Preference(), built)
        storage, rng = Storage(built, guide.columns), np.random.default_rng(0)
        for _ in range(transitions):
            observation = rng.standard_normal((1, OBSERVED), np.float32)
            no = np.zeros(1, bool)
            action, reward = np.zeros((1, 4), np.float32), np.zeros(1, np.float32)
            storage.append(
                Transition(observation, action, reward, no, no, observation, np.zeros((1, 0), bool), None, no)
            )
        taken = [_seconds(lambda: guide._relabel(storage, np.array([True]))) for _ in range(rounds)]
    seconds = statistics.median(taken)
    return {"transitions": transitions, "members": MEMBERS, "seconds": seconds, "per_member": seconds / MEMBERS}


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    row = figures["training"]
    rates = [f"{row[f'{method}_steps_per_second']:.0f} steps/s" for method in ("pebble", "sac")]
    yield Line(f"MetaWorld {row['task']}, pebble with a session a turn: sac", *rates, row["ratio"], "0.85")
    row = figures["updates"]
    times = f"{1e3 * row['ours_seconds']:.0f} ms", f"{1e3 * row['loop_seconds']:.0f} ms"
    label = f"reward ensemble, an epoch over {row['labels']:,} labels: a loop over its members"
    yield Line(label, *times, row["ratio"], "2")
    row = figures["relabelling"]
    label = f"relabelling {row['transitions']:,} transitions, seconds a member"
    yield Line(label, f"{row['per_member']:.2f} s", "", row["per_member"], "<2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="button-press", help="default %(default)s")
    parser.add_argument("--profile", default="quick", help="default %(default)s")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of training processes (default %(default)s)")
    parser.add_argument("--turns", type=int, default=2, help="feedback sessions per process (default %(default)s)")
    parser.add_argument("--every", type=int, default=2_000, help="steps between sessions (default %(default)s)")
    parser.add_argument("--pretraining", type=int, default=2_000, help="steps before the first (default %(default)s)")
    parser.add_argument("--labels", type=int, default=2_000, help="labels per epoch (default %(default)s)")
    parser.add_argument("--transitions", type=int, default=500_000, help="transitions to relabel (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of updates and relabelling (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    figures = {
        "updates": updates(options.labels, options.rounds),
        "relabelling": relabelling(options.transitions, options.rounds),
        "training": training(
            options.task, options.profile, options.pairs, options.turns,
            {"guide.every": options.every, "guide.pretraining": options.pretraining},
        ),
    }  # fmt: skip
    if options.json:
        print(json.dumps(figures))
        return
    for part, row in figures.items():
        print(f"{part:12} " + ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                                        for name, value in row.items()))  # fmt: skip


if __name__ == "__main__":
    main()
