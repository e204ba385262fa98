"""Sections of a study's report: the contents of one, the list of all, and the handling of one that fails.

The report goes over one list: the built-in sections (`builtin.py`), those of `report.py` in the folder of a method, and
those of other packages, whose entry points in the group `guidebench.sections` name a module. Every such module has a
tuple `SECTIONS`. A section that cannot be imported, takes a reserved or used name, or raises becomes a note, and the
rest of the report is unaffected. A section reads the logs of runs with `Source.rows`.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.records import schema
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering.figures import Drawing, Gallery
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import PLACES, Listed, Listing
from guidebench.results.rows import EVALUATIONS as EVALUATIONS

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.summary.summaries import Summary
    from guidebench.results import CellRecord, StudyRecord

GROUP = "guidebench.sections"
SUMMARY = 100
"""Order of the summary of all rows among the sections."""
BUILTIN = "guidebench.reports.sections.builtin"
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
RESERVED = (
    "study", "complete", "resamples", "level", "statistics", "notes", "shared_overrides", "rows", "aggregates",
    "matrices", "overviews", "files", "schema",
)  # fmt: skip
"""Reserved names, which every report has: keys of summary.json and files."""
LOADING = ("exec_module", "load_module")
"""Functions of an import loader; a package such as wandb puts its own between the import and the section's module."""

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """The inputs of a section: records of a study and its summary, without live objects."""

    study: StudyRecord
    summary: Summary
    resamples: int
    """Resamples of each interval."""
    labels: Mapping[str, str]
    """Cell id -> row label."""
    places: Mapping[str, int]
    """Row label -> its index among colours and line styles, the same in every figure (`figures.styles`)."""
    rliable: bool = False
    """Whether the library rliable computes and draws what it can."""
    needs: tuple[str, ...] = ()
    """The logs that `rows` may read: those that the section declares."""
    notes: list[str] = field(default_factory=list, repr=False)
    """Notes of the report, on what is left out."""
    unbounded: tuple[StudyRecord, Summary] | None = field(default=None, repr=False)
    """The study and its summary with every row, where `study` and `summary` have those shown only
    (`summary/bounding.py`); None if they have every row."""
    _read: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    def rows(self, log: str, *columns: str) -> pd.DataFrame:
        """Return the records of a log (or `evaluations`) that the section needs, from the cells that declare it with
        these columns; records of another cell are left out with a note. The file is read once for all sections, and
        checked against what each cell declared when it was run (`results.load`).

        Raises UserError for a file that does not fit, and for a log that the section does not need.
        """
        if log not in self.needs:
            log_names = ", ".join(map(repr, (*self.needs, log)))
            raise UserError(f"it reads the log {log!r} without declaring it; add needs=({log_names},)")
        if log not in self._read:
            self._read[log] = results.load(self.study) if log == EVALUATIONS else results.noted(self.study, log)
        rows = self._read[log].copy()  # a section may change them; the cached copy must stay as read
        if log in (EVALUATIONS, *schema.LOGS):  # a log of every run needs no declaration in the cell
            return rows
        recorded = set(rows["cell"].unique())
        unusable = {}
        for cell in self.study.cells:
            if cell.id in recorded and (why := _lacks(cell, log, columns)):
                unusable[cell.id] = why
                label = self.labels.get(cell.id, cell.label)
                self.notes.append(f"{cell.task_id}, {label}: {why}; its rows are left out")
        return rows[~rows["cell"].isin(unusable)] if unusable else rows


def _lacks(cell: CellRecord, log: str, columns: Sequence[str]) -> str:
    """Return the reason why a section cannot use the records of a cell's log; "" if it can."""
    if log not in cell.logs:
        return f"its record does not declare the log {log!r}"
    missing = [name for name in columns if name not in cell.logs[log].columns]
    return f"the log {log!r} that its parts declare has no column {missing[0]!r}" if missing else ""


def _nothing(*_: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Section:
    """A part of the report. Its other functions receive what `load` returns."""

    name: str
    """Key in summary.json, of lower-case letters, digits and _."""
    title: str
    """Heading of its figures."""
    order: int
    """Sections are shown in ascending order; the built-in ones have 100, 200, …, 900. The paragraphs and listings of
    those below `SUMMARY` come before the summary."""
    load: Callable[[Source], Any]
    needs: tuple[str, ...] = ()
    """Logs that the section needs, and `evaluations` if it reads episode records. It is left out unless each log is
    declared by some cell of the study."""
    reads: tuple[str, ...] = ()
    """Further logs that it reads where some cell of the study declares them (`Source.needs` has those)."""
    words: str | Callable[[Source], str] = ""
    """How to read the figures, in a sentence or two."""
    tables: Callable[[Any], Sequence[Grid]] = _nothing
    """Returns estimates with their intervals, for the page, the terminal and LaTeX."""
    listings: Callable[[Any], Sequence[Listing]] = _nothing
    """Returns tables of texts, for the page, under the section's heading, and the terminal."""
    remarks: Callable[[Any], Sequence[str]] = _nothing
    """Returns paragraphs above the tables of texts, for page and terminal."""
    drawings: Callable[[Any, Source], Sequence[Drawing]] = _nothing
    plain: Callable[[Any], Any] | None = None
    """Returns the section's entry in summary.json, or None."""
    by: str = ""
    """Module of the section, for messages; "" for a built-in one. Filled in by `sections`."""

    def __str__(self) -> str:
        """Return the section's name in notes: the heading, for a built-in one."""
        return f"the section {self.name!r} of {self.by}" if self.by else f"the section {self.title!r}"


class BuiltSection(NamedTuple):
    """A section with its content and tables for one study, before its figures are drawn."""

    section: Section
    content: Any
    tables: Sequence[Grid]
    listings: Sequence[Listing]
    plain: Any
    remarks: Sequence[str] = ()


def listed(built: Sequence[BuiltSection]) -> tuple[list[Listed], list[Listed]]:
    """Return what sections say in words: those before the summary, and those after it."""
    parts = [
        (part.section.order < SUMMARY, Listed(str(part.section.title), part.remarks, part.listings))
        for part in built
        if part.remarks or part.listings
    ]
    return [part for is_first, part in parts if is_first], [part for is_first, part in parts if not is_first]


def sections(notes: list[str]) -> list[Section]:
    """Return all sections in ascending order; those that cannot be used are named in `notes`, with reasons."""
    by_name: dict[str, Section] = {}
    for name, module in _modules():
        nothing: tuple[Any, ...] = ()
        for section in attempt(f"the sections of {name}", partial(_declared, module), nothing, notes):
            why = _misdeclared(section, by_name)
            if why:
                notes.append(f"left out: a section of {name}, since {why}")
            else:
                by_name[section.name] = replace(section, by="" if module == BUILTIN else name)
    return sorted(by_name.values(), key=lambda section: section.order)


def _declared(module: str) -> tuple[Any, ...]:
    return tuple(importlib.import_module(module).SECTIONS)


def _modules() -> Iterator[tuple[str, str]]:
    """Yield (name in messages, module) for every module with sections: built-in ones, those of methods, those of
    plug-ins."""
    yield BUILTIN, BUILTIN
    package = importlib.import_module("guidebench.methods")
    for module in pkgutil.iter_modules(package.__path__, "guidebench.methods."):
        if any((Path(place) / module.name.rpartition(".")[2] / "report.py").is_file() for place in package.__path__):
            yield f"{module.name}.report", f"{module.name}.report"
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        # Not `entry.load`, which may be that of importlib_metadata: its lines would stand before the section's.
        yield f"{entry.value} (plug-in {entry.name!r})", entry.value


def _misdeclared(section: Any, by_name: Mapping[str, Section]) -> str:
    """Return the reason why an object is no valid section or cannot have its name; "" if it is valid. `by_name`: the
    sections so far."""
    if not isinstance(section, Section):
        return f"SECTIONS holds {type(section).__name__}; expected guidebench.reports.sections.Section"
    if type(section.order) is not int:
        return f"the order of {section.name!r} is {str(section.order)[:60]!r}; expected a whole number"
    for verb, logs in (("needs", section.needs), ("reads", section.reads)):
        if not isinstance(logs, tuple) or not all(isinstance(log, str) for log in logs):
            return f"{section.name!r} {verb} {str(logs)[:60]!r}; expected a tuple of names of logs, as in ('labels',)"
    if not isinstance(section.name, str) or not NAME.fullmatch(section.name):
        return f"its name is {str(section.name)[:60]!r}; expected lower-case letters, digits and _, at most 60"
    if section.name in RESERVED:
        return f"its name {section.name!r} belongs to what every report has; choose another"
    if section.name in by_name:
        return f"its name {section.name!r} is taken by {by_name[section.name].by or BUILTIN}; choose another"
    return ""


def attempt(subject: str, work: Callable[[], T], instead: T, notes: list[str]) -> T:
    """Return what `work` returns; if it raises or exits, add a note about `subject` and return `instead`."""
    try:
        return work()
    except UserError as error:
        notes.append(f"left out: {subject}: {' '.join(str(error).split())[:1_000]}")
        return instead
    except (Exception, SystemExit) as error:
        lines = str(error).splitlines()
        message = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
        notes.append(f"left out: {subject}, which raised {message}; tell those who wrote it{_raising_line(error)}")
        return instead


def _raising_line(error: BaseException) -> str:
    """Return, in parentheses, the file and line of the section's module from which an error came; "" if there is
    none."""
    library = os.path.dirname(traceback.__file__)  # imports and json: not the section's lines
    ours = re.compile(rf"{re.escape(__file__)}$|<|{re.escape(library)}/(?!site-packages/)")
    steps = [step for step in traceback.extract_tb(error.__traceback__) if step.name.lstrip("_") not in LOADING]
    outside = [step for step in steps if not ours.match(step.filename)]
    last = next((step for step in reversed(outside) if step.filename == outside[0].filename), None)
    return f" ({Path(last.filename).name}, line {last.lineno})" if last else ""


def build(sections: Sequence[Section], source: Source, notes: list[str]) -> list[BuiltSection]:
    """Load those of the sections whose logs a study has, with their tables; a section that fails becomes a note."""
    attempts = (
        attempt(str(section), partial(_build_section, section, _for(section, source, notes)), None, notes)
        for section in sections
        if set(section.needs) <= {EVALUATIONS, *source.study.logs}
    )
    return [built for built in attempts if built is not None]


def _for(section: Section, source: Source, notes: list[str]) -> Source:
    """Return the inputs of a section: `source` restricted to the logs that it declares; what it leaves out goes to
    `notes`."""
    further = tuple(log for log in section.reads if log in source.study.logs)
    return replace(source, needs=(*section.needs, *further), notes=notes)


def _build_section(section: Section, source: Source) -> BuiltSection:
    content = section.load(source)
    tables, listings = list(section.tables(content)), list(section.listings(content))
    for table in tables:
        _check(table)
    for listing in listings:
        _check_listing(listing)
    plain = section.plain(content) if section.plain else None
    json.dumps(plain, allow_nan=False)
    remarks = list(section.remarks(content))
    if not all(isinstance(text, str) for text in remarks):
        raise TypeError("remarks holds what is no text")
    return BuiltSection(section, content, tables, listings, plain, remarks)


def _check(table: Any) -> None:
    """Raise TypeError or ValueError for a table of estimates that a page cannot show."""
    if not isinstance(table, Grid):
        raise TypeError(f"tables holds {type(table).__name__}; expected guidebench.reports.summary.grids.Grid")
    if not all(
        isinstance(text, str) for text in (table.heading, table.note, table.brackets, *table.names, *table.lines)
    ):
        raise TypeError("heading, note and names of a table are text")
    for label, line in table.lines.items():
        if len(line) != len(table.names) or not all(isinstance(estimate, Interval) for estimate in line):
            raise ValueError(f"the line {label!r} of {table.heading!r} has not an Interval for each of its names")
        if any(np.ndim(end) or not isinstance(float(end), float) for estimate in line for end in estimate):
            raise ValueError(f"the line {label!r} of {table.heading!r} holds arrays; expected numbers")


def _check_listing(listing: Any) -> None:
    """Raise TypeError or ValueError for a table of texts that a page cannot show."""
    if not isinstance(listing, Listing):
        raise TypeError(
            f"listings holds {type(listing).__name__}; expected guidebench.reports.summary.listings.Listing"
        )
    texts = (listing.heading, listing.note, listing.subject, *listing.names, *listing.tags.values())
    if not all(isinstance(text, str) for text in (*texts, *(text for line in listing.lines for text in line))):
        raise TypeError(f"the table {str(listing.heading)[:60]!r} holds what is no text; write numbers as text")
    if listing.on not in PLACES:
        raise ValueError(f"the table {listing.heading!r} is for {listing.on!r}; expected one of {', '.join(PLACES)}")
    if any(len(line) != 1 + len(listing.names) for line in listing.lines):
        raise ValueError(f"a line of {listing.heading!r} has not its name and a text for each of its columns")


def galleries(sections: Sequence[BuiltSection], source: Source, notes: list[str]) -> list[Gallery]:
    """Draw the figures of sections; a section that fails becomes a note. No two figures have the same file name."""
    file_names: set[str] = set()
    by_name: dict[str, Gallery] = {}
    # Built-in sections first, so that none of their figures loses its name to another's.
    for built in sorted(sections, key=lambda built: bool(built.section.by)):
        inputs = _for(built.section, source, notes)
        gallery = attempt(f"the figures of {built.section}", partial(_gallery, built, inputs, file_names), None, notes)
        if gallery is not None:
            file_names |= {drawing.name for drawing in gallery.drawings}
            by_name[built.section.name] = gallery
    return [by_name[built.section.name] for built in sections if built.section.name in by_name]


def _gallery(built: BuiltSection, source: Source, file_names: set[str]) -> Gallery:
    section = built.section
    drawings = list(section.drawings(built.content, source))
    if not all(isinstance(drawing, Drawing) for drawing in drawings):
        raise TypeError("drawings holds what is no guidebench.reports.rendering.figures.Drawing")
    names = [drawing.name for drawing in drawings]
    for drawing in drawings:
        if not (isinstance(drawing.png, bytes) and isinstance(drawing.pdf, bytes)):
            raise TypeError(f"the files of the figure {drawing.name!r} are not bytes")
        if not FILE.fullmatch(drawing.name) or drawing.name in file_names or names.count(drawing.name) > 1:
            raise ValueError(f"a figure cannot be called {drawing.name[:100]!r}: that is no free name of a file")
    words = section.words if isinstance(section.words, str) else section.words(source)
    drawable = [drawing if _chartable(drawing, source) else drawing._replace(chart=None) for drawing in drawings]
    return Gallery(str(section.title), str(words), drawable)


def _chartable(drawing: Drawing, source: Source) -> bool:
    """Return whether the page can draw a figure from its data, which needs every curve's label to be that of a row."""
    return drawing.chart is None or all(curve.label in source.places for curve in drawing.chart.curves)
