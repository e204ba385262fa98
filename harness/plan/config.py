"""Resolves names and overrides to cells: every setting gets its value from the highest layer that sets it.

Precedence: the part's default < what the asking part says of a role < suite < method < method on this suite < profile <
method on this profile < command line. A cell id hashes everything that can change results: names, versions and every
resolved value; never seeds, paths, launcher or device.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from guidebench.harness import meanings, registry, settings
from guidebench.harness.capabilities import INSTRUCTION, demonstrates
from guidebench.harness.errors import UserError, in_role, unknown
from guidebench.harness.interfaces import Actions, Score
from guidebench.harness.logs import Log, together
from guidebench.harness.parts import TEXT, AskingPart, CellView, FilePart, Part
from guidebench.harness.plan import answering, arrays
from guidebench.harness.plan.names import NO_STAND_INS, Chosen, Names, StandIns
from guidebench.harness.plan.roles import learner_of, unfilled
from guidebench.harness.recipes import Evaluation, Layer, Method, Training
from guidebench.harness.records.schema import ASKING as WRITTEN_OF
from guidebench.harness.records.schema import RESERVED, SCHEMA_VERSION, directory_of
from guidebench.harness.settings import Cited, Field

PLAIN: Mapping[str, type] = {"training": Training, "evaluation": Evaluation}
DIFFICULTY = meanings.DIFFICULTY
"""The word of a command that names a difficulty of the suite, which stands for other words."""
PRETRAINING = "pretraining"
"""The word of a command that names the method of a pre-training stage, and the prefix of the stage's own words."""
MODELS = "models"
"""The word of a command that names the set of models, which fills the roles that the command leaves open."""
KEEPS = "keeps"
"""The word after `pretraining.` that names the parameters which a run takes from its stage."""
NONE = "none"
"""The name that stands for no stage."""
COMMAND = "command line"
"""The layer of settings that the command gives."""
CARRIED = ("agent", "learner", *registry.MODELS)
"""Kinds of part whose words of a command, like those of the suite, a stage takes over."""
_ABSENT = object()
EPISODES = "evaluation.episodes"
SCHEMA = SCHEMA_VERSION
"""Version of the content that a cell id hashes; equal to the schema version of records."""


class Value(NamedTuple):
    """A resolved setting: its value, the layer that set it, and the source that the layer cites."""

    value: Any
    layer: str
    source: str


NO_SETTINGS: Mapping[str, Value] = {}


@dataclass(frozen=True)
class Cell:
    """A suite, task and method with all settings resolved. A cell and a seed make a run."""

    names: Names
    settings: Mapping[str, Value]
    overrides: Mapping[str, Any]
    """Settings and parts given on the command line, for the row name."""
    stage: Cell | None = None
    """The pre-training stage: the cell from whose policy of the same seed a run begins. None if it begins with random
    parameters."""
    keeps: tuple[str, ...] = ()
    """How the names begin of the parameters that a run takes from its stage's policy, such as `encoder`; the others
    begin at random. () for all."""
    stand_ins: StandIns = NO_STAND_INS
    """The roles in which the cell's set of models has no part. They are in its row name and not in its id."""

    @functools.cached_property
    def id(self) -> str:
        values = {key: value.value for key, value in self.settings.items()}
        stage = stage_identity(self.stage.id, self.keeps) if self.stage else ""
        return identity(self.names, versions(self.names), values, stage)

    def runs(self, seeds: Iterable[int]) -> tuple[str, ...]:
        """Return CELL/SEED of each seed: how records of calls name the runs of this cell."""
        return tuple(f"{self.id}/{seed}" for seed in seeds)

    @property
    def stages(self) -> tuple[Cell, ...]:
        """Return the stages before this cell, the first one first."""
        return (*self.stage.stages, self.stage) if self.stage else ()

    @property
    def steps(self) -> int:
        return int(self.settings["training.steps"].value)

    @property
    def score(self) -> Score:
        """Return the score of the evaluation episodes. It is not hashed into the id, since it changes no run."""
        score: Score = self.section("suite").score(self.names.task)
        return score

    @property
    def directory(self) -> str:
        """Return the directory of the cell, relative to its study."""
        return directory_of(self.names.suite, self.names.task, self.names.method, self.id)

    @property
    def variant(self) -> str:
        """Return the overrides shown in the row name, in addition to `model`, and the roles in which another set of
        models stands in."""
        return ", ".join(f"{key}={_brief(value)}" for key, value in sorted(self._row_overrides.items()))

    @property
    def _row_overrides(self) -> dict[str, Any]:
        """Return the overrides in the row name: the cell's own, and with the prefix `pretraining` those of its stage
        that differ from the cell's."""
        models = [f"{part.role}.model" for part in self.models]
        overrides = {
            key: value for key, value in self.overrides.items() if key not in models and not self._unnamed(key)
        }
        if self.standing.roles:
            overrides[MODELS] = self.standing
        if self.stage is None:
            return overrides | ({PRETRAINING: NONE} if registry.get("method", self.names.method).pretraining else {})
        before, usual = self.stage.names, dict[str, Any](self.staged)
        stage_names: dict[str, Any] = {
            "": before.method,
            "suite": before.suite,
            "task": before.task,
            "profile": before.profile,
        }
        usual[KEEPS], stage_names[KEEPS] = [], list(self.keeps)
        others = {key: value for key, value in stage_names.items() if value != usual[key]}
        carried_roles = {"suite", *(part.role for part in self.names.of(*CARRIED))}
        all_overrides = {**self.overrides, **overrides}
        others |= {
            key: value
            for key, value in self.stage._row_overrides.items()
            if key.partition(".")[0] not in (MODELS, *carried_roles) or all_overrides.get(key, _ABSENT) != value
        }
        return overrides | {f"{PRETRAINING}.{key}".rstrip("."): value for key, value in others.items()}

    def _unnamed(self, key: str) -> bool:
        """Return whether the row name leaves out a setting: one that changes no result, and a digest."""
        section, _, name = key.partition(".")
        field = cell_fields(self.names).get(section, {}).get(name)
        return field is not None and (field.digest or settings.is_transport(field, self._digest(section)))

    def _digest(self, section: str) -> str | None:
        """Return the digest of the files that the part of a section reads; None if it is unknown or reads none."""
        value = self.settings.get(f"{section}.{settings.DIGEST}")
        return None if value is None else value.value

    @property
    def file_parts(self) -> tuple[Chosen, ...]:
        """Return the parts that read files, such as local models and datasets, without models that nothing asks."""
        roles = _file_roles(self.names)
        return tuple(part for part in (*self.models, *self.names.of("dataset")) if part.role in roles) if roles else ()

    @property
    def digests(self) -> dict[str, str | None]:
        """Return role -> digest of the files of each of `file_parts`."""
        return {part.role: self._digest(part.role) for part in self.file_parts}

    @property
    def standing(self) -> StandIns:
        """Return the stand-ins in roles that are asked under these settings."""
        if not self.stand_ins.roles:
            return self.stand_ins
        return self.stand_ins.among({part.role for part in self.models})

    @property
    def substitutes(self) -> int:
        """Return in how many roles of the cell and its stages another set of models stands in."""
        return sum(len(cell.standing.roles) for cell in (self, *self.stages))

    @property
    def staged(self) -> dict[str, str]:
        """Return the names that the pre-training stage has by default: its method under the key "", its suite, task and
        profile."""
        names = self.names
        suite = self.stage.names.suite if self.stage else names.suite
        recipe = registry.get("method", names.method)
        return {
            "": recipe.pretraining,
            "suite": names.suite,
            "task": stage_task(recipe, suite, names.task),
            "profile": names.profile,
        }

    @property
    def models(self) -> tuple[Chosen, ...]:
        """Return the parts that are models, without those that nothing asks under these settings
        (`AskingPart.unasked`)."""
        every = self.names.of(*registry.MODELS)
        asking_parts = [config for config in self.sections.values() if isinstance(config, AskingPart)]
        if not any(config.unasked for config in asking_parts):
            return every
        needing = [config for config in self.sections.values() if isinstance(config, Part)]
        asked_roles = {
            role for config in needing for role in config.needs if role not in getattr(config, "unasked", ())
        }
        return tuple(part for part in every if part.role in asked_roles)

    @property
    def consulted(self) -> frozenset[str]:
        """Return the roles whose answers are awaited synchronously, without those that nothing asks."""
        return answering.consulted_roles(self.names.parts) & {part.role for part in self.models}

    @property
    def judge(self) -> str:
        """Return the role of the judge shown in probes and filmstrips: one that a replay needs, else the first; "" if
        no judge of the cell gets clips."""
        roles = answering.shown_clips(self.names.parts)
        needed = {role for part in self.names.of("replay") for role in self.section(part.role).needs}
        return next((role for role in roles if role in needed), next(iter(roles), ""))

    @property
    def answering(self) -> tuple[Chosen, ...]:
        """Return the parts whose answers guide the learner, or act: models, teachers that use no model, and an agent
        with privileged knowledge."""
        alone = (
            part for part in self.names.of("teacher")
            if not {*registry.MODELS} & set(self.section(part.role).needs.values())
        )  # fmt: skip
        acting = (part for part in self.names.of("agent") if self.section(part.role).backend)
        return (*self.models, *alone, *acting)

    @property
    def model(self) -> str:
        """Return the distinct names of the answering parts, those of its stages included, joined by "+": the model name
        of a foundation model, else the name of the part; "" if there are none."""
        return "+".join(dict.fromkeys(cell.called(part) for cell in (self, *self.stages) for part in cell.answering))

    def called(self, part: Chosen) -> str:
        """Return the model name of a part, without path or organisation, or the part's name if it has no model."""
        config = self.section(part.role)
        name = str(getattr(config, "row_name", "") or getattr(config, "model", "") or part.name)
        return name.rstrip("/").rsplit("/", 1)[-1]

    @property
    def backend(self) -> str:
        """Return the distinct backends of the answering parts, those of its stages included, joined by "+"; "" if there
        are none."""
        cells = (self, *self.stages)
        return "+".join(dict.fromkeys(cell.section(part.role).backend for cell in cells for part in cell.answering))

    @property
    def learner(self) -> str:
        """Return the distinct names of the learners, joined by "+"."""
        return "+".join(dict.fromkeys(part.name for part in self.names.of("learner")))

    @property
    def logs(self) -> Mapping[str, Log]:
        """Return the logs that the parts declare. Raise UserError for invalid or contradictory declarations."""
        return _logs(self.names)

    def logged_by(self, log: str) -> str:
        """Return a description of the first part that declares a log."""
        return next((title for title, logs in _declared(self.names) if log in logs), "the engine")

    def section(self, name: str) -> Any:
        """Return the built configuration of a section, or None if the cell lacks that section."""
        return self.sections.get(name)

    @functools.cached_property
    def sections(self) -> Mapping[str, Any]:
        """Return the built configuration of every section of the cell. Settings were checked before, on the command
        line or when a record was read."""
        base = base_settings(self.names)
        changes: dict[str, list[tuple[str, Any]]] = {}
        for key, value in self.settings.items():
            if value is not base.get(key):
                section, field = key.split(".", 1)
                changes.setdefault(section, []).append((field, value.value))
        return {**_usual(self.names), **{name: _changed(self.names, name, tuple(changes[name])) for name in changes}}


@registry.cached(4096)
def _logs(names: Names) -> Mapping[str, Log]:
    judge_logs = [WRITTEN_OF["judge"]] if answering.shown_clips(names.parts) else []
    return functools.reduce(operator.or_, map(dict, judge_logs), together(_declared(names), RESERVED))


@registry.cached(4096)
def _usual(names: Names) -> Mapping[str, Any]:
    """Return the built configuration of every section without command-line overrides."""
    values: dict[str, dict[str, Any]] = {section: {} for section in names.sections}
    for key, value in base_settings(names).items():
        section, field = key.split(".", 1)
        values[section][field] = value.value
    configs = {section: section_config(names, section) for section in values}
    return {
        section: _built(names, section, functools.partial(config, **values[section]))
        for section, config in configs.items()
        if config is not None
    }


@registry.cached(65536)
def _file_roles(names: Names) -> frozenset[str]:
    """Return the roles whose parts read files."""
    return frozenset(part.role for part in names.parts if issubclass(registry.get(part.kind, part.name), FilePart))


@registry.cached(65536)
def _changed(names: Names, section: str, changes: tuple[tuple[str, Any], ...]) -> Any:
    """Return the configuration of a section with these fields replaced."""
    return _built(names, section, functools.partial(replace, _usual(names)[section], **dict(changes)))


def _built(names: Names, section: str, build: Callable[[], Any]) -> Any:
    """Build a configuration; errors about its settings are raised with the section's name."""
    try:
        return build()
    except UserError as error:
        kind = next((part.kind for part in names.parts if part.role == section), section)
        raise UserError(in_role(str(error), kind, section)) from None


def _declared(names: Names) -> list[tuple[str, Mapping[str, Log]]]:
    """Return a description of each part of a cell and the logs that it declares."""
    return [(str(part), registry.get(part.kind, part.name).logs) for part in names.parts]


LONGEST = 60
"""Maximum characters of a value in a row name; a longer value, such as a prompt, is shortened with a digest."""


def _brief(value: Any) -> str:
    if isinstance(value, StandIns):
        return str(value)
    text = settings.show(value)
    if len(text) <= LONGEST:
        return text
    return f"{' '.join(text[:20].split())}…{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _hashed(names: Names, values: Mapping[str, Any], excluded: Set[str]) -> dict[str, Any]:
    """Return the settings that a cell's id hashes. Left out are settings of the roles `excluded`, `Transport` fields,
    places of files whose digest is known, and `Later` fields at their default. Settings that this version lacks are
    hashed."""
    fields_by_section = cell_fields(names)

    def counts(key: str, value: Any) -> bool:
        section, _, name = key.partition(".")
        field = fields_by_section.get(section, {}).get(name)
        if section in excluded:
            return False
        if field is None or not (field.transport or field.located or field.later):
            return True
        digest = values.get(f"{section}.{settings.DIGEST}")
        return not (settings.is_transport(field, digest) or (field.later and value == field.default))

    return {key: value for key, value in values.items() if counts(key, value)}


def _excluded_roles(names: Names, values: Mapping[str, Any]) -> set[str]:
    """Return the roles that a cell's id leaves out: those that were added later (`AskingPart.later`) to every part that
    needs them, and that are unused because the setting which enables them has its default."""
    fields_by_section, needed, unasked = cell_fields(names), set[str](), set[str]()

    def usual(section: str, name: str) -> bool:
        default = fields_by_section[section][name].default
        return bool(values.get(f"{section}.{name}", default) == default)

    for part in names.parts:
        config = registry.get(part.kind, part.name)
        later = config.later if issubclass(config, AskingPart) else {}
        later_roles = {role for role, setting in later.items() if usual(part.role, setting)}
        unasked |= later_roles
        needed |= config.needs.keys() - later_roles
    return unasked - needed


def stage_identity(stage: str, keeps: Sequence[str]) -> str:
    """Return the text by which a cell's id hashes its pre-training stage: the stage's id, and the beginnings of the
    parameters' names that are kept of its policy unless all are."""
    return f"{stage}:{','.join(keeps)}" if keeps else stage


def identity(names: Names, version: Mapping[str, int], values: Mapping[str, Any], stage: str = "") -> str:
    """Return the id of a cell, computed identically from a plan and from a record. `values`: all of its settings;
    `stage`: `stage_identity` of its pre-training stage, or ""."""
    excluded = _excluded_roles(names, values)
    content = {
        "schema": SCHEMA,
        "suite": names.suite,
        "task": names.task,
        "method": names.method,
        "profile": names.profile,
        "parts": {part.role: [part.kind, part.name] for part in names.parts if part.role not in excluded},
        "versions": {role: number for role, number in version.items() if role not in excluded},
        "settings": _hashed(names, values, excluded),
        **({"stage": stage} if stage else {}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def score_of(suite: str, task: str) -> Score:
    """Return the score of a task's evaluation episodes in a registered suite with its default settings."""
    score: Score = registry.get("suite", suite)().score(task)
    return score


@registry.cached()
def versions(names: Names) -> Mapping[str, int]:
    """Return the versions of the suite, the method and the part in each role."""
    return {
        "suite": registry.get("suite", names.suite).version,
        "method": registry.get("method", names.method).version,
        **{part.role: registry.get(part.kind, part.name).version for part in names.parts},
    }


def section_config(names: Names, section: str) -> type | None:
    """Return the configuration class of a section; None if the cell lacks it, and for `drawing` if no part sees
    frames."""
    if section in PLAIN:
        return PLAIN[section]
    if section == "suite":
        return _class("suite", names.suite)
    if section == "drawing":
        suite: Any = _class("suite", names.suite)
        return suite.drawing if _looks(names) else None
    return next((_class(part.kind, part.name) for part in names.parts if part.role == section), None)


def _looks(names: Names) -> bool:
    """Return whether any part sees frames: a judge that is no oracle, or a part whose questions hold frames."""
    if any(registry.get("judge", part.name).backend != "oracle" for part in names.of("judge")):
        return True
    return any(registry.get(part.kind, part.name).shows_frames for part in names.of(*registry.ASKING))


def _class(kind: str, name: str) -> type:
    config_class: type = registry.get(kind, name)
    return config_class


def stage_task(recipe: Method, suite: str, task: str) -> str:
    """Return the task of a pre-training stage if the command names none: on its suite, before a run on `task`."""
    suite_task = str(registry.get("suite", suite).pretraining)
    return task if recipe.pretrains_on_own_task else suite_task or task


def task_of(suite: str, name: str, words: Mapping[str, Any] | None = None) -> str:
    """Return the task of a suite by name or alias. Raise UserError if there is none. `words`: as of
    `SuitePart.task_known`."""
    home = registry.get("suite", suite)
    task = str(home.aliases.get(name, name))
    if task not in home.tasks and not home.task_known(task, words):
        raise meanings.unknown_task(suite, name)
    return task


@registry.cached(65536)
def base_settings(names: Names) -> Mapping[str, Value]:
    """Return every setting of a cell without command-line overrides."""
    resolved: dict[str, Value] = {}
    for section, section_fields in cell_fields(names).items():
        for field in section_fields.values():
            key = f"{section}.{field.name}"
            resolved[key] = Value(settings.check(field, field.default, f"default: {key}"), "default", field.source)
    resolved |= _by_role(names, resolved)
    for called, layer in _layers(names):
        resolved |= {key: value for key, value in laid(names, layer, called, f"{called}: ") if value is not None}
    return resolved


def _by_role(names: Names, resolved: Mapping[str, Value]) -> dict[str, Value]:
    """Return the settings `ROLE.max_tokens` that asking parts set for their roles (`AskingPart.max_tokens`)."""
    limits: dict[str, Value] = {}
    for part in names.of(*registry.ASKING):
        for role, limit in registry.get(part.kind, part.name).max_tokens.items():
            key = f"{role}.max_tokens"
            if key in resolved:
                value, source = limit if isinstance(limit, Cited) else (limit, "")
                field = cell_fields(names)[role]["max_tokens"]
                limits[key] = Value(settings.check(field, value, f"{part}: {key}"), f"{part.kind} {part.name}", source)
    return limits


def laid(names: Names, layer: Layer, called: str, within: str = "") -> Iterator[tuple[str, Value | None]]:
    """Yield the settings of a layer that apply to this cell, checked, by `section.field`; None for a setting that the
    cell lacks, under the layer's own key. `called`: the layer's name in records; `within`: prefix of keys in
    errors."""
    for key, setting in layer.items():
        for target in targets(names, layer, key):
            section, name = target.split(".", 1)
            field = cell_fields(names).get(section, {}).get(name)
            if field is None:
                yield key, None
                continue
            value, source = setting if isinstance(setting, Cited) else (setting, "")
            yield target, Value(settings.check(field, value, f"{within}{target}"), called, source)


def targets(names: Names, layer: Layer, key: str) -> list[str]:
    """Return every `section.field` that a layer's key means. `learner.sac.batch_size` means each role of kind learner
    that SAC fills, or a part that takes SAC's settings (`Part.tuned_as`), unless the same layer has a key for that role
    or that part."""
    pieces = key.split(".")
    if len(pieces) != 3:
        target = target_of(names, key)
        return [] if target is None else [target]
    kind, name, field = pieces
    filled = [part for part in names.parts if (part.kind, part.name) == (kind, name) or part.named(kind, name)]
    specific_roles = {part.role for part in filled if part.role != kind and f"{part.role}.{name}.{field}" in layer}
    for part in names.of(kind):
        if registry.get(kind, part.name).tuned_as == name:
            filled.append(part)
            specific_roles |= {part.role for called in (kind, part.role) if f"{called}.{part.name}.{field}" in layer}
    return [f"{part.role}.{field}" for part in filled if part.role not in specific_roles]


def _layers(names: Names) -> Iterator[tuple[str, Layer]]:
    home = registry.get("suite", names.suite)
    recipe: Method = registry.get("method", names.method)
    if names.profile not in home.profiles:
        raise meanings.unknown_profile(names.suite, names.profile)
    profile = dict(home.profiles[names.profile])
    by_task = profile.pop("by_task", {}).get(names.task, {})
    profile.pop("tasks", None)  # it selects cells and is no setting
    yield f"suite {names.suite}", {k: v for k, v in home.defaults.items() if k != "by_task"}
    yield f"suite {names.suite} on {names.task}", home.defaults.get("by_task", {}).get(names.task, {})
    yield f"method {names.method}", recipe.defaults
    yield f"method {names.method} on {names.suite}", recipe.on_suite.get(names.suite, {})
    yield f"profile {names.profile}", profile
    yield f"profile {names.profile} on {names.task}", by_task
    needed = recipe.on_profile.get(names.suite, {}).get(names.profile, {})
    yield f"method {names.method} on {names.suite}, profile {names.profile}", needed


def target_of(names: Names, key: str) -> str | None:
    """Return the `section.field` that a key sets in this cell, or None: `role.name.field` applies only if that part
    fills the role."""
    pieces = key.split(".")
    if len(pieces) == 3:
        role, name, field = pieces
        return f"{role}.{field}" if any(part.named(role, name) for part in names.parts) else None
    return key if len(pieces) == 2 else None


@registry.cached(65536)
def cell_fields(names: Names) -> Mapping[str, Mapping[str, Field]]:
    """Return section -> field name -> Field for the sections of this cell."""
    fields_by_section = {}
    for section in names.sections:
        config = section_config(names, section)
        if config is not None:
            fields_by_section[section] = settings.fields(config)
    return fields_by_section


def filled_settings(names: Names, filled: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a set of models gives besides parts, checked. Raise UserError for one that the part
    lacks, and for an invalid value."""
    checked = {}
    for key, value in filled.items():
        section, _, name = key.partition(".")
        section_fields = cell_fields(names).get(section, {})
        if name not in section_fields:
            raise unknown(
                f"setting of {section} {names.part(section)!r} that a set of models gives:", name, section_fields
            )
        checked[key] = settings.check(section_fields[name], value, f"set of models: {key}")
    return checked


def resolve(
    names: Names,
    overrides: Mapping[str, Any],
    named: Mapping[str, Any],
    stand_ins: StandIns = NO_STAND_INS,
    difficulty: Mapping[str, Value] = NO_SETTINGS,
) -> Cell:
    """Return the cell of these names with command-line `overrides` (`section.field` -> checked value).

    `named` holds parts that the command line replaced; they appear in the row name but are not settings. `difficulty`:
    settings of a difficulty (`of_difficulty`), which count as typed where `overrides` has no value.
    """
    words = {**difficulty, **{key: Value(value, COMMAND, "") for key, value in overrides.items()}}
    typed = {key: value.value for key, value in words.items()}
    cell = Cell(names, {**base_settings(names), **words}, {**named, **typed}, stand_ins=stand_ins)
    return settled(_suite_settled(cell))


def _suite_settled(cell: Cell) -> Cell:
    """Return the cell with the settings that follow from the suite's others (`SuitePart.settle`). Raise UserError if a
    setting is missing that has no default on the suite."""
    suite, origin = cell.section("suite"), f"suite {cell.names.suite}"
    if missing := next((key for key in suite.required if cell.settings[key].layer == "default"), None):
        raise UserError(f"{missing} has no default on suite {cell.names.suite}; add {missing}=…")
    following = {
        key: Value(setting, origin, "it follows from the task")
        for key, setting in suite.settle(cell.names.task).items()
        if key in cell.settings
    }
    remarks = {
        f"suite.{name}": remark for name, remark in suite.remarked.items()
        if f"suite.{name}" in following and following[f"suite.{name}"].value == remark
    }  # fmt: skip
    overrides = {key: following[key].value if key in following else cell.overrides[key] for key in cell.overrides}
    return replace(cell, settings={**cell.settings, **following}, overrides={**overrides, **remarks})


def of_difficulty(names: Names, layer: Layer) -> dict[str, Value]:
    """Return the settings of a difficulty that this cell has, checked, as the command line gives them."""
    return {key: value for key, value in laid(names, layer, COMMAND, "difficulty: ") if value is not None}


def settled(cell: Cell) -> Cell:
    """Return the cell with the settings that follow from its others: widths of vectors, and a single evaluation
    episode where all of a run's are equal."""
    return _evaluated_once(_widths_followed(cell))


def _widths_followed(cell: Cell) -> Cell:
    """Return the cell in which parts expect vectors as wide as those of their embedders (`AskingPart.widths`), except
    where an override sets a width."""
    followed = {
        key: Value(width, str(next(part for part in cell.names.parts if part.role == role)), "the width of its vectors")
        for key, role, width in _widths(cell)
        if key not in cell.overrides and cell.settings[key].value != width
    }
    return replace(cell, settings={**cell.settings, **followed}) if followed else cell


def _widths(cell: Cell) -> Iterator[tuple[str, str, int]]:
    """Yield (setting, role, width) for each setting that must equal the width of the vectors of the embedder in `role`,
    if the embedder is used and its width is known."""
    for part in cell.names.of(*registry.ASKING):
        widths = registry.get(part.kind, part.name).widths
        for name, role in widths.items():
            if role in cell.section(part.role).unasked:
                continue
            if (width := cell.section(role).dimensions()) is not None:
                yield f"{part.role}.{name}", role, width


def _check_widths(cell: Cell) -> None:
    """Raise UserError if a part expects vectors of another width than its embedder gives."""
    for key, role, width in _widths(cell):
        if (expected := cell.settings[key].value) != width:
            raise UserError(
                f"the {role}'s vectors have {width} numbers, and {key}={expected}; set {key}={width}, or leave {key} "
                f"out: it follows the embedder"
            )


def _evaluated_once(cell: Cell) -> Cell:
    """Return the cell, with one evaluation episode, regardless of its layers, if all episodes of a run are equal."""
    names = cell.names
    if cell.section("agent").stochastic or not cell.section("suite").repeats(names.task):
        return cell
    one = Value(1, f"suite {names.suite}", "all episodes of a run are equal here, so one suffices")
    overrides = {key: value for key, value in cell.overrides.items() if key != EPISODES}
    return replace(cell, settings={**cell.settings, EPISODES: one}, overrides=overrides)


def cell_view(cell: Cell, suite: Any = None, task: str | None = None) -> CellView:
    """Return the cell as its parts see it in `fits`, optionally with another suite and task."""
    suite, task = suite or cell.section("suite"), task or cell.names.task
    observations, actions = suite.spaces(cell.names.task)
    agent_observations = cell.section("agent").observes(observations, actions)
    return CellView({**cell.sections, "suite": suite}, cell.names.task, agent_observations, actions)


def validate(cell: Cell) -> None:
    """Raise UserError if the parts of a cell do not fit each other or the suite's spaces."""
    _ = cell.sections, cell.logs
    suite, place = cell.section("suite"), cell_view(cell)
    if reason := suite.fits(place):
        raise UserError(f"suite {cell.names.suite!r}, task {cell.names.task!r}: {reason}")
    for chosen in cell.names.parts:
        if reason := cell.section(chosen.role).fits(place):
            default_learner = learner_of(suite, cell.names.task)
            mended = chosen.kind == "learner" and default_learner != chosen.name
            raise UserError(
                f"{chosen} does not fit suite {cell.names.suite!r}, task {cell.names.task!r}: "
                + in_role(reason, chosen.kind, chosen.role)
                + (f"; the suite's default for this task is {chosen.role}={default_learner}" if mended else "")
            )
    for role, instead in cell.standing.roles:
        if not instead:
            kind = next(part.kind for part in cell.names.parts if part.role == role)
            raise unfilled(cell.stand_ins.models, role, kind, cell.names.method, cell.names.suite)
    _check_widths(cell)
    _check_losses(cell)
    _check_solver(cell)
    models = [(part.role, cell.section(part.role)) for part in cell.names.of(*registry.MODELS)]
    for role, model in models:
        answering.check_choices(cell.names.parts, role, model)
    answering.check(
        cell.names.parts, tuple((role, model.answer_form) for role, model in models if model.answer_form != TEXT)
    )
    arrays.every(cell.names.parts, place)
    for role in answering.consulted_roles(cell.names.parts):
        if f"{role}.delay" in cell.overrides:
            raise UserError(f"{role}.delay is given, but answers of {role!r} are awaited without delay; leave it out")
    asking_models = [
        str(chosen) for chosen in cell.names.of(*registry.ASKING)
        if {*registry.MODELS, registry.HUMAN}.intersection((part := cell.section(chosen.role)).needs.values())
        and not part.each_goal
    ]  # fmt: skip
    if asking_models and cell.names.task in suite.by_turns:
        raise UserError(
            f"task {cell.names.task!r} of suite {cell.names.suite!r} changes its goal in each episode, and "
            f"{' and '.join(asking_models)} needs a fixed goal; choose a single task"
        )
    if cell.stage and INSTRUCTION in cell_view(cell.stage).observations.parts.keys() - place.observations.parts.keys():
        raise UserError(
            f"the policy of the pre-training stage {cell.stage.directory} reads the goal's vector, and observations of "
            f"{cell.names.suite}/{cell.names.task} have none; choose the setting of the suite that shows it "
            f"(`bench show suite={cell.names.suite}` lists them)"
        )
    if cell.stage and (before := cell_view(cell.stage).actions) != place.actions:
        raise UserError(
            f"the policy of the pre-training stage {cell.stage.directory} does not fit {cell.names.suite}/"
            f"{cell.names.task}: it chooses {_chosen_from(before)}, and here are {_chosen_from(place.actions)}; let "
            f"both have the same actions{_differing_settings(cell)}, or set {PRETRAINING}={NONE}"
        )
    if cell.section("agent").inherits and not any(stage.section("agent").learns for stage in cell.stages):
        stage_text = "the pre-training stage learns nothing either" if cell.stage else "it has no pre-training stage"
        raise UserError(
            f"{cell.names.method} evaluates what a pre-training stage has learnt, and {stage_text}; name a method that "
            f"learns with {PRETRAINING}=…"
        )
    training, evaluation = cell.section("training"), cell.section("evaluation")
    for role, learner in ((chosen.role, cell.section(chosen.role)) for chosen in cell.names.of("learner")):
        if cell.section("agent").learns and learner.learning_starts >= training.steps:
            raise UserError(
                f"training.steps={training.steps} ends before {role}.learning_starts={learner.learning_starts}: "
                f"nothing would be learnt; raise training.steps or lower {role}.learning_starts"
            )
        if learner.batch_size > training.capacity:
            raise UserError(
                f"{role}.batch_size={learner.batch_size} is larger than training.capacity={training.capacity}; "
                f"lower the batch size or raise the capacity"
            )
    if training.demonstrations and not demonstrates(suite, cell.names.task):
        raise UserError(
            f"training.demonstrations={training.demonstrations} is given, but suite {cell.names.suite!r} has no "
            f"solver that demonstrates the task {cell.names.task!r}; leave it out"
        )
    if evaluation.every > training.steps:
        raise UserError(
            f"evaluation.every={evaluation.every} is longer than training.steps={training.steps}; "
            f"lower evaluation.every"
        )


def _differing_settings(cell: Cell) -> str:
    """Return a note for an error on the suite settings in which a cell differs from its stage; "" if they agree or if
    the suites differ."""
    stage = cell.stage
    if stage is None or stage.names.suite != cell.names.suite:
        return ""
    keys = [key for key in cell.settings if key.startswith("suite.") and key in stage.settings]
    differing = [key for key in keys if cell.settings[key].value != stage.settings[key].value]
    return f" (here {', '.join(f'{key}={cell.settings[key].value}' for key in differing)}: say it of both)" * bool(
        differing
    )


def _chosen_from(actions: Actions) -> str:
    return f"one of {actions.count} actions" if actions.discrete else f"{actions.shape[0]} continuous actions"


def _check_solver(cell: Cell) -> None:
    """Raise UserError if a model answers with the action of the suite's solver in the present state, and there is no
    solver, or the cell learns from steps of other tasks than the run's."""
    for part in cell.names.of(*registry.MODELS):
        if not cell.section(part.role).follows_solver:
            continue
        subject = f"{part} answers with the action of the suite's own solver"
        if not demonstrates(cell.section("suite"), cell.names.task):
            raise UserError(
                f"{subject}, and no solver comes with the task {cell.names.task!r} of suite {cell.names.suite!r}; "
                f"choose another {part.role}=…, or a task with a solver"
            )
        if cell.section("training").demonstrations or cell.names.of("dataset"):
            raise UserError(
                f"{subject} in the present state, and the states of demonstrations and datasets are past; choose "
                f"another {part.role}=…, or training.demonstrations=0 and no dataset"
            )


def _check_losses(cell: Cell) -> None:
    """Raise UserError if a part adds to the loss of a parameter group that no learner of the cell has."""
    learners = {part: cell.section(part.role).groups for part in cell.names.of("learner")}
    for part in cell.names.of(*registry.ASKING):
        for group in cell.section(part.role).adds:
            if not any(group in groups for groups in learners.values()):
                has = "; ".join(f"{learner} has {', '.join(groups) or 'none'}" for learner, groups in learners.items())
                raise UserError(
                    f"{part} adds to the loss of {group!r}, a group of parameters that no learner here has ({has}); "
                    f"choose another learner"
                )
