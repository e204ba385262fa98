"""`bench report STUDY` prints a study's tables and writes files to read, paste and compute with.

`bench report RUN`: the page of one run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guidebench.harness.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from guidebench.reports.sections.files import Report
    from guidebench.reports.summary.listings import Listed

HELP = "write tables, learning curves, LaTeX and an HTML page of a study, finished or not; or the page of one run"
RESAMPLES, RLIABLE_RESAMPLES = 50_000, 2_000
COLUMNS = (110, 140)
"""Least width of printed tables (a narrower terminal wraps them), and their width without a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench report`."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        nargs="+",
        help="directory that `bench run` wrote, such as runs/NAME, or that of one of its runs, …/seed-0, for a page of "
        "its own; several studies with --paper",
    )
    parser.add_argument("--output", metavar="DIR", help="where the files go (default: STUDY/report, RUN/report)")
    parser.add_argument(
        "--resamples",
        metavar="N",
        type=int,
        help=f"bootstrap resamples ({RESAMPLES:,}; {RLIABLE_RESAMPLES:,} of what rliable estimates, which is slow)",
    )
    parser.add_argument(
        "--statistics",
        choices=("own", "rliable"),
        default="own",
        help="what estimates and draws aggregates over tasks, probabilities of improvement and performance profiles: "
        "our own resampling, or the library rliable (%(default)s)",
    )
    parser.add_argument(
        "--paper",
        metavar="NAME",
        help="the tables and figures of a paper instead: vlm_rb, lagea, kagi, dsadf, rl_sallm_f",
    )
    parser.add_argument(
        "--stand-in",
        metavar="TASK=TASK",
        action="append",
        default=[],
        help="with --paper: where its task has no run, show another's in its place, as in 16x16=6x6",
    )
    parser.add_argument(
        "--spread",
        choices=("interval", "pm"),
        default="interval",
        help="in table.tex: 95 %% intervals, or ± the standard error (%(default)s)",
    )
    parser.add_argument("--siunitx", action="store_true", help="in table.tex: columns of siunitx, aligned by the point")
    parser.add_argument(
        "--latex-caption",
        metavar="[TABLE=]TEXT",
        action="append",
        default=[],
        help="in table.tex: the caption of the table of rows, or of another TABLE: aggregates, differences, further (a "
        "second one of a kind: differences-2); may be repeated",
    )
    parser.add_argument(
        "--latex-label",
        metavar="LABEL",
        default="",
        help="in table.tex: label of the table of rows, such as tab:main; others get tab:main-aggregates and so on",
    )
    parser.add_argument(
        "--latex-rename",
        metavar="NAME=NEW",
        action="append",
        default=[],
        help="in table.tex: what to call a row, a task or a column, as in 'vlm_rb=Ours' or auc=Area; the start of a "
        "row's name is enough where no other begins so; may be repeated",
    )
    parser.add_argument(
        "--latex-columns",
        metavar="NAME,NAME",
        help="in table.tex: columns of the table of rows, in this order, of score, iqm, auc, late, best, maxima, "
        "steps, return, success, seeds (default: score,iqm,auc,best,steps, without iqm where it is the mean)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of the table")


def run(args: argparse.Namespace) -> int:
    """Write the report and print it; raise UserError if there is no study or a file does not fit its schema."""
    rliable_resamples = args.resamples or RLIABLE_RESAMPLES
    if args.resamples is None:
        args.resamples = RESAMPLES
    if args.resamples < 100:
        raise UserError(f"--resamples {args.resamples}: a 95 % interval needs at least 100; {RESAMPLES} is the default")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its products are small: threads would only wait for each other
    collecting = gc.isenabled()
    gc.disable()  # a twentieth of the time on a large study, for no memory that matters
    try:
        if args.paper:
            _check_no_table_arguments(args, "--paper")
            return _paper(args)
        if not (Path(args.study[0]).absolute().parent / "cell.json").is_file():
            return _study(args, rliable_resamples)
        _check_no_table_arguments(args, "the page of a run")
        return _run(args)
    finally:
        if collecting:
            gc.enable()


def _study(args: argparse.Namespace, rliable_resamples: int) -> int:
    """Write and print the report of one study; return the exit code."""
    _check_study_arguments(args)
    from guidebench.reports.rendering import wording as words
    from guidebench.reports.sections import engines, files

    columns = [] if args.latex_columns is None else [name.strip() for name in args.latex_columns.split(",")]
    options = files.ReportOptions(
        args.resamples,
        rliable_resamples if args.statistics == engines.RLIABLE else None,
        words.wording(words.captions(args.latex_caption), args.latex_label, args.latex_rename, columns),
        args.spread,
        args.siunitx,
    )
    directory = Path(args.output) if args.output else Path(args.study[0]) / "report"
    report = files.report(args.study[0], options, lambda study: files.written_run_pages(study, directory))
    written = write(directory, report.contents)
    if args.json:
        print(json.dumps({**report.plain, "files": [str(file) for file in written]}, allow_nan=False))
    else:
        _print(report, written)
    return 0


def _run(args: argparse.Namespace) -> int:
    """Write the page of one run; return the exit code."""
    _check_study_arguments(args)
    from guidebench.reports.runs import page, record
    from guidebench.reports.sections import files

    run_record = record.read(args.study[0])
    directory = Path(args.output or Path(args.study[0]) / "report")
    home = files.relative(run_record.study.directory / "report" / "report.html", directory)
    written = write(directory, {"run.html": page.render(run_record, home).encode("utf-8", "backslashreplace")})
    if args.json:
        print(json.dumps({"notes": run_record.notes, "files": [str(file) for file in written]}))
        return 0
    run = run_record.run
    print(f"{run_record.cell.label}, seed {run.seed}: {run.status}, {run.step:,} of {run.steps:,} steps")
    tell(run_record.notes, written)
    return 0


def _check_study_arguments(args: argparse.Namespace) -> None:
    """Raise UserError for arguments that only a paper's report takes: stand-ins and several studies."""
    if args.stand_in:
        raise UserError("--stand-in is allowed only with --paper")
    if len(args.study) > 1:
        raise UserError("one study at a time; `bench compare` sets several side by side, and --paper takes several")


def _check_no_table_arguments(args: argparse.Namespace, instead: str) -> None:
    """Raise UserError for arguments that only a study's own tables take; `instead` names what was asked for, in the
    message."""
    for option in ("latex_caption", "latex_label", "latex_rename", "latex_columns"):
        if getattr(args, option):
            raise UserError(f"--{option.replace('_', '-')} belongs to a study's table.tex, not to {instead}")
    if args.statistics != "own":
        raise UserError(f"--statistics {args.statistics} belongs to a study's report, not to {instead}")


def _paper(args: argparse.Namespace) -> int:
    """Write and print a paper's report; return the exit code."""
    from guidebench import results
    from guidebench.reports.papers import catalogue, report
    from guidebench.reports.papers.files import contents
    from guidebench.reports.sections.files import ours

    catalogue.paper(args.paper)
    stand_ins = dict(_stand_in(text) for text in args.stand_in)
    if len(args.study) > 1 and not args.output:
        raise UserError("several studies are given; name the directory of the report with --output DIR")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        studies = [results.study(directory) for directory in args.study]
        paper_report = report.report(studies, args.paper, stand_ins, args.resamples)
    paper_report = report.with_notes(paper_report, [str(warning.message) for warning in caught if ours(warning)])
    directory = Path(args.output) if args.output else studies[0].directory / "report" / args.paper
    files = write(directory, contents(paper_report))
    if args.json:
        print(json.dumps({**report.plain(paper_report), "files": [str(file) for file in files]}, allow_nan=False))
        return 0
    lead(paper_report.notes, f"{paper_report.name}.html, {paper_report.name}.json")
    report.show(paper_report, console())
    tell((), files)
    return 0


def _stand_in(text: str) -> tuple[str, str]:
    theirs, equals, ours = text.partition("=")
    if not (theirs and equals and ours):
        raise UserError(f"--stand-in {text}: give the paper's task and yours, as in 16x16=6x6")
    return theirs, ours


def write(directory: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files, name -> content, into a directory, creating it if needed; return their paths. Raise UserError if
    that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise UserError(
            f"the report cannot be written to {directory} ({error.strerror}); name another with --output DIR"
        ) from None
    return [directory / name for name in contents]


def _print(report: Report, files: list[Path]) -> None:
    from guidebench.reports.rendering import legends, tables

    screen, summary = console(), report.summary
    lead(summary.notes, "report.html, summary.json")
    for part in report.first:
        _print_listed(part, screen)
    for table in tables.terminal(summary):
        screen.print(table)
    if not summary.rows:
        screen.print("No run has finished an evaluation yet, so there are no numbers.")
    else:
        screen.print(legends.paragraph(summary, "*"), markup=False)
        for table in tables.grids(report.tables):
            screen.print()
            screen.print(table)
        for part in report.listed:
            _print_listed(part, screen)
    tell((), files)


def _print_listed(part: Listed, screen: Console) -> None:
    """Print the paragraphs and tables of texts of a section."""
    from guidebench.reports.rendering import tables

    for remark in part.remarks:
        screen.print(remark, markup=False)
    for table in tables.listings(part.listings):
        screen.print()
        screen.print(table)
    if part.remarks:
        screen.print()


def console() -> Console:
    """Return a console that does not wrap the lines of tables."""
    from rich.console import Console

    width = max(Console().width, COLUMNS[0]) if sys.stdout.isatty() else COLUMNS[1]
    return Console(width=width, highlight=False)


def lead(notes: Sequence[str], full: str) -> None:
    """Print the most important notes on the numbers, at most five; `full`: names of the files that hold all of them."""
    from guidebench.reports.rendering.notes import arranged

    ordered = arranged(notes)
    if ordered.first:
        print("Read this first")
        for note in ordered.first:
            print(f"- {note}")
        if ordered.rest:
            print(f"All {len(ordered.rest)} notes in full: {full}")
        print()


def tell(notes: Sequence[str], files: list[Path]) -> None:
    """Print all notes, then the paths of the written files."""
    if notes:
        print("\nNotes")
        for note in notes:
            print(f"- {note}")
    print("\nWritten:")
    for file in files:
        print(f"  {file}")
