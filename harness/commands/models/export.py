"""Export every recorded call of a study, images included, to one file that other studies can import and replay.

The file holds prompts, images and answers. It holds no API keys, since keys are never recorded. It is compressed if its
name ends in .xz.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "export every recorded call of a study to one file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY", help="directory of a study")
    parser.add_argument("file", type=Path, metavar="FILE", help="cassette to write; must not exist")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.exchange import export

    count = export(args.study, args.file)
    print(f"{args.file}: {count:,} answers and failures")
    return 0
