"""Show a study's runs where you watch runs: TensorBoard, W&B, trackio or MLflow. Nothing is sent twice.

  bench track runs/NAME --to wandb
  bench track runs/NAME --to mlflow,trackio --follow     go on until no run is trained any more

A tracker takes its address, key and directory from its own environment variables (docs/trackers.md). Points appear once
a checkpoint holds them; the report's figures and table go along. `bench run … trackers=wandb` does the same from a
process beside the runs.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

from guidebench.harness.errors import UserError

QUEUE_EVERY = 10.0
"""Seconds between two looks at the queues of schedulers (choice: their answers are slow)."""
HELP = "show a study's runs on TensorBoard, W&B, trackio or MLflow"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", type=Path, help="directory that `bench run` wrote, such as runs/NAME")
    parser.add_argument("--to", metavar="NAME,…", required=True, help="tensorboard, wandb, trackio, mlflow")
    parser.add_argument(
        "--follow", action="store_true", help="go on until no process trains the study and no scheduler has jobs of it"
    )
    parser.add_argument(
        "--offsets",
        metavar="DIR",
        type=Path,
        help="where is noted how far each tracker has come (default: STUDY/.trackers)",
    )


def run(args: argparse.Namespace) -> int:
    from contextlib import ExitStack

    from guidebench.harness.run import queues
    from guidebench.harness.trackers import following

    names = [name for name in dict.fromkeys(args.to.split(",")) if name]
    if not names:
        raise UserError("--to names no tracker; give some of tensorboard, wandb, trackio, mlflow, as in --to wandb")
    following.ready(names)
    looked, jobs = -math.inf, False

    def waiting() -> bool:
        """Return whether a scheduler had jobs of the study at the last look."""
        nonlocal looked, jobs
        if time.monotonic() - looked >= QUEUE_EVERY:
            jobs, looked = bool(queues.of(args.study)[0]), time.monotonic()
        return jobs

    with ExitStack() as open_:
        each = [open_.enter_context(following.Following(args.study, name, args.offsets)) for name in names]
        following.follow(
            each,
            lambda: not args.follow or (all([one.ended for one in each]) and not waiting()),
            lambda line: print(f"bench: {line}", file=sys.stderr),
        )
    for one in each:
        print(one.summary + (", and not all has been sent" if one.errors else ""))
    return 1 if any(one.errors for one in each) else 0
