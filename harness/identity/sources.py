"""Digests of the source code that a run executes: the modules of its parts and of the engine.

The modules are found by following import statements, also inside functions, from the modules that register the cell's
parts and from the worker, within this project and the packages of plug-ins. Other packages are recorded by version.
Comments on lines of their own, docstrings and blank lines do not change a digest.

Digests are recorded per group of modules, so that a difference can be named: `harness.loop`, `methods.vlm_rb`,
`baselines.learners.sac`.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import registry
from guidebench.harness.plan.names import Names
from guidebench.harness.records.files import write_bytes

PACKAGE = "guidebench"
ROOT = Path(__file__).absolute().parents[3]
"""Directory from which this project is imported: a checkout or the installed packages."""
PROJECT = ("guidebench.harness", "guidebench.suites", "guidebench.baselines", "guidebench.methods")
"""The packages of this project whose code a run executes."""
ENGINE = "guidebench.harness.run.worker"
BEFORE = tuple(
    f"guidebench.harness.{name}"
    for name in (
        "run.study", "plan.matrix", "run.estimates", "findings", "models.checkup", "models.contact", "run.readiness",
    )
)  # fmt: skip
"""Modules that run only before a worker begins; they are excluded from the digests."""
DATA = (".toml", ".json", ".csv", ".txt")
"""Extensions of data files beside modules, which the modules may read."""
LENGTH = 12
"""Hexadecimal digits of a digest; the chance that two sources share one is below 1e-14."""
MOST_MODULES = 4_000
"""Maximum number of modules in the digest cache; if exceeded, modules not used in the last call are dropped."""
FORMAT = 1


class Module(NamedTuple):
    """Digest and imports of a module's source."""

    digest: str
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]
    """Import statements: number of leading dots, module, imported names (none for `import module`)."""


def of(names: Names) -> dict[str, str]:
    """Return group of modules -> digest for a cell of these names, and `package NAME` -> version for plug-ins."""
    return Sources().of(names)


def differing(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the sorted groups whose digests differ between a record and the present sources."""
    return sorted(group for group in {*recorded, *now} if recorded.get(group) != now.get(group))


def plugins(names: Names) -> dict[str, str]:
    """Return distribution -> version of the plug-ins that provide parts of a cell of these names."""
    outside = (part for part in _parts(names) if _top(registry.home(*part)) not in PROJECT)
    return dict(filter(None, (registry.distribution(kind, name) for kind, name in outside)))


def _parts(names: Names) -> list[tuple[str, str]]:
    """Return (kind, name) of the suite, the method and all parts of a cell, and of the encoders of its observations."""
    chosen = ((part.kind, part.name) for part in names.parts)
    suite = registry.get("suite", names.suite)
    observations = [suite().spaces(names.task)[0]] if names.task in suite.tasks else []  # an open task names no encoder
    arrays = (array for space in observations for array in (space.parts.values() or (space,)))
    encoders = (("encoder", array.encoder) for array in arrays if array.encoder)
    parts = list(dict.fromkeys([("suite", names.suite), ("method", names.method), *chosen, *encoders]))
    for kind, name in parts:
        registry.get(kind, name)
    return parts


class Sources:
    """A snapshot of the sources, in which each file is read once."""

    def __init__(self) -> None:
        self._cached = _load()
        self._used: dict[str, Module] = {}
        self._files: dict[str, Path | None] = {}
        self._modules: dict[str, Module] = {}
        self._by_homes: dict[tuple[str, ...], dict[str, str]] = {}

    def of(self, names: Names) -> dict[str, str]:
        """Return group of modules -> digest, and `package NAME` -> version for plug-ins, for a cell of these names."""
        homes = tuple(sorted({registry.home(kind, name) for kind, name in _parts(names)}))
        if homes not in self._by_homes:
            plugged = {f"package {name}": version for name, version in plugins(names).items()}
            self._by_homes[homes] = self._digests(homes) | plugged
            if self._used.keys() - self._cached.keys():
                self._cached |= self._used
                _save(self._cached, self._used)
        return self._by_homes[homes]

    def _digests(self, homes: Iterable[str]) -> dict[str, str]:
        tops = {*PROJECT, *map(_top, homes)}
        queue, visited = [ENGINE, *homes], set[str]()
        while queue:
            name = queue.pop()
            if name in visited or name in BEFORE or self._file(name) is None:
                continue
            visited.add(name)
            package = name.rpartition(".")[0]
            queue.extend(other for other in (package, *self._imported(name)) if other and _top(other) in tops)
        groups: dict[str, list[str]] = {}
        for name in sorted(visited):
            groups.setdefault(_group(name), []).append(f"{name} {self._module(name).digest}")
        return {group: _digest("\n".join(lines).encode()) for group, lines in sorted(groups.items())}

    def _imported(self, name: str) -> Iterator[str]:
        """Yield the names that a module imports; the caller skips those that are not modules, since they have no
        file."""
        file = self._file(name)
        assert file is not None
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for dots, module, names in self._module(name).imports:
            origin = package.split(".")[: len(package.split(".")) - dots + 1] if dots else []
            base = ".".join(filter(None, (*origin, module)))
            yield base
            yield from (f"{base}.{imported}" for imported in names)

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            file = self._file(name)
            assert file is not None
            content = file.read_bytes()
            data_files = _data(file.parent) if file.name == "__init__.py" else b""
            key = _digest(content + b"\0" + data_files, 2 * LENGTH)
            self._modules[name] = self._used[key] = self._cached.get(key) or _understood(content, data_files)
        return self._modules[name]

    def _file(self, name: str) -> Path | None:
        """Return the source file of a module, or None if the name has none."""
        if name not in self._files:
            top, *rest = name.split(".")
            place = ROOT if top == PACKAGE else _place(top)
            self._files[name] = None
            if place is not None:
                path = place.joinpath(top, *rest)
                candidates = (path / "__init__.py", path.with_name(f"{path.name}.py"))
                self._files[name] = next((file for file in candidates if file.is_file()), None)
        return self._files[name]


def _place(top: str) -> Path | None:
    """Return the directory of a plug-in's top-level package or module, or None if it has no source file."""
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        module_spec = getattr(sys.modules.get(top), "__spec__", None) or importlib.util.find_spec(top)
        if module_spec is not None and module_spec.origin and module_spec.origin.endswith(".py"):
            file = Path(module_spec.origin)
            return file.parent.parent if file.name == "__init__.py" else file.parent
    return None


def _top(name: str) -> str:
    """Return the package that a module belongs to: one of `PROJECT`, or the top-level package of a plug-in."""
    return ".".join(name.split(".")[: 2 if name.startswith(f"{PACKAGE}.") else 1])


def _group(name: str) -> str:
    top, _, inner = name.partition(".")
    if top != PACKAGE:
        return top
    return ".".join(inner.split(".")[: 3 if inner.startswith("baselines.") else 2])


def _data(directory: Path) -> bytes:
    """Return names and contents of the data files beside a package's modules."""
    files = sorted(file for file in directory.iterdir() if file.suffix in DATA and file.is_file())
    return b"\0".join(file.name.encode() + b"\0" + file.read_bytes() for file in files)


def _understood(content: bytes, data_files: bytes) -> Module:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # importing it will raise; until then hash the whole file
        return Module(_digest(content + data_files), ())
    statements = [*_statements(tree.body)]
    imports: list[tuple[int, str, tuple[str, ...]]] = []
    for statement in statements:
        if isinstance(statement, ast.Import):
            imports += [(0, alias.name, ()) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = tuple(alias.name for alias in statement.names)
            imports.append((statement.level, statement.module or "", names))
    return Module(_digest(_code(content, statements) + data_files), tuple(imports))


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all statements except those under `if TYPE_CHECKING`, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _statements(statement.orelse)
            continue
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list):
                yield from _statements(inner)


def _code(content: bytes, statements: Iterable[ast.AST]) -> bytes:
    """Return the lines of a source that can change its behaviour."""
    lines: list[bytes] = content.splitlines()
    for statement in statements:
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
            before, after = lines[first][: statement.col_offset], lines[last][statement.end_col_offset :]
            if not before.strip() and not after.strip():  # the lines hold nothing else
                lines[first : last + 1] = [b""] * (last + 1 - first)
    # In a multi-line string, a line that begins with # is no comment.
    comments = not any(mark in line for line in lines for mark in (b'"""', b"'''"))
    code_lines: list[bytes] = []
    for line in lines:
        bare = line.strip()
        continued = bool(code_lines) and code_lines[-1].endswith(b"\\")
        if bare and not (comments and bare.startswith(b"#") and not continued):
            code_lines.append(line.rstrip())
    return b"\n".join(code_lines)


def _digest(content: bytes, length: int = LENGTH) -> str:
    return hashlib.sha256(content).hexdigest()[:length]


def _cache() -> Path:
    """Return the file that caches digests and imports by source content, since parsing is slow."""
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / "sources.json"


def _load() -> dict[str, Module]:
    try:
        content = json.loads(_cache().read_bytes())
        if content["format"] != FORMAT:
            return {}
        return {
            key: Module(str(digest), tuple((int(dots), str(module), tuple(names)) for dots, module, names in imports))
            for key, (digest, imports) in content["modules"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _save(modules: Mapping[str, Module], used_modules: Mapping[str, Module]) -> None:
    stored = modules if len(modules) <= MOST_MODULES else used_modules
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
        write_bytes(_cache(), json.dumps({"format": FORMAT, "modules": stored}).encode())
