"""`bench report STUDY… --paper NAME`: a paper's tables, claims and figures with ours beside them, as files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports import summary
from guidebench.reports.latex import escape
from guidebench.reports.papers import catalogue, claims, filled, pictures, text, verdicts
from guidebench.reports.papers.claims import Outcome
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.filled import Entry, Filled
from guidebench.reports.papers.layouts import Paper
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.papers.measures import Measured
from guidebench.reports.papers.pictures import Figures
from guidebench.reports.papers.sources import Sources
from guidebench.reports.statistics import Interval
from guidebench.reports.summary import Row
from guidebench.results import Picture, Study, published

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


class PaperReport(NamedTuple):
    """Everything that the files of a paper's report show."""

    name: str
    paper: Paper
    studies: tuple[str, ...]
    tables: tuple[Filled, ...]
    claims: tuple[Outcome, ...]
    figures: Figures
    samples: tuple[Picture, ...]
    notes: tuple[str, ...]
    letters: Mapping[str, str]
    runs: str
    """Seeds, profiles and backends of the runs of ours, in words."""

    @property
    def note(self) -> str:
        """What every table needs to be read."""
        return self.note_of(self.letters)

    def note_of(self, letters: Mapping[str, str]) -> str:
        """The same with these letters alone, those that one table bears."""
        return " ".join([verdicts.DEFINITION, f"{text.key(letters)}." if letters else "", self.runs]).strip()


class Library:
    """The rows of several studies, and of which study each is."""

    def __init__(self, studies: Sequence[Study], reps: int) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self._studies: dict[int, Study] = {}
        self._seconds: dict[int, float] = {}
        for study in studies:
            found = summary.summarise(study, results.load(study), reps=reps)
            self.notes += [f"{study.name}: {note}" if len(studies) > 1 else note for note in found.notes]
            for row in found.rows:
                self.rows.append(row)
                self._studies[id(row)] = study

    def study(self, row: Row) -> Study:
        return self._studies[id(row)]

    def seconds(self, row: Row) -> float:
        """Seconds per environment step, the mean over seeds of what each took in all; NaN where it was not recorded."""
        if id(row) not in self._seconds:
            timings = results.load(self.study(row), what="timings")
            last = timings[timings["cell"] == row.cell.id].groupby("seed").last()
            self._seconds[id(row)] = float((last["seconds"] / last["step"]).mean()) if len(last) else math.nan
        return self._seconds[id(row)]


def report(studies: Sequence[Study], name: str, stand_ins: Mapping[str, str], reps: int) -> PaperReport:
    """A paper's report from these studies; UserError for an unknown paper, or a stand-in that fits nothing."""
    paper = catalogue.paper(name)
    numbers = published.load(name)
    _check_stand_ins(stand_ins, set(numbers["task"]), {cell.task for study in studies for cell in study.cells})
    library = Library(studies, reps)
    shelf = Shelf(library.rows, paper, stand_ins)
    estimator = Estimator(library.seconds, reps, Measured(library.study))
    tables = tuple(filled.fill(paper, numbers, shelf, estimator))
    tested = tuple(claims.test(published.claims(name), numbers, shelf, estimator))
    return PaperReport(
        name,
        paper,
        tuple(study.name for study in studies),
        tables,
        tested,
        pictures.draw(paper, Sources(shelf, library.study, estimator, reps)),
        tuple(picture for study in studies for picture in results.pictures(study)) if paper.samples else (),
        tuple(dict.fromkeys([*_strangers(tables, tested, numbers, library.rows), *library.notes])),
        text.letters(tables, tested),
        _runs(tables, tested, library.rows),
    )


def with_notes(found: PaperReport, notes: Sequence[str]) -> PaperReport:
    """The report with further notes, each named once."""
    return found._replace(notes=tuple(dict.fromkeys([*found.notes, *notes])))


def files(found: PaperReport) -> dict[str, bytes]:
    """The files of a report, by name."""
    from guidebench.reports.papers import page

    contents = {
        f"{found.name}.html": page.render(found).encode(),
        f"{found.name}.tex": "\n".join(_latex(found, table) for table in found.tables).encode(),
        f"{found.name}.json": (json.dumps(plain(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
    }
    for drawing in found.figures.drawings:
        contents[f"{drawing.name}.pdf"], contents[f"{drawing.name}.png"] = drawing.pdf, drawing.png
    for picture in found.samples:
        contents[f"figure-{found.paper.samples}-{picture.where.rpartition('/')[2]}-{picture.name}.png"] = picture.png
    contents[f"{found.name}-document.tex"] = document(found, list(contents)).encode()
    return contents


def _latex(found: PaperReport, table: Filled) -> str:
    caption = f"{published.PAPERS[found.name]}, table {table.layout.table}: {table.layout.title}."
    used = {reason: found.letters[reason] for reason in text.letters([table], [])}
    note = f"{table.layout.note} {found.note_of(used)}".strip()
    return text.latex(table, found.letters, caption, note)


def document(found: PaperReport, names: Sequence[str]) -> str:
    """A whole LaTeX document that shows the tables and figures; `pdflatex` compiles it where it lies."""
    samples = [name for name in names if name.startswith(f"figure-{found.paper.samples}-") and name.endswith(".png")]
    lines = [
        r"\documentclass{article}",
        r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage{array,booktabs,graphicx}",
        r"\begin{document}",
        rf"\section*{{{escape(found.paper.title)}}}",
        escape(f"Studies: {', '.join(found.studies)}."),
        rf"\input{{{found.name}.tex}}",
        r"\clearpage",
    ]
    for drawing in found.figures.drawings:
        lines += [_figure(f"{drawing.name}.pdf", drawing.where)]
    for name in samples:
        kind = name.removesuffix(".png").rpartition("-")[2].replace("_", " ")
        lines += [_figure(name, f"Figure {found.paper.samples}: frames as the judge sees them, {kind}")]
    return "\n".join([*lines, r"\end{document}", ""])


def show(found: PaperReport, console: Console) -> None:
    """The tables that some run of ours speaks to, the claims likewise, and what is missing, on a terminal."""
    shown: list[tuple[Filled, list[Entry]]] = []
    left: list[tuple[Filled, list[Entry]]] = []
    for table in found.tables:
        entries = [cell[0] for line in table.lines for cell in line.cells if cell]
        (shown if any(entry.ours is not None for entry in entries) else left).append((table, entries))
    for table, _ in shown:
        console.print(text.terminal(table, found.letters))
        if table.layout.note:
            console.print(f"{table.layout.note}\n", markup=False)
    spoken = [each for each in found.claims if each.findings]
    if spoken:
        console.print(text.claims_table(spoken, found.letters))
    console.print(found.note, markup=False)
    console.print()
    for table, entries in left:
        states = ", ".join(dict.fromkeys(entry.verdict for entry in entries))
        console.print(f"{text.heading(table)}: {len(entries)} numbers, {states}", markup=False)
    for verdict in verdicts.VERDICTS:
        count = sum(each.verdict == verdict for each in found.claims)
        if count:
            console.print(f"Claims {verdict}: {count} of {len(found.claims)}", markup=False)
    if found.figures.missing:
        console.print(f"Not run: {', '.join(found.figures.missing)}", markup=False)


def plain(found: PaperReport) -> dict[str, Any]:
    """The report as JSON data; what is not defined is null, infinite steps are the text "never"."""
    return {
        "paper": found.name,
        "studies": list(found.studies),
        "definition": verdicts.DEFINITION,
        "notes": list(found.notes),
        "tables": [
            {
                "table": table.layout.table,
                "title": table.layout.title,
                "numbers": [_entry(entry) for line in table.lines for cell in line.cells for entry in cell],
            }
            for table in found.tables
        ],
        "claims": [
            {
                **{key: _plain(value) for key, value in each.claim._asdict().items()},
                "ours": [{"of": one.of, **_interval(one.ours), "verdict": one.verdict} for one in each.findings],
                "verdict": each.verdict,
                "reasons": list(each.reasons),
            }
            for each in found.claims
        ],
        "missing_figures": list(found.figures.missing),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        **{key: _plain(value) for key, value in entry.number._asdict().items()},
        "ours": _interval(entry.ours) if entry.ours else None,
        "verdict": entry.verdict,
        "numbers_alone": entry.numbers_alone or None,
        "reasons": list(entry.reasons),
        "runs": [directory for row in entry.rows for directory in row.directories],
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {name: _plain(float(value)) for name, value in interval._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "never"
    return value


def _runs(tables: Sequence[Filled], tested: Sequence[Outcome], known: Sequence[Row]) -> str:
    cells = [cell for table in tables for line in table.lines for cell in line.cells]
    used = {id(row): row for cell in cells for entry in cell for row in entry.rows}
    rows = list(used.values()) or list(known)
    if not rows:
        return ""
    seeds = sorted({len(row.seeds) for row in rows})
    profiles = sorted({row.cell.profile for row in rows})
    backends = sorted({f"{row.cell.model} ({row.cell.backend})" for row in rows if row.cell.backend})
    judged = f"; answered by {', '.join(backends)}" if backends else ""
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"Ours: {count} seeds, profile {', '.join(profiles)}{judged}; 95 % t intervals over seeds."


def _check_stand_ins(stand_ins: Mapping[str, str], theirs: set[str], ours: set[str]) -> None:
    for task, other in stand_ins.items():
        if task not in theirs:
            raise UserError(f"--stand-in {task}={other}: the paper has no task {task!r} (it has {_named(theirs)})")
        if other not in ours:
            raise UserError(f"--stand-in {task}={other}: the studies have no task {other!r} (they have {_named(ours)})")


def _strangers(
    tables: Sequence[Filled], tested: Sequence[Outcome], numbers: pd.DataFrame, rows: Sequence[Row]
) -> list[str]:
    """What may be done where nothing of the paper could be filled, since it has none of the studies' tasks."""
    entries = [entry for table in tables for line in table.lines for cell in line.cells for entry in cell]
    if any(entry.ours is not None for entry in entries) or any(each.findings for each in tested):
        return []
    ours = {(row.cell.suite, row.cell.task) for row in rows}
    theirs = set(zip(numbers["suite"], numbers["task"], strict=True))
    if not ours or ours & theirs:
        return []
    own = min(task for _, task in ours)
    alike = [task for suite, task in theirs if task and "," not in task and suite in {suite for suite, _ in ours}]
    shown = (
        f"; --stand-in {min(alike, key=lambda task: (len(task), task))}={own} shows one for another" if alike else ""
    )
    return [
        f"nothing could be filled in: the paper has no results on {_named({task for _, task in ours})} "
        f"(it has {_named(set(numbers['task']))}){shown}"
    ]


def _named(tasks: set[str]) -> str:
    return ", ".join(sorted(task for task in tasks if task and "," not in task))


def _figure(file: str, caption: str) -> str:
    return (
        rf"\begin{{figure}}[p]\centering\includegraphics[width=.8\linewidth,height=.7\textheight,keepaspectratio]"
        rf"{{{file}}}\caption*{{{escape(caption)}}}\end{{figure}}"
    ).replace(r"\caption*", r"\par\small ")
