"""The files of a paper's report."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from guidebench.reports.papers import text, verdicts
from guidebench.reports.papers.filled import Filled
from guidebench.reports.papers.report import PaperReport, plain
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.latex import escape, without_hash
from guidebench.reports.rendering.notes import arranged
from guidebench.reports.rendering.page import environment
from guidebench.results import published

MARKS = {
    verdicts.REPRODUCED: "✓",
    verdicts.SAME_DIRECTION: "↗",
    verdicts.NOT_REPRODUCED: "✗",
    verdicts.INCONCLUSIVE: "?",
    verdicts.NOT_COMPARABLE: "≁",
    verdicts.PUBLISHED_ONLY: "○",
    verdicts.NOT_RUN: "–",
}
"""Verdict -> its sign on the page."""


def contents(report: PaperReport) -> dict[str, bytes]:
    """Return file name -> content for all files of a paper's report: page, LaTeX, data, and the figures."""
    files = {
        f"{report.name}.html": page(report).encode(),
        f"{report.name}.tex": "\n".join(_latex(report, table) for table in report.tables).encode(),
        f"{report.name}.json": (
            json.dumps(plain(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode(),
    }
    files |= figures.files(report.figures.drawings)
    for picture in report.samples:
        files[f"figure-{report.paper.samples}-{picture.task.rpartition('/')[2]}-{picture.name}.png"] = picture.png
    files[f"{report.name}-document.tex"] = document(report, list(files)).encode()
    return files


def page(report: PaperReport) -> str:
    """Return a paper's report as one HTML page without scripts or network; all text from files is escaped."""
    return (
        environment()
        .get_template("paper.html.j2")
        .render(
            report=report,
            notes=arranged(report.notes),
            text=text,
            marks=MARKS,
            base64=lambda png: base64.b64encode(png).decode("ascii"),
        )
    )


def _latex(report: PaperReport, table: Filled) -> str:
    caption = f"{published.PAPERS[report.name]}, table {table.layout.table}: {table.layout.title}."
    used = {reason: report.letters[reason] for reason in text.letters([table], [])}
    note = f"{table.layout.note} {report.note_of(used)}".strip()
    return text.latex(table, report.letters, caption, note)


def document(report: PaperReport, names: Sequence[str]) -> str:
    """Return a whole LaTeX document with the tables and figures, which `pdflatex` compiles in its directory."""
    samples = [name for name in names if name.startswith(f"figure-{report.paper.samples}-") and name.endswith(".png")]
    lines = [
        r"\documentclass{article}",
        r"\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage{array,booktabs,graphicx}",
        r"\begin{document}",
        rf"\section*{{{escape(report.paper.title)}}}",
        escape(f"Studies: {', '.join(map(without_hash, report.studies))}."),
        rf"\input{{{report.name}.tex}}",
        r"\clearpage",
    ]
    for drawing in report.figures.drawings:
        lines += [_figure(f"{drawing.name}.pdf", drawing.caption)]
    for name in samples:
        kind = name.removesuffix(".png").rpartition("-")[2].replace("_", " ")
        lines += [_figure(name, f"Figure {report.paper.samples}: frames as the judge sees them, {kind}")]
    return "\n".join([*lines, r"\end{document}", ""])


def _figure(file: str, caption: str) -> str:
    return (
        rf"\begin{{figure}}[p]\centering\includegraphics[width=.8\linewidth,height=.7\textheight,keepaspectratio]"
        rf"{{{file}}}\caption*{{{escape(caption)}}}\end{{figure}}"
    ).replace(r"\caption*", r"\par\small ")
