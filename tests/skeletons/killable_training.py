"""Train in a process that may be killed with -9 at a given moment: JSON on standard input, see `main`."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from guidebench.harness.loop import evaluation, training
from tests.conftest import trainer


def main() -> int:
    """`words`, `packs`, `job`: what `train` takes; `directory`; `where` the process is killed: in "training", after
    this `step`, in an "evaluation", when the first episode of one at this step or later has ended and others have not,
    or not at all if it is ""."""
    asked: dict[str, Any] = json.load(sys.stdin)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    here = 0
    advance, scored = training.Loop.advance, evaluation.scored

    def advanced(loop: training.Loop, *rest: Any) -> None:
        nonlocal here
        advance(loop, *rest)
        here = loop.step
        if asked["where"] == "training" and here == asked["step"]:
            die()

    def worth(*rest: Any) -> float:
        if asked["where"] == "evaluation" and here >= asked["step"]:
            die()
        return scored(*rest)

    training.Loop.advance, evaluation.scored = advanced, worth  # type: ignore[method-assign]
    directory = Path(asked["directory"])
    packs = [tuple(pack) for pack in asked["packs"]]
    trainer(directory.parent)(*asked["words"], packs=packs, directory=directory, **asked["job"])
    return 0
