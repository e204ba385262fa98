"""Check that a submission is consistent with a study of this program; its checksums alone prove nothing.

A cell's id is the hash of its configuration, and the configuration determines the evaluations of a run. `bench verify`
checks whether a score belongs to its checkpoint, which needs a new evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.gym import recorder
from guidebench.harness.plan import config
from guidebench.harness.records.schema import LEDGER, QUESTIONS, ROLES, directory_of
from guidebench.harness.records.study import LOST, frames_file
from guidebench.results import limits, policies, rows
from guidebench.results.evaluations import evaluations
from guidebench.results.images import HEAD, size
from guidebench.results.store import CellRecord, RunRecord, StudyRecord
from guidebench.results.submissions import galleries, schemas
from guidebench.results.submissions.manifest import Manifest
from guidebench.results.submissions.strict import fits, parsed, printable
from guidebench.results.verification.configuration import Altered, Unusable, configuration, unheld

EXTERNAL = recorder.BACKEND
_FOREIGN = ("suite", "task", "method", "learner", "model", "profile", "steps")
"""Fields that are hashed, beside the settings, into the id of an external method's cell."""
_LARGEST_SIDE, _MOST_PIXELS = 16_384, 2**25


def documents(directory: Path, manifest: Manifest) -> None:
    """Raise UserError naming the first JSON file that does not fit its schema; call it before reading any other
    file."""
    for path in manifest.files:
        kind = str(schemas.kind_of(path))
        if kind in schemas.JSON:
            content = parsed((directory / path).read_bytes(), path, schemas.CONTENTS[kind][1])
            fits(content, schemas.JSON[kind], path)
            if kind == "study" and sum(len(cell["seeds"]) for cell in content["cells"].values()) > schemas.MOST_FILES:
                raise UserError(f"{path} lists more than {schemas.MOST_FILES:,} runs")


def check(study: StudyRecord, manifest: Manifest) -> list[str]:
    """Return remarks on what cannot be checked in this installation; raise UserError naming the first inconsistency."""
    if study.name != manifest.name:
        raise UserError(f"study.json names the study {study.name!r}, its manifest {manifest.name!r}")
    limits.check(study.directory)
    _check_layout(study, set(manifest.files))
    remarks = [remark for cell in study.cells for remark in _configuration(study, cell)]
    if verifiable(study, manifest.files) != manifest.verifiable:
        raise UserError(f"its manifest says verifiable: {manifest.verifiable}, and its files say otherwise")
    _check_parameters(study, manifest)
    _check_rows(study)
    for path in manifest.files:
        if schemas.kind_of(path) == "ledger":
            _check_columns(study.directory / path, path)
    rows.load(study, log="ledger")
    for path in manifest.files:
        kind = schemas.kind_of(path)
        if kind in ("frames", "strip"):
            _check_picture(study.directory / path, path)
        elif kind == "cassette":
            from guidebench.harness.models import cassette_checks

            cassette_checks.verify(study.directory / path)
    galleries.check(study, manifest.files)
    return remarks


def verifiable(study: StudyRecord, files: Mapping[str, Any]) -> bool:
    """Return whether every finished run was trained by this program and includes its parameters."""
    finished = [run for run in study.runs if run.status == "finished"]
    are_ours = all(run.cell.backend != EXTERNAL and f"{run.directory}/policy.safetensors" in files for run in finished)
    return bool(finished) and are_ours


def _check_layout(study: StudyRecord, files: set[str]) -> None:
    """Raise UserError unless `files` are exactly the files required or allowed for the study's cells and runs, given
    their status."""
    required, allowed = {"study.json"}, {"models/cassette.sqlite"}
    started = {run.cell.id for run in study.runs if run.provenance or run.status != "waiting"}
    for cell in study.cells:
        (required if cell.id in started else allowed).add(f"{cell.directory}/cell.json")
        if cell.directory != directory_of(cell.suite, cell.task, cell.method, cell.id):
            raise UserError(f"study.json has cell {cell.id} in {cell.directory}, which is not that cell's place")
        if cell.matrix is not None and cell.matrix.kind == "perturbation":
            allowed.add(frames_file(cell.suite, cell.task, cell.matrix.name).as_posix())
    allowed |= {f"{run.directory}/run.json" for run in study.runs}
    finished = {run.directory for run in study.runs if run.status == "finished" or run.error == LOST}
    required |= {f"{run}/evaluations.parquet" for run in finished}
    allowed |= {f"{run}/{name}" for run in finished for name in ("ledger.jsonl", "policy.safetensors")}
    if not finished:
        raise UserError("none of its runs is finished")
    if missing := required - files:
        raise UserError(f"it lacks {min(missing)}")
    episodes = {path for path in files if schemas.kind_of(path) in ("episode", "strip", "gallery", "animation")}
    allowed |= {path for path in episodes if str(PurePosixPath(path).parents[1]) in finished}
    if besides := files - required - allowed:
        raise UserError(f"{min(besides)} belongs to no finished run or cell that study.json lists")


def _configuration(study: StudyRecord, cell: CellRecord) -> Iterator[str]:
    """Yield why a cell's configuration cannot be checked in this installation; raise UserError if it does not match its
    id."""
    path = f"{cell.directory}/cell.json"
    if not (study.directory / path).is_file():
        return
    content = json.loads((study.directory / path).read_bytes())
    settings = {name: setting["value"] for name, setting in content["settings"].items()}
    if cell.backend == EXTERNAL:
        if cell.stages:
            raise UserError(f"{path} names a pre-training stage, which runs made elsewhere cannot have")
        if recorder.identity({**{name: content[name] for name in _FOREIGN}, "settings": settings}) != cell.id:
            raise UserError(f"{path} was altered: its names and settings make another cell than {cell.id}")
        is_installed = cell.suite in registry.names("suite") and cell.task in registry.get("suite", cell.suite).tasks
        if is_installed and cell.score != (expected := config.score_of(cell.suite, cell.task)):
            raise UserError(
                f"{path}: its score is {cell.score.name!r}, and {cell.suite}/{cell.task} has {expected.name!r}"
            )
        return
    if "parts" not in content:
        raise UserError(f"{path} lacks 'parts', which every run of this program has")
    if wrong := unheld(content):
        raise UserError(f"{path} was altered: it says that {wrong} was overridden, and its configuration does not")
    for role, part in cell.parts.items():
        if part.kind in registry.MODELS and part.name in registry.names(part.kind):
            expected = registry.get(part.kind, part.name).backend
            if expected != part.backend or expected not in cell.backend.split("+"):
                raise UserError(f"{path} was altered: backend is {cell.backend!r}, which is not that of its {role}")
    try:
        configuration((study.directory / path).parent, cell.id)
    except Altered as error:
        raise UserError(f"{cell.directory}: {error}") from None
    except Unusable as reason:
        yield f"the configuration of {cell.label} cannot be checked here, and its runs not be verified: {reason}"


def _check_parameters(study: StudyRecord, manifest: Manifest) -> None:
    """Raise UserError unless parameters are named arrays of finite numbers, distinct between the seeds of a cell. (Two
    cells may learn equal parameters.)

    Arrays are compared instead of files, because other file content could disguise a copy.
    """
    by_cell: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for run in study.runs:
        path = f"{run.directory}/policy.safetensors"
        if path not in manifest.files:
            continue
        try:
            digests = policies.digests(study.directory / path)
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is no safetensors file of plain numbers ({printable(str(error))})") from None
        if run.cell.backend == EXTERNAL:
            continue
        for other, theirs in by_cell.setdefault(run.cell.id, []):
            shared = digests.keys() & theirs.keys()
            if shared and all(digests[name] == theirs[name] for name in shared):
                raise UserError(f"{run.directory} has the very parameters of {other}, and no two seeds learn the same")
        by_cell[run.cell.id].append((run.directory, digests))


def _check_rows(study: StudyRecord) -> None:
    """Raise UserError unless each finished run has exactly the evaluations that its configuration requires."""
    finished = {f"{run.directory}/evaluations.parquet": run for run in study.runs if run.status == "finished"}
    counts = {path: int(limits.footer(study.directory / path).num_rows) for path in finished}
    if (count := sum(counts.values())) > limits.ALL_ROWS:
        raise UserError(f"it holds {count:,} evaluation episodes; at most {limits.ALL_ROWS:,} fit")
    for path, run in finished.items():
        if run.step != run.steps or run.steps != run.cell.steps:
            raise UserError(f"{run.directory}/run.json says finished at step {run.step:,} of {run.cell.steps:,}")
        if run.cell.backend != EXTERNAL:
            every, episodes = _evaluation(run.cell)
            if counts[path] != (expected := ((run.steps - 1) // every + 1) * episodes):
                raise UserError(
                    f"{path} has {counts[path]:,} episodes; its configuration asks for {expected:,}: rows were removed "
                    f"or added"
                )
    evaluations(study)
    for path, run in finished.items():
        _check_order(study.directory / path, run, path)


def _check_order(file: Path, run: RunRecord, name: str) -> None:
    """Raise UserError unless a finished run's file has the evaluation rows that its configuration requires, in order.
    Call `evaluations` first, which validates the rows."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["step", "episode", "length"], partitioning=None)
    step, episode, length = (column.to_numpy() for column in table.columns)
    if run.cell.backend != EXTERNAL:
        every, episodes = _evaluation(run.cell)
        steps = [*range(every, run.steps, every), run.steps]
        required = np.repeat(steps, episodes), np.tile(np.arange(episodes), len(steps))
        if not (np.array_equal(step, required[0]) and np.array_equal(episode, required[1])):
            raise UserError(f"{name} has not the evaluations that its configuration asks for")
        if not (length > 0).all():
            raise UserError(f"{name} has an episode without a step")
    first = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    number = np.arange(len(step)) - np.repeat(first, np.diff(np.append(first, len(step))))
    if not len(step) or (np.diff(step) < 0).any() or step[-1] > run.steps or (episode != number).any():
        raise UserError(f"{name} has evaluations out of order, without their first episode or after its end")


def _check_columns(file: Path, name: str) -> None:
    """Raise UserError if a ledger row has an unknown column, which would become a column of all rows."""
    columns = {"step", *LEDGER, *QUESTIONS, ROLES}
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise UserError(f"{name}, row {number}: not JSON") from None
            if not isinstance(row, dict):
                raise UserError(f"{name}, row {number}: not a JSON object")
            if others := row.keys() - columns:
                raise UserError(f"{name}, row {number}: unknown column {printable(min(others))!r}")


def _evaluation(cell: CellRecord) -> tuple[int, int]:
    """Return the training steps between evaluations of a run, and the episodes per evaluation."""
    every, episodes = (cell.settings.get(f"evaluation.{name}", {}).get("value") for name in ("every", "episodes"))
    if type(every) is not int or type(episodes) is not int or min(every, episodes) < 1:
        raise UserError(f"{cell.directory}/cell.json does not say how a run is evaluated")
    if ((cell.steps - 1) // every + 1) * episodes > limits.ROWS:
        raise UserError(f"{cell.directory}/cell.json asks for more than {limits.ROWS:,} evaluation episodes of a run")
    return every, episodes


def _check_picture(path: Path, name: str) -> None:
    """Raise UserError unless a file starts as a PNG small enough for a web page."""
    with open(path, "rb") as file:
        width, height = size(file.read(HEAD))
    if not width or not height:
        raise UserError(f"{name} is not a PNG")
    if max(width, height) > _LARGEST_SIDE or width * height > _MOST_PIXELS:
        raise UserError(f"{name} is a picture of {width:,} x {height:,} pixels, which is too large to show")
