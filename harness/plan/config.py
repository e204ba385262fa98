"""From names and overrides to cells: layers resolved field by field, each value with the layer that set it.

Precedence: part's own default < suite < method < method on this suite < profile < command line. A cell's id is the
hash of what can change its results: names, versions and every resolved value; never seeds, paths, launcher or device.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from guidebench.harness import registry, settings
from guidebench.harness.capabilities import Demonstrates
from guidebench.harness.errors import UserError, a, in_role, unknown
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.logs import Log, together
from guidebench.harness.parts import There
from guidebench.harness.plan import answering, arrays
from guidebench.harness.plan.names import Chosen, Names
from guidebench.harness.recipes import Evaluation, Layer, Method, Training
from guidebench.harness.records.schema import ASKING as WRITTEN_OF
from guidebench.harness.records.schema import RESERVED, SCHEMA_VERSION
from guidebench.harness.settings import Cited, Field

PLAIN: Mapping[str, type] = {"training": Training, "evaluation": Evaluation}
PROFILES = ("paper", "quick", "smoke")
EPISODES = "evaluation.episodes"
SCHEMA = SCHEMA_VERSION
"""The version of the form that a cell's id hashes; it is that of records."""


class Value(NamedTuple):
    """A resolved setting: what it is, which layer set it, and the source that layer cites."""

    value: Any
    layer: str
    source: str


@dataclass(frozen=True)
class Cell:
    """Suite × task × method × resolved configuration; with a seed it is a run."""

    names: Names
    settings: Mapping[str, Value]
    overrides: Mapping[str, Any]
    """What the command line set, for the row's name."""

    @functools.cached_property
    def id(self) -> str:
        values = {key: value.value for key, value in self.settings.items() if not _transport(self.names, key)}
        return identity(self.names, versions(self.names), values)

    @property
    def steps(self) -> int:
        return int(self.settings["training.steps"].value)

    @property
    def score(self) -> Score:
        """What its evaluation episodes are judged by; in no id, since it changes no run."""
        return score_of(self.names.suite, self.names.task)

    @property
    def directory(self) -> str:
        """Of this cell, relative to its study."""
        return f"{self.names.suite}/{self.names.task}/{self.names.method}-{self.id}"

    @property
    def variant(self) -> str:
        """What sets this cell apart from its method's recipe, as it stands in row names beside its `model`."""
        models = [f"{part.role}.model" for part in self.models]
        shown = {key: value for key, value in self.overrides.items() if key not in models}
        return ", ".join(
            f"{key}={_brief(value)}" for key, value in sorted(shown.items()) if not _transport(self.names, key)
        )

    @property
    def models(self) -> tuple[Chosen, ...]:
        """The parts that are models, which others ask."""
        return self.names.of(*registry.MODELS)

    @property
    def judge(self) -> str:
        """The role of the judge that probes and filmstrips show: one that a replay needs, or else the first; "" where
        the cell has none."""
        roles = [part.role for part in self.names.of("judge")]
        needed = {role for part in self.names.of("replay") for role in self.section(part.role).needs}
        return next((role for role in roles if role in needed), next(iter(roles), ""))

    @property
    def answering(self) -> tuple[Chosen, ...]:
        """The parts whose word guides the learner: models, and teachers that ask none."""
        alone = (
            part for part in self.names.of("teacher")
            if not {*registry.MODELS} & set(self.section(part.role).needs.values())
        )  # fmt: skip
        return (*self.models, *alone)

    @property
    def model(self) -> str:
        """What answers, each once: a foundation model by its own name, anything else by its part's; "" where nothing
        does."""
        return "+".join(dict.fromkeys(self.called(part) for part in self.answering))

    def called(self, part: Chosen) -> str:
        """The name of what answers in a role, without the path or the organisation in front of it."""
        name = str(getattr(self.section(part.role), "model", "") or part.name)
        return name.rstrip("/").rsplit("/", 1)[-1]

    @property
    def backend(self) -> str:
        """How what answers is reached, each way once; "" where nothing does."""
        return "+".join(dict.fromkeys(self.section(part.role).backend for part in self.answering))

    @property
    def learner(self) -> str:
        """What learns, each learner once."""
        return "+".join(dict.fromkeys(part.name for part in self.names.of("learner")))

    @property
    def logs(self) -> Mapping[str, Log]:
        """The logs that its parts declare; UserError where a declaration is not allowed or contradicts another."""
        return _logs(self.names)

    def logged_by(self, log: str) -> str:
        """The first part that declares a log, in words."""
        return next((who for who, logs in _declared(self.names) if log in logs), "the engine")

    def section(self, name: str) -> Any:
        """The built configuration dataclass of a section, or None for a part that this cell has not."""
        return self.sections.get(name)

    @functools.cached_property
    def sections(self) -> Mapping[str, Any]:
        """The built configuration dataclass of every section that this cell has. Its settings were checked as they were
        given, or as a record was read."""
        base = base_settings(self.names)
        own: dict[str, list[tuple[str, Any]]] = {}
        for key, value in self.settings.items():
            if value is not base.get(key):
                section, field = key.split(".", 1)
                own.setdefault(section, []).append((field, value.value))
        return {**_usual(self.names), **{name: _changed(self.names, name, tuple(own[name])) for name in own}}


@functools.lru_cache(maxsize=4096)
def _logs(names: Names) -> Mapping[str, Log]:
    asked = [WRITTEN_OF[kind] for kind in WRITTEN_OF if names.of(kind)]
    return functools.reduce(operator.or_, map(dict, asked), together(_declared(names), RESERVED))


@functools.lru_cache(maxsize=4096)
def _usual(names: Names) -> Mapping[str, Any]:
    """The built configuration of every section before the command line."""
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


@functools.lru_cache(maxsize=65536)
def _changed(names: Names, section: str, own: tuple[tuple[str, Any], ...]) -> Any:
    """The configuration of a section with these fields."""
    return _built(names, section, functools.partial(replace, _usual(names)[section], **dict(own)))


def _built(names: Names, section: str, build: Callable[[], Any]) -> Any:
    """A configuration; what it says against its settings is told by the section in which they stand."""
    try:
        return build()
    except UserError as error:
        kind = next((part.kind for part in names.parts if part.role == section), section)
        raise UserError(in_role(str(error), kind, section)) from None


def _declared(names: Names) -> list[tuple[str, Mapping[str, Log]]]:
    """Each part of a cell in words, and the logs that it declares."""
    return [(str(part), registry.get(part.kind, part.name).logs) for part in names.parts]


LONGEST = 60
"""Characters of a value in a row's name; of a longer one, such as a prompt, its beginning and a digest stand there."""


def _brief(value: Any) -> str:
    text = settings.show(value)
    if len(text) <= LONGEST:
        return text
    return f"{' '.join(text[:20].split())}…{hashlib.sha256(text.encode()).hexdigest()[:6]}"


@functools.lru_cache(maxsize=65536)
def _transport(names: Names, key: str) -> bool:
    """Whether a setting decides only how something is reached; such a one is no part of a cell's id or name."""
    section, _, name = key.partition(".")
    field = cell_fields(names).get(section, {}).get(name)
    return field is not None and field.transport


def identity(names: Names, version: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """The id of a cell, computed the same way from a plan and from a record."""
    content = {
        "schema": SCHEMA,
        "suite": names.suite,
        "task": names.task,
        "method": names.method,
        "profile": names.profile,
        "parts": {part.role: [part.kind, part.name] for part in names.parts},
        "versions": version,
        "settings": values,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def score_of(suite: str, task: str) -> Score:
    """What a registered suite judges the evaluation episodes of a task by."""
    scores: Mapping[str, Score] = registry.get("suite", suite).scores
    return scores.get(task, SUCCESS)


@functools.cache
def versions(names: Names) -> Mapping[str, int]:
    """Version of suite, method and the part in each role; raised by its author when results change."""
    return {
        "suite": registry.get("suite", names.suite).version,
        "method": registry.get("method", names.method).version,
        **{part.role: registry.get(part.kind, part.name).version for part in names.parts},
    }


def section_config(names: Names, section: str) -> type | None:
    """The configuration class behind a section of this cell; None for a part that it has not, and for `drawing` where
    nobody looks at frames."""
    if section in PLAIN:
        return PLAIN[section]
    if section == "suite":
        return _class("suite", names.suite)
    if section == "drawing":
        suite: Any = _class("suite", names.suite)
        return suite.drawing if _looks(names) else None
    return next((_class(part.kind, part.name) for part in names.parts if part.role == section), None)


def _looks(names: Names) -> bool:
    """Whether anybody sees frames. An oracle reads the task's own state, and only some teachers and guides show any."""
    if any(registry.get("judge", part.name).backend != "oracle" for part in names.of("judge")):
        return True
    return any(registry.get(part.kind, part.name).shows_frames for part in names.of(*registry.ASKING))


def _class(kind: str, name: str) -> type:
    found: type = registry.get(kind, name)
    return found


def parts_of(suite: str, task: str, method: str, profile: str, chosen: Mapping[str, str]) -> tuple[Chosen, ...]:
    """The parts of a cell, as `Names` has them; `chosen`: role -> name, of those that the command line names.

    They follow from what the agent needs, and from what that needs in turn. A part that neither the command line nor
    the method names is the suite's: a judge is named by the suite's profile, since a hand-written one may stand in for
    the paper's model where minutes count and nowhere else.
    """
    recipe: Method = registry.get("method", method)
    home = registry.get("suite", suite)
    if profile not in home.profiles:
        raise unknown(f"profile of suite {suite!r}:", profile, home.profiles)
    suites = {"learner": learner_of(home, task), "judge": str(home.profiles[profile].get("judge", ""))}
    found: dict[str, tuple[Chosen, str]] = {}
    waiting = [("agent", "agent", f"method {method!r}")]
    while waiting:
        role, kind, who = waiting.pop(0)
        if kind == registry.HUMAN:  # a person is no part
            continue
        if role in found:
            known, first = found[role]
            if known.kind != kind:
                raise UserError(
                    f"{first} needs {a(known.kind)} in the role {role!r} and {who} needs {a(kind)}: parts of one "
                    f"method share a role only for the same kind of part; rename one of the two"
                )
            continue
        name = chosen.get(role) or recipe.named(role, kind) or suites.get(kind, "")
        if not name:
            raise UserError(
                f"method {method!r} needs {a(kind)} as {role!r} and suite {suite!r} names none in its profile "
                f"{profile!r}; name one with {role}=… (known: {', '.join(registry.names(kind))})"
            )
        part = Chosen(role, kind, name)
        found[role] = part, who
        needs = registry.get(kind, name).needs
        waiting += [(other, of, f"{kind} {name!r}") for other, of in needs.items()]
    for role in recipe.roles.keys() - found.keys():  # another guide may need it; a role that nobody needs is misspelt
        if role not in registry.roles():
            raise UserError(
                f"method {method!r} names {recipe.roles[role]!r} for the role {role!r}, which no part needs; its "
                f"own parts need the roles {', '.join(sorted(found))}"
            )
    return tuple(sorted((part for part, _ in found.values()), key=lambda p: (registry.KINDS.index(p.kind), p.role)))


def learner_of(home: Any, task: str) -> str:
    """The learner that a suite means on a task where nobody names one."""
    return str(home.learners.get(task, home.learner))


def task_of(suite: str, name: str) -> str:
    """The task that a suite means by a name, which may be an alias; UserError for one that it has not."""
    home = registry.get("suite", suite)
    task = str(home.aliases.get(name, name))
    if task not in home.tasks:
        raise unknown(f"task of suite {suite!r}:", task, home.tasks)
    return task


@functools.lru_cache(maxsize=65536)
def base_settings(names: Names) -> Mapping[str, Value]:
    """Every setting of a cell before the command line."""
    found: dict[str, Value] = {}
    for section, known in cell_fields(names).items():
        for field in known.values():
            key = f"{section}.{field.name}"
            found[key] = Value(settings.check(field, field.default, f"default: {key}"), "default", field.source)
    for called, layer in _layers(names):
        found |= {key: value for key, value in laid(names, layer, called, f"{called}: ") if value is not None}
    return found


def laid(names: Names, layer: Layer, called: str, within: str = "") -> Iterator[tuple[str, Value | None]]:
    """The settings of a layer that mean this cell, checked, by `section.field`; None for one that the cell does not
    have, under the key that the layer gives it. `called`: what the layer is called in records; `within`: what precedes
    a key in errors."""
    for key, given in layer.items():
        for target in _targets(names, layer, key):
            section, name = target.split(".", 1)
            field = cell_fields(names).get(section, {}).get(name)
            if field is None:
                yield key, None
                continue
            value, source = given if isinstance(given, Cited) else (given, "")
            yield target, Value(settings.check(field, value, f"{within}{target}"), called, source)


def _targets(names: Names, layer: Layer, key: str) -> list[str]:
    """Return every `section.field` that a layer's key means. `learner.sac.batch_size` means each role of kind learner
    that SAC fills, unless the same layer has a key for that role."""
    pieces = key.split(".")
    if len(pieces) != 3:
        target = target_of(names, key)
        return [] if target is None else [target]
    kind, name, field = pieces
    filled = [part for part in names.parts if part.name == name and kind in (part.role, part.kind)]
    own = {part.role for part in filled if part.role != kind and f"{part.role}.{name}.{field}" in layer}
    return [f"{part.role}.{field}" for part in filled if part.role not in own]


def _layers(names: Names) -> Iterator[tuple[str, Layer]]:
    home = registry.get("suite", names.suite)
    recipe: Method = registry.get("method", names.method)
    if names.profile not in home.profiles:
        raise unknown(f"profile of suite {names.suite!r}:", names.profile, home.profiles)
    profile = dict(home.profiles[names.profile])
    by_task = profile.pop("by_task", {}).get(names.task, {})
    for name in ("tasks", "judge"):  # they decide which cells there are and of what, not how those are set
        profile.pop(name, None)
    yield f"suite {names.suite}", {k: v for k, v in home.defaults.items() if k != "by_task"}
    yield f"suite {names.suite} on {names.task}", home.defaults.get("by_task", {}).get(names.task, {})
    yield f"method {names.method}", recipe.defaults
    yield f"method {names.method} on {names.suite}", recipe.on_suite.get(names.suite, {})
    yield f"profile {names.profile}", profile
    yield f"profile {names.profile} on {names.task}", by_task


def target_of(names: Names, key: str) -> str | None:
    """`section.field` that a key means in this cell; `role.name.field` counts only where that part is chosen."""
    pieces = key.split(".")
    if len(pieces) == 3:
        role, name, field = pieces
        return f"{role}.{field}" if name and names.part(role) == name else None
    return key if len(pieces) == 2 else None


@functools.lru_cache(maxsize=65536)
def cell_fields(names: Names) -> Mapping[str, Mapping[str, Field]]:
    """Section -> field name -> Field, for the sections that this cell has."""
    found = {}
    for section in names.sections:
        config = section_config(names, section)
        if config is not None:
            found[section] = settings.fields(config)
    return found


def resolve(names: Names, overrides: Mapping[str, Any], named: Mapping[str, Any]) -> Cell:
    """The cell of these names with command-line `overrides` (`section.field` -> checked value) on top.

    `named` holds part names that the command line swapped, which belong to the row's name but are not settings.
    """
    values = dict(base_settings(names))
    for key, value in overrides.items():
        values[key] = Value(value, "command line", "")
    return evaluated_once(Cell(names, values, {**named, **overrides}))


def evaluated_once(cell: Cell) -> Cell:
    """The cell with one evaluation episode where every episode of a run is the same, whatever any layer says."""
    names = cell.names
    if not cell.section("suite").repeats(names.task):
        return cell
    one = Value(1, f"suite {names.suite}", "every further episode would be the first again")
    overrides = {key: value for key, value in cell.overrides.items() if key != EPISODES}
    return Cell(names, {**cell.settings, EPISODES: one}, overrides)


def there(cell: Cell, suite: Any = None, task: str | None = None) -> There:
    """The cell as its parts see it when they say whether they fit, or with its parts on another suite and task."""
    suite, task = suite or cell.section("suite"), task or cell.names.task
    return There(
        {**cell.sections, "suite": suite},
        cell.names.task,
        *suite.spaces(cell.names.task),
    )


def validate(cell: Cell) -> None:
    """Raise UserError where the parts of a cell do not fit each other or its suite's spaces."""
    _ = cell.sections, cell.logs
    suite, place = cell.section("suite"), there(cell)
    for chosen in cell.names.parts:
        if reason := cell.section(chosen.role).fits(place):
            own = learner_of(suite, cell.names.task)
            mended = chosen.kind == "learner" and own != chosen.name
            raise UserError(
                f"{chosen} does not fit suite {cell.names.suite!r}, task {cell.names.task!r}: "
                + in_role(reason, chosen.kind, chosen.role)
                + (f"; the suite's own there is {chosen.role}={own}" if mended else "")
            )
    _check_losses(cell)
    answering.check(cell.names.parts)
    arrays.every(cell.names.parts, place)
    for role in answering.consulted(cell.names.parts):
        if f"{role}.delay" in cell.overrides:
            raise UserError(f"{role}.delay is given, and the answers of {role!r} are waited for at once; leave it out")
    asking = [
        str(chosen) for chosen in cell.names.of(*registry.ASKING)
        if {*registry.MODELS, registry.HUMAN}.intersection(cell.section(chosen.role).needs.values())
    ]  # fmt: skip
    if asking and cell.names.task in suite.by_turns:
        raise UserError(
            f"task {cell.names.task!r} of suite {cell.names.suite!r} asks for something else in each episode, and "
            f"{' and '.join(asking)} asks about one thing; choose a single task"
        )
    training, evaluation = cell.section("training"), cell.section("evaluation")
    for role, learner in ((chosen.role, cell.section(chosen.role)) for chosen in cell.names.of("learner")):
        if learner.learning_starts >= training.steps:
            raise UserError(
                f"training.steps={training.steps} ends before {role}.learning_starts={learner.learning_starts}: "
                f"nothing would be learnt; raise training.steps or lower {role}.learning_starts"
            )
        if learner.batch_size > training.capacity:
            raise UserError(
                f"{role}.batch_size={learner.batch_size} is larger than training.capacity={training.capacity}; "
                f"lower the one or raise the other"
            )
    if training.demonstrations and not isinstance(suite, Demonstrates):
        raise UserError(
            f"training.demonstrations={training.demonstrations}, and suite {cell.names.suite!r} has no solver that "
            f"demonstrates; leave it out"
        )
    if evaluation.every > training.steps:
        raise UserError(
            f"evaluation.every={evaluation.every} is longer than training.steps={training.steps}; "
            f"lower evaluation.every"
        )


def _check_losses(cell: Cell) -> None:
    """UserError for a part that adds to the loss of a group of parameters that no learner of the cell has."""
    learners = {chosen: cell.section(chosen.role).groups for chosen in cell.names.of("learner")}
    for chosen in cell.names.of(*registry.ASKING):
        for group in cell.section(chosen.role).adds:
            if not any(group in groups for groups in learners.values()):
                has = "; ".join(f"{learner} has {', '.join(groups) or 'none'}" for learner, groups in learners.items())
                raise UserError(
                    f"{chosen} adds to the loss of {group!r}, a group of parameters that no learner here has ({has}); "
                    f"choose another learner"
                )
