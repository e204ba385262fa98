"""List models by short name, with the calls that each answers, its backends, price and licence.

Settings accept a short name as model, `judge.model=gpt-4o-mini`, as well as any repository id or local path.
Prices are in USD per million input and output tokens at the maker's server, with the date of the price. Models with
published weights that you run yourself have no price per token.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guidebench.harness.models.backends.recipes import Recipe

HELP = "list models by short name, with calls, backends, prices and licences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON, notes included")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from guidebench.harness.models.backends import recipes

    listed = [recipe for name in recipes.names() if (recipe := recipes.recipe(name)) is not None]
    if args.json:
        print(json.dumps([asdict(recipe) | {"pricing": recipe.pricing} for recipe in listed], indent=1, default=str))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("model", "calls", "backends", "USD/M tokens", "held", "papers", "licence"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("model", "calls", "backends", "USD/M tokens"))
    for recipe in listed:
        table.add_row(
            recipe.name,
            ", ".join(recipe.calls) or "none yet",
            ", ".join(recipe.backends) or "none yet",
            _price(recipe),
            str(recipe.price.held) if recipe.price else "",
            ", ".join(recipe.papers),
            recipe.licence,
        )
    console = Console()
    wide = Console(width=max(console.width, 150)) if not console.is_terminal else console
    wide.print(table)
    return 0


def _price(recipe: Recipe) -> str:
    if recipe.price is None:
        return {"free": "own weights", "unknown": "unknown"}.get(recipe.pricing, "")
    return f"{recipe.price.usd_in:.2f} / {recipe.price.usd_out:.2f}"
