"""Show every setting of a cell: its value and unit, which layer set it, its source (paper and table), and its meaning.

bench show suite=minigrid_doorkey method=vlm_rb
bench show method=vlm_rb profile=quick learner.lr=1e-3         the settings that `bench run` would use

A command without method= and difficulty= also prints the suite's difficulties: the words that difficulty=NAME stands
for, with their reasons.

On a terminal of fewer than 140 columns each setting is a paragraph: its value, its meaning, and [the layer that set it]
with the source.
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from guidebench.harness.plan.config import Cell

HELP = "show every setting, which layer set it, and its source"
LONGEST = 72
"""Maximum characters of a value in the table; a longer value, such as a prompt, is printed in full below it."""
TABLE = 140
"""Minimum columns in which the settings are shown as a table; below, each is a paragraph."""
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
    from guidebench.harness.plan import config, matrix

    overrides = list(args.overrides)
    if not any(text.startswith("suite=") for text in overrides):
        overrides.insert(0, f"suite={_home(overrides, registry.names('suite'))}")
    plan = matrix.plan(overrides)
    cells = plan.trained
    if args.json:
        print(json.dumps([_json(cell) for cell in cells], indent=1))
        return 0
    printed: set[tuple[object, ...]] = set()
    for cell in cells:
        # Tasks that share every setting and stage are shown once.
        key = _settings(cell)
        if key in printed:
            continue
        printed.add(key)
        same: list[Cell] = [
            other for other in cells
            if _settings(other) == key
        ]  # fmt: skip
        _show(cell, [other.names.task for other in same])
    if not any(text.startswith((f"{config.DIFFICULTY}=", "method=")) for text in overrides):
        for suite in dict.fromkeys(cell.names.suite for cell in plan.cells):
            _difficulties(suite)
    return 0


def _difficulties(suite: str) -> None:
    """Print the words that each difficulty of a suite stands for, and below each the reason, where words share one."""
    from rich.console import Console
    from rich.text import Text

    from guidebench.harness.plan import difficulties

    console = Console(width=_width())
    for name, words in difficulties.by_reason(suite).items():
        console.print(Text.assemble(("difficulty=", ""), (name, "bold")))
        for reason, typed in words.items():
            for text in (f"    {' '.join(typed)}", f"        {reason}" if reason else ""):
                indent = " " * (len(text) - len(text.lstrip()))
                if text:
                    console.print(Text(textwrap.fill(text, console.width, subsequent_indent=indent)))


def _settings(cell: Cell) -> tuple[object, ...]:
    """Return the key by which cells are shown together: their names without the task, settings and stages."""
    stages = [stage.id for stage in cell.stages]
    return (cell.names._replace(task=""), tuple((key, value.value) for key, value in cell.settings.items()), *stages)


def _home(overrides: list[str], suites: list[str]) -> str:
    """Return the suite to show if none is named: that of the method's recipe, else the first that its parts fit."""
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import grammar, matrix

    if suite := matrix.home({override.key: override for override in grammar.parse(overrides)}):
        return suite
    first: UserError | None = None
    for suite in sorted(suites, key=lambda name: name == "classic"):
        try:
            matrix.plan([f"suite={suite}", *overrides])
            return suite
        except UserError as error:
            first = first or error
    assert first is not None
    raise first


class Line(NamedTuple):
    """A setting as it is shown."""

    key: str
    value: str
    unit: str
    layer: str
    """The layer that set it."""
    source: str
    meaning: str

    @property
    def long(self) -> bool:
        """Whether the value is printed below all settings."""
        return len(self.value) > LONGEST or "\n" in self.value


def _show(cell: Cell, tasks: list[str]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    width = _width()
    console = Console(width=width)
    for text in _heading(cell, tasks):
        console.print(text, soft_wrap=width >= TABLE, highlight=False)
    lines = _lines(cell)
    if width >= TABLE:
        console.print(_table(lines))
    else:
        _paragraphs(console, lines)
    for line in filter(lambda line: line.long, lines):
        console.print(f"\n{line.key}:")
        console.print(Padding(Text(line.value), (0, 0, 0, 4), expand=False))
    console.print()


def _width() -> int:
    """Return the columns of the terminal; those of COLUMNS where there is none, or enough for a table."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal or os.environ.get("COLUMNS", "").isdigit() else max(160, console.width)


def _heading(cell: Cell, tasks: list[str]) -> Iterator[str]:
    """Yield the lines that are printed before a cell's settings, in rich's markup."""
    from rich.markup import escape

    from guidebench.harness import registry
    from guidebench.harness.plan import contents

    names = cell.names
    parts = ", ".join(part.words for part in names.parts)
    few = [*tasks[:MOST], f"and {len(tasks) - MOST} more"] if len(tasks) > MOST else tasks
    yield f"[bold]{names.method}[/bold] on {names.suite} ({', '.join(few)}), profile {names.profile}: {parts}"
    awaited = contents.waits_for(cell)
    cell_line = f"cell: known once {escape(awaited)} is here" if awaited else f"cell {cell.id}"
    yield cell_line + (f", {escape(cell.variant)}" if cell.variant else "")
    if (stage := cell.stage) is not None:
        place = f"{stage.names.suite}/{stage.names.task}"
        yield f"begins from the policies of its pre-training stage: {stage.names.method} on {place} ({stage.id})"
    if ablations := registry.get("method", names.method).ablations:
        yield f"ablations, run by bench ablate: {escape(', '.join(ablations))}"


def _lines(cell: Cell) -> list[Line]:
    """Return every setting of a cell, section by section."""
    from guidebench.harness.plan import config
    from guidebench.harness.settings import show

    lines = []
    for section, section_fields in config.cell_fields(cell.names).items():
        for field in section_fields.values():
            value = cell.settings[f"{section}.{field.name}"]
            lines.append(
                Line(f"{section}.{field.name}", show(value.value), field.unit, value.layer, value.source, field.meaning)
            )
    return lines


def _table(lines: Sequence[Line]) -> Table:
    """Return the settings as a table, for `TABLE` columns or more."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("setting", "value", "unit", "set by", "source", "meaning"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("setting", "value"))
    for line in lines:
        value = "below" if line.long else escape(line.value)
        table.add_row(line.key, value, line.unit, line.layer, escape(line.source), escape(line.meaning))
    return table


def _paragraphs(console: Console, lines: Sequence[Line]) -> None:
    """Print each setting with its value in a line, and what is known of it below, wrapped between words."""
    from rich.text import Text

    section, indent = "", " " * 4
    for line in lines:
        if (present := line.key.partition(".")[0]) != section:
            section = present
            console.print()
        value = Text.assemble((line.key, "bold"), " = ", "(below)" if line.long else line.value)
        console.print(value.append(f" {line.unit}" if line.unit else "", "dim"), highlight=False)
        origin = f"[{line.layer}] {line.source}".rstrip()
        for text in filter(None, (line.meaning, origin)):
            console.print(Text(textwrap.fill(text, console.width, initial_indent=indent, subsequent_indent=indent)))


def _json(cell: Cell) -> dict[str, object]:
    from guidebench.harness import registry
    from guidebench.harness.identity.cells import record
    from guidebench.harness.plan import config, difficulties
    from guidebench.harness.settings import Cited

    content = record(cell)
    content["difficulties"] = {
        name: {key: {"value": cited.value, "source": cited.source} for key, cited in words.items()}
        for name, words in difficulties.every(cell.names.suite).items()
    }
    content["ablations"] = {
        name: {key: value.value if isinstance(value, Cited) else value for key, value in layer.items()}
        for name, layer in registry.get("method", cell.names.method).ablations.items()
    }
    for section, section_fields in config.cell_fields(cell.names).items():
        for field in section_fields.values():
            content["settings"][f"{section}.{field.name}"] |= {"unit": field.unit, "meaning": field.meaning}
    return content
