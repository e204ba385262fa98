"""The summary as LaTeX tables to paste: booktabs, as wide as the text around them, readable at 3.3 inches."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from reports import legends, matrices, scoring
from reports.grids import Grid
from reports.legends import INTERVAL, PM
from reports.matrices import Line
from reports.statistics import Array, Interval, contrast
from reports.summary import Row, Summary
from reports.tables import aggregates_by_label, by_task, columns, matrix_digits, number

METRICS = {"mean": "Mean", "median": "Median", "iqm": "IQM"}
DAGGER = r"\rlap{$^{\dagger}$}"
LINES = 44
"""Of numbers in one table: what a page holds beside caption and note."""
SIUNITX = (
    "detect-weight=true,separate-uncertainty=true,table-align-uncertainty=false,retain-zero-uncertainty=true,"
    "group-separator={,},group-minimum-digits=4"
)
"""How S columns write numbers: bold as text is, ±0.00 kept, thousands by commas."""
BREAKS = {r"[;,]": 0, r"[=+/]": 300, r"\\_|(?<=[a-z])\.(?=[a-z])": 3000}
"""After what a long name may go on in the next line, and how reluctantly (TeX's penalty)."""
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


class Style(NamedTuple):
    """How numbers are set."""

    spread: str = INTERVAL
    siunitx: bool = False

    @property
    def packages(self) -> tuple[str, ...]:
        """What the preamble must load."""
        return ("booktabs", "tabularx", *(("siunitx",) if self.siunitx else ()))


class Cell(NamedTuple):
    """A number between what stands before and after it (LaTeX); a dash where `number` is empty."""

    number: str
    before: str = ""
    error: str = ""
    """Standard error, with as many decimals."""
    after: str = ""
    bold: bool = False

    def plain(self) -> str:
        """As text."""
        if not self.number:
            return "---"
        shown = f"{self.before}{_minus(self._grouped())}"
        error = rf" {{\scriptsize$\pm$\,{self.error}}}" if self.error else ""
        return (rf"\textbf{{{shown}}}" if self.bold else shown) + error + self.after

    def siunitx(self) -> str:
        """As an S column reads it."""
        if not self.number:
            return "{---}"
        parts = [
            f"{{{self.before}}}" if self.before else "",
            r"\bfseries" if self.bold else "",
            self.number,
            f"+- {self.error}" if self.error else "",
            rf"{{\mdseries{self.after}}}" if self.after else "",
        ]
        return " ".join(filter(None, parts))

    def _grouped(self) -> str:
        return f"{int(self.number):,}" if "." not in self.number else self.number


Group = Sequence[tuple[str, Sequence[Cell]]]
"""Names with their numbers."""


def latex(summary: Summary, style: Style | None = None) -> str:
    """Tables of the rows, of the aggregates over tasks and of the matrices, with what the preamble needs."""
    style = style or Style()
    tables = [text for make in (_results, _aggregates, differences) for text in make(summary, style)]
    return "\n".join([needs(style), *tables])


def needs(style: Style) -> str:
    """A comment that says what the preamble must load."""
    return "% needs " + "".join(rf"\usepackage{{{name}}}" for name in style.packages)


def table(caption: str, headers: Sequence[str], groups: Mapping[str, Group], note: str, style: Style) -> Iterator[str]:
    """`table` environments, more than one where the rows are too many for a page; every text given is escaped.

    The first column takes the width that the numbers leave; in headers a line break is kept. A group's name stands
    over it, nothing where that is empty.
    """
    parts = list(_parts(groups))
    columns = list(zip(*(cells for group in groups.values() for _, cells in group), strict=True))
    kinds = "".join(map(_column, columns)) if style.siunitx else "r" * len(headers)
    for index, part in enumerate(parts, 1):
        which = f" (part {index} of {len(parts)})" if len(parts) > 1 else ""
        body = []
        for heading, group in part:
            body.append(r"\midrule")
            if heading:
                span = rf"\multicolumn{{{len(headers) + 1}}}{{@{{}}p{{\linewidth}}@{{}}}}"
                body.append(rf"{span}{{\raggedright\emph{{{_name(heading)}}}}} \\")
            for name, cells in group:
                shown = (cell.siunitx() if style.siunitx else cell.plain() for cell in cells)
                body.append(" & ".join([_name(name), *shown]) + r" \\")
        yield "\n".join(
            [
                r"\begin{table}[t]",
                r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
                *([rf"\sisetup{{{SIUNITX}}}"] if style.siunitx else []),
                rf"\caption{{{_name(caption + which)}.}}",
                rf"\begin{{tabularx}}{{\linewidth}}{{@{{}}>{{\raggedright\arraybackslash\hangindent=1em}}X{kinds}@{{}}}}",
                r"\toprule",
                " & ".join(["Row", *map(_header, headers)]) + r" \\",
                *body,
                r"\bottomrule",
                r"\end{tabularx}",
                "",
                r"\smallskip",
                rf"\parbox{{\linewidth}}{{\scriptsize\raggedright {_name(note)}}}",
                r"\end{table}",
                "",
            ]
        )


def estimate(
    interval: Interval, style: Style, error: float = np.nan, bold: bool = False, mark: str = "", digits: int = 2
) -> Cell:
    """A number with its interval, or ± `error`, as `style` says; neither where it is not defined."""
    shown, after, pm = _digits(interval.estimate, digits), mark, ""
    if style.spread == PM:
        pm = _digits(error, digits)
    elif np.isfinite(interval.low):
        low, high = (_minus(number(end, digits)) for end in (interval.low, interval.high))
        after += rf"\ {{\scriptsize [{low}, {high}]}}"
    return Cell(shown, error=pm, after=after, bold=bold)


def _results(summary: Summary, style: Style) -> Iterator[str]:
    if not summary.rows:
        return
    several = any(columns([row]).iqm for row in summary.rows)
    names = dict.fromkeys(row.score.name for row in summary.rows)
    measure = next(iter(names)) if len(names) == 1 else "score"
    headers = [f"Final\n{measure}", *(["IQM"] if several else []), "AUC", "Best", "Steps\nto best"]
    groups = {}
    for heading, rows in by_task(summary.rows).items():
        digits = columns(rows).digits
        groups[heading] = [
            (
                row.label,
                [
                    estimate(
                        row.final,
                        style,
                        _error(row.scores[:, -1]),
                        row.leading,
                        DAGGER if row.alone else "",
                        digits,
                    ),
                    *([Cell(_digits(row.final_iqm.estimate, digits))] if several else []),
                    Cell(_digits(row.area.estimate, digits)),
                    Cell(_digits(row.best, digits)),
                    _reached(row),
                ],
            )
            for row in rows
        ]
    same = "" if several else "With three seeds or fewer the interquartile mean is the mean. "
    note = f"{legends.results(summary, 'Bold', style.spread)} {same}{legends.setting(summary)}"
    means = scoring.means(row.score for row in summary.rows)
    yield from table(f"{means[0].upper()}{means[1:]}, study {summary.study}", headers, groups, note, style)


def _aggregates(summary: Summary, style: Style) -> Iterator[str]:
    groups = {
        heading: [
            (
                label,
                [
                    estimate(each.interval, style, each.error, each.leading, DAGGER if each.missing else "")
                    for each in entries
                    if each.metric in METRICS
                ],
            )
            for label, entries in labels.items()
        ]
        for heading, labels in aggregates_by_label(summary.aggregates).items()
    }
    if groups:
        note = f"{legends.aggregates(summary, style.spread)} {legends.setting(summary)}"
        yield from table(f"Final score over tasks, study {summary.study}", list(METRICS.values()), groups, note, style)


def differences(summary: Summary, style: Style) -> Iterator[str]:
    """A table around each reference of a summary's matrices."""
    for matrix in summary.matrices:
        reference, digits = matrix.lines[0].row, matrix_digits(matrix)
        counts = sorted({len(line.row.seeds) for line in matrix.lines})
        headers = ["Final", "Difference", "p", "Detec-\ntable", *(["Seeds"] if len(counts) > 1 else [])]
        group = [
            (
                line.name,
                [
                    Cell(_digits(line.row.final.estimate, digits), after=DAGGER if line.row.alone else ""),
                    _difference(line, reference, style, digits),
                    _p_value(line),
                    Cell(_digits(line.comparison.detectable, digits) if line.comparison else ""),
                    *([Cell(str(len(line.row.seeds)))] if len(counts) > 1 else []),
                ],
            )
            for line in matrix.lines
        ]
        note = [
            f"Final: mean over {legends.span(counts)} seeds of the {scoring.mean_of(reference.score)} at the last "
            "evaluation.",
            matrices.legend([matrix], style.spread == PM),
            legends.setting(summary),
        ]
        yield from table(f"{matrix.heading}, study {summary.study}", headers, {"": group}, " ".join(note), style)


def grids(found: Sequence[Grid], setting: str, style: Style | None = None) -> str:
    """Tables of further estimates, a line each, always with intervals; `setting` stands in every note."""
    style = (style or Style())._replace(spread=INTERVAL)
    tables: list[str] = []
    for each in found:
        groups = {
            label: [(name, [estimate(value, style)]) for name, value in zip(each.names, line, strict=True)]
            for label, line in each.lines.items()
        }
        note = " ".join(filter(None, [each.note, "In brackets: 95 % bootstrap interval over seeds.", setting]))
        tables += table(each.heading, ["Estimate"], groups, note, style)
    return "\n".join(tables)


def _difference(line: Line, reference: Row, style: Style, digits: int) -> Cell:
    if line.comparison is None:
        return Cell("")
    ours, theirs = line.row.scores[:, -1], reference.scores[:, -1]
    error = contrast(ours, theirs, line.comparison.paired).error
    return estimate(line.comparison.adjusted, style, error, digits=digits)


def _p_value(line: Line) -> Cell:
    value = line.comparison.adjusted_p if line.comparison else np.nan
    return Cell("0.001", before="$<$") if value < 0.001 else Cell(_digits(value, 3))


def _reached(row: Row) -> Cell:
    if row.target is None:
        return Cell("")
    return Cell(str(row.reached)) if row.reached is not None else Cell(str(row.budget), before=r"$>$\,")


def _error(scores: Array) -> float:
    """Standard error of a mean of scores [runs]; NaN for one run."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def _digits(value: float | Array, digits: int = 2) -> str:
    return number(value, digits) if np.isfinite(value) else ""


def _minus(text: str) -> str:
    return text.replace("-", "$-$")


def _header(text: str) -> str:
    lines = r" \\ ".join(escape(line) for line in text.split("\n"))
    return rf"{{\shortstack[r]{{{lines}}}}}" if "\n" in text else f"{{{lines}}}"


def _column(cells: Iterable[Cell]) -> str:
    """An S column with room for the widest of `cells` on either side of the decimal point."""
    shown = [cell for cell in cells if cell.number] or [Cell("0")]
    whole, _, decimals = max(
        (cell.number.lstrip("-").partition(".") for cell in shown), key=lambda parts: len(parts[0])
    )
    sign = "-" if any(cell.number.startswith("-") for cell in shown) else ""
    error = max((len(cell.error.replace(".", "").lstrip("0")) for cell in shown), default=0)
    options = [f"table-format={sign}{len(whole)}.{len(decimals)}" + (f"({error})" if error else "")]
    for side, texts in (("pre", [cell.before for cell in shown]), ("post", [cell.after for cell in shown])):
        if any(texts):
            options.append(f"table-space-text-{side}={{{max(texts, key=len)}}}")
    return f"S[{','.join(options)}]"


def _parts(groups: Mapping[str, Group]) -> Iterator[list[tuple[str, Group]]]:
    """Groups in tables of at most `LINES` lines, a group too long for one continued in the next."""
    part: list[tuple[str, Group]] = []
    left = LINES
    for heading, group in groups.items():
        rest = list(group)
        while rest:
            if part and left < min(len(rest), LINES - 1) + 1:
                yield part
                part, left = [], LINES
            taken, rest = rest[: left - 1], rest[left - 1 :]
            part.append((heading, taken))
            left -= len(taken) + 1
            if left <= 1:
                yield part
                part, left = [], LINES
    if part:
        yield part


def _name(text: str) -> str:
    """Escaped text whose long words may be broken."""
    text = escape(text).replace(r" \%", r"~\%")
    for pattern, penalty in BREAKS.items():
        text = re.sub(pattern, rf"\g<0>\\penalty{penalty}{{}}", text)
    return text


def escape(text: str) -> str:
    """Text as LaTeX sets it literally; a character that pdfLaTeX's fonts lack is named by its code point."""
    known = {**_LATEX, **_GREEK}
    return "".join(known.get(char, char if ord(char) < 0x180 else f"[U+{ord(char):04X}]") for char in text)
