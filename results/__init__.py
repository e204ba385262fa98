"""The record, read back: `study` (what was asked for), `runs` (what became of it), `load` (the rows it wrote), `join`
(several studies as one)."""

from results.joining import MEASURED, Joined, join, opened, select
from results.pictures import Picture, pictures
from results.rows import load
from results.store import Cell, Role, Run, Study, runs, study

__all__ = [
    "MEASURED",
    "Cell",
    "Joined",
    "Picture",
    "Role",
    "Run",
    "Study",
    "join",
    "load",
    "opened",
    "pictures",
    "runs",
    "select",
    "study",
]
