"""The answers of models that re-evaluations of a run have recorded, in RUN/eval/models.

The run may be a stranger's, and so may a cassette that `models.cassette` names. So each cassette is checked row by row,
and new answers are merged, in the separate process; only a checked one is opened by the process of the models.
"""

from __future__ import annotations

from pathlib import Path

from guidebench.harness import reader_process
from guidebench.harness.execution import Models
from guidebench.harness.models import cassette_checks, study_models

EVAL_FOLDER = "eval"
"""Folder of a run that holds the model answers of its re-evaluations."""


def check(run: Path, models: Models) -> bool:
    """Return whether a re-evaluation finds recorded answers. Raise UserError naming the first row of a cassette that
    this program would not have written."""
    folder = study_models.folder(run / EVAL_FOLDER)
    named = Path(models.cassette) if models.cassette else folder
    places = {folder, named, study_models.folder(named)}
    files = [file for place in places for file in (place, *place.glob("*.sqlite")) if file.is_file()]
    seconds = cassette_checks.SECONDS + sum(cassette_checks.seconds(file) - cassette_checks.SECONDS for file in files)
    return reader_process.call(f"{folder}: looking at it", seconds, _check, folder, models)


def settle(run: Path) -> None:
    """Merge the answers that a re-evaluation has recorded into one cassette."""
    folder = study_models.folder(run / EVAL_FOLDER)
    if folder.exists():
        reader_process.call(f"{folder}: merging it", study_models.LOADING, study_models.settle, folder)


def _check(folder: Path, models: Models) -> bool:
    """Check the cassettes that a re-evaluation reads; return whether there are any. Call it in the separate process."""
    files = study_models.sources(models, folder)
    for file in files:
        cassette_checks.verify(file, "ro")
    return bool(files)
