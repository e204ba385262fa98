"""The registry of suites, methods and parts, by kind and name. Looking up a name imports no heavy packages.

Modules directly below the packages in `BUILT_IN` register themselves when imported; they hold configuration only
and import torch, gymnasium and the like inside `spawn()` (a test enforces it). Outside packages register through entry
points (`guidebench.methods`, …) whose value is a module that registers. If a built-in or plug-in module fails to
import, a warning names it and all others remain available.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from guidebench.harness.errors import UserError, a
from guidebench.harness.execution import Execution
from guidebench.harness.recipes import Method

PARTS = ("learner", "replay", "guide", "agent", "judge", "teacher", "chat", "embedder", "dataset")
"""Kinds of part that fill the roles of a cell."""
KINDS = ("suite", "method", *PARTS, "launcher")
HELPERS: Mapping[str, tuple[str, str]] = {
    "call": ("guidebench.harness.models.calls.Call", "kind"),
    "encoder": ("guidebench.baselines.encoders.Encoder", ""),
    "tracker": ("guidebench.harness.trackers.Tracker", "name"),
    "model_set": ("guidebench.harness.plan.model_sets.ModelSet", "name"),
}
"""Registered kinds that are no parts of a cell: kind -> the class to inherit, and its attribute that holds the name."""
BUILT_IN = tuple(
    f"guidebench.{package}"
    for package in (
        "suites", "baselines.learners", "baselines.replay", "baselines.guides", "baselines.agents",
        "baselines.teachers", "baselines.datasets", "baselines.encoders", "methods", "harness.models.judges",
        "harness.models.chats", "harness.models.embedders", "harness.models.calls", "harness.launchers",
        "harness.trackers", "harness.plan.model_sets",
    )
)  # fmt: skip
T = TypeVar("T")
BASES: Mapping[str, str] = {
    "suite": "SuitePart", "learner": "LearnerPart", "replay": "ReplayPart", "guide": "AskingPart",
    "agent": "AgentPart", "teacher": "TeacherPart", "judge": "ModelPart", "chat": "ModelPart", "embedder": "ModelPart",
    "dataset": "DatasetPart", "launcher": "LauncherPart",
}  # fmt: skip
"""Kind -> the class of `guidebench.harness.parts` that its configurations inherit."""
MODELS = tuple(kind for kind, base in BASES.items() if base == "ModelPart")
"""Kinds of part that are models."""
ASKING = ("guide", "agent", "teacher")
"""Kinds of part that may send questions to models or to a person."""
HUMAN = "human"
"""Kind in `needs` of a part that sends questions to a person; no part of this kind exists."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "suite": ("tasks", "profiles", "method", "drawing"), "learner": ("batch_size", "learning_starts"),
    "judge": ("backend",), "chat": ("backend",), "embedder": ("backend",),
}  # fmt: skip
"""Kind -> attributes that listing and planning read, besides the dataclass fields and `version`."""

SPOKEN_TO = {"chat", "embedder"}
"""Kinds of model that need a dialogue defined by the asking part; a judge needs one if the part `puts` calls to it, and
else receives clips."""
ROLE = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED = frozenset((
    "task", "profile", "difficulty", "seed", "seeds", "training", "evaluation", "drawing", "models", "probe", "cell",
    "study", "command", "variant", "label", "backend", "model", "directory",
    *(field.name for field in dataclasses.fields(Execution)),
))  # fmt: skip
"""Words of commands, sections and records, which cannot be names of roles."""

_entries: dict[str, dict[str, Any]] = {kind: {} for kind in (*KINDS, *HELPERS)}
_loaded: set[str] = set()
_broken: dict[tuple[str, str], str] = {}
"""(kind, name) -> why it could not be loaded. For a built-in module, kind is "" and name the module's last name, which
usually equals the registered name."""
_homes: dict[tuple[str, str], str] = {}
"""(kind, name) -> the module that registered it."""
_caches: list[functools._lru_cache_wrapper[Any]] = []


def cached(maxsize: int | None = None) -> Callable[[Callable[..., T]], functools._lru_cache_wrapper[T]]:
    """Return `functools.lru_cache(maxsize)` for a function whose results depend on what is registered: it is emptied
    where a `fresh` registry begins and ends."""

    def decorate(function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
        _caches.append(wrapped := functools.lru_cache(maxsize)(function))
        return wrapped

    return decorate


@contextlib.contextmanager
def fresh() -> Iterator[None]:
    """Undo all registrations made within the context when it closes. It starts from the built-in parts and the plug-ins
    loaded so far."""
    global _entries, _loaded, _broken, _homes
    _load_built_in()
    before = _entries, _loaded, _broken, _homes
    _entries = {kind: dict(parts) for kind, parts in _entries.items()}
    _loaded, _broken, _homes = set(_loaded), dict(_broken), dict(_homes)
    try:
        _forget()
        yield
    finally:
        _entries, _loaded, _broken, _homes = before
        _forget()


def _forget() -> None:
    for function in _caches:
        function.cache_clear()


def _decorator(kind: str, name: str) -> Callable[[T], T]:
    def add(part: T) -> T:
        _check(kind, name, part)
        present = _entries[kind].get(name)
        if present is not None and _origin(present) != _origin(part):
            raise UserError(f"{kind} {name!r} is registered twice: by {_origin(present)} and by {_origin(part)}")
        _entries[kind][name] = part
        _homes[kind, name] = str(sys._getframe(1).f_globals["__name__"])
        return part

    return add


def _check(kind: str, name: str, thing: Any) -> None:
    """Raise UserError for an object that listing or planning could not handle."""
    if kind == "method":
        if not isinstance(thing, Method):
            raise UserError(
                f"method {name!r} is a {type(thing).__name__}; register a guidebench.harness.recipes.Method"
            )
        for role, part in thing.roles.items():
            if not (isinstance(role, str) and isinstance(part, str)):
                raise UserError(
                    f"method {name!r} has {role!r}: {part!r} among its roles; expected role -> name of a part"
                )
        return
    if kind in HELPERS:
        base_name, method_name = HELPERS[kind]
        lacking = getattr(thing, "__abstractmethods__", None)
        if lacking is None or lacking or (method_name and getattr(thing, method_name, "") != name):
            undefined = ", ".join(sorted(lacking or ())) or f"all abstract methods of {base_name.rpartition('.')[2]}"
            raise UserError(
                f"{kind} {name!r} is incomplete: write a class that inherits {base_name}, "
                f"{f'with {method_name} = {name!r}, ' if method_name else ''}that defines {undefined}"
            )
        return
    if not (isinstance(thing, type) and dataclasses.is_dataclass(thing)):
        raise UserError(f"{kind} {name!r} is no dataclass; write @dataclass(frozen=True) below @register.{kind}")
    from guidebench.harness import parts

    base = getattr(parts, BASES[kind])
    if not issubclass(thing, base):
        raise UserError(
            f"{kind} {name!r} does not inherit guidebench.harness.parts.{base.__name__}; make it the base class"
        )
    declared: Any = thing
    if kind == "suite":
        for profile, layer in getattr(declared, "profiles", {}).items():
            if "judge" in layer:
                raise UserError(
                    f"suite {name!r} has a judge in its profile {profile!r}; name its judges by sets of models "
                    f"instead: judges = {{'paper': …, 'scripted': …}}"
                )
    if left_open := sorted(getattr(thing, "__abstractmethods__", ())):
        raise UserError(f"{kind} {name!r} lacks {' and '.join(left_open)}; define it as harness/parts.py describes")
    if kind == "launcher":  # it is in no cell
        return
    for role, other in declared.needs.items():
        if reason := misnamed(role, other):
            raise UserError(f"{kind} {name!r} needs {a(other)} in the role {role!r}: {reason}")
    for role in getattr(declared, "consults", ()):
        if declared.needs.get(role) not in MODELS:
            raise UserError(
                f"{kind} {name!r} consults the role {role!r}, but its `needs` has no model in that role; name in "
                f"`consults` only roles that `needs` maps to {', '.join(MODELS[:-1])} or {MODELS[-1]}"
            )
    fields = {field.name for field in dataclasses.fields(thing)}
    for models, words in getattr(declared, "model_sets", {}).items():
        for word, value in words.items():
            role, _, setting = word.partition(".")
            names = value if isinstance(value, tuple) and value else (value,)
            are_parts = all(isinstance(part, str) for part in names)
            if declared.needs.get(role) not in MODELS or role not in words or not (setting or are_parts):
                raise UserError(
                    f"{kind} {name!r} has {word!r}: {value!r} in its set of models {models!r}; expected a role of its "
                    f"`needs` that is one of a model -> name of a part, or a tuple of them, and ROLE.FIELD -> value "
                    f"beside it"
                )
    for setting, role in getattr(declared, "widths", {}).items():
        if setting not in fields or declared.needs.get(role) != "embedder":
            raise UserError(
                f"{kind} {name!r} has {setting!r}: {role!r} in `widths`; expected one of its settings -> the role of "
                f"an embedder in its `needs`"
            )
    for role, setting in getattr(declared, "later", {}).items():
        if role not in declared.needs or setting not in fields:
            raise UserError(
                f"{kind} {name!r} declares the role {role!r} as added `later`, by the setting {setting!r}; name a role "
                f"of its `needs` and one of its settings"
            )
    silent = getattr(declared, "dialogue", None) in (None, parts.AskingPart.dialogue)
    if spoken(declared) and silent:
        raise UserError(f"{kind} {name!r} needs {_listed(declared.needs)}; define `dialogue` (harness/parts.py)")
    if HUMAN in declared.needs.values() and getattr(declared, "person", None) in (None, parts.AskingPart.person):
        raise UserError(f"{kind} {name!r} asks a person; define `person` (harness/parts.py)")
    missing = [needed for needed in ("version", *NEEDED.get(kind, ())) if not hasattr(thing, needed)]
    if missing:
        raise UserError(f"{kind} {name!r} has no {' and no '.join(missing)}; harness/interfaces.py describes it")


def spoken(config: Any) -> set[str]:
    """Return the roles in which a part's configuration has dialogues: of chats and embedders, and of judges to which it
    `puts` calls, which then get no clips."""
    puts = getattr(config, "puts", {})
    return {role for role, kind in config.needs.items() if kind in SPOKEN_TO or role in puts}


def misnamed(role: str, kind: str) -> str:
    """Return why no part can need a kind in this role, or ""."""
    if kind not in (*PARTS, HUMAN):
        return f"this version has no such kind of part; the kinds are {', '.join((*PARTS, HUMAN))}"
    if role in (*KINDS, HUMAN) and role != kind:
        return f"a role called {role!r} must be of the kind {role!r}; choose another name"
    if kind == HUMAN and role != HUMAN:
        return "the role of a person must be called 'human'"
    if not ROLE.fullmatch(role):
        return "a role is a word of lower-case letters, digits and underscores, 40 characters at most"
    if role in RESERVED:
        return "this word is reserved in commands and records; choose another name"
    return ""


def _listed(needs: Mapping[str, str]) -> str:
    return " and ".join(f"{a(kind)} as {role!r}" for role, kind in needs.items())


def _origin(part: Any) -> str:
    described = part if isinstance(part, type) else type(part)
    module: str = getattr(part, "module", None) or described.__module__
    return f"{module}.{getattr(part, '__qualname__', described.__qualname__)}"


class Register:
    """Decorators that register a frozen dataclass under a name, as in `@register.replay("per")`. Methods are registered
    as instances: `register.method("per")(Method(…))`."""

    def suite(self, name: str) -> Callable[[T], T]:
        return _decorator("suite", name)

    def method(self, name: str) -> Callable[[T], T]:
        return _decorator("method", name)

    def learner(self, name: str) -> Callable[[T], T]:
        return _decorator("learner", name)

    def replay(self, name: str) -> Callable[[T], T]:
        return _decorator("replay", name)

    def guide(self, name: str) -> Callable[[T], T]:
        return _decorator("guide", name)

    def agent(self, name: str) -> Callable[[T], T]:
        return _decorator("agent", name)

    def judge(self, name: str) -> Callable[[T], T]:
        return _decorator("judge", name)

    def teacher(self, name: str) -> Callable[[T], T]:
        return _decorator("teacher", name)

    def chat(self, name: str) -> Callable[[T], T]:
        return _decorator("chat", name)

    def embedder(self, name: str) -> Callable[[T], T]:
        return _decorator("embedder", name)

    def dataset(self, name: str) -> Callable[[T], T]:
        return _decorator("dataset", name)

    def launcher(self, name: str) -> Callable[[T], T]:
        return _decorator("launcher", name)

    def call(self, name: str) -> Callable[[T], T]:
        """Register a kind of call to a foundation model (`guidebench.harness.models.calls`)."""
        return _decorator("call", name)

    def encoder(self, name: str) -> Callable[[T], T]:
        """Register an encoder of a part of observations (`guidebench.baselines.encoders`)."""
        return _decorator("encoder", name)

    def tracker(self, name: str) -> Callable[[T], T]:
        """Register a tracker that follows the logs of runs (`guidebench.harness.trackers`)."""
        return _decorator("tracker", name)

    def model_set(self, name: str) -> Callable[[T], T]:
        """Register a set of models, which fills the roles that a command leaves open
        (`guidebench.harness.plan.model_sets`)."""
        return _decorator("model_set", name)


register = Register()


def get(kind: str, name: str) -> Any:
    """Return the object registered as `name`. Raise UserError with the nearest names if there is none."""
    if not _is_registered(kind, name):
        all_names = names(kind)
        if failure := _broken.get((kind, name)) or _broken.get(("", name)):
            raise UserError(f"{kind} {name!r} is broken and cannot be used: {failure}")
        if name in all_names:  # registered by the module of another entry point, which a worker would not import
            raise UserError(_unannounced(kind, name))
        from guidebench.harness.meanings import unknown_name

        raise unknown_name(kind, name)
    return _entries[kind][name]


def _is_registered(kind: str, name: str) -> bool:
    """Return whether a name is registered, after loading the built-in modules and the plug-in of that name."""
    if name not in _entries[kind]:
        _load_built_in()
    if name not in _entries[kind]:
        for plugin in _outside(kind):
            if plugin.name == name:
                _load_outside(kind, plugin)
    return name in _entries[kind]


def unreachable(kind: str, name: str) -> str:
    """Return why another process, such as a worker, cannot find a registered name, and what to do; "" if it can."""
    module = home(kind, name)
    if not module or module.partition(".")[0] == "guidebench" or any(plugin.name == name for plugin in _outside(kind)):
        return ""
    others = [plugin.module for other in _entries if other != kind for plugin in _outside(other)]  # a method's, say
    return "" if module in others else _unannounced(kind, name)


def _unannounced(kind: str, name: str) -> str:
    """Return the error message for a registered name that no entry point announces, with what to do."""
    module = home(kind, name)
    if not importable(module):
        place = "in a script or notebook" if module == "__main__" else f"by {module}, which cannot be imported by name"
        return (
            f"{kind} {name!r} is registered {place}, and workers are other processes, which do not run that. Move it "
            f'into a module of a package that announces it, {name} = "MODULE" under '
            f'[project.entry-points."guidebench.{kind}s"], and install the package; `bench new` writes such a package'
        )
    return (
        f"{kind} {name!r} is registered by {module}, but no entry point announces it; add "
        f'{name} = "{module}" to [project.entry-points."guidebench.{kind}s"] of its package, '
        f"and install the package again"
    )


def importable(module: str) -> bool:
    """Return whether a fresh process may import a module by its name."""
    if not module or module.startswith("guidebench."):
        return True
    try:
        return module != "__main__" and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: made by hand, without a spec
        return False


def meant(kind: str, name: str, role: str) -> str:
    """Return the registered name of the part that `name` means in a role: NAME_ROLE if there is one, else the name
    itself. So each role of a chat may have a hand-written `scripted` of its own: `planner=scripted` means the chat
    `scripted_planner` where that is registered."""
    role_name = f"{name}_{role}"
    return role_name if role != kind and _is_registered(kind, role_name) else name


def home(kind: str, name: str) -> str:
    """Return the name of the module that registered a part, or "" if the part is not registered."""
    return _homes.get((kind, name), "")


def distribution(kind: str, name: str) -> tuple[str, str] | None:
    """Return name and version of the installed distribution whose entry point announces a name; None for built-ins."""
    for plugin in _outside(kind):
        if plugin.name == name and plugin.dist is not None:
            return plugin.dist.name, plugin.dist.version
    return None


def names(kind: str) -> list[str]:
    """Return every registered name of a kind, sorted, plug-ins included."""
    _load_built_in()
    for plugin in _outside(kind):
        _load_outside(kind, plugin)
    return sorted(_entries[kind])


def registered(kind: str) -> list[str]:
    """Return the names of a kind registered so far, sorted, without loading plug-ins."""
    _load_built_in()
    return sorted(_entries[kind])


def roles() -> dict[str, set[str]]:
    """Return role -> kinds, over the `needs` of all registered parts, and the role of the agent."""
    kinds_by_role = {"agent": {"agent"}}
    for kind in PARTS:
        for name in names(kind):
            for role, other in get(kind, name).needs.items():
                kinds_by_role.setdefault(role, set()).add(other)
    return kinds_by_role


def _load_built_in() -> None:
    if "" in _loaded:
        return
    _loaded.add("")
    for package_name in BUILT_IN:
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            module_name = f"{package_name}.{module.name}"
            if error := _attempt(lambda module_name=module_name: importlib.import_module(module_name)):  # type: ignore[misc]
                _broken["", module.name] = error
                warnings.warn(f"{module_name} is broken and left out: {error}", stacklevel=2)


def _attempt(load: Callable[[], object]) -> str:
    """Return why `load` failed, or "". Registrations of a failed module are undone, since they may be incomplete. Those
    of modules that it imported successfully are kept, since those modules will not be imported again."""
    before = {kind: dict(parts) for kind, parts in _entries.items()}
    try:
        load()
    except (Exception, SystemExit) as error:  # a faulty module must not affect others, whatever it raises
        for kind, parts in before.items():
            _entries[kind] = {
                name: registration for name, registration in _entries[kind].items() if _is_imported(_homes[kind, name])
            } | parts
        return f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else repr(error)
    return ""


def _is_imported(module: str) -> bool:
    """Return whether a module and its parent packages were imported without failure."""
    parts = module.split(".")
    return all(".".join(parts[:end]) in sys.modules for end in range(1, len(parts) + 1))


def _outside(kind: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of other packages for a kind."""
    return _announced(tuple((place, _modified(place)) for place in sys.path)).get(f"guidebench.{kind}s", ())


@functools.lru_cache(maxsize=1)
def _announced(places: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return group -> entry points of the packages installed in `places`, the directories of `sys.path` and when each
    last changed. Reading the metadata of all packages takes some 10 ms, and planning a cell needs it many times."""
    points = entry_points()
    return {group: tuple(points.select(group=group)) for group in points.groups if group.startswith("guidebench.")}


def _modified(place: str) -> int:
    """Return when a directory last changed, in ns; 0 if it is not there."""
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return 0


def _load_outside(kind: str, plugin: EntryPoint) -> None:
    key = f"{kind}:{plugin.name}"
    if key in _loaded:
        return
    _loaded.add(key)
    if error := _attempt(plugin.load):
        _broken[kind, plugin.name] = error
        warnings.warn(f"plug-in {plugin.name!r} ({plugin.value}) is broken and left out: {error}", stacklevel=2)
        return
    if plugin.name not in _entries[kind]:
        module = sys.modules.get(plugin.module)
        places = [getattr(module, "__file__", None) or ", ".join(getattr(module, "__path__", ()))]
        at = f" ({places[0]})" if places[0] else ""
        _broken[kind, plugin.name] = f"{plugin.value}{at} does not register it"
        warnings.warn(
            f"plug-in {plugin.value}{at} did not register the {kind} {plugin.name!r} it announces",
            stacklevel=2,
        )
