"""Run methods with a judge on standard and on perturbed frames, as one study with sample frames.

Only the frames that the judge sees change; observations and task stay the same. A method without a judge in the same
command runs once, for comparison. Overrides are those of `bench run`; the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from guidebench.harness.commands import run_

if TYPE_CHECKING:
    from guidebench.harness.plan.matrix import Plan
    from guidebench.harness.run.study import Study

HELP = "run methods with a judge on standard and on perturbed frames"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_.add_arguments(parser)
    run_.add_only(parser, "perturbations, such as texture")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.plan import matrix, variations
    from guidebench.harness.playback import sample_frames
    from guidebench.harness.records.study import FRAMES

    plan = variations.perturbations(matrix.plan(args.overrides), run_.only(args))

    def add(outcome: Study) -> None:
        sample_frames.write(plan, outcome.directory)
        if not args.json:
            print(f"sample frames: {outcome.directory / FRAMES}")

    if not args.json:
        _remind(plan)
    return run_.carry_out(plan, args, add)


def _remind(plan: Plan) -> None:
    """Print a reminder of which judges are scripted and not models."""
    from guidebench.harness import registry
    from guidebench.harness.records.schema import INSTRUMENT_CHECK

    judges = dict.fromkeys(part.name for cell in plan.cells for part in cell.names.of("judge"))
    scripted = [name for name in judges if registry.get("judge", name).backend == "scripted"]
    if scripted:
        print(f"Judge {', '.join(scripted)}: {INSTRUMENT_CHECK}.", flush=True)
