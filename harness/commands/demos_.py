"""Make the demonstrations that runs of a suite begin with, or verify those in the cache.

Each demonstration is an episode of the suite's solver, verified by replaying its actions in a new task. They are stored
below $GUIDEBENCH_CACHE, or ~/.cache/guidebench; `bench run` makes missing ones automatically.

  bench demos suite=minigrid_doorkey task=8x8 --count 10
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.episodes.demonstrations import Demonstrations, DemonstrationSpec

COUNT = 10
HELP = "make and verify the demonstrations that runs begin with"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value", help="as for `bench run`: suite=, task=, suite.…=")
    parser.add_argument(
        "--count", type=int, metavar="N", help=f"episodes (training.demonstrations, or {COUNT} if that is 0)"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="also write them to this directory")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.episodes import demonstrations
    from guidebench.harness.episodes.demonstrations import DemonstrationSpec
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import matrix

    if args.count is not None and args.count < 1:
        raise UserError(f"--count {args.count}: at least 1")
    chosen: dict[DemonstrationSpec, str] = {}
    """Demonstrations to make -> file name of their copy."""
    plan = matrix.plan(args.overrides)
    for cell in plan.trained:
        count = args.count or cell.section("training").demonstrations or COUNT
        for seed in plan.seeds:
            suite = cell.section("suite")
            what = DemonstrationSpec(cell.names.suite, suite.of_run(seed), cell.names.task, count)
            chosen.setdefault(what, f"{what.name}-{what.task}" + (f"-seed-{seed}" if what.suite != suite else ""))
    told = []
    for what, name in chosen.items():
        found = _verified(what)
        if args.output is not None:
            demonstrations.keep(found.episodes, what, args.output / f"{name}.json")
        told.append(_description(what, found))
        if not args.json:
            lengths = [episode.length for episode in found.episodes]
            print(
                f"{what}: {len(lengths)} demonstrations of {min(lengths)} to {max(lengths)} steps, {sum(lengths)} in "
                f"all, verified ({found.digest[:10]}); {what.file}"
            )
    if args.json:
        print(json.dumps(told, indent=1))
    return 0


def _verified(what: DemonstrationSpec) -> Demonstrations:
    from guidebench.harness.episodes import demonstrations

    found = demonstrations.read(what.file)
    if found is None:
        return demonstrations.obtain(what, lambda number, attempts: _tell(what, number, attempts))
    for number, episode in enumerate(found.episodes):
        demonstrations.verify(episode, what.suite.make(what.task), f"demonstration {number} of {what} in {what.file}")
    return found


def _tell(what: DemonstrationSpec, found: int, attempts: int) -> None:
    print(f"{what}: {found} of {what.count} after {attempts} attempts", file=sys.stderr, flush=True)


def _description(what: DemonstrationSpec, found: Demonstrations) -> dict[str, Any]:
    return {
        "suite": what.name,
        "task": what.task,
        "sha256": found.digest,
        "file": str(what.file),
        "episodes": [{"seed": episode.seed, "steps": episode.length} for episode in found.episodes],
    }
