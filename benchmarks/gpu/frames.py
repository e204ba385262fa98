"""Frames of OGBench's scene drawn per second from snapshots, by EGL on the card, beside the package's own `render`."""

from __future__ import annotations

from benchmarks.gpu import figures
from benchmarks.gpu.figures import Row
from benchmarks.gpu.steps import Ask, Tell, Unavailable
from guidebench.harness.errors import UserError
from guidebench.suites.mujoco import gl

SIZES = (200, 448)
"""Pixels along a side: the suite's own, and what Perception-LM reads."""
PEER, ROUNDS = "the package's render", 10
MOMENTS = 16
"""Snapshots of a round, drawn as one clip."""


def measure(ask: Ask, tell: Tell) -> None:
    try:
        opengl = gl.backend()  # before MuJoCo is imported
    except UserError as error:
        raise Unavailable(str(error)) from None
    from benchmarks import frames

    rows: list[Row] = []
    for size in SIZES if ask.full else (64,):
        timings = frames.measure(ask.rounds(ROUNDS), size, MOMENTS)
        seconds = {
            name: [MOMENTS * seconds_each for seconds_each in taken] for name, taken in timings["rounds"].items()
        }
        counts = [MOMENTS] * len(seconds["ours"])
        note = "" if opengl == "egl" else "drawn in software: no GPU driver offers EGL here"
        more = {"batch": MOMENTS, "dtype": "uint8", "note": note}
        speeds = {name: [1 / seconds_each for seconds_each in taken] for name, taken in seconds.items()}
        mine, peers = (
            figures.of_turns(f"Scene, {size} px, {opengl}, {name}", "frames/s", counts, seconds[who], **more)
            for who, name in zip(("ours", "peer"), ("from snapshots", PEER), strict=True)
        )
        rows += [figures.compared(mine, PEER, speeds["ours"], speeds["peer"]), peers]
        tell(rows)
