"""A paper's filled tables as text, for a terminal (rich) and for LaTeX (booktabs); each line shows the published
numbers, then ours."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.grouping import grouped
from guidebench.harness.statistics import Interval
from guidebench.reports.papers import verdicts
from guidebench.reports.papers.claims import ClaimFinding, Outcome
from guidebench.reports.papers.comparisons import Difference
from guidebench.reports.papers.filled import Filled, Line, PublishedEntry, words
from guidebench.reports.papers.matching import HARDWARE, Number
from guidebench.reports.papers.measures import OF_DRAWS
from guidebench.reports.rendering import tables
from guidebench.reports.rendering.latex import escape, floating, stacked
from guidebench.reports.summary import scoring

if TYPE_CHECKING:
    from rich.table import Table

HEADER_CHARACTERS = 14
"""Most characters of a column's name on one line in LaTeX."""
OUR_MACHINE = "our machine"
"""Name of the line with our numbers in a table whose lines are the machines of a paper."""
_LETTERED = (verdicts.NOT_COMPARABLE, verdicts.INCONCLUSIVE)
"""Verdicts whose reasons are marked with letters."""
Letters = Mapping[str, str]
"""Why a number cannot be compared -> the letter that marks it."""


def letters(tables: Iterable[Filled], claims: Iterable[Outcome]) -> dict[str, str]:
    """Assign a letter to each reason against comparing or deciding a number, in the order of the tables."""
    entries: list[PublishedEntry | Outcome] = [entry for table in tables for entry in table.leading]
    lettered = [entry.reasons for entry in (*entries, *claims) if entry.verdict in _LETTERED]
    distinct = dict.fromkeys(reason for reasons in lettered for reason in reasons)
    return {reason: _letter(index) for index, reason in enumerate(distinct)}


def key(letters: Letters) -> str:
    """Return the explanation of all letters, as `a: reason; b: reason`."""
    return "; ".join(f"{letter}: {reason}" for reason, letter in letters.items())


def value(metric: str, number: float, digits: int | None = None) -> str:
    """Format a number of a metric for readers: steps in thousands, gains with a sign, tokens in millions. `digits`:
    decimals of rates and other plain numbers, where an interval justifies them."""
    if math.isnan(number):
        return "—"
    if metric.startswith(("steps_", "seconds_")) and not (digits is not None and "_per_" in metric):
        return "never" if math.isinf(number) else f"{number / 1000:,.0f}K" if number >= 1000 else f"{number:g}"
    if math.isinf(number):
        return "never"  # a saving of steps that are never done
    if metric.endswith(("gain_percent", "saving_percent")):
        return f"{number:+.{1 if digits is None else min(digits, 1)}f}%".replace("-", "−")
    if metric.endswith("_tokens"):
        return f"{number / 1e6:.2f}M" if number >= 1e5 else f"{number:,.0f}"
    if digits is not None:
        return f"{number:,.{digits}f}"
    if metric.endswith("_rate"):
        return f"{number:.2f}"
    return f"{number:,.2f}".rstrip("0").rstrip(".")


def spread(metric: str, interval: Interval) -> str:
    """Return `0.82 [0.71, 0.90]`, without brackets if there is no interval; decimals as the interval justifies."""
    if math.isnan(interval.low):
        return value(metric, float(interval.estimate))
    wide = np.isfinite([interval.low, interval.high]).all() and interval.high > interval.low
    digits = scoring.digits([interval]) if wide else None
    point, low, high = (value(metric, float(number), digits) for number in interval)
    return f"{point} [{low}, {high}]"


def published(cell: Sequence[PublishedEntry]) -> str:
    """Return the published numbers of a cell: the first, then the others in parentheses."""
    return _joined_numbers(
        [
            value(entry.number.metric, entry.number.value)
            + ("" if np.isnan(entry.number.error) else f" ± {entry.number.error:g}")
            for entry in cell
        ]
    )


def ours(cell: Sequence[PublishedEntry]) -> str:
    """Return our numbers, with the interval of the first; a dash if there are none."""
    if not cell or cell[0].ours is None:
        return "—"
    parts = [spread(cell[0].number.metric, cell[0].ours) + _few(cell[0]) + _with(cell[0])]
    parts += [value(entry.number.metric, float(entry.ours.estimate)) for entry in cell[1:] if entry.ours is not None]
    return _joined_numbers(parts)


def _few(entry: PublishedEntry | ClaimFinding) -> str:
    """Return, in parentheses, the note that stands in place of an interval that too few seeds do not have; "" if there
    is none."""
    return f" ({entry.interval_note})" if entry.interval_note else ""


def difference(gap: Difference | None) -> str:
    """Return our difference from the baseline, as `final success −0.20 [−0.41, 0.02] from uer, p 0.087, 24 seeds
    needed`; "" if there is none."""
    if gap is None:
        return ""
    comparison = gap.comparison
    digits = scoring.digits([comparison.difference])
    amount = tables.difference(comparison.difference, comparison.interval_note, digits).replace("-", "−")
    p, needed = tables.p_value(comparison.p), tables.needed(comparison.needed)
    why = f" ({comparison.unknown})" if comparison.unknown else ""
    return f"final {gap.score.name} {amount} from {gap.baseline}, p {p}, {needed} seeds needed{why}"


def differences(line: Line) -> str:
    """Return the texts of our differences from the baselines in a line of a table, each once, joined by "; "."""
    texts = [difference(cell[0].difference) for cell in line.cells if cell]
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _with(entry: PublishedEntry) -> str:
    """Return another metric of ours that is shown beside our number, as ` (812 steps)`; "" if there is none."""
    if entry.beside is None:
        return ""
    name, number = entry.beside
    return f" ({value(name, number)} {words(name.rpartition('_')[2])})"


def of_the_numbers(table: Filled) -> str:
    """Return the remarks on a table's published numbers, such as where the paper contradicts itself; "" without any."""

    def called(number: Number) -> str:
        of = [number.task, number.method, *(f"{key}={text}" for key, text in number.variant.items())]
        return f"{value(number.metric, number.value)} ({' '.join(filter(None, of))}, {words(number.metric)})"

    noted = grouped((entry.number for entry in table.entries if entry.number.note), lambda number: number.note)
    remarks = "; ".join(f"{', '.join(map(called, numbers))}: {note}" for note, numbers in noted.items())
    return f"Of the printed numbers: {remarks}." if remarks else ""


def judged(line: Line, columns: Sequence[str], letters: Letters) -> str:
    """Return the verdict of a line with its letters; that of each column if they differ, or counts of each if there are
    many."""
    cells = [(column, cell[0]) for column, cell in zip(columns, line.cells, strict=True) if cell]
    texts = {column: _verdict(entry, letters) for column, entry in cells}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "")
    if len(texts) > 3:
        groups = grouped((entry for _, entry in cells), lambda entry: entry.verdict)
        return "; ".join(f"{_all_of(group, letters)}: {len(group)} of {len(texts)}" for group in groups.values())
    return "; ".join(f"{column}: {text}" for column, text in texts.items())


class Row(NamedTuple):
    """A line of a table for display, which shows the published numbers, our numbers, or both."""

    names: tuple[str, ...]
    line: Line
    published: bool
    ours: bool


def rows(table: Filled) -> list[Row]:
    """Return the lines of a table for display. Where the paper's lines differ in the machine alone, our numbers are
    those of one machine and get a line of their own below them."""
    if HARDWARE not in table.layout.lines:
        return [Row(line.names, line, True, _has_ours(line)) for line in table.lines]
    place = table.layout.lines.index(HARDWARE)
    groups = grouped(table.lines, lambda line: line.names[:place] + line.names[place + 1 :])
    display_rows = []
    for names, lines in groups.items():
        display_rows += [Row(line.names, line, True, False) for line in lines]
        distinct = {tuple(map(ours, line.cells)): line for line in lines if _has_ours(line)}
        machine_names = (*names[:place], OUR_MACHINE, *names[place:])
        display_rows += [Row(machine_names, line, False, True) for line in distinct.values()]
    return display_rows


def _has_ours(line: Line) -> bool:
    return any(cell and cell[0].ours is not None for cell in line.cells)


def _text_lines(row: Row, columns: Sequence[str], letters: Letters) -> Iterator[tuple[list[str], str, list[str], str]]:
    """Yield the names, the kind ("published" or "ours"), the cells and the remark of each line of a row as texts."""
    line, names = row.line, [name or "—" for name in row.names]
    if row.published:
        yield names, "published", [*map(published, line.cells)], judged(line, columns, letters)
    if row.ours:
        above = [""] * len(names) if row.published else names
        yield above, "ours", [*map(ours, line.cells)], differences(line)


def terminal(table: Filled, letters: Letters) -> Table:
    """Return a table in which each line has two rows: published, then ours."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(heading(table)), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    for name in [*table.names, ""]:
        grid.add_column(Text(name))
    for name in table.columns:
        grid.add_column(Text(name), justify="right")
    grid.add_column("verdict", max_width=34)
    for row in rows(table):
        for names, kind, cells, remark in _text_lines(row, table.columns, letters):
            style = "bold" if kind == "ours" else None
            grid.add_row(*map(Text, [*names, kind, *cells, remark]), style=style)
    return grid


def claims_table(claims: Sequence[Outcome], letters: Letters) -> Table:
    """Return a table of the claims for which we have runs."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        title="Claims made in the text",
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        show_lines=False,
    )
    for name in ("claim", "where", "published", "ours", "verdict"):
        grid.add_column(name, overflow="fold")
    for outcome in claims:
        verdict_texts = [
            _verdict(outcome, letters),
            *filter(None, (difference(finding.difference) for finding in outcome.findings)),
        ]
        grid.add_row(
            *map(Text, [outcome.claim.statement, outcome.claim.passage, *beside(outcome), "; ".join(verdict_texts)])
        )
    return grid


def beside(tested: Outcome) -> tuple[str, str]:
    """Return the number that a claim publishes and ours, as texts."""
    claim = tested.claim
    parts = [f"{number:g}" for number in (claim.value, claim.high) if not math.isnan(number)]
    unit = {"percent": " %"}.get(claim.unit, f" {words(claim.unit)}" if claim.unit else "")
    metric = {"relative_gain": "gain_percent", "relative_saving": "saving_percent"}.get(claim.formula, claim.metric)
    published_number = " to ".join(parts) + unit if parts else "better"
    if parts and claim.metric in OF_DRAWS:
        published_number = f"in words, read as {published_number}"
    if claim.formula == "wins":
        published_number = f"{claim.value:g} of {claim.high:g}"
        wins = [(finding.of, *(f"{float(number):g}" for number in finding.ours)) for finding in tested.findings]
        return published_number, " ".join(f"{count} [{low}, {high}] {of}" for of, count, low, high in wins)
    return published_number, "; ".join(
        (f"{finding.of}: {spread(metric, finding.ours)}" if finding.of else spread(metric, finding.ours))
        + _few(finding)
        for finding in tested.findings
    )


def heading(table: Filled) -> str:
    return f"Table {table.layout.table}: {table.layout.title}"


def latex(table: Filled, letters: Letters, caption: str, note: str) -> str:
    """Return a table as LaTeX `table*`, which needs the packages array and booktabs; each line has the published
    numbers above ours in italics."""
    columns = "@{}" + "l" * (len(table.names) + 1) + "r" * len(table.columns) + r"p{0.16\linewidth}@{}"
    names = [stacked(textwrap.wrap(name, HEADER_CHARACTERS)) for name in table.columns]
    lines = [" & ".join([*map(escape, table.names), "", *names, "verdict"]) + r" \\", r"\midrule"]
    for row in rows(table):
        for title, kind, cells, remark in _text_lines(row, table.columns, letters):
            is_ours = kind == "ours"
            cells_tex = [rf"\textit{{{text}}}" if is_ours else text for text in (kind, *map(_numbers, cells))]
            beside = rf"\raggedright {(_numbers if is_ours else escape)(remark)}\arraybackslash"
            lines.append(" & ".join([*map(escape, title), *cells_tex, beside]) + r" \\")
        lines.append(r"\addlinespace[2pt]")
    before = [r"\centering\scriptsize\setlength{\tabcolsep}{3pt}", rf"\caption{{{escape(caption)}}}"]
    return floating("table*", before, ("tabular", f"{{{columns}}}"), lines, rf"\scriptsize {escape(note)}")


def _verdict(entry: PublishedEntry | Outcome, letters: Letters) -> str:
    marks = ", ".join(letters[reason] for reason in entry.reasons if reason in letters)
    return f"{entry.verdict} ({marks})" if entry.verdict in _LETTERED else entry.verdict


def _all_of(entries: Sequence[PublishedEntry], letters: Letters) -> str:
    """Return the verdict of entries that share it, with all letters of any of them."""
    reasons = {reason: None for entry in entries for reason in entry.reasons if reason in letters}
    together = entries[0]._replace(reasons=tuple(reason for reason in letters if reason in reasons))
    return _verdict(together, letters)


def _joined_numbers(parts: Sequence[str]) -> str:
    return f"{parts[0]} ({'/'.join(parts[1:])})" if len(parts) > 1 else "".join(parts)


def _numbers(text: str) -> str:
    return escape(text.replace("-", "−"))


def _letter(index: int) -> str:
    return chr(ord("a") + index) if index < 26 else f"{_letter(index // 26 - 1)}{_letter(index % 26)}"
