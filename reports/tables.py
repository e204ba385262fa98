"""The summary as text: tables for a terminal (rich) and one LaTeX table to paste (booktabs)."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reports import judges, matrices, statistics
from reports.judges import Judging
from reports.statistics import Array, Interval
from reports.summary import Aggregate, Row, Summary

if TYPE_CHECKING:
    from rich.table import Table

METRIC_NAMES = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "†": r"$\dagger$",
}
_GREEK = {
    unicodedata.lookup(f"GREEK SMALL LETTER {name.replace('lambda', 'lamda').upper()}"): rf"$\{name}$"
    for name in (
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "eta",
        "theta",
        "kappa",
        "lambda",
        "mu",
        "rho",
        "sigma",
        "tau",
    )
}


def number(value: float | Array, digits: int = 2) -> str:
    """A fixed number of decimals; a dash where it is not defined, no sign before a rounded zero."""
    if not np.isfinite(value):
        return "—"
    return f"{round(float(value), digits) + 0.0:.{digits}f}"


def spread(interval: Interval, digits: int = 2) -> str:
    """`0.82 [0.71, 0.90]`, without brackets where there is no interval."""
    if not np.isfinite(interval.low):
        return number(interval.estimate, digits)
    return f"{number(interval.estimate, digits)} [{number(interval.low, digits)}, {number(interval.high, digits)}]"


def reached(row: Row) -> str:
    """Steps to the baseline's best: a step, `> budget` if not reached, a dash if the baseline never succeeded."""
    if row.target is None:
        return "—"
    return f"{row.reached:,}" if row.reached is not None else f"> {row.budget:,}"


def best(row: Row) -> str:
    """Maximum of the mean over seeds, in parentheses the mean of each seed's maximum."""
    return f"{number(row.best)} ({number(row.mean_of_best)})"


def by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each task and profile, under what a heading calls them."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.where}, {row.cell.profile} profile", []).append(row)
    return groups


def aggregates_by_label(aggregates: Sequence[Aggregate]) -> dict[str, dict[str, list[Aggregate]]]:
    """Heading of a suite and profile -> label -> its metrics, in the order of `statistics.METRICS`."""
    groups: dict[str, dict[str, list[Aggregate]]] = {}
    for entry in aggregates:
        heading = f"{entry.suite}, {len(entry.tasks)} tasks, {entry.profile} profile"
        groups.setdefault(heading, {}).setdefault(entry.label, []).append(entry)
    return groups


def terminal(summary: Summary) -> list[Table]:
    """One table per task and profile, then one of aggregates per suite; * marks the best and what is tied with it."""
    tables = []
    for heading, rows in by_task(summary.rows).items():
        baseline = textwrap.fill(f"steps to best of {rows[0].baseline}", 16)
        headers = ["final success", "IQM", "best (mean\nof maxima)", baseline, "final\nreturn", "seeds"]
        cells = {
            row.label: [
                spread(row.final) + ("*" if row.leading else "†" if row.behind else ""),
                spread(row.final_iqm),
                best(row),
                reached(row),
                number(row.final_return.estimate),
                str(len(row.seeds)),
            ]
            for row in rows
        }
        tables.append(_table(heading, headers, cells))
    for heading, labels in aggregates_by_label(summary.aggregates).items():
        cells = {
            label: [spread(entry.interval) + ("*" if entry.leading else "") for entry in entries]
            for label, entries in labels.items()
        }
        tables.append(_table(f"{heading}: final success", [METRIC_NAMES[name] for name in statistics.METRICS], cells))
    for matrix in summary.matrices:
        cells = {
            line.name: [
                spread(line.row.final),
                spread(line.difference) if line.difference else "—",
                number(line.detectable),
                str(len(line.row.seeds)),
            ]
            for line in matrix.lines
        }
        tables.append(_table(matrix.heading, matrices.HEADERS, cells))
    return tables


def judging(judgings: Sequence[Judging]) -> list[Table]:
    """One table of the judges whose tasks tell of events; none where there are none."""
    cells = {
        f"{entry.label} on {entry.where}": [str(entry.positive), *map(str, entry.agreement)]
        for entry in judgings
        if entry.agreement
    }
    headers = [
        "positive,\nof clips judged",
        "agreement",
        "hit rate, of\nclips with event",
        "false-alarm rate,\nof the others",
    ]
    return [_table(judges.BESIDE_EVENTS, headers, cells)] if cells else []


def _table(heading: str, headers: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """A table whose numbers keep their line; where room is short the names in the first column are wrapped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(heading), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("row", overflow="fold")
    for index, header in enumerate(headers):
        width = max(map(len, [*header.split("\n"), *(cells[index] for cells in rows.values())]))
        table.add_column(Text(header), justify="right", min_width=width)
    for label, cells in rows.items():
        table.add_row(Text(label), *(Text(cell, style="bold" if cell.endswith("*") else "") for cell in cells))
    return table


def legend(summary: Summary, mark: str = "Bold") -> str:
    """What the numbers are, in one paragraph: belongs under every table; `mark` is how the best are marked there."""
    counts = sorted({len(row.seeds) for row in summary.rows})
    evaluations = sorted({len(row.steps) for row in summary.rows})
    episodes = sorted({count for row in summary.rows for count in row.episodes})
    profiles = sorted({row.cell.profile for row in summary.rows})
    judged = sorted(
        {(row.cell.model or row.cell.backend, row.cell.backend) for row in summary.rows if row.cell.backend}
    )
    parts = [
        f"Mean over {_range(counts)} seeds of the success rate over {_range(episodes)} episodes at the last "
        f"evaluation; in brackets the stratified bootstrap 95 % interval over seeds ({summary.reps:,} resamples).",
        "Best: maximum over evaluations of the mean over seeds, in parentheses the mean of each seed's maximum "
        f"({_range(evaluations)} evaluations).",
        f"{mark}: the highest, or not told apart from it (95 % interval of the difference holds 0).",
        f"Profile: {', '.join(profiles)}.",
    ]
    for name, backend in judged:
        remark = judges.remark(backend)
        judge = f"Judge {name}: {backend}" if judges.is_judge(backend) else "External"
        parts.append(f"{judge}{f', {remark}' if remark else ''}.")
    if any(row.behind for row in summary.rows):
        parts.append("†: at an earlier step than the others, compared with none.")
    if not summary.complete:
        parts.append("Partial: not every run is finished.")
    return " ".join([*parts, *filter(None, [matrices.legend(summary.matrices)])])


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return "no"
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def latex(summary: Summary) -> str:
    r"""A `table` environment that needs only booktabs; every name is escaped."""
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{Success rates, study {escape(summary.study)}.}}",
        r"\begin{tabular}{@{}p{0.28\linewidth}rrrr@{}}",
        r"\toprule",
        r"Method & Final success & IQM & Best & Steps to best \\",
    ]
    for heading, rows in by_task(summary.rows).items():
        lines += [r"\midrule", rf"\multicolumn{{5}}{{@{{}}l}}{{\emph{{{escape(heading)}}}}} \\"]
        for row in rows:
            mark = r"\rlap{$^{\dagger}$}" if row.behind else ""
            cells = [_spread(row.final, row.leading) + mark, _spread(row.final_iqm), best(row), escape(reached(row))]
            lines.append(" & ".join([_first(row.label), *cells]) + r" \\")
    for heading, labels in aggregates_by_label(summary.aggregates).items():
        names = " & ".join(METRIC_NAMES[name] for name in statistics.METRICS)
        lines += [r"\midrule", rf"{_first(heading, 'emph')} & {names} \\"]
        for label, entries in labels.items():
            cells = [_spread(entry.interval, entry.leading) for entry in entries]
            lines.append(" & ".join([_first(label), *cells]) + r" \\")
    for matrix in summary.matrices:
        lines += [
            r"\midrule",
            rf"{_first(matrix.heading, 'emph')} & Final success & Difference & Detectable & Seeds \\",
        ]
        for line in matrix.lines:
            difference = _spread(line.difference).replace("-", "$-$") if line.difference else "---"
            detectable = number(line.detectable).replace("—", "---")
            cells = [_spread(line.row.final), difference, detectable, str(len(line.row.seeds))]
            lines.append(" & ".join([_first(line.name), *cells]) + r" \\")
    baselines = ", ".join(dict.fromkeys(row.baseline for row in summary.rows))
    note = f"{legend(summary)} Steps to best: environment steps until the mean reaches the best of {baselines}."
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\smallskip",
        rf"\parbox{{\linewidth}}{{\footnotesize {escape(note)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _first(text: str, command: str = "textnormal") -> str:
    """The first column's cell: long names run on below, indented."""
    return rf"\raggedright\hangindent=1em \{command}{{{escape(text)}}}"


def _spread(interval: Interval, bold: bool = False) -> str:
    estimate = number(interval.estimate).replace("—", "---")
    estimate = rf"\textbf{{{estimate}}}" if bold else estimate
    if not np.isfinite(interval.low):
        return estimate
    return rf"{estimate} {{\scriptsize [{number(interval.low)}, {number(interval.high)}]}}"


def escape(text: str) -> str:
    """Text as LaTeX sets it literally; a character that pdfLaTeX's fonts lack is named by its code point."""
    known = {**_LATEX, **_GREEK}
    return "".join(known.get(char, char if ord(char) < 0x180 else f"[U+{ord(char):04X}]") for char in text)
