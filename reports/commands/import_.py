"""Runs that were logged elsewhere, as a study that reports and comparisons take; they are marked `external`.

  bench import log.csv --suite minigrid_doorkey --output runs/theirs

The CSV has one row per evaluation episode and the columns method, task, seed, step (environment steps of the seed),
episode (its number within the evaluation), success (0 or 1), return, and, if known, length (steps). Others are left
out.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from guidebench.harness.errors import count

HELP = "make a study of evaluation episodes that were logged elsewhere, from CSV"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench import`."""
    parser.add_argument("file", metavar="FILE.csv", type=Path, help="one row per evaluation episode")
    parser.add_argument("--suite", metavar="NAME", required=True, help="the suite that its tasks are of")
    parser.add_argument("--output", metavar="DIR", required=True, help="the study, new or joined")
    parser.add_argument("--profile", metavar="NAME", default="paper", help="the protocol followed (%(default)s)")
    parser.add_argument("--steps", metavar="N", type=int, help="length of a run (default: its last evaluation)")


def run(args: argparse.Namespace) -> int:
    """Write the study from the CSV file. Raise UserError, before anything is written, if the file does not fit."""
    from guidebench.results import importing

    log = importing.read(args.file)
    runs = importing.record(log, Path(args.output), args.suite, args.profile, args.steps)
    if log.unused:
        print(f"columns left out: {', '.join(log.unused)}")
    print(f"{args.output}: {count(runs, 'run')}, marked external\n")
    print(f"  bench report {shlex.quote(str(args.output))}")
    print(f"  bench compare {shlex.quote(str(args.output))} --against measured")
    return 0
