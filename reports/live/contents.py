"""What the page shows: each of its parts as HTML, made anew only from cells whose files changed."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from guidebench.harness import statistics
from guidebench.harness.errors import count
from guidebench.harness.grouping import grouped
from guidebench.harness.records import formatting
from guidebench.harness.records.schema import STATUSES
from guidebench.harness.texts import duration, one_line, printable
from guidebench.reports.live.remaking import run_link
from guidebench.reports.rendering import figures, legends, page, tables
from guidebench.reports.rendering.notes import arranged
from guidebench.reports.summary import bounding, names, scoring, summaries
from guidebench.reports.summary.comparability import Place
from guidebench.reports.summary.rows import ReportRow
from guidebench.reports.summary.summaries import Summary
from guidebench.results import CellRecord, RunRecord, StudyRecord
from guidebench.results.following import Following, Live
from guidebench.results.row_log import Curve

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("state", "results", "runs")
"""The parts of the page, from top to bottom."""
RESAMPLES = statistics.CURVE_REPS
"""Bootstrap resamples of the live page's intervals (choice: a tenth of a report's, so that a row appears in time)."""
SILENT = 30.0
"""Seconds without a sign of a worker after which the page says how long it has been silent."""
ERROR = 4_000
"""Most characters of an error."""
RUNS = 200
"""Most runs in the table of runs, so that the page of a study of thousands stays short."""
POINTS = 60
"""Most points of a run's own curve in the table of runs."""
WIDTH, HEIGHT = 90, 20
"""Size of that curve in pixels."""

NO_RESULTS: tuple[str, Sequence[str]] = "<p>Curves and tables are being computed.</p>", ()
"""Curves and tables, and remarks on them, before the first rows were read."""


class Line(NamedTuple):
    """A line of the table of runs, as text."""

    key: str
    label: str
    task_id: str
    seed: int
    status: str
    step: int
    steps: int
    measure: str
    score: str
    curve: str
    """Points of its curve as SVG takes them; "" with fewer than two evaluations."""
    rate: str
    time_left: str
    phase: str
    silent: str
    error: str
    """Last line of its error; `trace` is the whole."""
    trace: str
    page: str
    """Link to the run's own page; "" if it has not begun."""


class _LineInputs(NamedTuple):
    """The inputs from which a line of the table of runs is rendered."""

    run: RunRecord
    label: str
    live: Live | None
    curve: Curve | None
    silence: str
    several: bool

    def same(self, other: _LineInputs) -> bool:
        """Return whether both inputs give the same line. Records and curves are compared by identity: they are
        replaced, never changed."""
        return self.run is other.run and self.curve is other.curve and self[1:3] + self[4:] == other[1:3] + other[4:]


class _CellRow(NamedTuple):
    """The row of a cell before it is compared with others, its notes, and how often it was computed anew."""

    row: ReportRow | None
    notes: tuple[str, ...]
    times: int


class Contents:
    """Renders the parts of the page of a study that is being followed."""

    def __init__(self, following: Following, resamples: int = RESAMPLES) -> None:
        self._following, self._resamples = following, resamples
        self._cell_rows: dict[str, _CellRow] = {}
        self._compared: dict[Place, tuple[tuple[object, ...], list[ReportRow], list[str]]] = {}
        self._results = NO_RESULTS
        self._lines: dict[str, tuple[_LineInputs, str]] = {}

    def parts(self, changed: set[str]) -> dict[str, str]:
        """Return part -> HTML. `changed`: the cells that have changed since the last call (`Following.look`)."""
        study = self._following.study
        if study is None:
            self._cell_rows, self._compared, self._results = {}, {}, NO_RESULTS
            return {"state": self._state(None, []), "results": "", "runs": ""}
        notes: list[str] = []
        labels = names.brief(study.cells, notes).labels
        if changed:
            rows = self._rows(study, labels, changed, notes)
            self._results = self._results_of(study, rows, labels, notes)
        html, remarks = self._results
        return {"state": self._state(study, remarks), "results": html, "runs": self._runs(study, labels)}

    def _state(self, study: StudyRecord | None, notes: Sequence[str]) -> str:
        live = self._following.live.values()
        rate = sum(worker.rate or 0.0 for worker in live)
        return _render(
            "watch/state.html.j2",
            study=study,
            counts=page.counts(study) if study else "",
            rate=f"{rate:,.0f} steps/s" if rate else "",
            command=" ".join(study.command) if study else "",
            directory=str(self._following.directory),
            faults=[printable(fault) for fault in self._following.faults if study or self._following.problem != fault],
            problem=printable(self._following.problem),
            notes=arranged(notes),
        )

    def _rows(
        self, study: StudyRecord, labels: Mapping[str, str], changed: set[str], notes: list[str]
    ) -> list[ReportRow]:
        """Return the rows, compared within their places; remarks are added to `notes`."""
        curves = self._following.curves
        runs = grouped(study.runs, lambda run: run.cell.id)
        rows = []
        for cell in study.cells:
            cell_row = self._cell_rows.get(cell.id)
            if cell_row is None or cell.id in changed:
                cell_row = self._row(cell, labels[cell.id], runs.get(cell.id, []), curves.get(cell.id, {}), cell_row)
                self._cell_rows[cell.id] = cell_row
            if cell_row.row is not None:
                rows.append(replace(cell_row.row, label=labels[cell.id]))
            notes += cell_row.notes
        groups = grouped(summaries.placed(rows), lambda row: row.place)
        self._compared = {place: self._within(place, members) for place, members in groups.items()}
        for _, _, remarks in self._compared.values():
            notes += remarks
        return [row for _, members, _ in self._compared.values() for row in members]

    def _row(
        self, cell: CellRecord, label: str, runs: list[RunRecord], curves: Mapping[int, Curve], before: _CellRow | None
    ) -> _CellRow:
        notes: list[str] = []
        row = None
        if curves:
            frames = {seed: _frame(curve) for seed, curve in sorted(curves.items())}
            name = f"{cell.task_id}, {label}"
            row = summaries.row_of(cell, label, name, runs, frames, notes, self._resamples, 0)
        return _CellRow(row, tuple(notes), before.times + 1 if before else 0)

    def _within(self, place: Place, rows: list[ReportRow]) -> tuple[tuple[object, ...], list[ReportRow], list[str]]:
        """Return the rows of a place compared with each other, with the key of this state and notes; the previous
        result if no row has changed."""
        key = tuple((row.cell.id, row.label, self._cell_rows[row.cell.id].times) for row in rows)
        if place in self._compared and self._compared[place][0] == key:
            return self._compared[place]
        notes: list[str] = []
        return key, summaries.compared(rows, notes, self._resamples, 0), notes

    def _results_of(
        self, study: StudyRecord, all_rows: list[ReportRow], labels: Mapping[str, str], notes: Sequence[str]
    ) -> tuple[str, Sequence[str]]:
        """Return the HTML of the learning curves and tables of rows, at most those that a report shows, and the
        notes."""
        places = figures.styles(labels.values())  # of all cells, so that a row keeps its colour as others appear
        complete = all(run.status == "finished" for run in study.runs)
        all_notes = tuple(dict.fromkeys([*summaries.smoke(all_rows), *notes]))
        full_summary = Summary(study.name, self._resamples, tuple(all_rows), (), all_notes, complete)
        _, summary = bounding.bounded(study, full_summary)
        rows = summary.rows
        html = _render(
            "watch/results.html.j2",
            rows=rows,
            charts=[(chart, words) for chart, words in figures.learning_charts(rows)],
            drawn=lambda chart: page.interactive(chart, places),
            tasks=tables.by_task(rows),
            legend=legends.paragraph(summary, "Bold with *") if rows else "",
        )
        return html, summary.notes

    def _runs(self, study: StudyRecord, labels: Mapping[str, str]) -> str:
        live, curves = self._following.live, self._following.curves
        several_tasks = len({(run.cell.suite, run.cell.task) for run in study.runs}) > 1
        before, self._lines = self._lines, {}
        listed = chosen(study.runs, self._following.written_at)
        for run in listed:
            worker, curve = live.get(run.directory), curves.get(run.cell.id, {}).get(run.seed)
            inputs = _LineInputs(run, labels[run.cell.id], worker, curve, _silence(worker), several_tasks)
            line = before.get(run.directory)
            if line is None or not line[0].same(inputs):
                html = _render("watch/run.html.j2", line=_line(inputs), several=several_tasks, size=(WIDTH, HEIGHT))
                line = inputs, html
            self._lines[run.directory] = line
        lines = Markup("").join(Markup(html) for _, html in self._lines.values())
        unlisted = left_out(study.runs, listed)
        return _render("watch/runs.html.j2", lines=lines, several=several_tasks, shown=len(listed), left_out=unlisted)


def chosen(runs: Sequence[RunRecord], changed: Callable[[str], int]) -> list[RunRecord]:
    """Return the runs to list, in their order: all, or of more than `RUNS` first those that are running, then those
    that failed, then the others that have begun, each newest first, then the next to begin. `changed`: directory of a
    run -> when its record changed last."""
    if len(runs) <= RUNS:
        return list(runs)
    first = {"running": 0, "failed": 1, "waiting": 3}

    def key(number: int) -> tuple[int, int, int]:
        run = runs[number]
        rank = first.get(run.status, 2)
        return rank, -changed(run.directory) if rank in (1, 2) else 0, number

    return [runs[number] for number in sorted(heapq.nsmallest(RUNS, range(len(runs)), key=key))]


def left_out(runs: Sequence[RunRecord], listed: Sequence[RunRecord]) -> str:
    """Count the runs that are not listed, by status, as in `1,800 finished, 200 waiting`; "" if all are listed."""
    more = Counter(run.status for run in runs) - Counter(run.status for run in listed)
    return ", ".join(f"{more[status]:,} {status}" for status in STATUSES if more[status])


def _render(template: str, **context: object) -> str:
    return page.environment().get_template(template).render(**page.formats(), **context)


def _frame(curve: Curve) -> pd.DataFrame:
    """Return a run's evaluations as `summaries.row_of` takes them."""
    import pandas as pd

    columns = {
        "score": curve.scores,
        "variance": curve.variances,
        "success": curve.success,
        "episodes": curve.episodes,
        "return": curve.returns,
    }
    return pd.DataFrame(columns, index=pd.Index(curve.steps, name="step"))


def _silence(live: Live | None) -> str:
    """Return for how long a worker has sent nothing, rounded down to ten seconds, in words; "" if it reported
    recently."""
    silence = time.time() - live.time if live else 0.0
    return duration(silence // 10 * 10) if silence > SILENT else ""


def _line(inputs: _LineInputs) -> Line:
    run, live, curve = inputs.run, inputs.live, inputs.curve
    step = live.step if live else run.step
    score = live.score if live else None
    if score is None and curve is not None:
        score = float(curve.scores[-1])
    rate = live.rate if live else None
    error = printable(run.error or "").strip()
    return Line(
        run.directory,
        inputs.label,
        run.cell.task_id,
        run.seed,
        run.status,
        step,
        run.steps,
        run.cell.score.name,
        "" if score is None else f"{score:.{scoring.digits([score])}f}",
        _points(curve, run),
        f"{rate:,.0f}" if rate else "",
        duration(max(0.0, (run.steps - step) / rate)) if rate else "",
        one_line(live.phase) if live else "",
        inputs.silence,
        formatting.last_line(error)[:300],
        error[-ERROR:],
        "" if run.status == "waiting" else run_link(run.directory),
    )


def _points(curve: Curve | None, run: RunRecord) -> str:
    """Return a run's curve as points of an SVG polyline: from step 0 to its last, scaled to the range of its score; ""
    with fewer than two evaluations."""
    if curve is None or len(curve.steps) < 2:
        return ""
    chosen = np.unique(np.linspace(0, len(curve.steps) - 1, min(POINTS, len(curve.steps))).astype(int))
    score = run.cell.score
    low = float(curve.scores.min()) if score.low is None else score.low
    high = float(curve.scores.max()) if score.high is None else score.high
    across = curve.steps[chosen] / max(run.steps, int(curve.steps[-1]), 1) * WIDTH
    up = (curve.scores[chosen] - low) / ((high - low) or 1.0)
    return " ".join(f"{x:.1f},{1 + (1 - y) * (HEIGHT - 2):.1f}" for x, y in zip(across, up, strict=True))


def title(study: StudyRecord) -> str:
    """Return the title of the page: how many runs are finished, and the study's name."""
    finished = sum(run.status == "finished" for run in study.runs)
    return f"{finished} of {count(len(study.runs), 'run')} finished: {study.name}"
