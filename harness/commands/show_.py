"""Show every setting of a cell: its value and unit, which layer set it, its source (paper and table), and its meaning.

bench show suite=minigrid_doorkey method=vlm_rb
bench show method=vlm_rb profile=quick learner.lr=1e-3         the settings that `bench run` would use
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guidebench.harness.plan.config import Cell

HELP = "show every setting, which layer set it, and its source"
LONGEST = 72
"""Maximum characters of a value in the table; a longer value, such as a prompt, is printed in full below it."""
MOST = 10
"""Maximum number of tasks to print; `bench list` prints all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="+",
        metavar="key=value",
        help="as for `bench run`; without suite=, the suite of the method's recipe, or one that its parts fit",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import registry
    from guidebench.harness.plan import matrix

    overrides = list(args.overrides)
    if not any(text.startswith("suite=") for text in overrides):
        overrides.insert(0, f"suite={_home(overrides, registry.names('suite'))}")
    cells = matrix.plan(overrides).trained
    if args.json:
        print(json.dumps([_json(cell) for cell in cells], indent=1))
        return 0
    shown: set[tuple[object, ...]] = set()
    for cell in cells:
        # Tasks that share every setting and stage are shown once.
        key = _settings(cell)
        if key in shown:
            continue
        shown.add(key)
        same: list[Cell] = [
            other for other in cells
            if _settings(other) == key
        ]  # fmt: skip
        _show(cell, [other.names.task for other in same])
    return 0


def _settings(cell: Cell) -> tuple[object, ...]:
    """Return what cells share that are shown together: names but the task, settings and stages."""
    stages = [stage.id for stage in cell.stages]
    return (cell.names._replace(task=""), tuple((key, value.value) for key, value in cell.settings.items()), *stages)


def _home(overrides: list[str], suites: list[str]) -> str:
    """Return the suite to show if none is named: that of the method's recipe, else the first that its parts fit."""
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import grammar, matrix

    if found := matrix.home({given.key: given for given in grammar.parse(overrides)}):
        return found
    first: UserError | None = None
    for suite in sorted(suites, key=lambda name: name == "classic"):
        try:
            matrix.plan([f"suite={suite}", *overrides])
            return suite
        except UserError as error:
            first = first or error
    assert first is not None
    raise first


def _show(cell: Cell, tasks: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from guidebench.harness import registry
    from guidebench.harness.plan import config, contents
    from guidebench.harness.settings import show

    names = cell.names
    console = Console(soft_wrap=True)
    parts = ", ".join(part.words for part in names.parts)
    few = [*tasks[:MOST], f"and {len(tasks) - MOST} more"] if len(tasks) > MOST else tasks
    console.print(f"[bold]{names.method}[/bold] on {names.suite} ({', '.join(few)}), profile {names.profile}: {parts}")
    awaited = contents.waits_for(cell)
    which = f"cell: known once {escape(awaited)} is here" if awaited else f"cell {cell.id}"
    console.print(which + (f", {escape(cell.variant)}" if cell.variant else ""))
    if (stage := cell.stage) is not None:
        where = f"{stage.names.suite}/{stage.names.task}"
        console.print(
            f"begins from the policies of its pre-training stage: {stage.names.method} on {where} ({stage.id})"
        )
    if ablations := registry.get("method", names.method).ablations:
        console.print(f"ablations, run by bench ablate: {', '.join(ablations)}")
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("setting", "value", "unit", "set by", "source", "meaning"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("setting", "value"))
    texts = []
    for section, known in config.cell_fields(names).items():
        for field in known.values():
            value = cell.settings[f"{section}.{field.name}"]
            shown = show(value.value)
            if len(shown) > LONGEST or "\n" in shown:
                texts.append((f"{section}.{field.name}", shown))
                shown = "below"
            table.add_row(
                f"{section}.{field.name}", escape(shown), field.unit, value.layer, value.source, field.meaning
            )
    wide = Console(width=max(console.width, 160)) if not console.is_terminal else console
    wide.print(table)
    for key, text in texts:
        wide.print(f"\n{key}:")
        wide.print(Padding(Text(text), (0, 0, 0, 4), expand=False))
    wide.print()


def _json(cell: Cell) -> dict[str, object]:
    from guidebench.harness import registry
    from guidebench.harness.identity.cells import record
    from guidebench.harness.plan import config
    from guidebench.harness.settings import Cited

    content = record(cell)
    content["ablations"] = {
        name: {key: value.value if isinstance(value, Cited) else value for key, value in layer.items()}
        for name, layer in registry.get("method", cell.names.method).ablations.items()
    }
    for section, known in config.cell_fields(cell.names).items():
        for field in known.values():
            content["settings"][f"{section}.{field.name}"] |= {"unit": field.unit, "meaning": field.meaning}
    return content
