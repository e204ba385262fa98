"""The card's own rates: matrix products and copies, against which other figures are shares."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import torch

from benchmarks.gpu.figures import Row, of_turns
from benchmarks.gpu.steps import Ask, Tell

TURNS = 7


def driver() -> str:
    """Return the version of the GPU's driver, or "" if nvidia-smi does not tell."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def synchronise(device: str) -> None:
    """Wait until the device has done all that it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def turns(call: Callable[[], object], times: int, device: str, count: int = TURNS) -> list[float]:
    """Return the seconds of `count` turns of `times` calls each, after one turn as warm-up."""
    seconds = []
    for _ in range(count + 1):
        synchronise(device)
        begun = time.perf_counter()
        for _ in range(times):
            call()
        synchronise(device)
        seconds.append(time.perf_counter() - begun)
    return seconds[1:]


def product(device: str, dtype: torch.dtype, side: int, times: int = 5) -> Row:
    """Return the rate of the product of two random matrices [side, side], which takes 2·side³ floating-point
    operations, in TFLOP/s."""
    first, second = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    seconds = turns(lambda: first @ second, times, device)
    work = times * 2 * side**3 / 1e12
    name = str(dtype).removeprefix("torch.")
    return of_turns(f"matrix product of {side}³", "TFLOP/s", [work] * len(seconds), seconds, dtype=name)


def measure(ask: Ask, tell: Tell) -> None:
    side, numbers = (8192, 2**28) if ask.full else (256, 2**20)
    rows = [product(ask.device, torch.bfloat16, side), product(ask.device, torch.float32, side // 2)]
    tell(rows)
    if ask.full:
        torch.set_float32_matmul_precision("high")
        tensor = product(ask.device, torch.float32, side // 2)
        torch.set_float32_matmul_precision("highest")
        rows.append(Row(**{**tensor.__dict__, "dtype": "float32 as tf32"}))
        tell(rows)
    source = torch.empty(numbers, dtype=torch.float32, device=ask.device).normal_()
    target = torch.empty_like(source)
    seconds = turns(lambda: target.copy_(source), 5, ask.device)
    gigabytes = 5 * 2 * 4 * numbers / 1e9
    rows.append(of_turns("copy on the device, bytes read and written", "GB/s", [gigabytes] * len(seconds), seconds))
    tell(rows)
    numbers = 2**26 if ask.full else 2**20
    host = torch.empty(numbers, dtype=torch.float32).normal_()
    seconds = turns(lambda: host.to(ask.device, copy=True), 2, ask.device)
    rows.append(
        of_turns("copy to the device from pageable memory", "GB/s", [2 * 4 * numbers / 1e9] * len(seconds), seconds)
    )
    small = torch.zeros(1, device=ask.device)
    seconds = turns(lambda: small.add_(1), 1_000, ask.device)
    rows.append(of_turns("launches of a kernel, one after the other", "1/s", [1_000] * len(seconds), seconds))
    if ask.full:
        rows.append(Row("memory of the card", torch.cuda.get_device_properties(0).total_memory / 2**30, "GiB"))
    tell(rows)
