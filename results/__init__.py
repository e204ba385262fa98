"""Reading recorded results: `study` (a study's cells and runs), `run` (one run), `runs` (a table of all runs), `load`
(logged rows), `join` (several studies as one). Names are imported on first use."""

if __name__ != "guidebench.results":  # a second import name would create a second registry
    raise ImportError(f"this package is guidebench.results; import it by that name, not as {__name__!r}")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.results.images import Picture, pictures
    from guidebench.results.joining import MEASURED, Joined, join, opened, select
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

_HOMES = {
    "images": ("Picture", "pictures"),
    "joining": ("MEASURED", "Joined", "join", "opened", "select"),
    "rows": ("load", "noted"),
    "store": ("CellRecord", "MatrixPlace", "RunRecord", "StageRecord", "StudyRecord", "run", "runs", "study"),
}
"""Module -> the names that it gives to this package; no module has the name of one of them."""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"guidebench.results.{module}"), name)
    raise AttributeError(f"module 'guidebench.results' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
