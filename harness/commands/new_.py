"""Write an installable skeleton of a method of your own, outside this tree: it runs as it stands."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write the skeleton of a method of your own"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("method",), help="what to begin")
    parser.add_argument("name", help="its name: lower-case letters, digits and _")
    parser.add_argument("--directory", type=Path, help="where (./NAME)")


def run(args: argparse.Namespace) -> int:
    import keyword
    import re
    import string
    from importlib import resources

    from harness import registry
    from harness.errors import UserError

    name: str = args.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"{name!r} is not a name for a method; use lower-case letters, digits and _ (my_replay)")
    if name in registry.names("method") or name in registry.names("replay"):
        raise UserError(f"there is a method or replay {name!r} already; choose another name")
    directory: Path = args.directory or Path(name)
    if directory.exists() and any(directory.iterdir()):
        raise UserError(f"{directory} exists and is not empty; choose another --directory")
    words = {"name": name, "package": f"guidebench_{name}", "Class": "".join(part.title() for part in name.split("_"))}
    template = resources.files("harness") / "templates" / args.kind
    for source, target in FILES[args.kind].items():
        text = string.Template((template / source).read_text(encoding="utf-8")).substitute(words)
        path = directory / string.Template(target).substitute(words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{directory}: a method {name!r} that runs as it stands\n")
    print(f"  pip install -e {directory}")
    print(f"  bench run suite=minigrid_doorkey method=uer,{name} profile=smoke seeds=2")
    print(f"  pytest {directory}")
    return 0


FILES = {
    "method": {
        "pyproject.toml.template": "pyproject.toml",
        "README.md.template": "README.md",
        "init.py.template": "$package/__init__.py",
        "sampler.py.template": "$package/sampler.py",
        "test.py.template": "tests/test_$name.py",
    }
}
