"""The files of a study's report: the page, LaTeX, figures, and every number as data."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from guidebench import results
from guidebench.reports import sections
from guidebench.reports.rendering import figures, latex, legends, page
from guidebench.reports.rendering import wording as words
from guidebench.reports.rendering.wording import Wording
from guidebench.reports.sections import engines
from guidebench.reports.summary import bounding, export, summaries
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listed
from guidebench.reports.summary.summaries import Summary
from guidebench.results import StudyRecord

RESAMPLES = 50_000


@dataclass(frozen=True)
class ReportOptions:
    """Options of a study's report."""

    resamples: int = RESAMPLES
    """Bootstrap resamples of each interval."""
    rliable: int | None = None
    """Resamples of what the library rliable estimates; None leaves everything to our own resampling."""
    wording: Wording = words.PLAIN
    """Captions, labels, names and columns of the LaTeX tables."""
    spread: str = "interval"
    """What LaTeX tables show beside an estimate: "interval", or "pm" for ± the standard error."""
    siunitx: bool = False
    """Whether LaTeX tables have columns of the package siunitx."""


@dataclass(frozen=True)
class Report:
    """The report of a study: its summary and tables, and the contents of its files."""

    summary: Summary
    tables: list[Grid]
    first: list[Listed]
    """What stands before the summary, as the claims of a study."""
    listed: list[Listed]
    """Paragraphs and tables of texts after it."""
    plain: dict[str, Any]
    """The content of summary.json."""
    contents: dict[str, bytes]
    """File name -> content."""


def report(
    directory: str | Path,
    options: ReportOptions,
    run_pages: Callable[[StudyRecord], Mapping[str, str]] = lambda study: {},
) -> Report:
    """Make the report of the study in a directory; raise UserError if there is no study, or a file does not fit its
    schema. `run_pages`: function from the study to run directory -> link to the run's own page, for the runs that have
    one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        full_study = results.study(directory)
        evaluations = results.load(full_study)
        full_summary = summaries.summarise(full_study, evaluations, reps=options.resamples)
        if options.rliable is not None:
            full_summary = engines.with_rliable_s(full_summary, options.rliable)
        study, summary = bounding.bounded(full_study, full_summary)
        drawn = {cell.id for cell in study.cells}
        if len(drawn) < len(full_study.cells):
            evaluations = evaluations[evaluations["cell"].isin(drawn)]
        labels = {row.cell.id: row.label for row in summary.rows}
        places, failed = figures.styles(row.label for row in summary.rows), list[str]()
        source = sections.Source(
            study, summary, options.resamples, labels, places, options.rliable is not None,
            unbounded=(full_study, full_summary) if study is not full_study else None,
            _read={sections.EVALUATIONS: evaluations},
        )  # fmt: skip
        all_sections = sections.sections(failed)
        built = sections.build(all_sections, source, failed)
    galleries = sections.galleries(built, source, failed)
    further = [*(str(warning.message) for warning in caught if ours(warning)), *failed]
    full_summary, summary = (summaries.with_notes(counted, further) for counted in (full_summary, summary))
    tables = [table for part in built for table in part.tables]
    style = latex.Style(options.spread, options.siunitx, words.resolved(options.wording, summary, tables))
    plain = {
        **export.plain(full_summary, drawn),
        **{section.name: [] for section in all_sections if section.plain},
        **{part.section.name: part.plain for part in built if part.section.plain},
    }
    first, listed = sections.listed(built)
    contents: dict[str, bytes] = {
        "report.html": page.render(
            study,
            summary,
            galleries,
            listed,
            results.pictures(study),
            style,
            tables,
            run_pages(study),
            full_study,
            first,
        ).encode(),
        "table.tex": (latex.latex(summary, style) + latex.grids(tables, legends.setting(summary), style)).encode(),
        "summary.json": (json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
    }
    contents |= figures.files(drawing for gallery in galleries for drawing in gallery.drawings)
    return Report(summary, tables, first, listed, plain, contents)


def ours(warning: warnings.WarningMessage) -> bool:
    """Return whether a warning concerns the study's files rather than a library."""
    return warning.category is UserWarning


def written_run_pages(study: StudyRecord, directory: Path) -> dict[str, str]:
    """Return run directory -> link to its page, relative to a page in `directory`, for the pages that were written."""
    pages = {run.directory: study.directory / run.directory / "report" / "run.html" for run in study.runs}
    return {name: link for name, file in pages.items() if (link := relative(file, directory))}


def relative(file: Path, directory: Path) -> str:
    """Return a link to a file from a page in a directory; "" if the file does not exist."""
    return quote(os.path.relpath(file, directory)) if file.is_file() else ""
