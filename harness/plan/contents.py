"""Digests of the files that the parts of a cell read, such as the weights of a local model: where they come from while
a command is planned, and whether the runs on record had the same.

A digest comes from the first of these that knows it: the files on this machine; `ROLE.digest=` of the command; the
study's record of the same cell; the model's recipe; and recorded calls, if they hold answers of exactly one digest in
the role. Without a digest a cell is planned under the name of the model, and cannot start.

Settings that follow from the files, such as `dtype=auto`, are resolved before: from the recipe, the files on this
machine, the record of the same cell, recorded calls, or else to the part's own value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import outside, registry
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.parts import AUTO, FilePart
from guidebench.harness.plan import config
from guidebench.harness.plan.config import COMMAND, Cell, Value
from guidebench.harness.plan.names import Chosen, Names
from guidebench.harness.records import parts
from guidebench.harness.records.schema import folder_of
from guidebench.harness.settings import DIGEST, SHA256, Cited

FILES, RECORD, RECIPE, CASSETTE = "files", "record", "recipe", "cassette"
"""What a digest comes from, as the layer of its setting; `COMMAND` is another."""
BY_NAME = (COMMAND, RECORD, CASSETTE)
"""Layers of a setting without a value: the part is known by its name alone, as before there were digests."""


class CellRecord(NamedTuple):
    """A recorded cell, as far as digests are concerned."""

    path: Path
    """Its directory."""
    cell: str
    """Its id."""
    id_by_name: str
    """The id that it would have if no digest were known."""
    digests: Mapping[str, str]
    """Role -> digest, for those that are known."""
    settings: Mapping[str, Any]
    """Setting -> value."""


class Digests:
    """Fills in the digests of the cells of one command; each part's files are read at most once."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._content: dict[Hashable, str | None] = {}
        self._following: dict[Hashable, Mapping[str, Cited]] = {}
        self._records_by_names: dict[Names, list[CellRecord]] = {}

    def identified(self, cell: Cell) -> Cell:
        """Return the cell with the settings that follow from files resolved, and with the digests of its file-reading
        parts filled in as far as they are known. Raise UserError if the files here differ from the digest in the
        command, or if several digests are possible."""
        cell = self._following_files(cell)
        if not cell.file_parts:
            return cell
        values, overrides = dict(cell.settings), dict(cell.overrides)
        unidentified = []
        for file_part in cell.file_parts:
            part, key = cell.section(file_part.role), f"{file_part.role}.{DIGEST}"
            setting = cell.settings[key]
            if setting.layer == COMMAND and setting.value is None:
                continue
            digest = self._digest_of(part, file_part.role)
            if digest is None:
                unidentified += [file_part] if setting.value is None else []
                continue
            if setting.value is None:
                values[key] = Value(digest, FILES, "")
            elif digest != setting.value and self._execution.models.mode != "replay":
                raise UserError(
                    f"{key}={setting.value} is given, and the files of {_named(cell, file_part)} have the digest "
                    f"{digest}; leave it out, or name the files that it is of"
                )
            for name, value in part.placed().items():
                place = f"{file_part.role}.{name}"
                values[place] = values[place]._replace(value=value)
                overrides |= {place: value} if place in overrides else {}
        filled = replace(cell, settings=values, overrides=overrides)
        for file_part in unidentified:
            if (value := self._digest_on_record(filled, file_part)) is not None:
                filled = replace(filled, settings={**filled.settings, f"{file_part.role}.{DIGEST}": value})
        return filled

    def _following_files(self, cell: Cell) -> Cell:
        """Return the cell with a value for each setting that is `AUTO` (`FilePart.of_files`). Raise UserError if
        nothing but recorded calls tells of the files, and they have several values."""
        resolved: dict[str, Value] = {}
        unknown: dict[str, Chosen] = {}
        for part in cell.names.parts:
            if not isinstance(section := cell.section(part.role), FilePart):
                continue
            for name in section.of_files:
                key = f"{part.role}.{name}"
                if key not in cell.settings or cell.settings[key].value != AUTO:
                    continue
                if (cited := self._of_files(section).get(name)) is not None:
                    resolved[key] = Value(cited.value, str(part), cited.source)
                else:
                    unknown[key] = part
        if not resolved and not unknown:
            return cell
        record = self._record_of(cell, resolved, unknown) if unknown else None
        for key, part in unknown.items():
            resolved[key] = self._answered_with(cell, part, key) if record is None else Value(
                record.settings[key], RECORD, ""
            )  # fmt: skip
        overrides = {key: resolved[key].value for key in resolved.keys() & cell.overrides.keys()}
        return replace(cell, settings={**cell.settings, **resolved}, overrides={**cell.overrides, **overrides})

    def _answered_with(self, cell: Cell, part: Chosen, key: str) -> Value:
        """Return the setting with which the recorded calls in the role of a part were answered, else the part's own.
        Raise UserError for several."""
        section, name = cell.section(part.role), key.rpartition(".")[2]
        on_record = section.values_on_record(name, part.role, self._execution.models, self._study())
        recorded = [*dict.fromkeys(on_record)]
        if len(recorded) > 1:
            raise UserError(
                f"the recorded calls hold answers with {key}={' and '.join(sorted(map(str, recorded)))}, and the files "
                f"of {_named(cell, part)} are not here; say which one with {key}=…"
            )
        if recorded:
            return Value(recorded[0], CASSETTE, "")
        return Value(section.of_files[name], str(part), "its files are not here")

    def _of_files(self, part: FilePart) -> Mapping[str, Cited]:
        place = (
            type(part),
            part.digest,
            *(getattr(part, name, None) for name in (*part.file_settings, *part.of_files)),
        )
        if place not in self._following:
            self._following[place] = part.follow_files()
        return self._following[place]

    def _record_of(self, cell: Cell, resolved: Mapping[str, Value], unknown: Iterable[str]) -> CellRecord | None:
        """Return the record that the cell has if the settings `unknown` are those of the record, or None."""
        for record in self._records(cell.names):
            recorded = {key: Value(record.settings.get(key), RECORD, "") for key in unknown}
            as_recorded = replace(cell, settings={**cell.settings, **resolved, **recorded})
            if id_by_name(as_recorded) == record.id_by_name:
                return record
        return None

    def _digest_of(self, part: FilePart, role: str) -> str | None:
        by_role = type(part).content_in is not FilePart.content_in
        place = (type(part), role if by_role else "", *(getattr(part, name) for name in part.file_settings))
        if place not in self._content:
            self._content[place] = part.content_in(role)
        return self._content[place]

    def _digest_on_record(self, cell: Cell, file_part: Chosen) -> Value | None:
        """Return the digest of a part whose files are not here from the records, the recipe or the recorded calls, or
        None if none of them holds it."""
        role, part = file_part.role, cell.section(file_part.role)
        by_name = id_by_name(cell)
        known_digests = {key: value for key, value in cell.digests.items() if value is not None}
        records = [
            record for record in self._records(cell.names)
            if record.id_by_name == by_name and known_digests.items() <= {**known_digests, **record.digests}.items()
        ]  # fmt: skip
        recorded = dict.fromkeys(record.digests.get(role) for record in records)
        if digest := _only(filter(None, recorded), cell, file_part, "the studies here hold runs"):
            return Value(digest, RECORD, "")
        if None in recorded:
            return Value(None, RECORD, "")
        if digest := part.published():
            return Value(digest, RECIPE, "")
        answered = part.on_record(role, self._execution.models, self._study())
        if digest := _only(filter(None, answered), cell, file_part, "the recorded calls hold answers"):
            return Value(digest, CASSETTE, "")
        by_calls = file_part.kind in registry.MODELS and self._execution.models.mode == "replay"
        return Value(None, CASSETTE, "") if by_calls else None

    def _study(self) -> Path | None:
        return None if self._execution.output is None else Path(self._execution.output)

    def _records(self, names: Names) -> list[CellRecord]:
        """Return the records that may tell a digest: those of the command's study, or, since the name of a study
        follows from the ids of its cells, of all studies in runs/; and of the study whose recorded calls are used."""
        if names not in self._records_by_names:
            study = self._study()
            studies = sorted(Path("runs").glob("*")) if study is None else [study]
            self._records_by_names[names] = [*_records([*studies, *self._execution.models.cassettes], names)]
        return self._records_by_names[names]


def _only(digests: Iterable[str], cell: Cell, file_part: Chosen, source: str) -> str | None:
    """Return the digest if all of `digests` are equal, or None if there is none. Raise UserError for two different
    ones; `source`: where they come from, to begin the message with."""
    distinct: list[str] = []
    for digest in digests:
        distinct += [digest] if digest not in distinct else []
        if len(distinct) > 1:
            raise UserError(
                f"{source} of two models in the role {file_part.role!r}, {' and '.join(sorted(distinct))}, and the "
                f"files of {_named(cell, file_part)} are not here; say which one with {file_part.role}.{DIGEST}=…"
            )
    return distinct[0] if distinct else None


def _named(cell: Cell, file_part: Chosen) -> str:
    part = cell.section(file_part.role)
    return " ".join(f"{file_part.role}.{name}={value}" for name in part.file_settings if (value := getattr(part, name)))


def id_by_name(cell: Cell) -> str:
    """Return the id that a cell would have if no digest were known."""
    stage = config.stage_identity(id_by_name(cell.stage), cell.keeps) if cell.stage else ""
    values = {key: value.value for key, value in cell.settings.items()}
    digests = {f"{part.role}.{DIGEST}": None for part in cell.file_parts}
    return config.identity(cell.names, config.versions(cell.names), values | digests, stage)


def waits_for(cell: Cell) -> str:
    """Return the names of the models or datasets without which the cell's id is not known; "" if it is known."""
    titles = [
        _title(stage, part)
        for stage in (*cell.stages, cell)
        for part in stage.file_parts
        if (value := stage.settings[f"{part.role}.{DIGEST}"]).value is None and value.layer not in BY_NAME
    ]
    return " and ".join(dict.fromkeys(titles))


def _title(cell: Cell, file_part: Chosen) -> str:
    part = cell.section(file_part.role)
    return next((str(value) for name in part.file_settings if (value := getattr(part, name))), str(file_part))


def changed(cell: Cell, study: Path, planned: Iterable[str]) -> str:
    """Return why a cell cannot be added to a study: its runs were recorded with other files under the same names; or
    "". `planned`: ids of the cells of the command."""
    if not cell.digests or not study.is_dir():
        return ""
    ids, by_name = {*planned}, id_by_name(cell)
    for record in _records([study], cell.names):
        has_runs = any(record.path.glob("seed-*"))
        if record.cell in ids or record.id_by_name != by_name or not has_runs:
            continue
        for file_part in cell.file_parts:
            then, now = record.digests.get(file_part.role), cell.digests[file_part.role]
            if now is not None and then != now:
                return f"{record.path} holds runs of {_named(cell, file_part)}{_difference(file_part, then, now)}"
    return ""


def _difference(file_part: Chosen, then: str | None, now: str) -> str:
    """Return the end of an error: which files recorded runs had (`then`), which are here (`now`), and what to do."""
    if then is None:
        return (
            f", recorded by this name alone, so nothing tells whether its files were those that are here now ({now}); "
            f"choose another output=…, or go on under the name with {file_part.role}.{DIGEST}=null"
        )
    return f" whose files had the digest {then}, and they have {now} now; restore the files, or choose another output=…"


def unstartable(cell: Cell, study: Path, replay: bool) -> Iterator[tuple[str, str]]:
    """Yield (role, reason) for each part whose missing digest keeps the cell from starting. Nothing is yielded if the
    study holds the cell already, or if all calls are answered from recorded ones (`replay`)."""
    if replay or (study / cell.directory / "cell.json").is_file():
        return
    for file_part in cell.file_parts:
        value = cell.settings[f"{file_part.role}.{DIGEST}"]
        if value.value is None and value.layer == COMMAND:
            reason = (
                f"{file_part.role}.{DIGEST}=null is given, and only a study whose runs were recorded by the name of "
                f"the model goes on so; leave it out"
            )
            yield file_part.role, reason
        elif value.value is None:
            reason = (
                f"{_named(cell, file_part)}: its files are not here, or not all of them, so nothing identifies it; the "
                f"id of cell {cell.names.method} on {cell.names.suite}/{cell.names.task} is known once they are"
            )
            yield file_part.role, reason


def _records(studies: Iterable[Path], names: Names) -> Iterator[CellRecord]:
    """Yield the recorded cells of these names; unreadable ones are left out."""
    for study in studies:
        for path in sorted(study.glob(f"{names.suite}/{folder_of(names.task)}/{names.method}-*/cell.json")):
            try:
                content = outside.read_document(path)
                if content["profile"] == names.profile and parts_of(content) == names.parts:
                    settings = {key: setting["value"] for key, setting in content["settings"].items()}
                    yield CellRecord(path.parent, str(content["cell"]), *_by_name(content), settings)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
                continue


def parts_of(content: Mapping[str, Any]) -> tuple[Chosen, ...]:
    """Return the parts in a record."""
    return tuple(Chosen(role, part.kind, part.name) for role, part in parts.read(content["parts"]).items())


def _by_name(content: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the id that a recorded cell would have if no digest were known, and its digests by role."""
    names = Names(content["suite"], content["task"], content["method"], content["profile"], parts_of(content))
    values = {key: setting["value"] for key, setting in content["settings"].items()}
    digests = {
        key.removesuffix(f".{DIGEST}"): value
        for key, value in values.items()
        if key.endswith(f".{DIGEST}") and isinstance(value, str) and SHA256.fullmatch(value)
    }
    stage = (
        config.stage_identity(_by_name(content["stage"])[0], content.get(config.KEEPS, []))
        if "stage" in content
        else ""
    )
    without = values | {f"{role}.{DIGEST}": None for role in digests}
    return config.identity(names, content["versions"], without, stage), digests
