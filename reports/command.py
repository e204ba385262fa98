"""`bench report STUDY`: the table on the terminal, and files to read, paste and compute with."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UserError

if TYPE_CHECKING:
    from reports.judges import Judging
    from reports.summary import Summary

HELP = "tables, learning curves, LaTeX and an HTML page from a study, finished or not"
COLUMNS = (110, 140)
"""Least width of the printed tables, which a narrower terminal wraps, and their width where there is no terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `bench report`."""
    parser.add_argument("study", metavar="STUDY", help="directory that `bench run` wrote, such as runs/NAME")
    parser.add_argument("--output", metavar="DIR", help="where the files go (default: STUDY/report)")
    parser.add_argument("--resamples", metavar="N", type=int, default=50_000, help="bootstrap resamples (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of the table")


def run(args: argparse.Namespace) -> int:
    """Write the report and print it; UserError if there is no study or a file of it does not fit the schema."""
    if args.resamples < 100:
        raise UserError(f"--resamples {args.resamples}: a 95 % interval needs at least 100; 50000 is the default")
    import results
    from reports import export, figures, judges, page, phases, probes, summary, tables

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = results.study(args.study)
        evaluations = results.load(study)
        found = summary.summarise(study, evaluations, reps=args.resamples)
        labels = {row.cell.id: row.label for row in found.rows}
        judgings, seen = judges.judging(study, labels), probes.probed(study, labels)
        spreads = phases.spreads(study, labels)
    found = summary.with_notes(found, [str(warning.message) for warning in caught if _ours(warning)])
    galleries = [
        figures.Gallery("Learning curves", "", figures.learning_curves(found.rows)),
        figures.Gallery("What the draws served", phases.REMARK, phases.drawings(spreads)),
        figures.Gallery("Reference episodes", probes.REMARK, probes.drawings(seen)),
    ]

    directory = Path(args.output) if args.output else study.directory / "report"
    contents: dict[str, bytes] = {
        "report.html": page.render(study, found, galleries, judgings, results.pictures(study)).encode(),
        "table.tex": tables.latex(found).encode(),
        "summary.json": (
            json.dumps(export.plain(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode(),
    }
    for drawing in (drawing for gallery in galleries for drawing in gallery.drawings):
        contents[f"{drawing.name}.png"], contents[f"{drawing.name}.pdf"] = drawing.png, drawing.pdf
    files = _write(directory, contents)
    if args.json:
        print(json.dumps({**export.plain(found), "files": [str(file) for file in files]}, allow_nan=False))
    else:
        _print(found, judgings, files)
    return 0


def main(argv: list[str]) -> int:
    """`bench report` with `argv` after the subcommand; the exit code."""
    parser = argparse.ArgumentParser(prog="bench report", description=HELP)
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except UserError as error:
        print(f"bench report: {error}", file=sys.stderr)
        return 1


def _ours(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is about the study's files, not some library's."""
    return warning.category is UserWarning


def _write(directory: Path, contents: dict[str, bytes]) -> list[Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise UserError(
            f"the report cannot be written to {directory} ({error.strerror}); name another with --output DIR"
        ) from None
    return [directory / name for name in contents]


def _print(found: Summary, judgings: list[Judging], files: list[Path]) -> None:
    from rich.console import Console

    from reports import tables

    width = max(Console().width, COLUMNS[0]) if sys.stdout.isatty() else COLUMNS[1]
    console = Console(width=width, highlight=False)
    for table in tables.terminal(found):
        console.print(table)
    if not found.rows:
        console.print("No run has finished an evaluation yet, so there are no numbers.")
    else:
        console.print(tables.legend(found, "*"), markup=False)
        for table in tables.judging(judgings):
            console.print()
            console.print(table)
    if found.notes:
        console.print("\nNotes")
        for note in found.notes:
            console.print(f"- {note}", markup=False)
    print("\nWritten:")
    for file in files:
        print(f"  {file}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
