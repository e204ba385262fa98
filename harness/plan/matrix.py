"""Parses a command line into a plan: overrides and sweeps in Hydra's grammar, expanded to cells and seeds.

    suite=minigrid_doorkey method=uer,vlm_rb replay.lambda_max=0.25,0.5 seeds=5 profile=quick

A list sweeps. Sweeping a setting expands only the methods that have it; a setting that no method has is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from guidebench.harness import meanings, registry, settings
from guidebench.harness.errors import LISTED, UserError, a
from guidebench.harness.execution import Execution, Models
from guidebench.harness.parts import NOTHING, LauncherPart
from guidebench.harness.plan import config, difficulties, roles, unknown_words
from guidebench.harness.plan.config import COMMAND, Cell
from guidebench.harness.plan.contents import Digests
from guidebench.harness.plan.grammar import KINDS, NAME_KEYS, Override, parse
from guidebench.harness.plan.names import Names, StandIns
from guidebench.harness.plan.unknown_words import methods_of, roles_of
from guidebench.harness.recipes import Layer
from guidebench.harness.records.schema import STAGES, label

if TYPE_CHECKING:
    from guidebench.harness.plan.claim_rows import PlannedClaims

NESTED = {"models": "models", "launching": "launcher"}
"""Field of `Execution` that holds settings -> their section in a command."""
DEFAULT_SEEDS = (0, 1, 2, 3, 4)
MAX_SEED = 2**32 - 1
MOST_SEEDS, MOST_CELLS = 10_000, 100_000
"""Maximum number of seeds and of cells in one command; more is assumed to be a typing error."""


class InMatrix(NamedTuple):
    """A cell's place among the variations of a reference (`guidebench.harness.plan.variations`)."""

    kind: Literal["ablation", "perturbation"]
    name: str
    """Name of the cell within its matrix."""
    reference: str
    """Id of the reference cell; the cell's own id if it is the reference."""
    overrides: str
    """Overrides that the command line set in every cell of the matrix."""

    @property
    def variant(self) -> str:
        return f"{self.name}; {self.overrides}" if self.overrides else self.name


@dataclass(frozen=True)
class Plan:
    """The cells and seeds of one command, and its execution settings."""

    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    execution: Execution
    command: tuple[str, ...]
    matrix: Mapping[str, InMatrix] = field(default_factory=dict)
    """Cell id -> its place in a matrix, for cells that belong to one."""
    claims: PlannedClaims | None = None
    """The claims that a command names with `claims=FILE`; None for any other command."""

    @property
    def trained(self) -> tuple[Cell, ...]:
        """Return the cells and, before them, the pre-training stages that they begin from, each once."""
        stages = [stage for cell in self.cells for stage in cell.stages]
        return tuple({cell.id: cell for cell in (*stages, *self.cells)}.values())

    @property
    def name(self) -> str:
        """Return the name of the study: suites, methods, profiles and a hash of its cell ids, without seeds and
        paths."""
        suites = "+".join(_distinct(cell.names.suite for cell in self.cells))
        methods = "+".join(_distinct(cell.names.method for cell in self.cells))
        kinds = "".join(f"-{kind}" for kind in _distinct(place.kind for place in self.matrix.values()))
        profiles = "+".join(_distinct(cell.names.profile for cell in self.cells))
        digest = hashlib.sha256(json.dumps(sorted(cell.id for cell in self.cells)).encode()).hexdigest()[:6]
        readable = f"{suites}-{methods}{kinds}-{profiles}"
        return f"{readable if len(readable) <= 60 else readable[:57] + '…'}-{digest}"

    def variant(self, cell: Cell) -> str:
        """Return the overrides shown in the row name of `cell`, or its name in the matrix."""
        return self.matrix[cell.id].variant if cell.id in self.matrix else cell.variant

    def place(self, cell: Cell) -> dict[str, Any]:
        """Return the place of `cell` in a matrix as JSON for records, under `matrix`; empty if it has none."""
        if cell.id not in self.matrix:
            return {}
        kind, name, reference, _ = self.matrix[cell.id]
        return {"matrix": {"kind": kind, "name": name, "reference": reference}}

    def row(self, cell: Cell) -> str:
        """Return the name of the cell's row in every table."""
        return label(cell.names.method, "", cell.model, cell.names.profile, self.variant(cell))


@dataclass(frozen=True)
class Words:
    """The overrides of a command that describe cells: names, parts, settings, and those of a pre-training stage."""

    names: Mapping[str, Override]
    """`NAME_KEYS`: what to run."""
    parts: Mapping[str, Override]
    """Role -> the part in it."""
    settings: Mapping[str, Override]
    """`section.field` or `role.name.field` -> values."""
    difficulty: Layer = field(default_factory=dict)
    """The settings of the difficulty that the command names, without those that it also types in the same form, and
    over them those that a study's claims share among their rows. They apply where a cell has them (`config.laid`), and
    a typed setting has precedence."""
    stage: Words | None = None
    """The words with the prefix `pretraining.`, without it; None if there are none."""

    def override_keys(self) -> list[str]:
        """Return the keys of the parts and settings, and all of the stage with its prefix."""
        before = [*self.stage.names, *self.stage.override_keys()] if self.stage else []
        return [*self.parts, *self.settings, *(f"{PREFIX}{key}" for key in before)]

    def on_suite(self, suite: str) -> Iterator[Words]:
        """Yield the words with each difficulty of this suite that they name expanded, once if they name none. Raise
        UserError for a difficulty that the suite lacks."""
        for name in _names(self.names, config.DIFFICULTY, (), [*registry.get("suite", suite).difficulties]) or ("",):
            if not name:
                yield self
                continue
            chosen = {key: Override(key, (value,), False) for key, value in difficulties.chosen(suite, name).items()}
            layer = {key: cited for key, cited in difficulties.layer(suite, name).items() if key not in self.settings}
            yield replace(self, names={**chosen, **self.names}, difficulty={**layer, **self.difficulty})


PREFIX = f"{config.PRETRAINING}."
OF_CELLS = ("suite", *config.PLAIN, "drawing", *(kind for kind in KINDS if kind not in registry.MODELS))
"""Sections and roles that are no models."""
NOT_OF_STAGES = ("seeds", "method", config.DIFFICULTY)
"""`NAME_KEYS` that a pre-training stage has not."""


def plan(overrides: Sequence[str], shared: Layer = NOTHING) -> Plan:
    """Return the plan that `overrides` describe. Raise UserError for the first invalid override. `shared`: settings of
    several commands, which apply where a cell has them, as those of a difficulty do."""
    parsed = parse(overrides)
    if any(override.key == "claims" for override in parsed):
        from guidebench.harness.plan import claim_rows  # plans each row as a command of its own

        return claim_rows.plan(overrides)
    by_key: dict[str, Override] = {}
    for override in parsed:
        if override.key in by_key:
            raise unknown_words.twice(override.key, [*by_key[override.key].values, *override.values])
        by_key[override.key] = override
    execution_fields = {name: setting for name, setting in settings.fields(Execution).items() if name not in NESTED}
    execution_values: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {section: {} for section in NESTED.values()}
    for key in [*by_key]:
        section, _, name = key.partition(".")
        if name and section in nested and not _is_argument(key):
            nested[section][name] = _plain(by_key.pop(key))
        elif key in execution_fields:
            execution_values[key] = settings.check(execution_fields[key], _plain(by_key.pop(key)), key)
    words = replace(_words(by_key, [*execution_fields]), difficulty=shared)
    if "suite" not in by_key:
        if not (suite := home(by_key)):
            levels = _names(words.names, config.DIFFICULTY, ())
            raise unknown_words.suite_missing(words.parts, _names(words.names, "task", ()), levels)
        words = replace(words, names={"suite": Override("suite", (suite,), False), **words.names})
    models = settings.build(Models, nested["models"], "models")
    execution = Execution(**execution_values, models=models, launching=nested["launcher"])
    cells = _expand(words, Digests(execution))
    for stage in {stage.id: stage for cell in cells for stage in cell.stages}.values():
        try:
            config.validate(stage)
        except UserError as error:
            raise _in_stage(error, stage.names.method) from None
    for cell in cells:
        config.validate(cell)
    _check_importable(cells)
    seeds = parse_seeds(by_key["seeds"]) if "seeds" in by_key else DEFAULT_SEEDS
    launcher_of(execution)
    return Plan(tuple(cells), seeds, execution, ("bench", "run", *overrides))


def parts_of(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """Return kind and name of everything registered that workers need for cells and their stages, each once."""
    every = [stage.names for cell in cells for stage in (*cell.stages, cell)]
    pairs = [
        pair
        for names in dict.fromkeys(every)
        for pair in (
            ("suite", names.suite),
            ("method", names.method),
            *((part.kind, part.name) for part in names.parts),
        )
    ]
    return list(dict.fromkeys(pairs))


def _check_importable(cells: Iterable[Cell]) -> None:
    """Raise UserError for a part that no worker could import: one that a script or a notebook has registered."""
    for kind, name in parts_of(cells):
        if not registry.importable(registry.home(kind, name)):
            raise UserError(registry.unreachable(kind, name))


def launcher_of(execution: Execution) -> LauncherPart:
    """Return the configured launcher of a command. Raise UserError for a name or a setting that does not exist."""
    part = registry.get("launcher", execution.launcher)
    built: LauncherPart = settings.build(part, execution.launching, "launcher")
    return built


def _words(by_key: Mapping[str, Override], others: Sequence[str] = (), prefix: str = "") -> Words:
    """Return overrides sorted into names, parts, settings and those of a stage. Raise UserError for a key that
    describes no cell. `others`: further keys that a command may have; `prefix`: text before these keys in the
    command."""
    names, parts, setting_words = dict[str, Override](), dict[str, Override](), dict[str, Override]()
    before: dict[str, Override] = {}
    for key, override in by_key.items():
        if key.startswith(PREFIX):
            before[key.removeprefix(PREFIX)] = override._replace(key=key.removeprefix(PREFIX))
        elif (
            (key in NAME_KEYS and not (prefix and key in NOT_OF_STAGES))
            or (prefix and key == config.KEEPS)
            or _is_argument(key)
        ):
            names[key] = override
        elif "." in key:
            setting_words[key] = override
        elif key in KINDS or key in registry.roles():
            parts[key] = override
        elif prefix and key == "method":
            raise UserError(f"{prefix}method= is given; write {prefix.removesuffix('.')}=… to name the stage's method")
        elif prefix and key == config.DIFFICULTY:
            raise UserError(
                f"{prefix}{key}= is given, but a stage takes the suite's settings of the command; leave it out, or "
                f"write the stage's own words, such as {prefix}task=…"
            )
        elif prefix and key == "seeds":
            raise UserError(f"{prefix}seeds= is given, but a stage has the seeds of the runs after it; leave it out")
        else:
            words = dict.fromkeys((*NAME_KEYS, *KINDS, *registry.roles(), *others))
            key_noun = f"setting{' of a stage' if prefix else ''}"
            raise unknown_words.key(key, override.values, words, [] if prefix else _present(by_key), key_noun, prefix)
    stage = _words(before, (), f"{prefix}{PREFIX}") if before else None
    return Words(names, parts, setting_words, stage=stage)


def _is_argument(key: str) -> bool:
    """Return whether a word is `models.SET`, which names what a set of models takes (`ModelSet.takes`)."""
    section, _, name = key.partition(".")
    return section == config.MODELS and name not in settings.fields(Models) and name in registry.names("model_set")


def _sets(names: Mapping[str, Override]) -> list[NamedSet]:
    """Return the sets of models that a command names, with what they take; one without a name if it names none. Raise
    UserError for an unknown set, for one without what it takes, and for the word of a set that is not named."""
    set_names = _names(names, config.MODELS, ("",))
    arguments = {key.partition(".")[2]: _names(names, key, ()) for key in names if _is_argument(key)}
    for name in filter(None, set_names):
        takes = registry.get("model_set", name).takes
        if takes and name not in arguments:
            raise UserError(f"{config.MODELS}={name} is given without {config.MODELS}.{name}={takes}; add it")
    for name, places in arguments.items():
        word = f"{config.MODELS}.{name}={places[0]}"
        if not registry.get("model_set", name).takes:
            raise UserError(f"{word} is given, and the set of models {name!r} takes nothing; leave it out")
        if name not in set_names:
            raise UserError(f"{word} is given without {config.MODELS}={name}; add it, or leave out {word}")
    return [NamedSet(name, place) for name in set_names for place in arguments.get(name, ("",))]


def _present(by_key: Mapping[str, Override]) -> list[str]:
    """Return the settings that the cells of a faulty command would have; [] if its names cannot be resolved."""
    parts = {*KINDS, *registry.roles()}
    name_overrides = {key: override for key, override in by_key.items() if key in NAME_KEYS or key in parts}
    with contextlib.suppress(UserError):
        words = _words({"suite": Override("suite", (home(name_overrides),), False)} | name_overrides)
        present: dict[str, None] = {}
        for suite in _names(words.names, "suite", ()):
            for method in _names(words.names, "method", (registry.get("suite", suite).method,)):
                for level in words.on_suite(suite):
                    for profile, tasks in _protocols(level, suite):
                        for combination in _named(suite, tasks[:1], method, profile, level.parts, (NamedSet(),)):
                            present |= dict.fromkeys(config.base_settings(combination.names))
        return [*present]
    return []


def home(by_key: Mapping[str, Override]) -> str:
    """Return the suite named by the recipes of the given methods, or "" unless there is exactly one."""
    homes = {registry.get("method", name).suite for name in _names(by_key, "method", ())} - {None}
    return homes.pop() if len(homes) == 1 else ""


def parse_seeds(override: Override) -> tuple[int, ...]:
    """Return the seeds: `seeds=5` means 0..4; `seeds=[0,3,7]`, `seeds=0,3,7` and `seeds=range(10,15)` list them."""
    value = list(override.values) if override.sweep else override.values[0]
    if isinstance(value, float) and value.is_integer():  # 1e3 on the command line
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_SEEDS:
            raise UserError(
                f"seeds={settings.show(override.values[0])}: expected a number of seeds, from 1 to {MOST_SEEDS:,}, or "
                f"a list such as [0,3,7]"
            )
        return tuple(range(value))
    if not isinstance(value, list) or not value:
        raise UserError(f"seeds={settings.show(value)}: expected a number of seeds or a list such as [0,3,7]")
    if len(value) > MOST_SEEDS:
        raise UserError(f"seeds= names {len(value):,} seeds; at most {MOST_SEEDS:,} are run by one command")
    for seed in value:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= MAX_SEED:
            raise UserError(
                f"seeds={settings.show(value)}: {seed!r} is not a seed (a whole number from 0 to {MAX_SEED})"
            )
    repeated = sorted(seed for seed, times in Counter(value).items() if times > 1)
    if repeated:
        raise UserError(f"seeds={settings.show(value)}: seed {repeated[0]} is repeated; name each seed once")
    return tuple(value)


class NamedSet(NamedTuple):
    """A set of models as a command names it."""

    name: str = ""
    """Its name, or "" for the one that is usual in the profile."""
    argument: str = ""
    """What `models.NAME=` names."""


class _Combination(NamedTuple):
    """One combination of the parts that a command names; a set of models fills the roles that are left open."""

    names: Names
    chosen: Mapping[str, str]
    """Role -> part, of the parts that the command names and the cell has."""
    models: str
    """The set of models that the command names, or ""."""
    filled: Mapping[str, Any]
    """`role.field` -> value, not checked yet, which the set gives."""
    stand_ins: StandIns

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that distinguishes this combination from others of the command. It includes `models`, since a
        stage chooses its own set where `models` is ""."""
        return self.names, self.models, json.dumps(self.filled, sort_keys=True, default=str)


@dataclass
class _Usage:
    """Which settings the cells of a command have, and which words of the command set something in them."""

    settings: set[str] = field(default_factory=set)
    """Settings that some cell has."""
    used: set[str] = field(default_factory=set)
    """Words that have set something."""
    digests: Digests = field(kw_only=True)
    """Fills in the digests of local models and datasets."""


def _expand(words: Words, digests: Digests) -> list[Cell]:
    usage = _Usage(digests=digests)
    protocols = [
        (level, suite, tasks, method, profile)
        for suite in _names(words.names, "suite", ())
        for level in words.on_suite(suite)
        for profile, tasks in _protocols(level, suite)
        for method in _names(words.names, "method", (registry.get("suite", suite).method,))
    ]
    combination_lists = [
        (level, _combined(level, suite, tasks, method, profile, usage))
        for level, suite, tasks, method, profile in protocols
    ]
    command_words = frozenset(usage.used)
    cells: dict[str, Cell] = {}
    for level, combinations in combination_lists:
        for cell in _cells_of(level, combinations, usage, command_words):
            if cell.substitutes < cells.setdefault(cell.id, cell).substitutes:
                cells[cell.id] = cell
            if len(cells) > MOST_CELLS:
                raise _too_many()
    if config.MODELS in words.names and config.MODELS not in usage.used:
        set_names = ",".join(_names(words.names, config.MODELS, ()))
        raise UserError(
            f"{config.MODELS}={set_names} is given, but the chosen methods ({methods_of(cells.values())}) have no role "
            f"of a model that it could fill; leave it out"
        )
    stages = [name for name in _names(words.names, config.PRETRAINING, ()) if name != config.NONE]
    if stages and not any(cell.stage for cell in cells.values()):
        raise UserError(
            f"{config.PRETRAINING}={stages[0]} is given, but none of the chosen methods ({methods_of(cells.values())}) "
            f"learns anything that a stage could begin; leave it out"
        )
    for key in words.override_keys():
        if key not in usage.used and key not in words.parts:
            sets = _names(words.names, config.MODELS, ())
            of_other = unknown_words.of_other_model(key, cells.values(), next(iter(sets), ""), words.parts)
            raise of_other or _unused(key, cells.values(), usage.settings)
    unused = next((role for role in words.parts if role not in usage.used), None)
    if unused:
        others = roles_of(unused, cells.values())
        model_roles = sorted({part.role for cell in cells.values() for part in cell.names.of(*registry.MODELS)})
        hint = (
            f"; their models have the roles {', '.join(model_roles)}"
            if model_roles and unused in registry.MODELS
            else ""
        )
        hint = f" in a role of that name; write {' or '.join(f'{role}=…' for role in others)}" if others else hint
        raise UserError(f"{unused}= is given, but none of the chosen methods has {a(unused)}{hint}")
    return list(cells.values())


def _unused(key: str, cells: Iterable[Cell], present: Iterable[str]) -> UserError:
    """Return the error for a setting, or a word of a stage, that no cell has."""
    if not key.startswith(PREFIX):
        return unknown_words.unused(key, "", cells, present)
    stages = {stage.id: stage for cell in cells for stage in cell.stages}.values()
    if not stages:
        return UserError(
            f"{key}= is given, but none of the chosen methods has a pre-training stage; name its method with "
            f"{config.PRETRAINING}=…, or leave it out"
        )
    stage_word = key.rsplit(PREFIX, 1)[-1]
    return unknown_words.unused(stage_word, methods_of(stages), stages, present)


def _protocols(words: Words, suite: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield the profiles of a suite that the words name, with their tasks."""
    home = registry.get("suite", suite)
    usual = ("paper",) if "paper" in home.profiles else tuple(home.profiles)[:1]
    for profile in _names(words.names, "profile", usual):
        if profile not in home.profiles:
            raise meanings.unknown_profile(suite, profile)
        task_names = _names(words.names, "task", home.profiles[profile].get("tasks", home.tasks), home.tasks)
        if not task_names:
            raise UserError(f"suite {suite!r} lists no tasks, since it makes any of them; name one with task=…")
        typed = {key: word.values[0] for key, word in words.settings.items() if key.startswith("suite.")}
        suite_words = None if home.tasks else settings.typed(home, typed, "suite")
        yield profile, tuple(dict.fromkeys(config.task_of(suite, task, suite_words) for task in task_names))


def _combined(
    words: Words, suite: str, tasks: Sequence[str], method: str, profile: str, usage: _Usage
) -> list[_Combination]:
    """Return every combination of parts of a method on these tasks, and note the words that set something in them."""
    registry.get("method", method)
    combinations = list(_named(suite, tasks, method, profile, words.parts, _sets(words.names)))
    for names, chosen, *_ in combinations:
        present = config.base_settings(names)
        usage.settings |= set(present)
        usage.used |= set(chosen) | {key for key in words.settings if config.target_of(names, key) in present}
        targets = {key: config.targets(names, words.difficulty, key) for key in words.difficulty}
        usage.used |= {key for key in targets if present.keys() & targets[key]}
        usage.used |= {config.MODELS} if names.of(*registry.MODELS) else set()
    return combinations


def _cells_of(
    words: Words,
    named: Iterable[_Combination],
    usage: _Usage,
    command_words: frozenset[str],
    after: Sequence[str] = (),
) -> Iterable[Cell]:
    """Yield the cells of these combinations of parts, each with its stages. `command_words`: those that set something
    in a cell of the command itself; `after`: what follows a stage, as method and task."""
    for combination in named:
        names = combination.names
        place = f"{names.method} on {names.suite}/{names.task}"
        if place in after:
            raise UserError(
                f"{place} would be its own pre-training stage ({' → '.join((place, *reversed(after)))}); name another "
                f"method or task for the stage ({PREFIX}task=…), or {config.PRETRAINING}={config.NONE}"
            )
        if len(after) > STAGES:
            raise UserError(f"{place} would be stage {len(after)} before {after[0]}; a run has at most {STAGES} stages")
        usual = registry.get("method", names.method).pretraining
        for cell in _cells(combination, config.base_settings(names), words):
            for before in _names(words.names, config.PRETRAINING, (usual,)):
                nothing = not (names.of("learner") or cell.section("agent").learns)  # that a stage could begin
                if before in ("", config.NONE) or nothing:
                    yield usage.digests.identified(cell)
                else:
                    yield from _with_stages(words, cell, combination, before, usage, command_words, (*after, place))


def _with_stages(
    words: Words,
    cell: Cell,
    combination: _Combination,
    method: str,
    usage: _Usage,
    used: frozenset[str],
    after: Sequence[str],
) -> Iterable[Cell]:
    """Yield the cell with each pre-training stage that the words describe, whose method is `method`.

    A stage takes over what the command says of the suite, the agent, learners and models, and its set of models. Of
    other parts and settings it takes the words that no cell of the command itself has, which are all but those `used`.
    Words with the prefix `pretraining.` come before both.
    """

    def may_concern_stage(key: str) -> bool:
        """Return whether a word of the command that does not concern this cell may concern its stage."""
        role = key.partition(".")[0]
        return key not in used or not (role in OF_CELLS or cell.names.part(role))

    stage_words, usual = words.stage or Words({}, {}, {}), {**cell.staged, "": method}
    carried_roles = {part.role for part in cell.names.of(*config.CARRIED)}
    inherited = {
        key: Override(key, (value.value,), False)
        for key, value in cell.settings.items()
        if value.layer == COMMAND and key.partition(".")[0] in ("suite", *carried_roles)
    }
    lacked = {key: override for key, override in words.settings.items() if may_concern_stage(key)}
    lacked_of_difficulty = {key: value for key, value in words.difficulty.items() if may_concern_stage(key)}
    parts = {role: override for role, override in words.parts.items() if may_concern_stage(role)}
    carried_parts = {
        role: Override(role, (name,), False) for role, name in combination.chosen.items() if role in carried_roles
    }
    sets = _carried_sets(combination, stage_words.names)
    all_words = Words(
        stage_words.names,
        {**carried_parts, **parts, **stage_words.parts},
        {**inherited, **lacked, **stage_words.settings},
        lacked_of_difficulty,
        stage_words.stage,
    )
    for suite in _names(stage_words.names, "suite", (usual["suite"],)):
        task = config.stage_task(registry.get("method", cell.names.method), suite, cell.names.task)
        names = {
            "profile": Override("profile", (usual["profile"],), False),
            "task": Override("task", (task,), False),
            **sets,
            **stage_words.names,
        }
        inner = _Usage(digests=usage.digests)
        try:
            groups = [
                _combined(replace(all_words, names=names), suite, tasks, method, profile, inner)
                for profile, tasks in _protocols(replace(all_words, names=names), suite)
            ]
            inner_words = frozenset(inner.used)
            stages = [stage for group in groups for stage in _cells_of(all_words, group, inner, inner_words, after)]
        except UserError as error:
            raise _in_stage(error, method) from None
        usage.settings |= inner.settings
        usage.used |= {f"{PREFIX}{key}" for key in (*stage_words.names, *inner.used & {*stage_words.override_keys()})}
        usage.used |= inner.used & (
            {*lacked, *parts, *sets} - {*stage_words.settings, *stage_words.parts, *stage_words.names}
        )
        for stage, keeps in itertools.product(stages, _kept_parameters(stage_words.names)):
            yield usage.digests.identified(replace(cell, stage=stage, keeps=keeps))


def _carried_sets(combination: _Combination, stage: Mapping[str, Override]) -> dict[str, Override]:
    """Return the words by which a stage takes over the set of models of its cell, as far as it names none. `stage`: the
    names of the stage."""
    models, argument = combination.models, combination.stand_ins.argument
    if not models or models not in _names(stage, config.MODELS, (models,)):
        return {}
    word = f"{config.MODELS}.{models}"
    taken = {config.MODELS: models, **({word: argument} if argument else {})}
    return {key: Override(key, (name,), False) for key, name in taken.items()}


def _kept_parameters(names: Mapping[str, Override]) -> Iterable[tuple[str, ...]]:
    """Yield the beginnings of the names of the parameters that runs keep of their stage's policy, one tuple for each
    value that a command sweeps. Raise UserError for a value that is no list of texts."""
    for value in names[config.KEEPS].values if config.KEEPS in names else ([],):
        prefixes = value if isinstance(value, list) else [value]
        if not all(isinstance(name, str) and name for name in prefixes):
            raise UserError(
                f"{PREFIX}{config.KEEPS}={settings.show(value)}: expected beginnings of names of parameters, such as "
                f"[encoder,trunk]"
            )
        yield tuple(dict.fromkeys(prefixes))


def _in_stage(error: UserError, method: str) -> UserError:
    """Return an error of a pre-training stage that names the stage."""
    text = str(error)
    return error if "pre-training stage" in text else UserError(f"in the pre-training stage {method}: {text}")


def _too_many() -> UserError:
    return UserError(f"the command describes more than {MOST_CELLS:,} cells; sweep fewer values at a time")


def _named(
    suite: str, tasks: Iterable[str], method: str, profile: str, parts: Mapping[str, Override], sets: Sequence[NamedSet]
) -> Iterable[_Combination]:
    """Return every combination of the parts and sets of models that the command line names for a method, on each
    task."""
    combinations: dict[tuple[object, ...], _Combination] = {}
    options = [[(role, name) for name in _names(parts, role, ())] for role in parts]
    for choice in itertools.product(*options):
        chosen = dict(choice)
        for role, name in chosen.items():
            if role in KINDS:
                registry.get(role, name)
        for task, (models, argument) in itertools.product(tasks, sets):
            filled = roles.fill(suite, task, method, profile, chosen, models, argument)
            names = Names(suite, task, method, profile, filled.parts)
            cell_parts = {role: name for role in chosen if (name := names.part(role))}
            combination = _Combination(names, cell_parts, models, filled.settings, filled.stand_ins)
            combinations.setdefault(combination.key, combination)
    return combinations.values()


def _cells(combination: _Combination, present: Mapping[str, Any], words: Words) -> Iterable[Cell]:
    names, part_names = combination.names, combination.chosen
    # the row name shows a replaced model already
    models = {part.role: part.name for part in names.of(*registry.MODELS)}
    try:
        recipe = roles.parts_of(names.suite, names.task, names.method, names.profile, models, combination.models)
    except UserError:  # the recipe alone is incomplete, e.g. without a judge: all named parts differ from it
        recipe = ()
    named_parts = {
        part.role: part.name for part in names.parts if part.role in part_names.keys() - models and part not in recipe
    }
    level = config.of_difficulty(names, words.difficulty)
    filled_by_set = config.filled_settings(names, combination.filled)
    filled = {key: value for key, value in filled_by_set.items() if key not in level}
    axes = []
    for key, override in words.settings.items():
        target = config.target_of(names, key)
        if target is None or target not in present:
            continue
        section, field = target.split(".", 1)
        setting_field = config.cell_fields(names)[section][field]
        axes.append([(target, settings.from_command(setting_field, value, key)) for value in override.values])
    if math.prod(map(len, axes)) > MOST_CELLS:
        raise _too_many()
    for values in itertools.product(*axes):
        yield config.resolve(names, {**filled, **dict(values)}, named_parts, combination.stand_ins, level)


def _names(
    by_key: Mapping[str, Override], key: str, default: Iterable[str], valid: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names that the override of `key` lists, or the default. Raise UserError for an empty name; the message
    lists the `valid` names, or those of any command."""
    if key not in by_key:
        return tuple(default)
    names: list[str] = []
    for value in by_key[key].values:
        for name in value if isinstance(value, list) else [value]:
            if name == "" or isinstance(name, dict):
                valid = valid or meanings.names_for(key)
                listed = f" ({', '.join(valid)})" if 0 < len(valid) <= LISTED else ""
                raise UserError(f"{key}={settings.show(name)}: expected a name{listed}")
            names.append(name if isinstance(name, str) else settings.show(name))
    return tuple(dict.fromkeys(names))


def _plain(override: Override) -> Any:
    if override.sweep:
        return list(override.values)
    value = override.values[0]
    return [value] if override.key in ("gpus", "trackers") and isinstance(value, (int, str)) else value


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
