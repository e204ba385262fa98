"""Checks before training for missing requirements of a plan: a GPU, packages, files, recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from guidebench.harness import registry
from guidebench.harness.errors import UserError, in_role
from guidebench.harness.execution import Models
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import schemas
from guidebench.harness.parts import SCHEMA, FilePart
from guidebench.harness.plan import contents
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan, launcher_of, parts_of
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run.call_bounds import role_schemas
from guidebench.harness.trackers import following


def missing(plan: Plan, directory: Path, cells: Collection[Cell] | None = None) -> list[str]:
    """Return messages on everything that is missing, each once, with what to do. `directory`: the study's directory;
    `cells`: cells to train, None for all. Loads no model, draws no frame and makes no call."""
    checked_cells = plan.trained if cells is None else cells
    reasons: dict[str, None] = {}

    def tried(check: Callable[[], object]) -> bool:
        """Run a check, note what it says is missing, and return whether it passed."""
        try:
            check()
        except UserError as error:
            reasons[str(error)] = None
            return False
        return True

    reasons |= dict.fromkeys(filter(None, (registry.unreachable(kind, name) for kind, name in parts_of(checked_cells))))
    for tracker in plan.execution.trackers:
        tried(lambda tracker=tracker: following.ready([tracker]))  # type: ignore[misc]
    if checked_cells:
        tried(lambda: launcher_of(plan.execution).ready(plan.execution, directory))
    for suite, task in dict.fromkeys((cell.section("suite"), cell.names.task) for cell in checked_cells):
        tried(lambda suite=suite, task=task: suite.ready(task))  # type: ignore[misc]
    for drawing in dict.fromkeys(cell.section("drawing") for cell in checked_cells):
        if drawing is not None:
            tried(drawing.ready)
    datasets = {cell.section(part.role): part.role for cell in checked_cells for part in cell.names.of("dataset")}
    unready = {role for dataset, role in datasets.items() if not tried(dataset.ready)}
    uses = dict.fromkeys(
        (cell.section(part.role), part.kind, part.role) for cell in checked_cells for part in cell.models
    )
    models = {use: use[0] for use in uses if study_models.is_recorded(use[0])}
    for part, kind, role in uses:
        if study_models.is_recorded(part) or not isinstance(part, FilePart):
            continue
        if not tried(lambda part=part, kind=kind, role=role: _ready(part, kind, role)):  # type: ignore[misc]
            unready.add(role)
    for cell in checked_cells:
        for model in cell.models:
            if cell.section(model.role).answer_form == SCHEMA:
                tried(lambda cell=cell, model=model: _compiled(cell, model.role))  # type: ignore[misc]
    tried(lambda: consultable(plan.execution.models, checked_cells))
    study = StudyDirectory(directory)
    runs = [
        f"{cell.id}/{seed}" for cell in checked_cells for seed in plan.seeds
        if study.run(cell.directory, seed).status != "finished"
    ]  # fmt: skip
    tried(
        lambda: study_models.check_answers(
            plan.execution.models, study_models.folder(directory), [*models.values()], runs
        )
    )
    for (_, kind, role), model in models.items():
        for reason in study_models.unready_reasons(plan.execution.models, [model]):
            reasons[in_role(reason, kind, role)] = None
            unready.add(role)
    replay = plan.execution.models.mode == "replay"
    for cell in checked_cells:
        for role, reason in contents.unstartable(cell, directory, replay):
            if role not in unready:
                reasons[reason] = None
    for role, model in dict.fromkeys((role, model) for (_, _, role), model in models.items() if replay):
        tried(lambda role=role, model=model: recorded(role, model, plan.execution.models, directory))  # type: ignore[misc]
    ids = [cell.id for cell in plan.trained]
    reasons |= dict.fromkeys(filter(None, (contents.changed(cell, directory, ids) for cell in plan.trained)))
    return list(reasons)


def _ready(model: Any, kind: str, role: str) -> None:
    """Raise UserError, with the role, if a model is not ready."""
    try:
        model.ready()
    except UserError as error:
        raise UserError(in_role(str(error), kind, role)) from None


def _compiled(cell: Cell, role: str) -> None:
    """Raise UserError, with the role, if a schema under which its chat writes has a keyword that is not allowed or, for
    a model that runs here, cannot be compiled."""
    from guidebench.harness.models.backends.grammars import grammar_of

    for schema in role_schemas(cell, role):
        try:
            schemas.check(schema)
            if study_models.is_local(cell.section(role)):
                grammar_of(schema)
        except (ValueError, UserError) as error:
            raise UserError(f"{role}.answer=schema: {error}") from None


def warnings(plan: Plan) -> list[str]:
    """Return what the models of a plan warn of, each once (`ModelPart.warning`)."""
    models = dict.fromkeys((cell.section(part.role), part.role) for cell in plan.trained for part in cell.models)
    return [*dict.fromkeys(filter(None, (model.warning(role) for model, role in models)))]


def recorded(role: str, model: Any, models: Models, directory: Path) -> None:
    """Raise UserError if calls are recorded in the role of a local model, but all of them are of models with other
    digests."""
    if not isinstance(model, FilePart) or model.digest is None:
        return
    others: dict[str | None, None] = {}
    for digest in model.on_record(role, models, directory):
        if digest == model.digest:
            return
        others[digest] = None
    if not others:
        return
    words = {digest: digest or "one that was recorded by its name alone" for digest in others}
    ways = " or ".join(f"{role}.digest={digest or 'null'}" for digest in others)
    raise UserError(
        f"models.mode=replay, and no recorded call in the role {role!r} is of the model with the digest "
        f"{model.digest}, only of {' and '.join(words.values())}; replay that with {ways}, or ask this one with "
        f"models.mode=record"
    )


def consultable(models: Models, cells: Iterable[Cell]) -> None:
    """Raise UserError if synchronous answers are not recorded. A run that is interrupted within a step repeats it, so
    it would pay for the same calls again and could get other answers."""
    if models.mode != "live":
        return
    for cell in cells:
        for role in cell.consulted:
            if study_models.is_recorded(cell.section(role)):
                raise UserError(
                    f"models.mode=live records nothing, and method {cell.names.method!r} waits for answers of "
                    f"{role!r} while it acts, so an interrupted run could not continue; use models.mode=record"
                )
