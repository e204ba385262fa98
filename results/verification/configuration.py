"""Rebuild the configuration of an untrusted cell, or say why this program would not have recorded it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process, registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record, recorded, rehashed
from guidebench.harness.interfaces import SUCCESS
from guidebench.harness.parts import AUTO
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import read_json

LARGEST = 2**20
"""Most bytes of cell.json."""
DERIVED = (
    "suite",
    "task",
    "method",
    "learner",
    "backend",
    "model",
    "profile",
    "parts",
    "steps",
    "variant",
    "versions",
    "score",
)
"""Entries of cell.json that follow from its settings and parts."""


class Altered(Exception):
    """A configuration that no version of this program would have recorded; the message says why."""


class Unusable(Exception):
    """A configuration that cannot be built in this installation, though it may be valid: from another version or a
    plug-in."""


def configuration(directory: Path, id: str) -> Cell:
    """Return the cell in a directory, with its parts built; raise Altered if it does not match `id`, or Unusable. Its
    record is parsed, and built for the first time, in the separate process."""
    try:
        examined = reader_process.call(
            f"{directory}: reading its configuration", reader_process.SECONDS, _examined, directory, id
        )
    except UserError as error:
        raise Unusable(str(error)) from None
    if examined.altered:
        raise Altered(examined.altered)
    if examined.unusable:
        raise Unusable(examined.unusable)
    return _without_files(recorded(examined.content))


class _Examined(NamedTuple):
    """The content of a cell.json, or the reason for not using it."""

    content: Mapping[str, Any]
    altered: str = ""
    unusable: str = ""


def _examined(directory: Path, id: str) -> _Examined:
    try:
        return _Examined(_checked(directory, id))
    except Altered as error:
        return _Examined({}, altered=str(error))
    except Unusable as error:
        return _Examined({}, unusable=str(error))


def _checked(directory: Path, id: str) -> Mapping[str, Any]:
    """Return the content of a cell.json; raise Altered or Unusable."""
    path = directory / "cell.json"
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise Unusable(f"{path.name} is missing, or larger than {LARGEST:,} bytes")
    try:
        content = read_json(path)
        if content.get("cell") != id or rehashed(content) != id:
            raise Altered(
                f"cell.json was changed: its names and settings make another cell than {id}, by which it is known"
            )
        cell = _without_files(recorded(content))
        stages = [(content, cell)]
        while (last := stages[-1])[1].stage is not None:
            stages.append((last[0]["stage"], last[1].stage))
        _ = [stage.sections for _, stage in stages]
        pairs = [(stored, record(stage)) for stored, stage in stages]
        unstated = next((problem for _, stage in stages for problem in _unstated(stage)), "")
    except UserError as error:
        raise Unusable(str(error)) from None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unusable(f"cell.json is not as this program writes it ({type(error).__name__}: {error})") from None
    for stored, rebuilt in pairs:
        for name in DERIVED:
            if stored.get(name, asdict(SUCCESS) if name == "score" else None) != rebuilt[name]:
                raise Altered(
                    f"cell.json was changed: {name} is {stored.get(name)!r}, and its settings and parts make it "
                    f"{rebuilt[name]!r}"
                )
    for stored, _ in pairs:
        if wrong := unheld(stored):
            raise Altered(f"cell.json was changed: it says that {wrong} was overridden, and its configuration does not")
    if unstated:
        raise Altered(f"cell.json was changed: {unstated}, which its overrides do not say")
    return dict(content)


def unheld(content: Mapping[str, Any]) -> str:
    """Return an override of a record that is not in its settings or parts, or ""."""
    stated = {name: setting["value"] for name, setting in content["settings"].items()}
    stated |= {role: part["name"] for role, part in content["parts"].items()}
    return next((name for name, value in content.get("overrides", {}).items() if stated.get(name) != value), "")


def _without_files(cell: Cell) -> Cell:
    """Return the cell and its stages without the places of files that their suites name, so that a stranger's record
    opens no file of this machine: settings of a suite that no cell id hashes have their defaults."""
    if cell.stage is not None:
        cell = replace(cell, stage=_without_files(cell.stage))
    fields = config.cell_fields(cell.names)["suite"]
    defaults = {
        key: value
        for name, field in fields.items()
        if field.transport and (value := config.base_settings(cell.names).get(key := f"suite.{name}")) is not None
    }
    if not defaults.keys() & cell.settings.keys():
        return cell
    overrides = {key: value for key, value in cell.overrides.items() if key not in defaults}
    return replace(cell, settings={**cell.settings, **defaults}, overrides=overrides)


def _unstated(cell: Cell) -> Iterator[str]:
    """Yield parts and settings that differ from the defaults of method, suite and profile although the overrides do not
    list them. A swapped model is excepted, since the cell's label names it, and so are transport settings, which are
    hidden on purpose, and the digests of files and settings that follow from files (`AUTO`), which may not be here."""
    names = cell.names
    chosen = {
        part.role: part.name if part.kind in registry.MODELS else str(cell.overrides.get(part.role, ""))
        for part in names.parts
    }
    default_names = names._replace(parts=roles.parts_of(names.suite, names.task, names.method, names.profile, chosen))
    for part in {*names.parts} ^ {*default_names.parts}:
        yield f"its {part.role} is {names.part(part.role)!r} and not {default_names.part(part.role)!r}"
    fields = config.cell_fields(names)
    plain = config.base_settings(names)
    following = {key for key, base in plain.items() if base.value == AUTO and key.startswith(("suite.", "drawing."))}
    named = {*cell.overrides, *following}
    stated = {key: cell.settings[key].value for key in plain.keys() & named & cell.settings.keys()}
    for key, base in config.resolve(names, stated, {}).settings.items():
        section, field = key.split(".", 1)
        value = getattr(cell.section(section), field)
        known_field, digest = fields[section][field], getattr(cell.section(section), settings.DIGEST, None)
        follows_files = base.value == AUTO and field in getattr(cell.section(section), "of_files", {})
        if known_field.digest or follows_files or settings.is_transport(known_field, digest):
            continue
        if value != base.value and key not in cell.overrides:
            yield f"{key} is {settings.show(value)[:80]} and not {settings.show(base.value)[:80]}"
