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
            spec = DemonstrationSpec(cell.names.suite, suite.of_run(seed), cell.names.task, count)
            chosen.setdefault(spec, f"{spec.name}-{spec.task}" + (f"-seed-{seed}" if spec.suite != suite else ""))
    descriptions = []
    for spec, name in chosen.items():
        verified = _verified(spec)
        if args.output is not None:
            demonstrations.keep(verified.episodes, spec, args.output / f"{name}.json")
        descriptions.append(_description(spec, verified))
        if not args.json:
            lengths = [episode.length for episode in verified.episodes]
            print(
                f"{spec}: {len(lengths)} demonstrations of {min(lengths)} to {max(lengths)} steps, {sum(lengths)} in "
                f"all, verified ({verified.digest[:10]}); {spec.file}"
            )
    if args.json:
        print(json.dumps(descriptions, indent=1))
    return 0


def _verified(spec: DemonstrationSpec) -> Demonstrations:
    from guidebench.harness.episodes import demonstrations

    cached = demonstrations.read(spec.file)
    if cached is None:
        return demonstrations.obtain(spec, lambda number, attempts: _tell(spec, number, attempts))
    for number, episode in enumerate(cached.episodes):
        demonstrations.verify(episode, spec.suite.make(spec.task), f"demonstration {number} of {spec} in {spec.file}")
    return cached


def _tell(spec: DemonstrationSpec, successes: int, attempts: int) -> None:
    print(f"{spec}: {successes} of {spec.count} after {attempts} attempts", file=sys.stderr, flush=True)


def _description(spec: DemonstrationSpec, demonstrations: Demonstrations) -> dict[str, Any]:
    return {
        "suite": spec.name,
        "task": spec.task,
        "sha256": demonstrations.digest,
        "file": str(spec.file),
        "episodes": [{"seed": episode.seed, "steps": episode.length} for episode in demonstrations.episodes],
    }
