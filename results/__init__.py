"""The record, read back: `study` (what was asked for), `run` (one run alone), `runs` (what became of all), `load` (the
rows they wrote), `join` (several studies as one)."""

if __name__ != "guidebench.results":  # under two names there would be two registries
    raise ImportError(f"this package is guidebench.results; import it by that name, not as {__name__!r}")

from guidebench.results.joining import MEASURED, Joined, join, opened, select
from guidebench.results.pictures import Picture, pictures
from guidebench.results.rows import load, noted
from guidebench.results.store import CellRecord, MatrixPlace, RunRecord, StudyRecord, run, runs, study

__all__ = [
    "MEASURED",
    "CellRecord",
    "Joined",
    "MatrixPlace",
    "Picture",
    "RunRecord",
    "StudyRecord",
    "join",
    "load",
    "noted",
    "opened",
    "pictures",
    "run",
    "runs",
    "select",
    "study",
]
