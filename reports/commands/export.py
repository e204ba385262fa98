"""Export a study's evaluation episodes for other programs.

Examples:
  bench export runs/mine --format marl-eval --output mine.json     for marl-eval (data_process_pipeline)
  bench export runs/mine --format csv > mine.csv                   one row per episode
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from guidebench.harness.errors import UserError

HELP = "write a study's evaluation episodes as marl-eval's JSON or as CSV"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench export`."""
    parser.add_argument("study", metavar="STUDY", help="directory of a study")
    parser.add_argument("--format", choices=("marl-eval", "csv"), required=True, help="of what is written")
    parser.add_argument("--output", metavar="FILE", help="where to (default: printed)")


def run(args: argparse.Namespace) -> int:
    """Write or print a study's evaluation episodes in the chosen format, with notes on the error stream; raise
    UserError if there are none."""
    from guidebench import results
    from guidebench.reports.summary import exchange
    from guidebench.reports.summary.names import full

    study = results.study(args.study)
    episodes = results.load(study)
    if not len(episodes):
        raise UserError(f"{args.study}: no run has finished an evaluation yet, so there is nothing to export")
    notes: list[str] = []
    exported = exchange.FORMATS[args.format](episodes, full(study.cells, notes).labels)
    waiting = [run.directory for run in study.runs if run.status != "finished"]
    if waiting:
        notes.append(f"partial: {len(waiting)} of {len(study.runs)} runs are not finished: {', '.join(waiting)}")
    if args.output:
        try:
            Path(args.output).write_text(exported.text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"--output {args.output} cannot be written ({error.strerror})") from None
    else:
        sys.stdout.write(exported.text)
    for note in [*notes, *exported.notes]:
        print(f"bench export: {note}", file=sys.stderr)
    return 0
