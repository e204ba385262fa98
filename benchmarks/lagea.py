"""LaGEA's cost: training steps beside SAC's, frames drawn and embedded, and the reward of stored transitions anew.

    python -m benchmarks.lagea [--pairs 3] [--turns 6] [--widths 1024 128] [--batches 1 8 32 128] [--episodes 40]

`training`: steps per second of `lagea`, of `furl` and of `relay` divided by those of `sac` on MetaWorld's reach, in
turns (benchmarks/turns.py), with hand-written models in processes of their own, every fourth frame embedded, for each
width of the frames' vectors. Each contender has one thread, and the models need a spare core. Turns begin when the
first feedback has arrived and every step is followed by a gradient step.

`frames`: frames of 128 pixels drawn from snapshots and embedded per second, by the number in one question, in one
process.

`relabelling`: the dense reward of all stored transitions with the heads' current parameters, in transitions per second:
episode by episode, with each frame projected once, beside a plain loop over batches as the learner draws them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.table import Line
from benchmarks.turns import Contender, cell_arguments, interleave, rate
from guidebench.baselines.frame_vectors import FRAME
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Build, Observations, Transition
from guidebench.harness.models.calls import EmbedCall
from guidebench.harness.models.embedders.scripted import Projection
from guidebench.harness.streams import Streams
from guidebench.methods.furl.dialogue import cropped
from guidebench.methods.lagea import WEIGHT, Lagea
from guidebench.methods.lagea.episodes import Recording

METHODS = ("relay", "furl", "lagea")
HORIZON = 500
BATCH = 256


def training(
    methods: list[str], pairs: int, turns: int, start: int, turn: int, profile: str, width: int, size: int
) -> dict[str, dict[str, float]]:
    """Return steps per second of each method, and its speed relative to `sac` (median and extremes over rounds)."""
    cell_settings: dict[str, object] = {
        "suite": "metaworld_mt10", "task": "reach", "profile": profile, "training.steps": start + turns * turn + 1,
        "training.capacity": 100_000,
    }  # fmt: skip
    guided = {"embedder": "scripted", "embedder.width": width, "guide.width": width, "guide.every": 4,
              "drawing.size": size}  # fmt: skip
    model_settings = {"text_embedder": "scripted", "feedback": "scripted"}
    methods = ["sac", *methods]
    speedups: dict[str, list[float]] = {method: [] for method in methods}
    rates: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(pairs):
        contenders = {
            method: Contender(
                "benchmarks.turns",
                cell_arguments(start, turn, {
                    **cell_settings, "method": method, **(guided if method != "sac" else {}),
                    **(model_settings if method == "lagea" else {}),
                }),
            )
            for method in methods
        }  # fmt: skip
        interleave(list(contenders.values()), turns)
        base = sum(taken["seconds"] for taken in contenders["sac"].turns)
        for method, contender in contenders.items():
            speedups[method].append(base / sum(taken["seconds"] for taken in contender.turns))
            rates[method].append(rate(contender, turn))
            contender.close()
    return {
        method: {
            "steps_per_second": statistics.median(rates[method]), "ratio": statistics.median(values),
            "ratio_lowest": min(values), "ratio_highest": max(values),
        }
        for method, values in speedups.items()
    }  # fmt: skip


def frames(batches: list[int], count: int, size: int, width: int) -> dict[str, float]:
    """Return frames drawn and embedded per second, by the frames of one question."""
    from guidebench.suites.metaworld import MetaWorldDrawing, MetaWorldMT10

    task, random = MetaWorldMT10().make("reach"), np.random.default_rng(0)
    snapshots = []
    for _ in range(count):
        task.step(np.float32(random.uniform(-1, 1, 4)))
        snapshots.append(task.snapshot())
    draw, embed = MetaWorldDrawing(size=size).spawn("reach"), Projection(width)
    draw(np.stack(snapshots[:1]))
    frame_rates = {}
    for batch in batches:
        begun = time.perf_counter()
        for first in range(0, count, batch):
            embed(EmbedCall(tuple(cropped(draw(np.stack(snapshots[first : first + batch])), 0.125))))
        frame_rates[str(batch)] = count / (time.perf_counter() - begun)
    return frame_rates


def guide(directory: Path, width: int, episodes: int) -> tuple[Any, Storage]:
    """Return LaGEA's guide and a store of `episodes` episodes whose frames and feedback have random vectors."""
    steps = episodes * HORIZON
    build = Build(
        seeds=(0,), observations=Observations((39,), "float32"), actions=Actions(shape=(4,)), horizon=HORIZON,
        events=(), steps=steps, device="cpu", streams=[Streams(0)], directories=(directory,), capacity=steps,
        slots=steps + 1, parts={"suite": SimpleNamespace(of_run=_itself, goal_snapshot=_no_frame)},
    )  # fmt: skip
    made: Any = Lagea(width=width).spawn(build)
    store, random = Storage(build, made.columns), np.random.default_rng(0)
    observation, no = np.zeros((1, 39), np.float32), np.zeros(1, bool)
    made._store, made._texts[0], made._goals[0] = store, random.normal(size=width), random.normal(size=width)
    for episode in range(episodes):
        first = store.written
        made.episodes[0].open(first, 0)
        for step in range(HORIZON):
            store.append(Transition(
                observation, np.zeros((1, 4), np.float32), -np.ones(1, np.float32), no,
                np.full(1, step == HORIZON - 1), observation, np.zeros((1, 0), bool), None, no,
            ))  # fmt: skip
        numbers = np.arange(first, store.written)
        store.apply(FRAME, 0, numbers, random.normal(size=(HORIZON, width)).astype(np.float16))
        store.apply(WEIGHT.name, 0, numbers, np.ones(HORIZON, np.float32))
        made.episodes[0].openings[episode] = random.normal(size=width)
        made.episodes[0].weights[episode] = 1
        made.episodes[0].feedback[episode] = random.normal(size=768)
        Recording(episode, first, np.zeros(4, np.uint8))
    return made, store


def _itself(seed: int) -> Any:
    return SimpleNamespace(goal_snapshot=_no_frame)


def _no_frame(task: str, seed: int) -> Any:
    return np.zeros(4, np.uint8)


def relabelling(width: int, episodes: int, rounds: int) -> dict[str, float]:
    """Return transitions per second of both ways, and the ratio; both give the same rewards (checked)."""
    with tempfile.TemporaryDirectory() as directory:
        made, store = guide(Path(directory) / "seed-0", width, episodes)
        count = episodes * HORIZON
        taken: dict[str, list[float]] = {"episodes": [], "batches": []}
        for _ in range(rounds):
            begun = time.perf_counter()
            by_episode = [made.along(0, at, at + HORIZON - 1, store).fused for at in range(0, count, HORIZON)]
            taken["episodes"].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            by_batch = [
                made._terms(made._frames(store.gather(np.arange(at, min(at + BATCH, count))[None]))).fused[0]
                for at in range(0, count, BATCH)
            ]
            taken["batches"].append(time.perf_counter() - begun)
        torch.testing.assert_close(torch.cat(by_episode), torch.cat(by_batch), atol=1e-3, rtol=1e-2)
        seconds = {name: statistics.median(values) for name, values in taken.items()}
        return {
            "episodes_per_second": count / seconds["episodes"], "batches_per_second": count / seconds["batches"],
            "ratio": seconds["batches"] / seconds["episodes"],
        }  # fmt: skip


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for width, rows in figures["training"].items():
        rates = [f"{rows[method]['steps_per_second']:.1f} steps/s" for method in ("lagea", "sac")]
        yield Line(f"LaGEA, vectors of {width}: sac", *rates, rows["lagea"]["ratio"], "0.8")
    for width, row in figures["relabelling"].items():
        rates = [f"{row[f'{way}_per_second']:,.0f}/s" for way in ("episodes", "batches")]
        yield Line(f"LaGEA's rewards anew, vectors of {width}: loop over batches", *rates, row["ratio"], "5")
    for count, speed in figures["frames_per_second"].items():
        yield Line(f"frames drawn and embedded, {count} at once", f"{speed:.0f}/s", "", speed, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS, help="trained beside sac (default: all)"
    )
    parser.add_argument("--pairs", type=int, default=3, help="processes per method (default %(default)s)")
    parser.add_argument("--turns", type=int, default=6, help="turns of each process (default %(default)s)")
    parser.add_argument("--start", type=int, default=1_100, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=100, help="steps of a turn (default %(default)s)")
    parser.add_argument("--profile", default="quick", help="default %(default)s")
    parser.add_argument("--widths", type=int, nargs="+", default=[1024, 128], help="widths of frames' vectors")
    parser.add_argument("--size", type=int, default=128, help="pixels along a frame's edge (default %(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128], help="frames of one question")
    parser.add_argument("--frames", type=int, default=256, help="frames drawn per batch size (default %(default)s)")
    parser.add_argument("--episodes", type=int, default=40, help="stored episodes to relabel (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = {
        "frames_per_second": frames(options.batches, options.frames, options.size, 1024),
        "relabelling": {str(width): relabelling(width, options.episodes, 3) for width in options.widths},
        "training": {
            str(width): training(
                options.methods,
                options.pairs,
                options.turns,
                options.start,
                options.turn,
                options.profile,
                width,
                options.size,
            )
            for width in options.widths
        },
    }
    print(json.dumps(figures, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
