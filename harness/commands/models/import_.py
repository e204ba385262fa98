"""Calls recorded elsewhere, into a study, new or begun; `bench run … models.mode=replay` then answers from them.

Every row is checked before the first is taken: types, sizes, answers of the kind that their question asks for.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "calls recorded elsewhere, into a study"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a cassette, as `bench models export` wrote it")
    parser.add_argument("study", type=Path, metavar="STUDY", help="directory of a study, new or begun")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.exchange import import_

    count = import_(args.file, args.study)
    print(f"{args.study}: {count:,} answers and failures of {args.file} are on record")
    return 0
