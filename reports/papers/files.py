"""The files of a paper's report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from guidebench.reports.papers import text
from guidebench.reports.papers.filled import Filled
from guidebench.reports.papers.report import PaperReport, plain
from guidebench.reports.rendering.latex import escape, without_hash
from guidebench.results import published

if TYPE_CHECKING:
    pass


def contents(report: PaperReport) -> dict[str, bytes]:
    """Return file name -> content for all files of a paper's report: page, LaTeX, data, and the figures."""
    from guidebench.reports.papers import page

    files = {
        f"{report.name}.html": page.render(report).encode(),
        f"{report.name}.tex": "\n".join(_latex(report, table) for table in report.tables).encode(),
        f"{report.name}.json": (
            json.dumps(plain(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode(),
    }
    for drawing in report.figures.drawings:
        files[f"{drawing.name}.pdf"], files[f"{drawing.name}.png"] = drawing.pdf, drawing.png
    for picture in report.samples:
        files[f"figure-{report.paper.samples}-{picture.task.rpartition('/')[2]}-{picture.name}.png"] = picture.png
    files[f"{report.name}-document.tex"] = document(report, list(files)).encode()
    return files


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
