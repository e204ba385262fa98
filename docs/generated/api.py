"""Pages of the Python interface, from docstrings. Only modules whose paths are listed here appear on the site."""

from __future__ import annotations

FACE = {
    "Studies and results": ("guidebench.run", "guidebench.load"),
    "Environments and records of your own training": ("guidebench.make", "guidebench.Recorder", "guidebench.Score"),
    "Checks for the tests of a part": ("guidebench.testing",),
}
"""Interfaces for users of the harness: title -> paths."""
PARTS = {
    **{
        f"Contracts: {subject}": f"guidebench.harness.interfaces.{subject}"
        for subject in (
            "tasks",
            "spaces",
            "episodes",
            "questions",
            "agents",
            "replay",
            "samplers",
            "learning",
            "guides",
            "building",
        )
    },
    "Declarations": "guidebench.harness.parts",
    "Capabilities": "guidebench.harness.capabilities",
    "Settings": "guidebench.harness.settings",
    "Recipes": "guidebench.harness.recipes",
    "Logs": "guidebench.harness.logs",
    "Replays": "guidebench.baselines.sampling",
    "Learners": "guidebench.baselines.learning",
    "Agents": "guidebench.baselines.acting",
    "Experiences": "guidebench.baselines.experience",
    "Guides": "guidebench.baselines.guiding",
    "Sections of a report": "guidebench.reports.sections",
}
"""Interfaces for authors of parts: title -> module."""


def pages() -> dict[str, str]:
    """Return address -> Markdown: a page for users, and one for authors of parts."""
    face = ["# Python interface\n"]
    for title, paths in FACE.items():
        face += [f"## {title}\n", *(f"::: {path}\n" for path in paths)]
    parts = ["# Interfaces of parts\n", *(f"## {title}\n\n::: {path}\n" for title, path in PARTS.items())]
    return {"reference/python.md": "\n".join(face), "reference/interfaces.md": "\n".join(parts)}
