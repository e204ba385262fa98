"""Fail for bound names that do not say what they hold: `python -m tools.names`, a part of `make lint`.

Two rules. A participle, pronoun or question word of `BANNED` is bound nowhere: such a name says that something was done
to a thing, not which thing it is. A word of `GENERIC` fits everything, so together they must not become more frequent
than `CEILINGS` (name the thing instead, or lower the ceiling after a cleanup). Leading underscores and capitals do not
matter; names that are only imported count where they are defined.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

BANNED_WORDS = "told found asked seen wanted kept given each there own known shown said what where here left whole"
GENERIC_WORDS = "result results item items value values data info obj entry entries thing things content res tmp"
BANNED = frozenset(BANNED_WORDS.split())
GENERIC = frozenset(GENERIC_WORDS.split())
PACKAGE = ("guidebench", "harness", "suites", "baselines", "methods", "results", "reports")
ROOTS: Mapping[str, tuple[str, ...]] = {
    "package": PACKAGE,
    "tests": ("tests",),
    "tools": ("tools", "benchmarks", "docs"),
}
CEILINGS: Mapping[str, int] = {"package": 1_300, "tests": 650, "tools": 120}
"""Most bindings of generic names in each part of the tree."""
EXCEPTIONS: Mapping[str, str] = {
    "benchmarks/gpu/figures.py what": "a key of gpu.json",
    "methods/furl/__init__.py kept": "a setting",
    "methods/lagea/__init__.py shown": "a setting",
    "reports/leaderboard/board.py told": "a key of leaderboard.json",
    "results/verification/record.py what": "a key of the files in verifications/",
}
"""`FILE NAME` -> why the banned name stays."""


class Binding(NamedTuple):
    """A place that binds a name."""

    name: str
    line: int

    @property
    def word(self) -> str:
        """The name without leading and trailing underscores, in lower case."""
        return self.name.strip("_").lower()


def bindings(tree: ast.AST) -> Iterator[Binding]:
    """Yield every binding of a name in a module: definitions, parameters, assignments (attributes too) and aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield Binding(node.name, node.lineno)
            case ast.arg():
                yield Binding(node.arg, node.lineno)
            case ast.Name(ctx=ast.Store()):
                yield Binding(node.id, node.lineno)
            case ast.Attribute(ctx=ast.Store()):
                yield Binding(node.attr, node.lineno)
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield Binding(name, node.lineno)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield Binding(name, node.lineno)


def python_files(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield the Python files of folders in alphabetical order; links are not followed."""
    for folder in folders:
        yield from (path for path in sorted((root / folder).rglob("*.py")) if not path.is_symlink())


def check(root: Path) -> list[str]:
    """Return a message for each violation in a checkout."""
    messages = []
    unused = set(EXCEPTIONS)
    for part, folders in ROOTS.items():
        count = 0
        for path in python_files(root, folders):
            file = path.relative_to(root).as_posix()
            for binding in bindings(ast.parse(path.read_text(encoding="utf-8"))):
                count += binding.word in GENERIC
                if binding.word not in BANNED:
                    continue
                unused.discard(place := f"{file} {binding.name}")
                if place not in EXCEPTIONS:
                    messages.append(
                        f"{file}:{binding.line}: `{binding.name}` does not say what it holds; name the thing"
                    )
        if count > CEILINGS[part]:
            messages.append(
                f"{part}: {count} bindings of generic names ({', '.join(sorted(GENERIC))}), more than "
                f"{CEILINGS[part]}; name what they hold"
            )
    messages += [f"tools/names.py: the exception `{place}` is not needed any more" for place in sorted(unused)]
    return messages


def main() -> int:
    """Print the violations of this checkout; return 1 if there are any."""
    messages = check(Path(__file__).resolve().parents[1])
    print("\n".join(messages[:200]) or "names: every bound name says what it holds")
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main())
