"""`bench report STUDY… --paper NAME`: write a paper's tables, claims and figures, with our values, as files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.statistics import Interval
from guidebench.reports.papers import catalogue, claims, filled, pictures, text, verdicts
from guidebench.reports.papers.claims import Outcome
from guidebench.reports.papers.comparisons import Difference
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.filled import Filled, PublishedEntry
from guidebench.reports.papers.layouts import Paper
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.papers.measures import Measured
from guidebench.reports.papers.pictures import Figures
from guidebench.reports.papers.sources import Sources
from guidebench.reports.summary import export, names, summaries
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import Picture, StudyRecord, published

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


class PaperReport(NamedTuple):
    """The contents of all files of a paper's report."""

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
    """Describe the seeds, profiles and backends of our runs."""

    @property
    def note(self) -> str:
        """Return the note that explains how to read every table, with all letters."""
        return self.note_of(self.letters)

    def note_of(self, letters: Mapping[str, str]) -> str:
        """Return the note under a table, which explains only these letters."""
        return " ".join([verdicts.DEFINITION, f"{text.key(letters)}." if letters else "", self.runs]).strip()


def _rows(studies: Sequence[StudyRecord], reps: int, notes: list[str]) -> list[tuple[ReportRow, StudyRecord]]:
    """Return the rows of several studies, and the study that each comes from; what a reader must know goes to
    `notes`."""
    cells = {cell.id: cell for study in studies for cell in study.cells}
    row_names = names.brief(list(cells.values()), notes)
    rows = []
    for study in studies:
        summary = summaries.summarise(study, results.load(study), reps=reps, named=row_names)
        notes += [f"{study.name}: {note}" if len(studies) > 1 else note for note in summary.notes]
        rows += [(row, study) for row in summary.rows]
    return rows


def report(studies: Sequence[StudyRecord], name: str, stand_ins: Mapping[str, str], reps: int) -> PaperReport:
    """Make a paper's report from these studies; raise UserError for an unknown paper or an unusable stand-in."""
    paper = catalogue.paper(name)
    numbers = published.load(name)
    _check_stand_ins(stand_ins, set(numbers["task"]), {cell.task for study in studies for cell in study.cells})
    notes: list[str] = []
    sources = _rows(studies, reps, notes)
    rows, by_row = [row for row, _ in sources], {id(row): study for row, study in sources}

    def study_of(row: ReportRow) -> StudyRecord:
        return by_row[id(row)]

    shelf = Shelf(rows, paper, stand_ins)
    estimator = Estimator(reps, Measured(study_of))
    tables = tuple(filled.fill(paper, numbers, shelf, estimator))
    outcomes = tuple(claims.test(published.claims(name), numbers, shelf, estimator))
    return PaperReport(
        name,
        paper,
        tuple(study.name for study in studies),
        tables,
        outcomes,
        pictures.draw(paper, Sources(shelf, study_of, estimator, reps)),
        tuple(picture for study in studies for picture in results.pictures(study)) if paper.samples else (),
        tuple(dict.fromkeys([*_strangers(paper, tables, outcomes, numbers, rows), *notes])),
        text.letters(tables, outcomes),
        _runs(tables, rows),
    )


def with_notes(report: PaperReport, notes: Sequence[str]) -> PaperReport:
    """Return the report with further notes added, without duplicates."""
    return report._replace(notes=tuple(dict.fromkeys([*report.notes, *notes])))


def show(report: PaperReport, console: Console) -> None:
    """Print the tables and claims for which we have runs, and what is missing, on a terminal."""
    for table in filter(attrgetter("is_filled"), report.tables):
        console.print(text.terminal(table, report.letters))
        notes = [note for note in (table.layout.note, text.of_the_numbers(table)) if note]
        if notes:
            console.print("\n".join(notes) + "\n", markup=False)
    tested = [outcome for outcome in report.claims if outcome.findings]
    if tested:
        console.print(text.claims_table(tested, report.letters))
    console.print(report.note, markup=False)
    console.print()
    for table in report.tables:
        if not table.is_filled:
            states = ", ".join(dict.fromkeys(entry.verdict for entry in table.leading))
            console.print(f"{text.heading(table)}: {len(table.leading)} numbers, {states}", markup=False)
    for verdict in verdicts.VERDICTS:
        count = sum(outcome.verdict == verdict for outcome in report.claims)
        if count:
            console.print(f"Claims {verdict}: {count} of {len(report.claims)}", markup=False)
    if report.figures.missing:
        console.print(f"Not run: {', '.join(report.figures.missing)}", markup=False)


def plain(report: PaperReport) -> dict[str, Any]:
    """Return the report as JSON data; undefined values are null, infinite steps are the text "never"."""
    return {
        "paper": report.name,
        "studies": list(report.studies),
        "definition": verdicts.DEFINITION,
        "notes": list(report.notes),
        "tables": [
            {
                "table": table.layout.table,
                "title": table.layout.title,
                "numbers": [*map(_entry, table.entries)],
            }
            for table in report.tables
        ],
        "claims": [
            {
                **{claims.COLUMNS.get(key, key): _plain(value) for key, value in outcome.claim._asdict().items()},
                "ours": [
                    {
                        "of": finding.of,
                        **_interval(finding.ours),
                        "verdict": finding.verdict,
                        "difference_from_baseline": _difference(finding.difference),
                    }
                    for finding in outcome.findings
                ],
                "verdict": outcome.verdict,
                "reasons": list(outcome.reasons),
            }
            for outcome in report.claims
        ],
        "missing_figures": list(report.figures.missing),
    }


def _entry(entry: PublishedEntry) -> dict[str, Any]:
    return {
        **{key: _plain(value) for key, value in entry.number._asdict().items()},
        "ours": _interval(entry.ours) if entry.ours else None,
        **({"beside": {entry.beside[0]: _plain(entry.beside[1])}} if entry.beside else {}),
        "verdict": entry.verdict,
        "difference_from_baseline": _difference(entry.difference),
        "numbers_alone": entry.numbers_alone or None,
        "reasons": list(entry.reasons),
        "runs": [directory for row in entry.rows for directory in row.directories],
    }


def _difference(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "baseline": difference.baseline,
        "score": difference.score.name,
        **export.spread(difference.comparison.difference),
        "p": export.number(difference.comparison.p),
        "seeds_needed": export.needed(difference.comparison.needed),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {name: _plain(float(value)) for name, value in interval._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "never"
    return value


def _runs(tables: Sequence[Filled], all_rows: Sequence[ReportRow]) -> str:
    used = {id(row): row for table in tables for entry in table.entries for row in entry.rows}
    rows = list(used.values()) or list(all_rows)
    if not rows:
        return ""
    seeds = sorted({len(row.seeds) for row in rows})
    profiles = sorted({row.cell.profile for row in rows})
    backends = sorted({f"{row.cell.model} ({row.cell.backend})" for row in rows if row.cell.backend})
    answered_by = f"; answered by {', '.join(backends)}" if backends else ""
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    noun = "seed" if seeds == [1] else "seeds"
    return (
        f"Ours: {count} {noun}, profile {', '.join(profiles)}{answered_by}; 95 % intervals: of gains and differences "
        "what the permutation test of the runs does not reject, of other numbers t over seeds."
    )


def _check_stand_ins(stand_ins: Mapping[str, str], theirs: set[str], ours: set[str]) -> None:
    for task, other in stand_ins.items():
        if task not in theirs:
            raise UserError(f"--stand-in {task}={other}: the paper has no task {task!r} (it has {_task_list(theirs)})")
        if other not in ours:
            raise UserError(
                f"--stand-in {task}={other}: the studies have no task {other!r} (they have {_task_list(ours)})"
            )


def _strangers(
    paper: Paper,
    tables: Sequence[Filled],
    outcomes: Sequence[Outcome],
    numbers: pd.DataFrame,
    rows: Sequence[ReportRow],
) -> list[str]:
    """Return advice, as notes, if nothing of the paper could be filled because the studies have none of its tasks; else
    nothing."""
    if any(entry.ours is not None for table in tables for entry in table.entries) or any(
        outcome.findings for outcome in outcomes
    ):
        return []
    ours = {(row.cell.suite, row.cell.task) for row in rows}
    tasks = [paper.tasks.get(task, task) for task in numbers["task"]]
    theirs = set(zip(numbers["suite"], tasks, strict=True))
    if not ours or ours & theirs:
        return []
    our_task = min(task for _, task in ours)
    alike = [task for suite, task in theirs if task and "," not in task and suite in {suite for suite, _ in ours}]
    hint = (
        f"; --stand-in {min(alike, key=lambda task: (len(task), task))}={our_task} shows one for another"
        if alike
        else ""
    )
    return [
        f"nothing could be filled in: the paper has no results on {_task_list({task for _, task in ours})} "
        f"(it has {_task_list(set(numbers['task']))}){hint}"
    ]


def _task_list(tasks: set[str]) -> str:
    return ", ".join(sorted(task for task in tasks if task and "," not in task))
