"""The summary as LaTeX tables to paste: booktabs, as wide as the text, readable at 3.3 inches."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench import results
from guidebench.harness import statistics
from guidebench.harness.errors import unknown
from guidebench.harness.statistics import Array, Interval, power, standard_error
from guidebench.reports.rendering import legends
from guidebench.reports.rendering import wording as words
from guidebench.reports.rendering.legends import INTERVAL, PM
from guidebench.reports.rendering.tables import (
    aggregate_digits,
    aggregates_by_label,
    by_task,
    columns,
    matrix_digits,
    number,
)
from guidebench.reports.rendering.wording import (
    AGGREGATES,
    DIFFERENCES,
    FURTHER,
    PLAIN,
    REPLICATIONS,
    RESULTS,
    USUAL,
    Wording,
    numbered,
)
from guidebench.reports.summary import matrices, replication, scoring
from guidebench.reports.summary.bounding import bounded
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.matrices import Line
from guidebench.reports.summary.replication import Replication
from guidebench.reports.summary.rows import ReportRow
from guidebench.reports.summary.summaries import Summary, summarise

if TYPE_CHECKING:
    from pylatexenc.latexencode import UnicodeToLatexEncoder

METRICS = {"mean": "Mean", "median": "Median", "iqm": "IQM"}
DAGGER = r"\rlap{$^{\dagger}$}"
LINES = 44
"""Most lines of numbers in one table; a page holds as many beside caption and note."""
SIUNITX = (
    "detect-weight=true,separate-uncertainty=true,table-align-uncertainty=false,retain-zero-uncertainty=true,"
    "group-separator={,},group-minimum-digits=4"
)
"""Number format of S columns: bold follows the text, ±0.00 is kept, commas separate thousands."""
LONG = 10
"""Characters of a word up to which it stays on one line."""
BREAKS = re.compile(r"(?<=[;,=+/_.])(?=[^\s;,=+/_.])")
"""Where a longer word may break."""
_HASH = re.compile(r"-[0-9a-f]{6}(?= \+ |$)")
"""End of a study's name that the command did not choose (`run.study.name_of`)."""


class Style(NamedTuple):
    """How LaTeX tables show numbers and names."""

    spread: str = INTERVAL
    siunitx: bool = False
    wording: Wording = PLAIN
    """Captions, labels, names and columns, as `wording.resolved` makes it."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages that the preamble must load."""
        return ("booktabs", "tabularx", *(("siunitx",) if self.siunitx else ()))


class TableCell(NamedTuple):
    """A number with LaTeX before and after it; a dash if `number` is empty."""

    number: str
    before: str = ""
    error: str = ""
    """Standard error, with as many decimals as `number`."""
    after: str = ""
    bold: bool = False

    def plain(self) -> str:
        """Return the cell as LaTeX for an ordinary column; dashes if it has no number."""
        if not self.number:
            return "---"
        text = f"{self.before}{_minus(self._grouped())}"
        error = rf" {{\scriptsize$\pm$\,{self.error}}}" if self.error else ""
        return (rf"\textbf{{{text}}}" if self.bold else text) + error + self.after

    def siunitx(self) -> str:
        """Return the cell as LaTeX for an S column of siunitx; dashes if it has no number."""
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


Group = Sequence[tuple[str, Sequence[TableCell]]]
"""Names with their numbers."""


def latex(summary: Summary, style: Style | None = None) -> str:
    """Return tables of the rows, of the aggregates over tasks and of the matrices, with the packages to load."""
    style = style or Style()
    summary = words.renamed(summary, style.wording)
    tables = [text for make in (_results, _aggregates, differences) for text in make(summary, style)]
    return "\n".join([needs(style), *tables])


def typeset(
    study: str | Path,
    *,
    caption: str | Mapping[str, str] = "",
    label: str = "",
    rename: Mapping[str, str] = MappingProxyType({}),
    columns: Sequence[str] = (),
    spread: str = INTERVAL,
    siunitx: bool = False,
    resamples: int = statistics.REPS,
) -> str:
    """Return the tables of a study's directory for a paper: of its rows, of aggregates over tasks and of its matrices.

    `caption` is that of the table of rows, or a mapping table -> caption (`wording.TABLES`). `label` is that of the
    table of rows; other tables append their kind, as in tab:main-aggregates. `rename` maps a row, task or column to its
    name; the start of a row's name is enough if no other row has it. `columns` are those of the table of rows, in this
    order (`wording.COLUMNS`). Every text is escaped. `spread` is "interval", or "pm" for ± the standard error. Raises
    UserError for a directory without a study and for names that its tables lack.
    """
    if spread not in legends.SPREADS:
        raise unknown("spread", spread, legends.SPREADS)
    captions = ({RESULTS: caption} if caption else {}) if isinstance(caption, str) else caption
    wording = words.wording(captions, label, rename, columns)
    record = results.study(study)
    _, summary = bounded(record, summarise(record, results.load(record), reps=resamples))
    return latex(summary, Style(spread, siunitx, words.resolved(wording, summary)))


def needs(style: Style) -> str:
    """Return the LaTeX comment that lists the packages to load."""
    return "% needs " + "".join(rf"\usepackage{{{name}}}" for name in style.packages)


def table(
    caption: str,
    headers: Sequence[str],
    groups: Mapping[str, Group],
    note: str,
    style: Style,
    which: str = RESULTS,
) -> Iterator[str]:
    """Return `table` environments, several if the rows need more than a page; every given text is escaped.

    The first column takes the width that the numbers leave; headers keep their line breaks. A group's name is above it,
    unless empty. `which` selects the wording of the table in `style`.
    """
    wording = style.wording
    caption = wording.captions.get(which, caption).removesuffix(".")
    parts = list(_parts(groups))
    columns = list(zip(*(cells for group in groups.values() for _, cells in group), strict=True))
    kinds = "".join(map(_column, columns)) if style.siunitx else "r" * len(headers)
    for index, part in enumerate(parts, 1):
        of = f" (part {index} of {len(parts)})" if len(parts) > 1 else ""
        label = wording.called(which, index)
        body = []
        for heading, group in part:
            body.append(r"\midrule")
            if heading:
                span = rf"\multicolumn{{{len(headers) + 1}}}{{@{{}}p{{\linewidth}}@{{}}}}"
                body.append(rf"{span}{{\raggedright\emph{{{_name(wording.names.get(heading, heading))}}}}} \\")
            for name, cells in group:
                texts = (cell.siunitx() if style.siunitx else cell.plain() for cell in cells)
                body.append(" & ".join([_name(wording.names.get(name, name)), *texts]) + r" \\")
        head = " & ".join([escape(wording.header("row", "Row")), *map(_header, headers)])
        yield floating(
            "table",
            [
                r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
                *([rf"\sisetup{{{SIUNITX}}}"] if style.siunitx else []),
                rf"\caption{{{_name(caption + of)}.}}" + (rf"\label{{{label}}}" if label else ""),
            ],
            ("tabularx", rf"{{\linewidth}}{{@{{}}>{{\raggedright\arraybackslash\hangindent=1em}}X{kinds}@{{}}}}"),
            [head + r" \\", *body],
            rf"\scriptsize\raggedright {_name(note)}",
        )


def floating(environment: str, before: Sequence[str], tabular: tuple[str, str], lines: Sequence[str], note: str) -> str:
    """Return a floating table; every argument is LaTeX.

    `environment` is "table" or "table*". `before` precedes the table and includes the caption. `tabular` is the
    environment of the table itself with its arguments. `lines` are its head and its body. `note` follows it, set in the
    width of the text.
    """
    kind, arguments = tabular
    return "\n".join(
        [
            rf"\begin{{{environment}}}[t]",
            *before,
            rf"\begin{{{kind}}}{arguments}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            rf"\end{{{kind}}}",
            "",
            r"\smallskip",
            rf"\parbox{{\linewidth}}{{{note}}}",
            rf"\end{{{environment}}}",
            "",
        ]
    )


def estimate(
    interval: Interval, style: Style, error: float = np.nan, bold: bool = False, mark: str = "", digits: int = 2
) -> TableCell:
    """Return a number with its interval or ± `error`, as `style` says; with neither if undefined."""
    point, after, pm = _digits(interval.estimate, digits), mark, ""
    if style.spread == PM:
        pm = _digits(error, digits)
    elif np.isfinite(interval.low):
        low, high = (_minus(number(end, digits)) for end in (interval.low, interval.high))
        after += rf"\ {{\scriptsize [{low}, {high}]}}"
    return TableCell(point, error=pm, after=after, bold=bold)


def _results(summary: Summary, style: Style) -> Iterator[str]:
    if not summary.rows:
        return
    several = any(columns([row]).iqm for row in summary.rows)
    chosen = style.wording.columns or tuple(name for name in USUAL if several or name != "iqm")
    names = dict.fromkeys(row.score.name for row in summary.rows)
    measure = next(iter(names)) if len(names) == 1 else "score"
    usual = {name: column.header for name, column in _columns(summary.rows, style, measure).items()}
    headers = [style.wording.header(name, usual[name]) for name in chosen]
    groups = {}
    for heading, rows in by_task(summary.rows).items():
        column_map = _columns(rows, style, measure)
        groups[heading] = [(row.label, [column_map[name].cell(row) for name in chosen]) for row in rows]
    same = "" if several or style.wording.columns else "With three seeds or fewer the interquartile mean is the mean. "
    explanation = legends.results(summary, "Bold", style.spread, style.wording.columns or None)
    note = f"{explanation} {same}{legends.setting(summary)}"
    means = scoring.means(row.score for row in summary.rows)
    yield from table(
        f"{means[0].upper()}{means[1:]}, study {without_hash(summary.study)}", headers, groups, note, style
    )


class TableColumn(NamedTuple):
    """A possible column of the table of rows: its header, and how a row fills it."""

    header: str
    cell: Callable[[ReportRow], TableCell]


def _columns(rows: Sequence[ReportRow], style: Style, measure: str) -> dict[str, TableColumn]:
    """Return every possible column of the table of rows (`wording.COLUMNS`), with the decimals that these rows need."""
    digits = columns(rows).digits
    returns = scoring.digits(row.final_return for row in rows)
    rates = scoring.digits(row.final_success for row in rows)

    def score(row: ReportRow) -> TableCell:
        mark = DAGGER if row.alone else ""
        return estimate(row.final, style, _error(row.scores[:, -1]), row.leading, mark, digits)

    return {
        "score": TableColumn(f"Final\n{measure}", score),
        "iqm": TableColumn("IQM", lambda row: TableCell(_digits(row.final_iqm.estimate, digits))),
        "auc": TableColumn("AUC", lambda row: TableCell(_digits(row.area.estimate, digits))),
        "late": TableColumn("Late", lambda row: TableCell(_digits(row.late.estimate, digits))),
        "best": TableColumn("Best", lambda row: TableCell(_digits(row.best, digits))),
        "maxima": TableColumn("Mean of\nmaxima", lambda row: TableCell(_digits(row.mean_of_best, digits))),
        "steps": TableColumn("Steps\nto best", _reached),
        "return": TableColumn("Final\nreturn", lambda row: TableCell(_digits(row.final_return.estimate, returns))),
        "success": TableColumn("Success\nrate", lambda row: TableCell(_digits(row.final_success.estimate, rates))),
        "seeds": TableColumn("Seeds", lambda row: TableCell(str(len(row.seeds)))),
    }


def _aggregates(summary: Summary, style: Style) -> Iterator[str]:
    groups = {
        heading: [
            (
                label,
                [
                    estimate(
                        aggregate.interval,
                        style,
                        aggregate.error,
                        aggregate.leading,
                        DAGGER if aggregate.missing else "",
                        aggregate_digits(labels),
                    )
                    for aggregate in entries
                    if aggregate.metric in METRICS
                ],
            )
            for label, entries in labels.items()
        ]
        for heading, labels in aggregates_by_label(summary.aggregates).items()
    }
    if groups:
        note = f"{legends.aggregates(summary, style.spread)} {legends.setting(summary)}"
        headers = [style.wording.header(name, text) for name, text in METRICS.items()]
        yield from table(
            f"Final score over tasks, study {without_hash(summary.study)}", headers, groups, note, style, AGGREGATES
        )


def differences(summary: Summary, style: Style) -> Iterator[str]:
    """Yield a LaTeX table for each matrix of a summary: its rows' differences from the reference."""
    for index, matrix in enumerate(summary.matrices, 1):
        reference, digits = matrix.lines[0].row, matrix_digits(matrix)
        counts = sorted({len(line.row.seeds) for line in matrix.lines})
        header_names = {"final": "Final", "difference": "Difference", "p": "p", "needed": "Seeds\nneeded"}
        header_names |= {"seeds": "Seeds"} if len(counts) > 1 else {}
        headers = [style.wording.header(name, text) for name, text in header_names.items()]
        group = [
            (
                line.name,
                [
                    TableCell(_digits(line.row.final.estimate, digits), after=DAGGER if line.row.alone else ""),
                    _difference(line, reference, style, digits),
                    _p_value(line),
                    _needed(line),
                    *([TableCell(str(len(line.row.seeds)))] if len(counts) > 1 else []),
                ],
            )
            for line in matrix.lines
        ]
        note = [
            f"Final: mean over {legends.many(counts, 'seed')} of the {scoring.mean_of(reference.score)} at the last "
            "evaluation.",
            matrices.legend([matrix], style.spread == PM),
            legends.setting(summary),
        ]
        which = numbered(DIFFERENCES, index)
        yield from table(
            f"{matrix.heading}, study {without_hash(summary.study)}", headers, {"": group}, " ".join(note), style, which
        )


def replications(pairs: Sequence[Replication], style: Style) -> Iterator[str]:
    """Yield the LaTeX table of replications, grouped by task; nothing if there are none."""
    groups: dict[str, Group] = {}
    for pair in pairs:
        finals = (TableCell(_digits(row.final.estimate, pair.digits)) for row in (pair.original, pair.row))
        difference = estimate(pair.difference, style._replace(spread=INTERVAL), digits=pair.digits)
        cells = [*finals, difference, TableCell("", before=escape(pair.verdict))]
        groups[pair.row.task_id] = [*groups.get(pair.row.task_id, ()), (pair.row.label, cells)]
    if groups:
        headers = ["Original", "Replication", "Difference", "Verdict"]
        yield from table("Replications", headers, groups, replication.LEGEND, style, REPLICATIONS)


def grids(estimates: Sequence[Grid], setting: str, style: Style | None = None) -> str:
    """Return LaTeX tables of further estimates, one line each, always with intervals; `setting` is part of every
    note."""
    style = (style or Style())._replace(spread=INTERVAL)
    tables: list[str] = []
    for index, grid in enumerate(estimates, 1):
        groups = {
            label: [
                (name, [estimate(value, style, digits=grid.decimals(name))])
                for name, value in zip(grid.names, line, strict=True)
            ]
            for label, line in grid.lines.items()
        }
        note = " ".join(filter(None, [grid.note, f"In brackets: {grid.brackets}.", setting]))
        header = style.wording.header("estimate", "Estimate")
        tables += table(grid.heading, [header], groups, note, style, numbered(FURTHER, index))
    return "\n".join(tables)


def _difference(line: Line, reference: ReportRow, style: Style, digits: int) -> TableCell:
    if line.comparison is None:
        return TableCell("")
    interval = line.comparison.adjusted
    if style.spread != PM and line.comparison.interval_note:
        return TableCell(
            _digits(interval.estimate, digits), after=rf"\ {{\scriptsize {line.comparison.interval_note}}}"
        )
    error = standard_error(line.row.scores[:, -1:], reference.scores[:, -1:])
    return estimate(interval, style, error, digits=digits)


def _p_value(line: Line) -> TableCell:
    value = line.comparison.adjusted_p if line.comparison else np.nan
    return TableCell("0.001", before="$<$") if value < 0.001 else TableCell(_digits(value, 3))


def _needed(line: Line) -> TableCell:
    value = line.comparison.needed if line.comparison else np.nan
    return TableCell(str(power.MOST), before="$>$") if np.isinf(value) else TableCell(_digits(value, 0))


def _reached(row: ReportRow) -> TableCell:
    if row.target is None:
        return TableCell("")
    return TableCell(str(row.reached)) if row.reached is not None else TableCell(str(row.budget), before=r"$>$\,")


def _error(scores: Array) -> float:
    """Return the standard error of a mean of scores [runs]; NaN for one run."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def _digits(value: float | Array, digits: int = 2) -> str:
    return number(value, digits) if np.isfinite(value) else ""


def _minus(text: str) -> str:
    return text.replace("-", "$-$")


def _header(text: str) -> str:
    lines = text.split("\n")
    return f"{{{stacked(lines)}}}"


def stacked(lines: Sequence[str]) -> str:
    """Return lines of text, each escaped, as LaTeX: one above the other, aligned at the right."""
    text = r" \\ ".join(map(escape, lines))
    return text if len(lines) == 1 else rf"\shortstack[r]{{{text}}}"


def _column(cells: Iterable[TableCell]) -> str:
    """Return the column specification of siunitx with room for the widest of `cells` on either side of the decimal
    point."""
    numbered_cells = [cell for cell in cells if cell.number] or [TableCell("0")]
    integer, _, decimals = max(
        (cell.number.lstrip("-").partition(".") for cell in numbered_cells), key=lambda parts: len(parts[0])
    )
    sign = "-" if any(cell.number.startswith("-") for cell in numbered_cells) else ""
    error = max((len(cell.error.replace(".", "").lstrip("0")) for cell in numbered_cells), default=0)
    options = [f"table-format={sign}{len(integer)}.{len(decimals)}" + (f"({error})" if error else "")]
    for side, texts in (
        ("pre", [cell.before for cell in numbered_cells]),
        ("post", [cell.after for cell in numbered_cells]),
    ):
        if any(texts):
            options.append(f"table-space-text-{side}={{{max(texts, key=len)}}}")
    return f"S[{','.join(options)}]"


def _parts(groups: Mapping[str, Group]) -> Iterator[list[tuple[str, Group]]]:
    """Split groups into tables of at most `LINES` lines; a group that is too long continues in the next table."""
    part: list[tuple[str, Group]] = []
    room = LINES
    for heading, group in groups.items():
        remaining = list(group)
        while remaining:
            if part and room < min(len(remaining), LINES - 1) + 1:
                yield part
                part, room = [], LINES
            part_rows, remaining = remaining[: room - 1], remaining[room - 1 :]
            part.append((heading, part_rows))
            room -= len(part_rows) + 1
            if room <= 1:
                yield part
                part, room = [], LINES
    if part:
        yield part


def _name(text: str) -> str:
    """Escape text for LaTeX and allow words of more than `LONG` characters to break."""
    words = (BREAKS.split(word) if len(word) > LONG else [word] for word in text.split(" "))
    return " ".join(r"\allowbreak{}".join(map(escape, parts)) for parts in words).replace(r" \%", r"~\%")


def without_hash(study: str) -> str:
    """Return a study's name without the hash at the end of a name that the command did not choose."""
    return _HASH.sub("", study)


def escape(text: str) -> str:
    """Escape text for TeX in ASCII; a character without a TeX name is shown by its code point."""
    escaped: str = _encoder().unicode_to_latex(text)
    return escaped


@functools.cache
def _encoder() -> UnicodeToLatexEncoder:
    from pylatexenc.latexencode import RULE_DICT, UnicodeToLatexConversionRule, UnicodeToLatexEncoder

    # | is ASCII to the library, but a dash in TeX's own font encoding
    bar = UnicodeToLatexConversionRule(RULE_DICT, {ord("|"): r"\textbar"})
    return UnicodeToLatexEncoder(
        non_ascii_only=False,
        conversion_rules=[bar, "defaults"],
        replacement_latex_protection="braces-after-macro",
        unknown_char_policy=lambda char: f"[U+{ord(char):04X}]",
        unknown_char_warning=False,
    )
