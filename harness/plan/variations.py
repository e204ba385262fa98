"""Variations of reference cells: the declared ablations of a method, and perturbed frames for a judge.

Each cell of a plan is a reference. A variation is the reference with one more layer of overrides; if it equals the
reference, the reference's row name mentions it and it runs once.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from guidebench.harness import registry
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.config import MODELS, NONE, PRETRAINING, Cell
from guidebench.harness.plan.contents import Digests
from guidebench.harness.plan.matrix import PREFIX, InMatrix, Plan
from guidebench.harness.plan.model_sets import ORACLE, PAPER, SCRIPTED
from guidebench.harness.plan.names import Names
from guidebench.harness.recipes import Layer
from guidebench.harness.settings import DIGEST

FULL = "full"
STANDARD = "standard"
"""Row name of frames without perturbation."""
PERTURBATION = "drawing.perturbation"
NO_MODEL = (SCRIPTED, ORACLE)
"""Backends of parts that need no foundation model."""


def ablations(plan: Plan, only: Sequence[str] = ()) -> Plan:
    """Return `plan` with the declared ablations of each cell's method added.

    `only` selects ablations by full name ("lambda_max=0.5") or group, the text before "=". A method without ablations,
    or with none that `only` selects, runs as it is beside one that has some. Where the command names a set of models
    other than `paper`, ablations that name a foundation model have the set's part in its place. Raise UserError if none
    has any, and for an ablation that does not fit its cell.
    """
    _check_no_claims(plan, "ablate")
    has_models = any(word.startswith(f"{MODELS}=") for word in plan.command)
    methods = dict.fromkeys(cell.names.method for cell in plan.cells)
    declared = {method: registry.get("method", method).ablations for method in methods}
    _check_only(only, declared)
    cells: list[Cell] = []
    places: dict[str, InMatrix] = {}
    digests = Digests(plan.execution)
    for cell in plan.cells:
        variations = {}
        for name, layer in declared[cell.names.method].items():
            if (only and not _chosen(name, only)) or (cell.stage is None and any(map(_of_stage, layer))):
                continue
            variation_layer = _without_models(cell, layer) if has_models and cell.stand_ins.models != PAPER else layer
            title = name if variation_layer == layer else f"{name} ({MODELS}={cell.stand_ins.models})"
            variations[title] = _ablated(cell, name, variation_layer, digests)
        if not variations:
            cells.append(cell)
            continue
        names = [name for name, variation in variations.items() if variation.id == cell.id]
        full = f"{FULL}: {', '.join(names)}" if names else FULL
        _enter(cells, places, "ablation", cell, full, variations)
    if not places:
        raise UserError(
            "the chosen ablations change a pre-training stage, and no cell has one; name its method with "
            "pretraining=…, or choose others with --only"
        )
    return _matrix(plan, "ablate", only, cells, places)


def _check_no_claims(plan: Plan, command: str) -> None:
    """Raise UserError for a plan of claims, whose rows are those that the claims name."""
    if plan.claims is not None:
        raise UserError(
            f"claims= is given to bench {command}, but the claims fix their rows; run them with bench run, or write "
            f"the variations as rows of the claims"
        )


def perturbations(plan: Plan, only: Sequence[str] = ()) -> Plan:
    """Return `plan` with, for each cell that has a judge, variations in which the judge sees perturbed frames.

    A cell whose judges see no frames runs once, as one without a judge does. `only` selects from the perturbations that
    the suite's drawing defines. Raise UserError if no cell has a judge, if none of the judges sees frames, for a suite
    without perturbations and for an unknown perturbation.
    """
    _check_no_claims(plan, "perturb")
    if any(word.startswith(f"{PERTURBATION}=") for word in plan.command):
        raise UserError(
            f"{PERTURBATION}= is what this command varies; choose perturbations with --only, or use bench run"
        )
    judged_cells = [cell for cell in plan.cells if cell.names.of("judge")]
    if not judged_cells:
        methods = ", ".join(dict.fromkeys(cell.names.method for cell in plan.cells))
        raise UserError(f"no chosen method has a judge ({methods}), and perturbations change only what a judge sees")
    seeing = [cell for cell in judged_cells if _judge_sees_frames(cell)]
    if not seeing:
        raise UserError(
            f"{judged_cells[0].names.of('judge')[0]} reads the task's events and sees no frames, so perturbations "
            f"cannot affect it; choose another judge, or another set of models (models=…)"
        )
    names_by_task: dict[tuple[str, str], str] = {}
    for cell in seeing:
        look = repr(cell.section("drawing"))
        if names_by_task.setdefault((cell.names.suite, cell.names.task), look) != look:
            raise UserError("drawing.* is given several values, but a study has one set of sample frames: give one")
    cells: list[Cell] = []
    places: dict[str, InMatrix] = {}
    digests = Digests(plan.execution)
    for cell in plan.cells:
        variations = {}
        if _judge_sees_frames(cell):
            for name in _perturbations(cell, only):
                variations[name] = _varied(cell, {PERTURBATION: name}, f"perturbation {name}", digests)
            _enter(cells, places, "perturbation", cell, STANDARD, variations)
        else:
            cells.append(cell)
    return _matrix(plan, "perturb", only, cells, places)


def _check_only(only: Sequence[str], declared: Mapping[str, Mapping[str, Layer]]) -> None:
    if not any(declared.values()):
        others = [name for name in registry.names("method") if registry.get("method", name).ablations]
        names = " and ".join(map(repr, declared))
        raise UserError(f"method {names} declares no ablations (those that do: {', '.join(others)})")
    every = [name for layers in declared.values() for name in layers]
    for selector in only:
        if not any(_chosen(name, [selector]) for name in every):
            raise _unknown_ablation(" or ".join(map(repr, declared)), selector, every)


def _unknown_ablation(methods: str, selector: str, names: Iterable[str]) -> UserError:
    return unknown(f"ablation of method {methods}:", selector, names if "=" in selector else _groups(names))


def _of_stage(key: str) -> bool:
    """Return whether a key of an ablation concerns the pre-training stage."""
    return key == PRETRAINING or key.startswith(PREFIX)


def _chosen(name: str, only: Sequence[str]) -> bool:
    return name in only or name.partition("=")[0] in only


def _groups(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition("=")[0] for name in names))


def _without_models(cell: Cell, layer: Layer) -> Layer:
    """Return an ablation without the foundation models that it names, and without their settings."""
    kinds = {part.role: part.kind for part in cell.names.of(*registry.MODELS)}
    named = {
        key
        for key, value in layer.items()
        if key in kinds and registry.get(kinds[key], registry.meant(kinds[key], value, key)).backend not in NO_MODEL
    }
    return {key: value for key, value in layer.items() if key.partition(".")[0] not in named}


def _ablated(cell: Cell, name: str, layer: Layer, digests: Digests) -> Cell:
    try:
        return _varied(cell, layer, f"ablation {name}", digests)
    except UserError as error:
        groups = _groups(registry.get("method", cell.names.method).ablations)
        others = ",".join(group for group in groups if group != name.partition("=")[0])
        raise UserError(
            f"ablation {name!r} of method {cell.names.method!r}: {error}; leave it out with --only {others}"
        ) from None


def _judge_sees_frames(cell: Cell) -> bool:
    return any(cell.section(judge.role).backend != "oracle" for judge in cell.names.of("judge"))


def _perturbations(cell: Cell, only: Sequence[str]) -> list[str]:
    """Return the perturbations of the cell's frames that `only` selects, without the unperturbed setting."""
    suite = cell.names.suite
    field = config.cell_fields(cell.names)["drawing"].get(PERTURBATION.partition(".")[2])
    if field is None:
        raise UserError(f"suite {suite!r} defines no perturbations of its frames")
    options = [name for name in typing.get_args(field.type) if name != field.default]
    for name in only:
        if name not in options:
            raise unknown(f"perturbation of suite {suite!r}:", name, options)
    return [name for name in options if not only or name in only]


def _varied(cell: Cell, layer: Layer, source: str, digests: Digests) -> Cell:
    """Return `cell` with one more layer of overrides, which may replace parts. The cell's other overrides are kept if
    they still apply; the digest of a model that the layer changes does not.

    Keys with the prefix `pretraining.` vary its stage in the same way, and `pretraining: none` removes it. Raise
    UserError if the layer sets a setting or a role that the cell lacks, or if its parts do not fit.
    """
    names, stage = cell.names, cell.stage
    before = {key.removeprefix(PREFIX): value for key, value in layer.items() if key.startswith(PREFIX)}
    if before and stage is None:
        raise UserError(f"it sets {PREFIX}{next(iter(before))}, and the cell has no pre-training stage")
    if before and stage is not None:
        stage = _varied(stage, before, source, digests)
    if PRETRAINING in layer:
        if layer[PRETRAINING] != NONE:
            raise UserError(
                f"it sets {PRETRAINING}={layer[PRETRAINING]}; a variation can only remove the stage ({NONE})"
            )
        stage = None
    layer = {key: value for key, value in layer.items() if key != PRETRAINING and not key.startswith(PREFIX)}
    swapped = {role: name for role, name in layer.items() if "." not in role}
    parts = {part.role: part.name for part in names.parts} | swapped
    filled = roles.fill(
        names.suite, names.task, names.method, names.profile, parts, cell.stand_ins.models, cell.stand_ins.argument
    )
    names = names._replace(parts=filled.parts)
    if missing := next((role for role in swapped if not names.part(role)), None):
        raise UserError(
            f"it names a {missing}, which {names.suite}/{names.task} with {_described(names)} does not have"
        )
    values, overrides = dict(config.base_settings(names)), {}
    touched = {key.partition(".")[0] for key in layer}
    for key, override in cell.overrides.items():
        if key.endswith(f".{DIGEST}") and key.removesuffix(f".{DIGEST}") in touched:
            continue
        if names.part(key) or key in values:
            overrides[key] = override
        if key in values:
            values[key] = cell.settings[key]
    overrides |= swapped
    for key, override in config.filled_settings(names, filled.settings).items():
        overrides[key], values[key] = override, config.Value(override, source, "")
    for key, value in config.laid(names, {key: layer[key] for key in layer if key not in swapped}, source):
        if value is None:
            raise UserError(f"it sets {key}, which {names.suite}/{names.task} with {_described(names)} does not have")
        overrides[key], values[key] = value.value, value
    unchanged_roles = cell.stand_ins.among([part.role for part in names.parts if part.role not in swapped]).roles
    stand_ins = filled.stand_ins._replace(roles=(*unchanged_roles, *filled.stand_ins.roles))
    varied = config.settled(Cell(names, values, overrides, stage, cell.keeps if stage else (), stand_ins))
    varied = digests.identified(varied)
    config.validate(varied)
    return varied


def _described(names: Names) -> str:
    return ", ".join(part.words for part in names.parts)


def _enter(
    cells: list[Cell],
    places: dict[str, InMatrix],
    kind: Literal["ablation", "perturbation"],
    reference: Cell,
    name: str,
    variations: Mapping[str, Cell],
) -> None:
    """Add a reference and its variations; variations that are the same cell share one row with all their names."""
    by_id: dict[str, list[str]] = {reference.id: [name]}
    cells_by_id = {reference.id: reference}
    for title, cell in variations.items():
        if cell.id != reference.id:
            by_id.setdefault(cell.id, []).append(title)
            cells_by_id.setdefault(cell.id, cell)
    for cell_id, names in by_id.items():
        place = InMatrix(kind, ", ".join(names), reference.id, reference.variant)
        if cell_id in places:
            raise UserError(
                f"{', '.join(names)} of {reference.names.method!r} ({reference.variant or 'as given'}) would be part "
                f"of two matrices, also that of {places[cell_id].overrides or 'the unchanged method'}: "
                f"do not sweep a setting that this command varies"
            )
        places[cell_id] = place
        cells.append(cells_by_id[cell_id])


def _matrix(
    plan: Plan, command: str, only: Sequence[str], cells: Sequence[Cell], places: Mapping[str, InMatrix]
) -> Plan:
    words = ("bench", command, *plan.command[2:], *(("--only", ",".join(only)) if only else ()))
    return replace(plan, cells=tuple(cells), matrix=places, command=words)
