"""What a run's seed decides of its suite, for suites that declare it (see `guidebench.harness.interfaces.Suite`).

Most suites lay out every episode anew from a random stream, so the seed of the run changes nothing else. A suite may
instead give a run one layout, which follows from the run's seed and is the same in training and in evaluation.
"""

from __future__ import annotations

from typing import Any


def of_run(suite: Any, seed: int) -> Any:
    """The suite as the run of this seed has it."""
    told = getattr(suite, "of_run", None)
    return told(seed) if told else suite


def repeats(suite: Any, task: str) -> bool:
    """Whether a deterministic policy plays the same episode whenever a run begins one."""
    told = getattr(suite, "repeats", None)
    return bool(told and told(task))
