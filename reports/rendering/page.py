"""One self-contained HTML page: no network, no scripts but our own, and all text from files escaped."""

from __future__ import annotations

import base64
import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.errors import count
from guidebench.harness.grouping import grouped
from guidebench.reports.rendering import charts, figures, inline, legends, tables
from guidebench.reports.rendering import latex as tex
from guidebench.reports.rendering.figures import Chart, Gallery
from guidebench.reports.rendering.notes import arranged
from guidebench.reports.summary import judges, scoring
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listed
from guidebench.reports.summary.records import value_of
from guidebench.reports.summary.summaries import Summary
from guidebench.results import CellRecord, Picture, StudyRecord

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("elements.js", "theme.js", "tables.js", "charts.js")
"""Scripts for sortable tables, charts, and the switch between light and dark."""


class Origin(NamedTuple):
    """The software and hardware of some runs, as text."""

    commit: str
    packages: str
    hardware: str
    runs: int


def render(
    study: StudyRecord,
    summary: Summary,
    galleries: Sequence[Gallery],
    listed: Sequence[Listed] = (),
    pictures: Sequence[Picture] = (),
    style: tex.Style | None = None,
    grids: Sequence[Grid] = (),
    run_pages: Mapping[str, str] = MappingProxyType({}),
    full_study: StudyRecord | None = None,
    first: Sequence[Listed] = (),
) -> str:
    """Return the HTML page of a study. `listed`, `first`: titles, paragraphs and tables of texts after the summary and
    before it; `style`: that of the LaTeX
    source on the page; `run_pages`: run directory -> link to the page of the run, for runs that have one; `full_study`:
    the study with all cells, whose runs are counted, if `study` has only those that are shown."""
    columns, differing = differences(study, summary)
    script = inline.script(*SCRIPTS)
    places = figures.styles(row.label for row in summary.rows)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            policy=inline.policy(script, charts.bundle()),
            script=script,
            vega=charts.packed_bundle(),
            drawn=lambda chart: interactive(chart, places),
            run_pages=run_pages,
            summary=summary,
            notes=arranged(summary.notes),
            command=" ".join(study.command),
            counts=counts(full_study or study),
            tasks=tables.by_task(summary.rows),
            aggregates=tables.aggregates_by_label(summary.aggregates),
            metrics=[tables.METRIC_NAMES[name] for name in statistics.METRICS],
            galleries=[gallery for gallery in galleries if gallery.drawings],
            pictures=pictures,
            first=_on_page(first),
            listed=_on_page(listed),
            grids=[grid for grid in grids if grid.on == "all"],
            latex=tex.latex(summary, style) + tex.grids(grids, legends.setting(summary), style),
            packages=(style or tex.Style()).packages,
            legend=legends.paragraph(summary, "Bold with *"),
            columns=columns,
            differences=differing,
            origins=origins(full_study or study),
            matrix_digits=tables.matrix_digits,
            needed=tables.needed,
            p_value=tables.p_value,
            **formats(),
            base64=lambda content: base64.b64encode(content).decode("ascii"),
        )
    )


def _on_page(listed: Sequence[Listed]) -> list[Listed]:
    """Return what sections say in words without the tables for the terminal alone."""
    parts = [
        part._replace(listings=[listing for listing in part.listings if listing.on != "terminal"]) for part in listed
    ]
    return [part for part in parts if part.remarks or part.listings]


def formats() -> dict[str, Any]:
    """Return name -> function: the formats of rows and numbers that the templates of tables use."""
    return {
        "columns_of": tables.columns,
        "title": scoring.title,
        "number": tables.number,
        "digits_of": scoring.digits,
        "aggregate_digits": tables.aggregate_digits,
        "finite": np.isfinite,
        "reached": tables.reached,
        "seeds": tables.seeds,
        "steps": lambda value: f"{value:,.0f}" if np.isfinite(value) else "not reached",
        "remark": lambda row: judges.remark(row.cell),
    }


def interactive(chart: Chart, places: Mapping[str, int]) -> Markup:
    """Return a chart as JSON for templates/charts.js; `places`: label -> index of its style (`figures.styles`)."""
    rows = [
        {"series": places[label], "x": x, "value": value, "low": low, "high": high}
        for label, steps, values in chart.curves
        for x, value, low, high in zip(steps.tolist(), *(ends.tolist() for ends in values), strict=True)
        if np.isfinite(value)
    ]
    domain = (0.0, 1.0) if chart.unit_interval else None
    band = any(np.isfinite(row["low"]) for row in rows)
    specification = charts.curves(chart.xlabel, chart.ylabel, domain, band)
    return inline.inert({"specification": specification, "rows": rows, "names": list(places)})


@functools.cache
def environment() -> Environment:
    """Return the jinja2 environment of the templates, which escapes every value."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(TEMPLATES)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def counts(study: StudyRecord) -> str:
    """Return, in words, the number of runs and configurations, and how many runs have each status."""
    statuses = [run.status for run in study.runs]
    parts = [f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses)]
    return f"{count(len(statuses), 'run')} of {count(len(study.cells), 'configuration')}: {', '.join(parts)}"


def differences(study: StudyRecord, summary: Summary) -> tuple[list[str], dict[str, list[tuple[str, str]]]]:
    """Return columns (configurations) and, for each setting in which they differ, the value and layer of each.

    Configurations with the same settings share a column; one that lacks a setting has a dash.
    """
    names = {row.cell.id: row.label for row in summary.rows}

    def canonical(cell: CellRecord) -> str:
        texts = {name: value_of(setting) for name, setting in cell.settings.items()}
        return json.dumps(texts, sort_keys=True, default=str)

    groups = grouped(study.cells, canonical)
    labels = {key: {names.get(cell.id, cell.label) for cell in cells} for key, cells in groups.items()}
    often = Counter(label for row_labels in labels.values() for label in row_labels)
    columns = []
    for cells in groups.values():
        columns.append(
            "; ".join(
                dict.fromkeys(
                    f"{label} on {cell.task_id}" if often[label] > 1 else label
                    for cell in cells
                    for label in [names.get(cell.id, cell.label)]
                )
            )
        )
    settings = [cells[0].settings for cells in groups.values()]
    keys = dict.fromkeys(name for entries in settings for name in entries)
    differing = {}
    for name in keys:
        values = [text_and_layer(entries[name]) if name in entries else ("—", "") for entries in settings]
        if len({value for value, _ in values}) > 1:
            differing[name] = values
    return columns, differing


def text_and_layer(setting: Any) -> tuple[str, str]:
    """Return the value of a recorded setting as text, and the layer that set it; "" if it is not recorded."""
    value = value_of(setting)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text, str(setting.get("layer") or "") if isinstance(setting, Mapping) else ""


def origins(study: StudyRecord) -> list[Origin]:
    """Return the different provenances of the runs that have begun, with the number of runs of each."""
    counts: dict[tuple[str, str, str], int] = {}
    for run in study.runs:
        if run.status == "waiting":
            continue
        provenance = run.provenance
        commit = str(provenance.get("commit") or "unknown")[:12] + (
            "+ (uncommitted changes)" if provenance.get("dirty") else ""
        )
        key = (commit, _pairs(provenance.get("packages")), _pairs(provenance.get("hardware")))
        counts[key] = counts.get(key, 0) + 1
    return [Origin(*key, runs) for key, runs in counts.items()]


def _pairs(content: Any) -> str:
    if not isinstance(content, Mapping):
        return "unknown" if content is None else str(content)
    return ", ".join(f"{name} {value}" for name, value in content.items())
