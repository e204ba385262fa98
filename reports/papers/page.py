"""A paper's report as one self-contained HTML page without scripts or network; all text from files is escaped."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from guidebench.reports.papers import text, verdicts
from guidebench.reports.rendering.notes import arranged
from guidebench.reports.rendering.page import environment

if TYPE_CHECKING:
    from guidebench.reports.papers.report import PaperReport


def render(report: PaperReport) -> str:
    """Return a paper's report as an HTML page."""
    return (
        environment()
        .get_template("paper.html.j2")
        .render(
            report=report,
            notes=arranged(report.notes),
            text=text,
            marks={
                verdicts.REPRODUCED: "✓",
                verdicts.SAME_DIRECTION: "↗",
                verdicts.NOT_REPRODUCED: "✗",
                verdicts.INCONCLUSIVE: "?",
                verdicts.NOT_COMPARABLE: "≁",
                verdicts.PUBLISHED_ONLY: "○",
                verdicts.NOT_RUN: "–",
            },
            base64=lambda content: base64.b64encode(content).decode("ascii"),
        )
    )
