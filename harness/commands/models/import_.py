"""Import recorded calls into a new or existing study; `bench run … models.mode=replay` then answers from them.

Every record is validated before the first is imported: types, sizes, and whether the answer fits the question.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "import recorded calls into a study"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="cassette written by `bench models export`")
    parser.add_argument("study", type=Path, metavar="STUDY", help="directory of a new or existing study")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.exchange import import_

    count = import_(args.file, args.study)
    print(f"{args.study}: {count:,} answers and failures of {args.file} are on record")
    return 0
