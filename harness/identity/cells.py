"""Conversion of cells to records (cell.json) and back; reading a record returns the identical cell or raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from guidebench.harness import logs
from guidebench.harness.errors import UserError
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell, Value
from guidebench.harness.plan.names import NO_STAND_INS, Chosen, Names, StandIns
from guidebench.harness.records import parts
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.settings import check


def record(cell: Cell) -> dict[str, Any]:
    """Return the content of cell.json. The record of its pre-training stage is part of it, under `stage`."""
    names = cell.names
    return {
        "schema": config.SCHEMA,
        "cell": cell.id,
        "suite": names.suite,
        "task": names.task,
        "method": names.method,
        "learner": cell.learner,
        "backend": cell.backend,
        "model": cell.model,
        "profile": names.profile,
        "parts": parts_of(cell),
        "steps": cell.steps,
        "variant": cell.variant,
        "overrides": dict(cell.overrides),
        "versions": dict(config.versions(names)),
        "score": asdict(cell.score),
        "logs": logs.plain(cell.logs),
        "settings": {key: value._asdict() for key, value in cell.settings.items()},
        **({"stage": record(cell.stage)} if cell.stage else {}),
        **({config.KEEPS: list(cell.keeps)} if cell.keeps else {}),
        **({"stand_ins": _plain(cell.standing)} if cell.standing.roles else {}),
    }


def _plain(stand_ins: StandIns) -> dict[str, Any]:
    return {"models": stand_ins.models, "roles": dict(stand_ins.roles)}


def parts_of(cell: Cell) -> dict[str, dict[str, str]]:
    """Return role -> `kind` and `name` of the part in it; for a model that answers questions (`Cell.answering`) also
    its `backend` and `model`."""
    answering = {
        part.role: {"backend": cell.section(part.role).backend, "model": cell.called(part)} for part in cell.answering
    }
    return {
        part.role: {"kind": part.kind, "name": part.name, **answering.get(part.role, {})} for part in cell.names.parts
    }


def names_of(content: Mapping[str, Any]) -> Names:
    """Return the names in a record. Raise UserError for a record of another schema version."""
    if content.get("schema") != config.SCHEMA:
        raise UserError(
            f"the record of cell {content.get('cell')} has schema {content.get('schema')!r}, and this version reads "
            f"{config.SCHEMA}: use the version of guidebench that wrote it, or run the study anew in another output=…"
        )
    chosen = tuple(Chosen(role, part.kind, part.name) for role, part in parts.read(content["parts"]).items())
    return Names(content["suite"], content["task"], content["method"], content["profile"], chosen)


def rehashed(content: Mapping[str, Any]) -> str:
    """Recompute the cell id from a record's names, versions and settings, even if other versions of the parts are
    installed. Raise UserError if a part is not installed."""
    names = names_of(content)
    values = {key: entry["value"] for key, entry in content["settings"].items()}
    stage = rehashed(content["stage"]) if "stage" in content else ""
    return config.identity(names, content["versions"], values, config.begun(stage, _keeps_of(content)))


def _keeps_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the networks that a recorded cell keeps of its stage's policy. Raise UserError if the field
    is invalid."""
    keeps = content.get(config.KEEPS, [])
    if not isinstance(keeps, list) or not all(isinstance(name, str) for name in keeps):
        raise UserError(f"the record of cell {content.get('cell')} keeps {keeps!r} of its stage, which are no names")
    return tuple(keeps)


def _stand_ins(content: Mapping[str, Any], names: Names) -> StandIns:
    """Return the roles of a recorded cell in which another set of models stands in. Raise UserError if the record names
    no set, or a role that the cell does not have."""
    if "stand_ins" not in content:
        return NO_STAND_INS
    stand_ins = content["stand_ins"]
    roles = stand_ins.get("roles") if isinstance(stand_ins, dict) else None
    if not isinstance(roles, dict) or not all(
        isinstance(text, str) for text in (stand_ins.get("models"), *roles.values())
    ):
        raise UserError(
            f"the record of cell {content.get('cell')} has stand_ins {stand_ins!r}, which no set of models gives"
        )
    if unknown := roles.keys() - {part.role for part in names.parts}:
        raise UserError(
            f"the record of cell {content.get('cell')} has stand_ins for {min(unknown)!r}, no role of its own"
        )
    return StandIns(
        stand_ins["models"], tuple((part.role, roles[part.role]) for part in names.parts if part.role in roles)
    )


def recorded(content: Mapping[str, Any]) -> Cell:
    """Return the cell of a record. Raise UserError if the installed version would compute another id."""
    names = names_of(content)
    settings = {}
    fields_by_section = config.cell_fields(names)
    for key, entry in content["settings"].items():
        section, name = key.split(".", 1)
        if name not in fields_by_section.get(section, {}):
            raise UserError(f"the record of cell {content['cell']} has a setting {key!r} that this version lacks")
        value = check(fields_by_section[section][name], entry["value"], f"the record of cell {content['cell']}: {key}")
        settings[key] = Value(value, entry["layer"], entry["source"])
    for section, name in (
        (section, name) for section, section_fields in fields_by_section.items() for name in section_fields
    ):
        if f"{section}.{name}" not in settings and (field := fields_by_section[section][name]).later:
            settings[f"{section}.{name}"] = Value(field.default, "default", field.source)
        elif f"{section}.{name}" not in settings:
            raise UserError(
                f"the record of cell {content['cell']} lacks the setting '{section}.{name}', which this version has: "
                f"run the study anew, or check out the commit in its run.json"
            )
    stage = recorded(content["stage"]) if "stage" in content else None
    cell = Cell(names, settings, content.get("overrides", {}), stage, _keeps_of(content), _stand_ins(content, names))
    if cell.id != content["cell"]:
        raise UserError(
            f"cell {content['cell']} was recorded by another version of its parts ({dict(content['versions'])}, "
            f"here {dict(config.versions(names))}): run the study anew, or check out the commit in its run.json"
        )
    return cell


def write_cell(study: StudyDirectory, cell: Cell) -> None:
    """Write cell.json if it does not exist. An existing one must declare the same logs, since its runs append to them.

    Raise UserError for a log that was declared with other columns, or not at all.
    """
    path = study.path / cell.directory / "cell.json"
    if not path.exists():
        write_json(path, record(cell))
        return
    before = logs.read(read_json(path).get("logs", {}))
    for name, log in cell.logs.items():
        if name not in before or not before[name].like(log):
            had = f"with the columns {', '.join(before[name].columns)}" if name in before else "without the log"
            raise UserError(
                f"{path} was written {had}, and {cell.logged_by(name)} now declares {name!r} with "
                f"{', '.join(log.columns)}: choose another output=…, or undo the change"
            )
