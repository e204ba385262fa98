"""Compare new runs with stored ones: each row's difference in final score with its interval and p value.

Examples:
  bench compare runs/mine --against measured                   beside what this project has measured
  bench compare runs/mine --against runs/theirs --task 8x8     each row beside each of theirs
  bench compare runs/one runs/two                              all beside the baseline of the first
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness.errors import UserError

if TYPE_CHECKING:
    from guidebench.reports.summary.comparability import Place
    from guidebench.reports.summary.comparing import Compared
    from guidebench.results import CellRecord, StudyRecord

HELP = "compare new runs with stored ones: difference, interval, p value"
STORED = "what the rows are compared with: a study's directory, or `measured`: all that this project has measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench compare`."""
    parser.add_argument("studies", metavar="STUDY", nargs="+", help="directory of a study, or `measured`")
    parser.add_argument("--against", metavar="STUDY", help=f"{STORED} (default: the baseline of the first STUDY)")
    parser.add_argument("--method", metavar="NAME,…", default="", help="only these methods")
    parser.add_argument("--task", metavar="NAME,…", default="", help="only these tasks: 8x8, or SUITE/TASK")
    parser.add_argument("--mixed-profiles", action="store_true", help="compare across profiles and lengths of training")
    parser.add_argument(
        "--mixed-protocols", action="store_true", help="compare across versions and settings of a suite"
    )
    parser.add_argument("--output", metavar="DIR", help="where the files go (default: STUDY/comparison)")
    parser.add_argument("--resamples", metavar="N", type=int, default=50_000, help="bootstrap resamples (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Print the comparison and write its files; raise UserError if nothing can be compared."""
    if args.resamples < 100:
        raise UserError(f"--resamples {args.resamples}: a 95 % interval needs at least 100; 50000 is the default")
    from guidebench import results
    from guidebench.reports.commands.report import write
    from guidebench.reports.rendering import figures, latex
    from guidebench.reports.summary import comparability, comparing, summaries

    mixing = comparability.Mixing(args.mixed_profiles, args.mixed_protocols)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sides = [results.opened(name) for name in args.studies]
        stored = sides[0]
        if args.against:
            directories = [study.directory for side in sides for study in side.values()]
            stored = _others(results.opened(args.against), directories if args.against == results.MEASURED else [])
        notes = []
        reference = args.against or args.studies[0]
        for name, side in zip(args.studies, sides, strict=True):
            strict = results.MEASURED not in (name, reference)
            ours, theirs = _places(name, side, args), _places(reference, stored, args)
            notes += comparability.require(ours, theirs, mixing, (name, reference), strict)
        new = {name: study for side in sides for name, study in side.items()}
        tasks = {cell.task_id for study in new.values() for cell in study.cells}
        chosen = {
            name: results.select(study, lambda cell: _is_chosen(cell, args) and cell.task_id in tasks)
            for name, study in {**new, **stored}.items()
        }
        # Stored studies come first: a new study of a cell is its replication, not the other way round.
        ordered = [*(name for name in stored if name not in new), *new] if args.against else [*new, *stored]
        comparison = comparing.compare(
            results.join({name: chosen[name] for name in dict.fromkeys(ordered) if chosen[name].cells or name in new}),
            new,
            stored,
            every=bool(args.against),
            mixing=mixing,
            reps=args.resamples,
        )
    notes += [str(warning.message) for warning in caught if warning.category is UserWarning]
    comparison = comparison._replace(summary=summaries.with_notes(comparison.summary, notes))
    first = next(iter(new.values())).directory
    if not args.output and args.studies[0] == results.MEASURED:
        first = Path()
    directory = Path(args.output) if args.output else first / "comparison"
    document, style = comparing.plain(comparison), latex.Style()
    contents = {
        "comparison.json": (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
        "table.tex": "\n".join(
            [
                latex.needs(style),
                *latex.replications(comparison.replications, style),
                *latex.differences(comparison.summary, style),
            ]
        ).encode(),
    }
    files = write(directory, contents | figures.files(figures.learning_curves(comparison.summary.rows)))
    if args.json:
        print(json.dumps({**document, "files": [str(file) for file in files]}, allow_nan=False))
    else:
        _print(comparison, files)
    return 0


def check(against: str, records: Iterable[Mapping[str, Any]], output: Path) -> None:
    """Raise UserError if no run planned for `output` could be compared with any run in `against`, a study's directory
    or `measured`; for a study also if those of a shared task cannot, where for `measured` a note is printed.

    `records` holds the record of each planned cell, as in cell.json.
    """
    from guidebench import results
    from guidebench.reports.summary.comparability import UNMIXED, place, planned, require

    ours = [planned(record) for record in records]
    stored = [place(cell) for study in _others(results.opened(against), [output]).values() for cell in study.cells]
    for note in require(ours, stored, UNMIXED, ("this command", against), strict=against != results.MEASURED):
        print(note, file=sys.stderr)


def _others(studies: dict[str, StudyRecord], directories: Iterable[Path]) -> dict[str, StudyRecord]:
    """Return the studies whose directory is none of `directories`."""
    excluded = {directory.resolve() for directory in directories}
    return {name: study for name, study in studies.items() if study.directory.resolve() not in excluded}


def _places(name: str, side: dict[str, StudyRecord], args: argparse.Namespace) -> list[Place]:
    from guidebench.reports.summary.comparability import listed, place

    cells = [cell for study in side.values() for cell in study.cells]
    places = [place(cell) for cell in cells if _is_chosen(cell, args)]
    if not places:
        raise UserError(f"no runs match --method and --task in {name}; it has {listed(map(place, cells))}")
    return places


def _is_chosen(cell: CellRecord, args: argparse.Namespace) -> bool:
    methods, tasks = (set(filter(None, text.split(","))) for text in (args.method, args.task))
    return (not methods or cell.method in methods) and (not tasks or bool(tasks & {cell.task, cell.task_id}))


def _print(comparison: Compared, files: list[Path]) -> None:
    from guidebench.reports.commands.report import console, tell
    from guidebench.reports.rendering import legends, tables
    from guidebench.reports.summary import matrices, replication

    screen, summary = console(), comparison.summary
    for table in [*tables.replications(comparison.replications), *map(tables.matrix, summary.matrices)]:
        screen.print(table)
    explanations = [replication.LEGEND] if comparison.replications else []
    explanations += [matrices.legend(summary.matrices), legends.setting(summary)]
    screen.print(" ".join(filter(None, explanations)), markup=False)
    tell(summary.notes, files)
