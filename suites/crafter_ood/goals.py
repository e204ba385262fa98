"""Vectors of the tasks' goals, which observations hold where a policy has several goals.

They are all-MiniLM-L6-v2's vectors of the nine distinct instructions (recipe `minilm_l6`; choice: ELLM's released code
has another Sentence-BERT), written in nine numbers each: the rows of the symmetric square root of the table of their
cosines, which keep the lengths and cosines of the encoder's 384 numbers. So no run needs the encoder to observe its
goal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from guidebench.harness.interfaces import Array

VECTORS: Mapping[str, Array] = {
    instruction: np.array(numbers, np.float32)
    for instruction, numbers in {
        "make a stone sword":
            (0.879, 0.048, 0.14, 0.07, 0.195, 0.242, 0.103, 0.306, 0.019),
        "mine iron":
            (0.048, 0.902, 0.083, 0.0, 0.289, 0.289, 0.069, 0.068, 0.011),
        "make a wood sword, and attack and eat a cow":
            (0.14, 0.083, 0.794, 0.154, 0.076, 0.196, 0.442, 0.267, 0.089),
        "chop four trees":
            (0.07, 0.0, 0.154, 0.96, 0.02, 0.048, 0.107, 0.172, 0.082),
        "mine a diamond":
            (0.195, 0.289, 0.076, 0.02, 0.923, 0.073, 0.037, 0.08, 0.082),
        "make an iron sword":
            (0.242, 0.289, 0.196, 0.048, 0.073, 0.837, 0.142, 0.301, -0.004),
        "make a wood sword, and attack and eat a cow; beware of zombies":
            (0.103, 0.069, 0.442, 0.107, 0.037, 0.142, 0.839, 0.217, 0.07),
        "make a wood sword":
            (0.306, 0.068, 0.267, 0.172, 0.08, 0.301, 0.217, 0.81, -0.029),
        "survive, and unlock as many different achievements as possible":
            (0.019, 0.011, 0.089, 0.082, 0.082, -0.004, 0.07, -0.029, 0.986),
    }.items()
}  # fmt: skip
"""Instruction -> its vector, float32 [9], of length 1 but for rounding."""
WIDTH = len(VECTORS)
"""Numbers in a vector."""


def instruction_of(vector: Array) -> str:
    """Return the instruction of the nearest of the suite's vectors to `vector`, float32 [9]."""
    return max(VECTORS, key=lambda instruction: float(VECTORS[instruction] @ vector))
