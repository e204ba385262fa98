"""Rank the methods of many studies on one page, and write the same as CSV and JSON.

Examples:
  bench leaderboard measured                           what this project has measured, to leaderboard/index.html
  bench leaderboard runs/mine runs/theirs --output lb  two studies, and the submissions in lb/submissions
  bench leaderboard --add theirs.zip                   check a submission, keep it, and show it with the others
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from guidebench.harness.errors import UserError
from guidebench.harness.grouping import grouped
from guidebench.harness.texts import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guidebench.reports.leaderboard.board import Board, Entry

COLUMNS = ("rank", "row", "IQM", "seeds", "standing", "source")
MOST = 30
"""Most rows of a suite and tab that the terminal shows."""
HELP = "rank the methods of many studies, or of submissions, on one page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench leaderboard`."""
    parser.add_argument(
        "studies",
        metavar="STUDY",
        nargs="*",
        help="directory of a study, or `measured`: all of this project's; submissions in DIR are shown too",
    )
    parser.add_argument(
        "--add", metavar="FILE", nargs="+", default=[], help="archives of `bench submit` to check and add"
    )
    parser.add_argument("--pull", metavar="REPO", help="add the submissions in a Hugging Face dataset repository")
    parser.add_argument("--output", metavar="DIR", default="leaderboard", help="where it all is (%(default)s)")
    parser.add_argument("--title", metavar="TEXT", default="", help="heading of the page")


def run(args: argparse.Namespace) -> int:
    """Add submissions, build the board, write its files and print it. Return 1 if an archive was refused, else 0; raise
    UserError if there is no row to show."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products are small: threads would only wait for each other
    directory = Path(args.output)
    failed = _added(args, directory)
    gc.disable()  # Without garbage collection, many studies take a tenth less time and hardly more memory.
    try:
        from guidebench.reports.commands.report import write
        from guidebench.reports.leaderboard import files, gathering, page

        board = gathering.gather(args.studies, directory, args.title or gathering.TITLE)
        contents = {
            "index.html": page.render(board).encode(),
            "leaderboard.csv": files.as_csv(board),
            "leaderboard.json": files.as_json(board),
        }
        written = write(directory, contents)
    finally:
        gc.enable()
    _print(board, written)
    return 1 if failed else 0


def _added(args: argparse.Namespace, directory: Path) -> list[tuple[str, str]]:
    """Pull and add the requested submissions, printing each; return those that were refused, with reasons."""
    from guidebench.results import submissions

    added: list[Path] = []
    refused: list[tuple[str, str]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if args.pull:
            from guidebench.results.submissions import hub

            pulled = hub.pull(args.pull, directory)
            added += pulled.added
            refused += [(f"{args.pull}: {name}", reason) for name, reason in pulled.refused]
        for file in args.add:
            try:
                added.append(submissions.add(Path(file), directory))
            except UserError as error:
                refused.append((file, str(error)))
    for path in added:
        print(f"added {path}")
    for warning in caught:
        if warning.category is UserWarning:
            print(f"bench leaderboard: {one_line(warning.message)}", file=sys.stderr)
    for name, reason in refused:
        print(f"bench leaderboard: refused {one_line(name)}: {printable(reason)}", file=sys.stderr)
    return refused


def _print(board: Board, written: list[Path]) -> None:
    from rich.table import Table
    from rich.text import Text

    from guidebench.reports.commands.report import console, tell
    from guidebench.reports.leaderboard.board import TABS

    screen = console()
    titles = {suite.name: suite.title for suite in board.suites}
    suites = grouped(board.entries, lambda row: (row.suite, row.tab))
    for (suite, tab), rows in suites.items():
        print(f"{titles[suite]}, {tab}: {TABS[rows[0].tab]}")
        by_id = {row.id: row for row in rows}
        boards: dict[tuple[object, ...], list[Entry]] = {}
        for row in rows:
            boards.setdefault(row.table(by_id.get(row.beneath)), []).append(row)
        apart = [row for (is_ranked, *_), members in boards.items() if not is_ranked for row in members]
        for ranked in (members for (is_ranked, *_), members in boards.items() if is_ranked):
            first = by_id.get(ranked[0].beneath, ranked[0])
            measure = first.measure
            lower = " (lower is better)" if measure.direction == "lower" else ""
            by = "" if measure.name == "success" else f"by {measure.name}{lower}"
            alone = f"on {first.board} alone" if first.board else ""
            parts = [f"{first.profile} profile", alone, by, first.conditions, _shared(first)]
            title = ", ".join(filter(None, parts))
            table = Table(*COLUMNS, box=None, pad_edge=False, title=Text(title), title_justify="left")
            for row in ranked[:MOST]:
                label = f"  {row.relation}: {_name(row)}" if row.beneath else _name(row)
                texts = (_rank(row), label, _score(row), str(len(row.seeds)), row.standing, row.source)
                table.add_row(*map(Text, texts))
            screen.print(table)
            _more(ranked)
        if apart:
            print(", ".join(filter(None, ["Listed apart", _shared(apart[0])])))
        for row in apart[:MOST]:
            print(f"- {_name(row)} ({row.source}), {_score(row)} on {', '.join(row.tasks)}: {row.apart}")
        _more(apart)
        print()
    if board.refused:
        print("Refused:")
        for refusal in board.refused:
            print(f"- {one_line(refusal.source)}: {printable(refusal.reason)}")
    tell(board.notes, written)


def _name(row: Entry) -> str:
    return row.name or row.label


def _shared(row: Entry) -> str:
    return f"all with {row.shared}" if row.shared else ""


def _more(rows: Sequence[Entry]) -> None:
    if len(rows) > MOST:
        print(f"… and {len(rows) - MOST:,} more, which are on the page")


def _rank(row: Entry) -> str:
    if row.rank is None:
        return "–"
    return str(row.rank) if row.rank_low == row.rank_high else f"{row.rank} ({row.rank_low}–{row.rank_high})"


def _score(row: Entry) -> str:
    from guidebench.reports.summary import scoring

    score = row.score
    digits = scoring.digits([score.value or 0.0])
    if score.low is None or score.high is None:
        return f"{score.value:.{digits}f}"
    return f"{score.value:.{digits}f} [{score.low:.{digits}f}, {score.high:.{digits}f}]"
