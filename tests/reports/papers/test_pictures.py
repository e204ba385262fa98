"""Figures of papers of which nothing has been run."""

from types import SimpleNamespace
from typing import Any

import pytest

from guidebench.reports.papers import pictures
from guidebench.reports.papers.catalogue import PAPERS
from guidebench.reports.papers.sources import Sources


@pytest.mark.parametrize("paper", PAPERS)
def test_a_figure_without_a_run_is_named_as_missing(paper: str) -> None:
    nothing: Any = None
    shelf: Any = SimpleNamespace(row=lambda *about: None, paper=PAPERS[paper])
    figures = pictures.draw(PAPERS[paper], Sources(shelf, nothing, nothing, 1))
    assert figures.drawings == () and len(figures.missing) == len(PAPERS[paper].figures)
    assert all(name.startswith("figure ") for name in figures.missing)
