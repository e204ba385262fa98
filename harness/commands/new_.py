"""Write an installable package with a replay, a reward guide or a suite of your own. It runs without changes and has a
test and a page.

  bench new replay my_replay       a sampler of batches, and a method of that name that uses it
  bench new guide my_reward        a guide that computes rewards, and a method of that name that uses it
  bench new suite my_suite         tasks and their protocol
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

HELP = "write a package with a replay, a reward guide or a suite of your own"


class Skeleton(NamedTuple):
    """The package that is written for a kind."""

    registers: tuple[str, ...]
    """Kinds under which the package registers its name."""
    modules: tuple[str, ...]
    """Modules in addition to `__init__`."""
    command: str
    """Overrides of the `bench run` command that tries it out."""


SKELETONS = {
    "replay": Skeleton(("method", "replay"), ("sampler",), "suite=minigrid_doorkey method=uer,$name"),
    "guide": Skeleton(("method", "guide"), ("guide",), "suite=minigrid_doorkey method=uer,$name"),
    "suite": Skeleton(("suite",), ("task",), "suite=$name method=uer,per"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(SKELETONS), help="kind of package")
    parser.add_argument("name", help="name to register: lower-case letters, digits and _")
    parser.add_argument("--directory", type=Path, help="directory to write (./NAME)")


def run(args: argparse.Namespace) -> int:
    import keyword
    import re
    import string
    from importlib import resources

    from guidebench.harness import registry
    from guidebench.harness.errors import UserError

    name, kind = str(args.name), str(args.kind)
    skeleton = SKELETONS[kind]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"{name!r} is not a name for a {kind}; use lower-case letters, digits and _ (my_{kind})")
    if clashing_kinds := [other for other in skeleton.registers if name in registry.names(other)]:
        raise UserError(f"there is a {' and a '.join(clashing_kinds)} {name!r} already; choose another name")
    directory: Path = args.directory or Path(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} exists and is not empty; choose another --directory")
    package = f"guidebench_{name}"
    words = {
        "name": name,
        "kind": kind,
        "package": package,
        "Class": "".join(part.title() for part in name.split("_")),
        "entry_points": "\n\n".join(
            f'[project.entry-points."guidebench.{other}s"]\n{name} = "{package}"' for other in skeleton.registers
        ),
    }
    files = {
        "pyproject.toml": "pyproject.toml",
        f"{kind}/README.md": "README.md",
        f"{kind}/init.py": f"{package}/__init__.py",
        **{f"{kind}/{module}.py": f"{package}/{module}.py" for module in skeleton.modules},
        f"{kind}/test.py": f"tests/test_{name}.py",
    }
    templates = resources.files("guidebench.harness.commands") / "templates"
    for source, target in files.items():
        text = string.Template((templates / f"{source}.template").read_text(encoding="utf-8")).substitute(words)
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = string.Template(skeleton.command).substitute(words)
    print(f"{directory}: a {kind} {name!r} that runs without changes; README.md is its page\n")
    print(f"  pip install -e {directory}")
    print(f"  bench run {command} profile=smoke seeds=2")
    print(f"  pytest {directory}")
    return 0
