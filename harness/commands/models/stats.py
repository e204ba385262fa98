"""Show the recorded questions, images and failures of a study or a cassette, and their actual cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from guidebench.harness.errors import count
from guidebench.harness.texts import one_line

WORDS = {"runs": "for the runs", "first calls": "before training", "probes": "for probes"}
"""Purpose of calls -> how it is said."""
HELP = "show recorded questions, images and failures, and their cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="STUDY|FILE", help="directory of a study, or a cassette")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.models.exchange import stats

    found = stats(args.source)
    if args.json:
        models = [
            each._asdict()
            | {"answers": each.answers._asdict(), "spent": each.spent._asdict()}
            | {"purposes": {purpose: usage._asdict() for purpose, usage in each.purposes.items()}}
            for each in found.models
        ]
        print(json.dumps({"models": models, "images": found.images, "image_bytes": found.image_bytes}, indent=1))
        return 0

    def told(usage: Usage, unit: str) -> str:
        tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out, {count(usage.images, 'image')}"
        return f"{usage.calls:,} {unit}, {tokens}, {usage.seconds:,.1f} s, {usage.usd:,.4f} USD"

    for model, answers, failures, spent, purposes in found.models:
        failed = ", ".join(f"{number:,} {one_line(kind)}" for kind, number in sorted(failures.items()))
        print(one_line(model))
        print(f"  answered  {told(answers, 'questions')}")
        print(f"  failed    {failed or 'none'}")
        print(f"  spent     {told(spent, 'calls')}")
        if len(purposes) > 1:
            parts = (f"{usage.calls:,} {WORDS[purpose]}" for purpose, usage in purposes.items())
            print(f"            of these calls {', '.join(parts)}")
    print(f"{count(found.images, 'image')}, {found.image_bytes / 2**20:,.1f} MiB")
    return 0
