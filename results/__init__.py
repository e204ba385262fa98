"""The record, read back: `study` (what was asked for), `run` (one run alone), `runs` (what became of all), `load` (the
rows they wrote), `join` (several studies as one)."""

from results.joining import MEASURED, Joined, join, opened, select
from results.pictures import Picture, pictures
from results.rows import load
from results.store import Cell, Role, Run, Study, run, runs, study

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
    "run",
    "runs",
    "select",
    "study",
]
