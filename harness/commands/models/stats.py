"""Show the recorded questions, images and failures of a study or a cassette, their actual cost, and what is known of
their models: digests, licences and prices."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from guidebench.harness.errors import count
from guidebench.harness.models.exchange import ModelRecords, stats
from guidebench.harness.texts import one_line

WORDS = {"runs": "for the runs", "first calls": "before training", "probes": "for probes"}
"""Purpose of calls -> its words in the output."""
HELP = "show recorded questions, images and failures, and their cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="STUDY|FILE", help="directory of a study, or a cassette")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _published(model_stats: ModelRecords) -> dict[str, str]:
    """Return what the recipe of a model says of its licence, and of its price in words; its recipe is that of a
    recorded digest, else of its name."""
    from guidebench.harness.models.backends import recipes

    of_digests = (recipes.of_digest(digest) for digest in model_stats.digests)
    recipe = next(filter(None, of_digests), None) or recipes.recipe(model_stats.model)
    if recipe is None:
        return {"licence": "", "price": "unknown"}
    return {"licence": recipe.licence, "price": recipe.price_words}


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.calls import Usage

    statistics = stats(args.source)
    if args.json:
        models = [
            model_stats._asdict()
            | {"answers": model_stats.answers._asdict(), "spent": model_stats.spent._asdict()}
            | {"purposes": {purpose: usage._asdict() for purpose, usage in model_stats.purposes.items()}}
            | _published(model_stats)
            for model_stats in statistics.models
        ]
        print(
            json.dumps({"models": models, "images": statistics.images, "image_bytes": statistics.image_bytes}, indent=1)
        )
        return 0

    def usage_text(usage: Usage, unit: str) -> str:
        tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out, {count(usage.images, 'image')}"
        return f"{usage.calls:,} {unit}, {tokens}, {usage.seconds:,.1f} s, {usage.usd:,.4f} USD"

    for model_stats in statistics.models:
        model, answers, failures, spent, purposes, digests = model_stats
        published = _published(model_stats)
        failed = ", ".join(f"{number:,} {one_line(kind)}" for kind, number in sorted(failures.items()))
        print(one_line(model))
        print(f"  answered  {usage_text(answers, 'questions')}")
        print(f"  failed    {failed or 'none'}")
        print(f"  spent     {usage_text(spent, 'calls')}")
        if len(purposes) > 1:
            parts = (f"{usage.calls:,} {WORDS[purpose]}" for purpose, usage in purposes.items())
            print(f"            of these calls {', '.join(parts)}")
        for digest in digests:
            print(f"  digest    {digest}")
        print(f"  licence   {published['licence'] or 'unknown, since it has no recipe'}")
        print(f"  price     {published['price']}")
    print(f"{count(statistics.images, 'image')}, {statistics.image_bytes / 2**20:,.1f} MiB")
    return 0
