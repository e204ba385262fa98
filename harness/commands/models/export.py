"""Every recorded call of a study in one file, images included; other studies import it, and replay it.

The file holds prompts, images and answers, and no key: keys are never recorded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "every recorded call of a study in one file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY", help="directory of a study")
    parser.add_argument("file", type=Path, metavar="FILE", help="the cassette to write, new")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.exchange import export

    count = export(args.study, args.file)
    print(f"{args.file}: {count:,} answers and failures")
    return 0
