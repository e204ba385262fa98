"""The record, read back: `study` (what was asked for), `runs` (what became of it), `load` (the rows it wrote)."""

from results.pictures import Picture, pictures
from results.rows import load
from results.store import Cell, Role, Run, Study, runs, study

__all__ = ["Cell", "Picture", "Role", "Run", "Study", "load", "pictures", "runs", "study"]
