"""End the jobs of a study that a scheduler has. Workers write a checkpoint; the same command continues the study.

A study that `bench run` trains itself, with launcher=local, is ended by Ctrl-C there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "end the jobs of a study that a scheduler has"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="directory of the study, as `bench run` printed it")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import reader_process
    from guidebench.harness.errors import count
    from guidebench.harness.records import leases
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run import queues

    study = StudyDirectory(args.study)
    reader_process.read(f"{args.study}: reading its cells", args.study / "study.json", study.read)
    if ended := queues.cancel(args.study):
        print(f"{args.study}: {count(ended, 'job')} cancelled; the same command continues the study")
        return 0
    holder = reader_process.call(f"{args.study}: reading its lease", reader_process.SECONDS, leases.holder, args.study)
    hint = f"; `bench run` trains it ({holder}): stop that process" if holder else ""
    print(f"{args.study}: no job of it is in a queue{hint}")
    return 1
