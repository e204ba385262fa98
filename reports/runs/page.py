"""The page of one run, self-contained; nothing from a file becomes markup or script."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.logs import SNAPSHOT, shows_frames, shows_questions
from guidebench.harness.models.calls import Usage
from guidebench.harness.records import schema
from guidebench.harness.records.galleries import undrawn
from guidebench.harness.records.parts import RecordedPart
from guidebench.harness.records.study import QUESTIONS
from guidebench.harness.settings import DIGEST, SHA256
from guidebench.harness.texts import brief
from guidebench.reports.rendering import animations, charts, inline
from guidebench.reports.rendering import page as report_page
from guidebench.reports.rendering.page import environment
from guidebench.reports.runs import curves, learning
from guidebench.reports.runs.calls import MOST
from guidebench.reports.runs.record import Record, provenance, settings
from guidebench.reports.runs.transcripts import transcripts
from guidebench.reports.summary import judges, ledger
from guidebench.reports.summary.records import value_of
from guidebench.results import CellRecord
from guidebench.results.store import IDENTITY

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = (*report_page.SCRIPTS, "animations.js")
"""Scripts of the page, in dependency order."""
ERROR = 20_000
"""Most characters of a traceback."""
CLOCK = {
    "seconds": "in all",
    "evaluation_seconds": "evaluating",
    "checkpoint_seconds": "writing checkpoints",
    "wait_seconds": "waiting for late answers",
    "judge_seconds": "drawing and judging, beside the training",
}
USED = {
    "calls": "calls",
    "tokens_in": "tokens in",
    "tokens_out": "tokens out",
    "images": "images",
    "seconds": "model's seconds",
    "usd": "USD",
}
"""Fields of `Usage` in reader's words."""
COLUMNS = {
    "judgements": ("ordinal", "asked", "applied", "score", "mass", "events", "failure"),
    "labels": (
        "query", "session", "asked", "step", "outcome", "preference", "truth", "kept", "reward_0", "reward_1",
        "learned_0", "learned_1", "retries", "imagined",
    ),
}  # fmt: skip
"""First columns of the logs with a table of their own, where their records have them."""
LEADING = {"judgements": {"asked", "applied"}, "labels": {"kept", "outcome"}}
"""Names of the columns that a log's records must have for its table."""
WIDEST, DOWNLOAD = 40, 2**20
"""Most columns of a log to show, and most bytes of one that the page offers for download."""
BESIDE = ("evaluations", *schema.LOGS)
"""Logs that other parts of the page show."""


class Sample(NamedTuple):
    """A table of some records of a log, as text."""

    heading: str
    description: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    file: str = ""
    """Name of the download with all records, if there is one."""
    lines: bytes = b""
    """Contents of the download: JSON lines."""


def render(record: Record, home: str = "") -> str:
    """Return the HTML page of a run; `home`: relative link to the study's report, "" if there is none."""
    script, vega = inline.script(*SCRIPTS), charts.bundle()
    cell, run, gallery = record.cell, record.run, record.episodes.gallery
    episodes, notes = transcripts(record)
    return (
        environment()
        .get_template("run.html.j2")
        .render(
            title=f"{brief(cell.label, 300)}, seed {run.seed}",
            task=brief(cell.task_id, 300),
            policy=inline.policy(script, vega) + "; media-src data:",
            script=script,
            vega=charts.packed_bundle(),
            home=home,
            record=record,
            notes=(*record.notes, *notes),
            remarks=list(learning.remarks(record.rows.get("metrics"))),
            transcripts=episodes,
            run=run,
            remark=judges.remark(cell),
            error=brief(run.error, ERROR) if run.error else "",
            facts=_facts(record),
            charts={
                heading: [(chart, _content(chart)) for chart in drawn]
                for heading, drawn in curves.charts(record).items()
            },
            evaluations=curves.evaluations(record),
            once=curves.once(record),
            samples=[_sample(record, log, rows) for log, rows in record.rows.items() if log not in BESIDE],
            clock=_clock(record.rows.get("timings")),
            bill=_bill(record.rows.get("ledger")),
            billed=ledger.is_billed(cell),
            settings=settings(cell),
            provenance=provenance(run),
            shown=_formatted,
            calls_shown=MOST,
            chosen=animations.chosen,
            outcome=animations.outcome,
            undrawn=[brief(reason, 1_000) for reason in undrawn(gallery.undrawn if gallery else ())],
            brief=brief,
            unasked=not record.episodes.clips[QUESTIONS] and any(shows_questions(log) for log in cell.logs.values()),
            base64=lambda content: base64.b64encode(content).decode("ascii"),
        )
    )


def _content(chart: curves.RunChart) -> Any:
    return inline.inert(
        {"specification": _specification(chart.x, chart.share), "rows": chart.rows, "names": list(chart.lines)}
    )


def _specification(x: str, share: bool) -> dict[str, Any]:
    return charts.curves(x, "", (0.0, 1.0) if share else None, band=False)


def _facts(record: Record) -> list[tuple[str, str]]:
    cell, run = record.cell, record.run
    parts = {role: _part(part, _digest(cell, role)) for role, part in cell.parts.items()} or {"learner": cell.learner}
    place = f"{cell.matrix.kind}: {cell.matrix.name}" if cell.matrix else ""
    rows = {
        "suite and task": cell.task_id,
        "method": cell.method,
        **parts,
        "what answers": f"{cell.model} ({cell.backend})" if cell.backend else "",
        "profile": cell.profile,
        "variant": cell.variant,
        "in a matrix": place,
        "seed": str(run.seed),
        "cell": cell.id,
        "directory": run.directory,
        "study": record.study.name,
        "command": " ".join(record.study.command),
    }
    return [(name, brief(text, 1_000)) for name, text in rows.items() if text]


def _part(part: RecordedPart, digest: str) -> str:
    """Return the name of a part and, for a model, which model it is; with the digest of its files, if there is one."""
    named = f"{part.name} ({part.model})" if part.model not in ("", part.name) else part.name
    return f"{named}, SHA-256 {digest}" if digest else named


def _digest(cell: CellRecord, role: str) -> str:
    """Return the digest of the files that a role's part read, as recorded in its settings; "" if there is none."""
    setting = cell.settings.get(f"{role}.{DIGEST}")
    value = value_of(setting)
    return value if isinstance(value, str) and SHA256.fullmatch(value) else ""


def _sample(record: Record, log: str, rows: pd.DataFrame) -> Sample:
    """Return some records of a log as a table: as `_of_answers` does for a log in `COLUMNS`, else the first and the
    last ones."""
    if log in COLUMNS and set(rows.columns) >= LEADING[log]:
        return _of_answers(log, rows, record.cell.logs[log].columns if log in record.cell.logs else ())
    declared = record.cell.logs.get(log)
    meaning = f"Each row: {declared.meaning}." if declared else "No record says what these rows are."
    names = [str(name) for name in rows.columns if name not in (*IDENTITY, "variant", "label", "directory")]
    drawn = declared is not None and (shows_frames(declared) or shows_questions(declared))
    table = [name for name in names if not (drawn and name == SNAPSHOT)]
    first, last = rows.head(MOST), rows.iloc[max(MOST, len(rows) - MOST) :]
    columns = table[:WIDEST]
    description = f"{meaning} {len(rows):,} row{'s' * (len(rows) != 1)}"
    if left_out := len(rows) - len(first) - len(last):
        description += f"; the first and the last {MOST} are shown and {left_out:,} left out"
    if len(columns) < len(names):
        description += f"; {len(columns)} of {len(names):,} columns are shown"
    cells = tuple(
        tuple(_formatted(value) for value in line)
        for part in (first, last)
        for line in part[columns].itertuples(index=False, name=None)
    )
    lines, saved = _lines(rows[names])
    description += "." if saved == len(rows) else f". The file has the first {saved:,} rows."
    return Sample(f"Log {log}", description, tuple(brief(name, 60) for name in columns), cells, f"{log}.jsonl", lines)


def _lines(rows: pd.DataFrame) -> tuple[bytes, int]:
    """Return records as JSON lines, the first ones up to `DOWNLOAD` bytes, and the number of lines."""
    lines, size = [], 0
    for row in rows.to_dict("records"):
        plain = {str(name): value.item() if hasattr(value, "item") else value for name, value in row.items()}
        defined = {name: value for name, value in plain.items() if value is not None and value == value}
        line = json.dumps(defined, allow_nan=False, default=str).encode() + b"\n"
        size += len(line)
        if size > DOWNLOAD:
            break
        lines.append(line)
    return b"".join(lines), len(lines)


def _of_answers(log: str, rows: pd.DataFrame, declared: Iterable[str]) -> Sample:
    """Return some records of judgements or labels as a table: those without an answer first, then the first and last of
    the others. Columns are those of `COLUMNS`, then others that the cell's parts declared."""
    import pandas as pd

    if log == "judgements":
        failed = rows["failure"].notna() if "failure" in rows else pd.Series(False, index=rows.index)
        heading = "Judgements"
        description = f"{len(rows):,} clips judged, {int(failed.sum()):,} of them without a usable answer"
    else:
        failed = ~rows["kept"].astype(bool)
        heading = "Labels"
        outcomes = rows["outcome"].value_counts()
        counted = ", ".join(f"{count:,} {brief(str(name), 40)}" for name, count in list(outcomes.items())[:20])
        description = f"{len(rows):,} queries: {counted}"
    others = rows[~failed]
    ends = others if len(others) <= 2 * MOST else pd.concat([others.head(MOST), others.tail(MOST)])
    chosen = pd.concat([rows[failed].head(MOST), ends])
    if left_out := len(rows) - len(chosen):
        first = "those without an answer" if log == "judgements" else "those that were not kept"
        description += f". Shown are at most {MOST} of {first}, then the first and the last {MOST} others"
        description += f"; {left_out:,} are left out"
    named = dict.fromkeys([*COLUMNS[log], *declared])
    columns = tuple(name for name in named if name in chosen and chosen[name].notna().any())[:WIDEST]
    cells = (tuple(_formatted(value) for value in line) for line in chosen[list(columns)].itertuples(index=False))
    return Sample(heading, description + ".", columns, tuple(cells))


def _clock(rows: pd.DataFrame | None) -> list[tuple[str, float, float]]:
    """Return (activity, seconds, share of the run's time) for each activity of `CLOCK` that the records have."""
    try:
        spent = {} if rows is None else judges.clock(rows)
    except (TypeError, ValueError):  # a damaged log may have text instead of seconds
        spent = {}
    total = spent.get("seconds", 0.0)
    return [(words, spent[name], spent[name] / total) for name, words in CLOCK.items() if total and name in spent]


def _bill(rows: pd.DataFrame | None) -> list[tuple[str, float, float]]:
    """Return (name, usage as if nothing had been cached, billed usage) for each field of `Usage`, from the last ledger
    record."""
    if rows is None:
        return []
    last = rows.sort_values("step").iloc[-1]
    return [(USED[name], float(last[name]), float(last[f"billed_{name}"])) for name in Usage._fields]


def _formatted(value: Any, digits: int = 4) -> str:
    """Format a number, truth value or text from a file for display; a dash for None and numbers that are not finite."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:.{digits}g}"
    return brief(str(value), 200)
