"""Trains in a process that kills itself by SIGKILL at a given moment; it reads JSON from standard input, see `main`."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from guidebench.harness.loop import evaluation, training
from tests.conftest import trainer


def main() -> int:
    """Train as JSON on standard input says: `words`, `packs` and `job` are arguments of `train`, and `directory` is the
    study's. `where`: "training" kills the process after this `step`, "evaluation" when the first episode of an
    evaluation at this step or later has ended and others have not, "" never."""
    request: dict[str, Any] = json.load(sys.stdin)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    step = 0
    advance, scored = training.Loop.advance, evaluation.scored

    def advanced(loop: training.Loop, *rest: Any) -> None:
        nonlocal step
        advance(loop, *rest)
        step = loop.step
        if request["where"] == "training" and step == request["step"]:
            die()

    def worth(*rest: Any) -> float:
        if request["where"] == "evaluation" and step >= request["step"]:
            die()
        return scored(*rest)

    training.Loop.advance, evaluation.scored = advanced, worth  # type: ignore[method-assign]
    directory = Path(request["directory"])
    packs = [tuple(pack) for pack in request["packs"]]
    trainer(directory.parent)(*request["words"], packs=packs, directory=directory, **request["job"])
    return 0
