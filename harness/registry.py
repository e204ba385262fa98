"""One registry: everything that a command names is found here, and nothing heavy is imported to find it.

Modules directly below the packages in `BUILT_IN` register themselves when imported; they hold configuration only
and import torch, gymnasium and the like inside `spawn()` (a test enforces it). Outside packages join through entry
points (`guidebench.methods`, …) whose value is a module that registers; one that breaks is a warning with its name.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from harness.errors import UserError, unknown

KINDS = ("suite", "method", "learner", "replay", "guide", "agent", "judge", "teacher", "chat", "embedder")
BUILT_IN = (
    "suites", "baselines.learners", "baselines.replay", "baselines.guides", "baselines.agents", "baselines.teachers",
    "methods", "harness.judges", "harness.chats", "harness.embedders",
)  # fmt: skip
T = TypeVar("T")

_entries: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
_loaded: set[str] = set()


def _decorator(kind: str, name: str) -> Callable[[T], T]:
    def add(thing: T) -> T:
        present = _entries[kind].get(name)
        if present is not None and _origin(present) != _origin(thing):
            raise UserError(f"{kind} {name!r} is registered twice: by {_origin(present)} and by {_origin(thing)}")
        _entries[kind][name] = thing
        return thing

    return add


def _origin(thing: Any) -> str:
    described = thing if isinstance(thing, type) else type(thing)
    where: str = getattr(thing, "module", None) or described.__module__
    return f"{where}.{getattr(thing, '__qualname__', described.__qualname__)}"


class Register:
    """`@register.replay("per")` above a frozen dataclass gives it its name; methods register an instance."""

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


register = Register()


def get(kind: str, name: str) -> Any:
    """The thing registered as `name`; UserError with the nearest names if there is none."""
    _load_built_in()
    if name not in _entries[kind]:
        for entry in _outside(kind):
            if entry.name == name:
                _load_outside(kind, entry)
    if name not in _entries[kind]:
        raise unknown(kind, name, names(kind))
    return _entries[kind][name]


def names(kind: str) -> list[str]:
    """Every registered name of a kind, sorted, plug-ins included."""
    _load_built_in()
    for entry in _outside(kind):
        _load_outside(kind, entry)
    return sorted(_entries[kind])


def _load_built_in() -> None:
    if "" in _loaded:
        return
    _loaded.add("")
    for package_name in BUILT_IN:
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package_name}.{module.name}")


def _outside(kind: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"guidebench.{kind}s"))


def _load_outside(kind: str, entry: EntryPoint) -> None:
    key = f"{kind}:{entry.name}"
    if key in _loaded:
        return
    _loaded.add(key)
    try:
        entry.load()
    except Exception as error:  # a stranger's module may raise anything; it must not take the harness down
        warnings.warn(f"plug-in {entry.name!r} ({entry.value}) is broken and left out: {error!r}", stacklevel=2)
        return
    if entry.name not in _entries[kind]:
        warnings.warn(f"plug-in {entry.value} did not register the {kind} {entry.name!r} it announces", stacklevel=2)
