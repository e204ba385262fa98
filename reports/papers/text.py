"""A paper's filled tables as text, for a terminal (rich) and for LaTeX (booktabs); each line shows the published
numbers, then ours."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.papers import verdicts
from guidebench.reports.papers.claims import ClaimFinding, Outcome
from guidebench.reports.papers.differences import Difference
from guidebench.reports.papers.filled import Filled, Line, PublishedEntry, words
from guidebench.reports.papers.matching import HARDWARE
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
    entries = [cell[0] for table in tables for line in table.lines for cell in line.cells if cell]
    every: list[PublishedEntry | Outcome] = [*entries, *claims]
    found = [each.reasons for each in every if each.verdict in _LETTERED]
    distinct = list(dict.fromkeys(reason for reasons in found for reason in reasons))
    return {reason: _letter(index) for index, reason in enumerate(distinct)}


def key(known: Letters) -> str:
    """Explain the letters."""
    return "; ".join(f"{letter}: {reason}" for reason, letter in known.items())


def value(metric: str, number: float, digits: int | None = None) -> str:
    """Format a number of this metric for readers; `digits`: its decimals, where an interval says how many, of rates,
    shares and other plain numbers."""
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
    return _together(
        [
            value(each.number.metric, each.number.value)
            + ("" if np.isnan(each.number.error) else f" ± {each.number.error:g}")
            for each in cell
        ]
    )


def ours(cell: Sequence[PublishedEntry]) -> str:
    """Return our numbers, with the interval of the first; a dash if there are none."""
    if not cell or cell[0].ours is None:
        return "—"
    parts = [spread(cell[0].number.metric, cell[0].ours) + _few(cell[0]) + _with(cell[0])]
    parts += [value(each.number.metric, float(each.ours.estimate)) for each in cell[1:] if each.ours is not None]
    return _together(parts)


def _few(found: PublishedEntry | ClaimFinding) -> str:
    """Return what stands in the place of an interval that so few seeds do not have."""
    return f" ({found.told})" if found.told else ""


def difference(found: Difference | None) -> str:
    """Return our difference from the baseline, as `final success −0.20 [−0.41, 0.02] from uer, p 0.087, 24 seeds
    needed`; "" if there is none."""
    if found is None:
        return ""
    comparison = found.found
    digits = scoring.digits([comparison.difference])
    said = tables.difference(comparison.difference, comparison.interval_note, digits).replace("-", "−")
    p, needed = tables.p_value(comparison.p), tables.needed(comparison.needed)
    why = f" ({comparison.unknown})" if comparison.unknown else ""
    return f"final {found.score.name} {said} from {found.baseline}, p {p}, {needed} seeds needed{why}"


def differences(line: Line) -> str:
    """Return our differences of a line from their baselines, each once."""
    told = [difference(cell[0].difference) for cell in line.cells if cell]
    return "; ".join(dict.fromkeys(filter(None, told)))


def _with(entry: PublishedEntry) -> str:
    """Return what is shown beside our number, as ` (812 steps)`."""
    if entry.beside is None:
        return ""
    name, number = entry.beside
    return f" ({value(name, number)} {words(name.rpartition('_')[2])})"


def of_the_numbers(table: Filled) -> str:
    """Return what is to be said of a table's printed numbers, such as where the paper contradicts itself."""
    found: dict[str, list[str]] = {}
    for entry in (entry for line in table.lines for cell in line.cells for entry in cell):
        if entry.number.note:
            number = entry.number
            of = [number.task, number.method, *(f"{key}={text}" for key, text in number.variant.items())]
            found.setdefault(number.note, []).append(
                f"{value(number.metric, number.value)} ({' '.join(filter(None, of))}, {words(number.metric)})"
            )
    told = "; ".join(f"{', '.join(numbers)}: {note}" for note, numbers in found.items())
    return f"Of the printed numbers: {told}." if told else ""


def judged(line: Line, columns: Sequence[str], known: Letters) -> str:
    """Return the line's verdict, or each column's if they differ."""
    cells = [(column, cell[0]) for column, cell in zip(columns, line.cells, strict=True) if cell]
    texts = {column: _verdict(entry, known) for column, entry in cells}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "")
    if len(texts) > 3:
        groups: dict[str, list[PublishedEntry]] = {}
        for _, entry in cells:
            groups.setdefault(entry.verdict, []).append(entry)
        return "; ".join(f"{_all_of(each, known)}: {len(each)} of {len(texts)}" for each in groups.values())
    return "; ".join(f"{column}: {text}" for column, text in texts.items())


class Row(NamedTuple):
    """A line of a table as it is shown: the published numbers, ours below them, or one of the two."""

    names: tuple[str, ...]
    line: Line
    published: bool
    ours: bool


def rows(table: Filled) -> list[Row]:
    """Return the lines of a table. Where lines differ in the paper's machine alone, our numbers are those of one
    machine, so they have one line of their own below these."""
    if HARDWARE not in table.layout.lines:
        return [Row(line.names, line, True, _has_ours(line)) for line in table.lines]
    place = table.layout.lines.index(HARDWARE)
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in table.lines:
        groups.setdefault(line.names[:place] + line.names[place + 1 :], []).append(line)
    found = []
    for names, lines in groups.items():
        found += [Row(line.names, line, True, False) for line in lines]
        each = {tuple(map(ours, line.cells)): line for line in lines if _has_ours(line)}
        own = (*names[:place], OUR_MACHINE, *names[place:])
        found += [Row(own, line, False, True) for line in each.values()]
    return found


def _has_ours(line: Line) -> bool:
    return any(cell and cell[0].ours is not None for cell in line.cells)


def terminal(table: Filled, known: Letters) -> Table:
    """Return a table in which each line has two rows: published, then ours."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(title=Text(heading(table)), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    for name in [*table.names, ""]:
        found.add_column(Text(name))
    for name in table.columns:
        found.add_column(Text(name), justify="right")
    found.add_column("verdict", max_width=34)
    for row in rows(table):
        line, names = row.line, [name or "—" for name in row.names]
        above, below = [published(cell) if cell else "" for cell in line.cells], [ours(cell) for cell in line.cells]
        if row.published:
            found.add_row(*map(Text, [*names, "published", *above, judged(line, table.columns, known)]))
            names = [""] * len(names)
        if row.ours:
            found.add_row(*map(Text, [*names, "ours", *below, differences(line)]), style="bold")
    return found


def claims_table(claims: Sequence[Outcome], known: Letters) -> Table:
    """Return a table of the claims for which we have runs."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(
        title="Claims made in the text",
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        show_lines=False,
    )
    for name in ("claim", "where", "published", "ours", "verdict"):
        found.add_column(name, overflow="fold")
    for each in claims:
        told = [_verdict(each, known), *filter(None, (difference(one.difference) for one in each.findings))]
        found.add_row(*map(Text, [each.claim.statement, each.claim.where, *beside(each), "; ".join(told)]))
    return found


def beside(tested: Outcome) -> tuple[str, str]:
    """Return a claim's published number and ours."""
    claim = tested.claim
    parts = [f"{number:g}" for number in (claim.value, claim.high) if not math.isnan(number)]
    unit = {"percent": " %"}.get(claim.unit, f" {words(claim.unit)}" if claim.unit else "")
    metric = {"relative_gain": "gain_percent", "relative_saving": "saving_percent"}.get(claim.formula, claim.metric)
    said = " to ".join(parts) + unit if parts else "better"
    if parts and claim.metric in OF_DRAWS:
        said = f"in words, read as {said}"
    if claim.formula == "wins":
        said = f"{claim.value:g} of {claim.high:g}"
        shown = [(found.of, *(f"{float(number):g}" for number in found.ours)) for found in tested.findings]
        return said, " ".join(f"{count} [{low}, {high}] {of}" for of, count, low, high in shown)
    return said, "; ".join(
        (f"{found.of}: {spread(metric, found.ours)}" if found.of else spread(metric, found.ours)) + _few(found)
        for found in tested.findings
    )


def heading(table: Filled) -> str:
    return f"Table {table.layout.table}: {table.layout.title}"


def latex(table: Filled, known: Letters, caption: str, note: str) -> str:
    """Return a `table*` that needs array and booktabs; each line has the published numbers above ours in italics."""
    columns = "@{}" + "l" * (len(table.names) + 1) + "r" * len(table.columns) + r"p{0.16\linewidth}@{}"
    names = [stacked(textwrap.wrap(name, HEADER_CHARACTERS)) for name in table.columns]
    lines = [" & ".join([*map(escape, table.names), "", *names, "verdict"]) + r" \\", r"\midrule"]
    for row in rows(table):
        line, names = row.line, [escape(name or "—") for name in row.names]
        if row.published:
            above = [_numbers(published(cell)) if cell else "" for cell in line.cells]
            verdict = rf"\raggedright {escape(judged(line, table.columns, known))}\arraybackslash"
            lines.append(" & ".join([*names, "published", *above, verdict]) + r" \\")
            names = [""] * len(names)
        if row.ours:
            below = [rf"\textit{{{_numbers(ours(cell))}}}" for cell in line.cells]
            beside = rf"\raggedright {_numbers(differences(line))}\arraybackslash"
            lines.append(" & ".join([*names, r"\textit{ours}", *below, beside]) + r" \\")
        lines.append(r"\addlinespace[2pt]")
    before = [r"\centering\scriptsize\setlength{\tabcolsep}{3pt}", rf"\caption{{{escape(caption)}}}"]
    return floating("table*", before, ("tabular", f"{{{columns}}}"), lines, rf"\scriptsize {escape(note)}")


def _verdict(entry: PublishedEntry | Outcome, known: Letters) -> str:
    marks = ", ".join(known[reason] for reason in entry.reasons if reason in known)
    return f"{entry.verdict} ({marks})" if entry.verdict in _LETTERED else entry.verdict


def _all_of(entries: Sequence[PublishedEntry], known: Letters) -> str:
    """Return the verdict of entries that share it, with all letters of any of them."""
    reasons = {reason: None for entry in entries for reason in entry.reasons if reason in known}
    together = entries[0]._replace(reasons=tuple(reason for reason in known if reason in reasons))
    return _verdict(together, known)


def _together(parts: Sequence[str]) -> str:
    return f"{parts[0]} ({'/'.join(parts[1:])})" if len(parts) > 1 else "".join(parts)


def _numbers(text: str) -> str:
    return escape(text.replace("-", "−"))


def _letter(index: int) -> str:
    return chr(ord("a") + index) if index < 26 else f"{_letter(index // 26 - 1)}{_letter(index % 26)}"
