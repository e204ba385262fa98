"""The record, read back: `study` (what was asked for), `runs` (what became of it), `load` (the rows it wrote)."""

from results.rows import load
from results.store import Cell, Run, Study, runs, study

__all__ = ["Cell", "Run", "Study", "load", "runs", "study"]
