"""Cost of a recorded call apart from the model: answering it from the cassette, and asking and recording it.

    python -m benchmarks.models_desk [--calls 1000] [--large-calls 60]

Calls go one at a time through the desk to a model that answers immediately, so all time is the desk's: computing the
key, looking it up, asking, recording on disk (every frame is new), and budgeting. Hashing pixels and encoding PNGs is
timed separately, because it grows with the frames and moves to other threads above 128 KiB. Frames are DoorKey's as
rendered for judges. Figures are of the median call; processor time, which other load affects less, is reported too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.table import Line
from guidebench.harness import settings
from guidebench.harness.models import desk as desks
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Call, ChatCall, JudgeCall, Message, Reply, Ticket, Usage, base
from guidebench.harness.models.cassette import Cassette, merge
from guidebench.harness.models.desk import Desk, Policy

PROMPT = "You see frames of a small grid world in the order of time. Has the agent come closer to its goal? " * 5
IDENTITY = {"model": "instant", "backend": "scripted", "revision": "", "scoring": "prefill"}
TOOK = Usage(calls=1, tokens_in=500, tokens_out=1, seconds=1e-6, usd=1e-6)
CLIPS = ((8, 8), (32, 32))
"""Frames and pixels per tile, with eight tiles per side: a small clip, and the clip of VLM-RB's DoorKey."""


class Instant:
    """A model that answers immediately."""

    async def answer(self, call: Call) -> Reply:
        return Reply(0.5 if isinstance(call, JudgeCall) else "yes", TOOK, {"mass": 0.99})

    def estimate(self, call: Call) -> Usage:
        return TOOK

    async def close(self) -> None: ...


def chats(count: int) -> list[Call]:
    return [ChatCall((Message("user", (f"{PROMPT} Question {number}.",)),)) for number in range(count)]


def clips(count: int, length: int, tile: int) -> list[Call]:
    """Return clips of a solved task in which every frame is new."""
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    suite = MiniGridDoorKey()
    task = suite.make("8x8")
    task.reset(0)
    snapshots = []
    for _ in range(length):
        snapshots.append(task.snapshot())
        task.step(task.expert())
    draw = settings.build(suite.drawing, {"tile_size": tile}, "drawing").spawn("8x8")
    frames = draw(np.stack(snapshots))
    calls: list[Call] = []
    for number in range(count):
        clip = frames.copy()
        clip[:, 0, :4, 0] = np.frombuffer(number.to_bytes(4, "little"), np.uint8)
        clip[:, 0, 4, 0] = np.arange(length)
        calls.append(JudgeCall(clip, PROMPT))
    return calls


@contextmanager
def timed(seconds: dict[str, float]) -> Iterator[None]:
    """Measure, within the block, the seconds of hashing pixels and of encoding PNGs, and the processor time of both."""

    def clocked(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*arguments: Any) -> Any:
            started, processor = time.perf_counter(), time.thread_time()
            output = work(*arguments)
            seconds[name] += time.perf_counter() - started
            seconds["processor"] += time.thread_time() - processor
            return output

        return timing

    with (
        mock.patch.object(base, "image_digest", clocked("hash", base.image_digest)),
        mock.patch.object(desks, "png", clocked("png", desks.png)),
    ):
        yield


async def live(calls: Sequence[Call], directory: Path, budget: bool) -> dict[str, float]:
    """Return median microseconds of asking and recording; `beyond` and `processor` exclude hashing and encoding."""
    account = Budget(directory / "budget.json", Limits(usd=1e9)) if budget else None
    cassette = Cassette([], directory / "shard-1.sqlite")
    desk = Desk(Instant(), IDENTITY, "instant", cassette, account, Policy(), "record")
    rows = []
    for number, call in enumerate(calls):
        seconds = dict.fromkeys(("hash", "png", "processor"), 0.0)
        with timed(seconds):
            started, processor = time.perf_counter(), time.process_time()
            await desk.answer(call, Ticket("cell/0", number, number))
            total, processor = time.perf_counter() - started, time.process_time() - processor
        beyond = total - seconds["hash"] - seconds["png"]
        rows.append({**seconds, "processor": processor - seconds["processor"], "total": total, "beyond": beyond})
    await desk.close()
    rows = rows[min(10, len(rows) // 2) :]  # the first calls create the file
    return {name: 1e6 * statistics.median(row[name] for row in rows) for name in rows[0]}


async def replay(calls: Sequence[Call], directory: Path) -> dict[str, float]:
    """Return calls per second from the merged cassette, by the median call, with and without the time of hashing
    pixels."""
    cassette = Cassette([directory / "cassette.sqlite"], None)
    desk = Desk(None, IDENTITY, "instant", cassette, None, Policy(), "replay")
    rows = []
    for number, call in enumerate(calls):
        seconds = dict.fromkeys(("hash", "png", "processor"), 0.0)
        with timed(seconds):
            started = time.perf_counter()
            await desk.answer(call, Ticket("cell/0", number, number))
            total = time.perf_counter() - started
        rows.append((total, total - seconds["hash"]))
    await desk.close()
    median_call_seconds, beyond_hashing = (statistics.median(times) for times in zip(*rows, strict=True))
    return {"calls_per_second": 1 / median_call_seconds, "beyond_hashing": 1 / beyond_hashing}


def row(label: str, calls: Sequence[Call]) -> dict[str, Any]:
    figures: dict[str, Any] = {"what": label, "calls": len(calls), "bytes": sum(map(np.size, calls[0].images()))}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        figures["live"] = asyncio.run(live(calls, directory, budget=False))
        merge(directory)
        figures["replay"] = asyncio.run(replay(calls, directory))
        figures["cassette_bytes_per_call"] = (directory / "cassette.sqlite").stat().st_size / len(calls)
        figures["live_with_budget"] = asyncio.run(live(calls, directory / "budgeted", budget=True))
    return figures


def measure(calls: int, large_calls: int) -> dict[str, Any]:
    rows = [row(f"chat of {len(PROMPT)} characters", chats(calls))]
    for (length, tile), count in zip(CLIPS, (calls, large_calls), strict=True):
        rows.append(row(f"clip of {length} frames of {8 * tile} px", clips(count, length, tile)))
    return {"rows": rows}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        small = row["bytes"] < 2**17  # larger frames are hashed and packed by other threads
        took, again = row["live"], row["replay"]
        parts = f"{took['total']:,.0f} µs, {took['hash']:,.0f} hashing, {took['png']:,.0f} PNG"
        label = f"model call asked and recorded, {row['what']}, µs beyond hashing and PNG"
        yield Line(label, parts, "", took["beyond"], "<200" if small else "")
        label = f"model calls from the cassette, {row['what']}, per second beyond hashing"
        rate = f"{again['calls_per_second']:,.0f}/s"
        yield Line(label, rate, "", again["beyond_hashing"], "5000" if small else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000, help="chats, and clips of the small size")
    parser.add_argument("--large-calls", type=int, default=60, help="clips of the large size")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    measured = measure(options.calls, options.large_calls)
    if options.json:
        print(json.dumps(measured))
        return
    heads = ("live µs", "hash µs", "png µs", "beyond", "processor", "budget +", "replay/s", "no hash/s", "kB/call")
    print(f"{'':30}" + "".join(f"{head:>11}" for head in heads))
    for entry in measured["rows"]:
        took, more, again = entry["live"], entry["live_with_budget"], entry["replay"]
        figures = [took["total"], took["hash"], took["png"], took["beyond"], took["processor"]]
        figures.append(more["beyond"] - took["beyond"])
        figures += [again["calls_per_second"], again["beyond_hashing"], entry["cassette_bytes_per_call"] / 1e3]
        print(f"{entry['what']:30}" + "".join(f"{figure:11,.0f}" for figure in figures))


if __name__ == "__main__":
    main()
