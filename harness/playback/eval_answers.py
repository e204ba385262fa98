"""The answers of models that re-evaluations of a run have recorded, in RUN/eval/models.

The run may be a stranger's. So each of its cassettes is checked row by row, and new answers are merged, in the separate
process; only a checked one is opened by the process of the models (`named_cassettes` does so for `models.cassette`).
"""

from __future__ import annotations

from pathlib import Path

from guidebench.harness import reader_process
from guidebench.harness.execution import Models
from guidebench.harness.models import cassette, cassette_checks, study_models

EVAL_FOLDER = "eval"
"""Folder of a run that holds the model answers of its re-evaluations."""
ADVICE = (
    "it holds the answers that `bench eval` has recorded for this run: delete it, and models.mode=record asks for them "
    "again"
)


def check(run: Path, models: Models) -> bool:
    """Return whether a re-evaluation finds recorded answers. Raise UserError naming the first row of a cassette that
    this program would not have written."""
    folder = study_models.folder(run / EVAL_FOLDER)
    seconds = cassette_checks.total_seconds(folder.glob("*.sqlite"))
    has_own = reader_process.call(f"{folder}: looking at it", seconds, _check, folder)
    return bool(study_models.named_sources(models)) or has_own


def settle(run: Path) -> None:
    """Merge the answers that a re-evaluation has recorded into one cassette."""
    folder = study_models.folder(run / EVAL_FOLDER)
    if folder.exists():
        reader_process.call(f"{folder}: merging it", study_models.LOADING, study_models.settle, folder)


def _check(folder: Path) -> bool:
    """Check the cassettes of earlier re-evaluations; return whether there are any. Call it in the separate process."""
    files = cassette.files(folder)
    for file in files:
        cassette_checks.verify(file, "ro", ADVICE)
    return bool(files)
