"""Reading recorded results: `study` (a study's cells and runs), `run` (one run), `runs` (a table of all runs), `load`
(logged rows), `join` (several studies as one)."""

if __name__ != "guidebench.results":  # a second import name would create a second registry
    raise ImportError(f"this package is guidebench.results; import it by that name, not as {__name__!r}")

from guidebench.results.joining import MEASURED, Joined, join, opened, select
from guidebench.results.pictures import Picture, pictures
from guidebench.results.rows import load, noted
from guidebench.results.store import CellRecord, MatrixPlace, RunRecord, StageRecord, StudyRecord, run, runs, study

__all__ = [
    "MEASURED",
    "CellRecord",
    "Joined",
    "MatrixPlace",
    "Picture",
    "RunRecord",
    "StageRecord",
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
