"""Clips judged per second by one architecture in its published size with random weights, by batch size, beside a plain
loop over `generate`, and as a share of the card's own rate of matrix products.

Clips have 32 frames of 256 pixels: of an agent that acts randomly on DoorKey 16x16, of which many are equal, or noise.
Ours is the backend of studies: batches, one scored token, equal frames encoded once, and the prompt's keys and values
computed once where the chat template puts it first (Qwen2.5-VL). The share counts the operations that this computation
needs (arithmetic.py): of distinct frames, and of tokens after the prompt if that is known.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks import judging
from benchmarks.gpu import figures, models
from benchmarks.gpu.figures import Row
from benchmarks.gpu.machine import product, synchronise
from benchmarks.gpu.steps import Ask, Tell
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.transformers_ import model as backend
from guidebench.harness.models.backends.transformers_.frame_features import distinct
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel, Source
from guidebench.harness.models.calls import JudgeCall
from guidebench.suites.minigrid_doorkey import PROMPT

BATCHES = {"perception_lm": (1, 8, 32), "qwen_vl": (1, 16)}
LENGTH = 32
ROUNDS = 8
PEER = "a loop over generate"


class Judge:
    """The backend with one batch size, and what it took in each round."""

    def __init__(self, loaded: LoadedModel, batch: int) -> None:
        with mock.patch.object(backend, "load", lambda source: loaded):
            self.model = backend.TransformersModel(Source(loaded.name), batch_size=batch)
        self.batch = batch
        self.clips: list[int] = []
        self.seconds: list[float] = []


def measure(ask: Ask, tell: Tell) -> None:
    name, device = ask.settings["model"], ask.device
    dtype = torch.bfloat16 if ask.full else torch.float32
    batches, length = (BATCHES[name], LENGTH) if ask.full else ((1, 2), 4)
    count = batches[-1]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        loaded = models.load(name, Path(folder), ask.full, device, dtype)
        synchronise(device)
        seconds = time.perf_counter() - begun
    kind = str(dtype).removeprefix("torch.")
    parameters = sum(part.numel() for part in loaded.model.parameters())
    title = f"{models.TITLES[name]}'s architecture"
    rows = [
        Row(f"{title}: parameters", parameters, "", dtype=kind),
        Row(f"{title}: making it on the device", seconds, "s", seconds=seconds, dtype=kind),
    ]
    tell(rows)
    rate = product(device, dtype, 8192 if ask.full else 256)
    rows.append(rate)
    tell(rows)
    assert rate.figure is not None
    every = {"noise": judging.noise(count, length), "DoorKey": judging.walk(count, length)}
    share = ask.left() / len(every)
    for at, (what, clips) in enumerate(every.items()):
        until = ask.deadline - (len(every) - 1 - at) * share
        judges = [Judge(loaded, batch) for batch in batches]
        label, kept = f"{title}, clips of {what}", list(rows)
        if ask.left() < 0:
            rows.append(Row(label, None, "clips/s", dtype=kind, note="no time was left"))
            tell(rows)
            continue
        plain: tuple[list[int], list[float]] = [], []
        for number in range(ask.rounds(ROUNDS) + 1):  # the first warms up
            started = time.monotonic()
            done, taken = _looped(loaded, clips[: 1 if number == 0 else 2], device)
            if number:
                plain[0].append(done), plain[1].append(taken)
            for judge in judges:
                mine = clips[: min(count, 2 * judge.batch if number else judge.batch)]
                tokens, taken = _judged(judge.model, mine, device)
                if number:
                    judge.clips.append(len(mine)), judge.seconds.append(taken)
            if number:
                told = _rows(label, judges, plain, kind, clips, tokens, name, loaded, rate.figure)
                rows = [*kept, *told]
                tell(rows)
                if 2 * time.monotonic() - started > until:
                    break
    if ask.full:
        rows.append(Row(f"{title}: most memory", torch.cuda.max_memory_allocated() / 2**30, "GiB", dtype=kind))
        tell(rows)


def _looped(loaded: LoadedModel, clips: Sequence[Array], device: str) -> tuple[int, float]:
    """Judge clips in the plain loop; return how many, and the seconds."""
    synchronise(device)
    begun = time.perf_counter()
    for clip in clips:
        judging.loop(loaded, clip)
    synchronise(device)
    return len(clips), time.perf_counter() - begun


def _judged(model: Any, clips: Sequence[Array], device: str) -> tuple[int, float]:
    """Judge clips with ours; return the tokens of each, and the seconds."""
    synchronise(device)
    begun = time.perf_counter()
    tokens = judging.judge(model, clips)
    synchronise(device)
    return tokens, time.perf_counter() - begun


def _rows(
    label: str, judges: Sequence[Judge], plain: tuple[list[int], list[float]], dtype: str, clips: Sequence[Array],
    tokens: int, name: str, loaded: LoadedModel, rate: float,
) -> list[Row]:  # fmt: skip
    found = [figures.of_turns(f"{label}, {PEER}", "clips/s", *plain, batch=1, dtype=dtype)]
    speeds = [done / taken for done, taken in zip(*plain, strict=True)]
    for judge in judges:
        own = [done / taken for done, taken in zip(judge.clips, judge.seconds, strict=True)]
        note, work = _work(judge, clips[: min(len(clips), 2 * judge.batch)], tokens, name, loaded)
        row = figures.of_turns(
            f"{label}, ours", "clips/s", judge.clips, judge.seconds, batch=judge.batch, dtype=dtype, note=note
        )  # fmt: skip
        found.append(figures.compared(row, PEER, own, speeds))
        shares = sorted(100 * speed * work / 1e12 / rate for speed in own)
        found.append(
            Row(
                f"{label}, ours: share of the card's matrix products",
                100 * (row.figure or 0) * work / 1e12 / rate,
                "%",
                shares[0],
                shares[-1],
                row.turns,
                row.seconds,
                batch=judge.batch,
                dtype=dtype,
                note=f"{work / 1e12:.3g} TFLOP a clip at {rate:.3g} TFLOP/s",
            )
        )
    return found


def _work(judge: Judge, clips: Sequence[Array], tokens: int, name: str, loaded: LoadedModel) -> tuple[str, float]:
    """Return what was computed, in words, and the mean operations of a clip."""
    scoring = judge.model._judging
    inputs = scoring.inputs([JudgeCall(clips[0], PROMPT)])
    shared = scoring._shared(inputs["input_ids"])
    known = shared if shared > scoring._worth * tokens and scoring._exact.get(True) else 0
    fast = bool(scoring._exact.get(known > 0))
    thw = inputs.get("video_grid_thw")
    grid = (int(thw[0, 1]), int(thw[0, 2])) if thw is not None else (0, 0)
    together = -(-len(clips[0]) // int(thw[0, 0])) if thw is not None else 1
    groups = range(0, len(clips), judge.batch)
    units = len(clips[0]) // together
    encoded = sum(len(distinct(clips[at : at + judge.batch], together)[0]) for at in groups) / len(clips)
    once = (
        "mm_encoder_outputs" in inspect.signature(loaded.model.forward).parameters
    )  # else `with_frame_features` does nothing
    encoded = encoded if fast and once else units
    work = sum(
        models.operations(name, loaded.model.config, grid, count, tokens, known) * weight
        for count, weight in ((int(encoded), 1 - encoded % 1), (int(encoded) + 1, encoded % 1))
    )
    words = f"{tokens} tokens, {encoded:.1f} of {units} {'frames' if together == 1 else 'pairs of frames'} encoded"
    return f"{words}, prompt of {known} known" if known else words, work
