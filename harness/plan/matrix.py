"""Parses a command line into a plan: overrides and sweeps in Hydra's grammar, expanded to cells and seeds.

    suite=minigrid_doorkey method=uer,vlm_rb replay.lambda_max=0.25,0.5 seeds=5 profile=quick

A list sweeps. Sweeping a setting expands only the methods that have it; a setting that no method has is an error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError, a, unknown
from guidebench.harness.execution import Execution, Models
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Names
from guidebench.harness.recipes import Method
from guidebench.harness.records.schema import label

KINDS = registry.KINDS[2:]
"""Kinds of part; each is also the name of a role."""
NAME_KEYS = ("suite", "task", "method", "profile", "seeds")
PATHS = ("output", "against", "models.cassette")
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
    given: str
    """Overrides that the command line set in every cell of the matrix."""

    @property
    def variant(self) -> str:
        return f"{self.name}; {self.given}" if self.given else self.name


@dataclass(frozen=True)
class Plan:
    """The cells and seeds of one command, and its execution settings."""

    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    execution: Execution
    command: tuple[str, ...]
    matrix: Mapping[str, InMatrix] = field(default_factory=dict)
    """Cell id -> its place in a matrix, for cells that belong to one."""

    @property
    def name(self) -> str:
        """Return the name of the study: suites, methods, profiles and a hash of its cell ids, without seeds and
        paths."""
        suites = "+".join(_distinct(cell.names.suite for cell in self.cells))
        methods = "+".join(_distinct(cell.names.method for cell in self.cells))
        kinds = "".join(f"-{kind}" for kind in _distinct(each.kind for each in self.matrix.values()))
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


class Given(NamedTuple):
    """A command-line override: its key and its values (one, or the elements of a sweep)."""

    key: str
    values: tuple[Any, ...]
    sweep: bool


def plan(overrides: Sequence[str]) -> Plan:
    """Return the plan that `overrides` describe. Raise UserError for the first invalid override."""
    given = parse(overrides)
    by_key: dict[str, Given] = {}
    for item in given:
        if item.key in by_key:
            raise UserError(f"{item.key}= is given twice; name it once, with commas for several values")
        by_key[item.key] = item
    execution_fields = {name: field for name, field in settings.fields(Execution).items() if name != "models"}
    execution_values: dict[str, Any] = {}
    models: dict[str, Any] = {}
    parts: dict[str, Given] = {}
    swept: dict[str, Given] = {}
    for item in given:
        if item.key in NAME_KEYS:
            continue
        if item.key.startswith("models."):
            models[item.key.removeprefix("models.")] = _plain(item)
        elif item.key in execution_fields:
            execution_values[item.key] = settings.check(execution_fields[item.key], _plain(item), item.key)
        elif "." in item.key:
            swept[item.key] = item
        elif item.key in KINDS or item.key in registry.roles():
            parts[item.key] = item
        else:
            known = dict.fromkeys((*NAME_KEYS, *KINDS, *registry.roles(), *execution_fields, *_all_settings()))
            raise unknown("setting", item.key, known)
    if "suite" not in by_key and (found := home(by_key)):
        by_key["suite"] = Given("suite", (found,), False)
    if "suite" not in by_key:
        raise UserError(f"no suite named; add suite=… (known: {', '.join(registry.names('suite'))})")
    cells = _expand(by_key, parts, swept)
    for cell in cells:
        config.validate(cell)
    seeds = parse_seeds(by_key["seeds"]) if "seeds" in by_key else DEFAULT_SEEDS
    execution = Execution(**execution_values, models=settings.build(Models, models, "models"))
    return Plan(tuple(cells), seeds, execution, ("bench", "run", *overrides))


def home(by_key: Mapping[str, Given]) -> str:
    """Return the suite named by the recipes of the given methods, or "" unless there is exactly one."""
    homes = {registry.get("method", name).suite for name in _names(by_key, "method", ())} - {None}
    return homes.pop() if len(homes) == 1 else ""


def parse(overrides: Sequence[str]) -> list[Given]:
    """Parse overrides by Hydra's grammar and expand sweeps."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override, QuotedString, Transformer
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    result = []

    def plain(value: Any) -> Any:
        if isinstance(value, QuotedString):
            return value.text
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value

    for text in overrides:
        if "=" not in text:
            raise UserError(f"{text!r} is not of the form key=value; {_meant(text)}")
        key, _, value = text.partition("=")
        if key in PATHS:
            result.append(Given(key, (_path(key, value),), False))
            continue
        try:
            override: Override = parser.parse_override(text)
            if override.is_delete() or override.is_add() or override.package is not None:
                raise UserError(f"{text!r}: write key=value, without +, ~ or @")
            if override.is_sweep_override():
                _check_range(text, override.value())
                values = tuple(plain(v) for v in override.sweep_iterator(Transformer.identity))
            else:
                values = (plain(override.value()),)
        except (HydraException, ValueError, RecursionError) as error:  # also for huge numbers and deeply nested lists
            raise UserError(f"{text[:200]!r} cannot be read: {str(error).splitlines()[0][:200]}") from None
        if not values:
            raise UserError(f"{text!r} expands to no value")
        result.append(Given(override.key_or_group, values, override.is_sweep_override()))
    return result


def _meant(text: str) -> str:
    """Return a suggestion for a word given in place of key=value."""
    if text in (*NAME_KEYS, *KINDS):
        return f"write {text}=…"
    kind = next((kind for kind in registry.KINDS if text in registry.names(kind)), None)
    if kind is None:
        return "for example: suite=minigrid_doorkey method=uer profile=quick seeds=3"
    return f"write {kind}={text}"


def _check_range(text: str, sweep: Any) -> None:
    """Raise UserError for a range with too many values, before the parser expands it."""
    from hydra.core.override_parser.types import RangeSweep

    if isinstance(sweep, RangeSweep):
        start, stop, step = (float(value or 0) for value in (sweep.start, sweep.stop, sweep.step))
        if step == 0 or not abs((stop - start) / step) <= MOST_CELLS:
            raise UserError(f"{text!r}: a range needs a step other than 0 and at most {MOST_CELLS:,} values")


def single(overrides: Sequence[str]) -> dict[str, Any]:
    """Return key -> value for a command without sweeps. Raise UserError if a key has several values."""
    given = parse(overrides)
    for item in given:
        if item.sweep or sum(other.key == item.key for other in given) > 1:
            raise UserError(f"{item.key}= has several values; this command takes one")
    return {item.key: item.values[0] for item in given}


def _path(key: str, text: str) -> str | None:
    """Return a path verbatim, without surrounding quotes and with ~ expanded, or None for null."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if not text:
        raise UserError(f"{key}=: expected a directory")
    return None if text == "null" else os.path.expanduser(text)


def parse_seeds(given: Given) -> tuple[int, ...]:
    """Return the seeds: `seeds=5` means 0..4; `seeds=[0,3,7]`, `seeds=0,3,7` and `seeds=range(10,15)` list them."""
    value = list(given.values) if given.sweep else given.values[0]
    if isinstance(value, float) and value.is_integer():  # 1e3 on the command line
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_SEEDS:
            raise UserError(
                f"seeds={settings.show(given.values[0])}: expected a number of seeds, from 1 to {MOST_SEEDS:,}, or a "
                f"list such as [0,3,7]"
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


def _expand(by_key: Mapping[str, Given], parts: Mapping[str, Given], swept: Mapping[str, Given]) -> list[Cell]:
    known: set[str] = set()
    used: set[str] = set()
    cells: dict[str, Cell] = {}
    for suite in _names(by_key, "suite", ()):
        home = registry.get("suite", suite)
        for profile in _names(by_key, "profile", ("paper",)):
            if profile not in home.profiles:
                raise unknown(f"profile of suite {suite!r}:", profile, home.profiles)
            named = _names(by_key, "task", home.profiles[profile].get("tasks", home.tasks))
            tasks = tuple(dict.fromkeys(config.task_of(suite, task) for task in named))
            for method in _names(by_key, "method", (home.method,)):
                registry.get("method", method)
                for names, chosen in _named(suite, tasks, method, profile, parts):
                    used |= set(chosen)
                    present = config.base_settings(names)
                    known |= set(present)
                    used |= {key for key in swept if config.target_of(names, key) in present}
                    for cell in _cells(names, present, swept, chosen):
                        cells.setdefault(cell.id, cell)
                    if len(cells) > MOST_CELLS:
                        raise _too_many()
    for key in swept:
        if key not in used:
            raise _misplaced(key, cells.values()) or _foreign(key, cells.values()) or unknown("setting", key, known)
    unused = next((role for role in parts if role not in used), None)
    if unused:
        others = _roles_of(unused, cells.values())
        hint = f" in a role of that name; write {' or '.join(f'{role}=…' for role in others)}" if others else ""
        raise UserError(f"{unused}= is given, but none of the chosen methods has {a(unused)}{hint}")
    return list(cells.values())


def _misplaced(key: str, cells: Iterable[Cell]) -> UserError | None:
    """Return the error for a `drawing` setting that no cell has; None for another section or if no suite has it."""
    if not key.startswith("drawing."):
        return None
    drawn = [cell.names.suite for cell in cells if cell.section("drawing") is not None]
    if not drawn:
        return UserError(f"{key}= is given, but none of the chosen methods has a part that looks at frames")
    if key not in _drawing_settings():
        return None
    suites = " and ".join(map(repr, _distinct(drawn)))
    return UserError(f"{key}= is given, but suite {suites} has no such setting for its frames; leave it out")


def _foreign(key: str, cells: Iterable[Cell]) -> UserError | None:
    """Return the error for a setting that only parts of other methods have; None if no part has it."""
    kind, _, rest = key.partition(".")
    if kind not in KINDS:
        return None
    part, _, name = rest.rpartition(".")
    names = [part] if part in registry.names(kind) else [] if part else registry.names(kind)
    owners = [owner for owner in names if name in settings.fields(registry.get(kind, owner))]
    if not owners:
        return None
    chosen = ", ".join(_distinct(cell.names.method for cell in cells))
    if roles := _roles_of(kind, cells):
        return UserError(
            f"unknown setting {key!r} of the chosen methods ({chosen}), which have {a(kind)} in a role of another "
            f"name than its kind; write {' or '.join(f'{role}.{name}=…' for role in roles)}"
        )
    recipes = {method: registry.get("method", method) for method in registry.names("method")}
    using = [
        method for method, recipe in recipes.items() if recipe.named(kind, kind) in owners and kind in _needed(recipe)
    ]
    swaps = owners if any(cell.names.part(kind) for cell in cells) else []
    ways = [
        f"{what}={found[0]}" + (f" (or {', '.join(found[1:])})" if len(found) > 1 else "")
        for what, found in (("method", using), (kind, swaps))
        if found
    ]
    which = f"{kind}{'s' if len(owners) > 1 else ''} {', '.join(owners)}"
    instead = f"choose {' or '.join(ways)}, or " if ways else ""
    return UserError(
        f"unknown setting {key!r} of the chosen methods ({chosen}): it is a setting of {which}; {instead}leave it out"
    )


def _roles_of(kind: str, cells: Iterable[Cell]) -> list[str]:
    """Return the roles of this kind in the cells whose name differs from the kind."""
    return sorted({part.role for cell in cells for part in cell.names.of(kind)} - {kind})


def _needed(recipe: Method) -> dict[str, str]:
    """Return role -> kind over the `needs` of a method's parts, without parts that only the suite names."""
    found: dict[str, str] = {}
    waiting = [("agent", "agent")]
    while waiting:
        role, kind = waiting.pop()
        if role not in found and kind != registry.HUMAN:
            found[role] = kind
            name = recipe.named(role, kind)
            waiting += registry.get(kind, registry.meant(kind, name, role)).needs.items() if name else []
    return found


def _too_many() -> UserError:
    return UserError(f"the command describes more than {MOST_CELLS:,} cells; sweep fewer values at a time")


def _named(
    suite: str, tasks: Iterable[str], method: str, profile: str, parts: Mapping[str, Given]
) -> Iterable[tuple[Names, dict[str, str]]]:
    """Yield every combination of parts that the command line names for a method, on each task, with those in use."""
    seen = set()
    options = [[(role, name) for name in _names(parts, role, ())] for role in parts]
    for choice in itertools.product(*options):
        chosen = dict(choice)
        for role, name in chosen.items():
            if role in KINDS:
                registry.get(role, name)
        for task in tasks:
            names = Names(suite, task, method, profile, config.parts_of(suite, task, method, profile, chosen))
            if names not in seen:
                seen.add(names)
                yield names, {role: name for role in chosen if (name := names.part(role))}


def _cells(
    names: Names, present: Mapping[str, Any], swept: Mapping[str, Given], chosen: Mapping[str, str]
) -> Iterable[Cell]:
    # the row name shows a replaced model already
    models = {part.role: part.name for part in names.of(*registry.MODELS)}
    try:
        recipe = config.parts_of(names.suite, names.task, names.method, names.profile, models)
    except UserError:  # the recipe alone is incomplete, e.g. without a judge: all named parts differ from it
        recipe = ()
    named = {part.role: part.name for part in names.parts if part.role in chosen.keys() - models and part not in recipe}
    axes = []
    for key, given in swept.items():
        target = config.target_of(names, key)
        if target is None or target not in present:
            continue
        section, field = target.split(".", 1)
        known = config.cell_fields(names)[section][field]
        axes.append([(target, settings.given(known, value, key)) for value in given.values])
    if math.prod(map(len, axes)) > MOST_CELLS:
        raise _too_many()
    for combination in itertools.product(*axes):
        yield config.resolve(names, dict(combination), named)


def _names(by_key: Mapping[str, Given], key: str, default: Iterable[str]) -> tuple[str, ...]:
    if key not in by_key:
        return tuple(default)
    found: list[str] = []
    for value in by_key[key].values:
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or not name:
                raise UserError(f"{key}={settings.show(name)}: expected a name")
            found.append(name)
    return tuple(dict.fromkeys(found))


def _plain(given: Given) -> Any:
    if given.sweep:
        return list(given.values)
    value = given.values[0]
    return [value] if given.key == "gpus" and isinstance(value, int) else value


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _all_settings() -> list[str]:
    names = []
    for section, known in config.PLAIN.items():
        names += [f"{section}.{field.name}" for field in dataclasses.fields(known)]
    for kind in KINDS:
        for name in registry.names(kind):
            names += [f"{kind}.{field.name}" for field in dataclasses.fields(registry.get(kind, name))]
    return names + _drawing_settings()


def _drawing_settings() -> list[str]:
    drawings = [registry.get("suite", name).drawing for name in registry.names("suite")]
    return [f"drawing.{field.name}" for drawing in drawings for field in dataclasses.fields(drawing)]
