"""Check this machine: package versions, plug-ins, processor, GPU, disk, OpenGL, LaTeX and git.

Given a judge, a chat or an embedder, also check its model and make one call to it. Give one model at a time; roles of a
method are accepted as well (planner=openai planner.model=…):

  bench doctor judge=transformers judge.model=PATH                                files, memory, loading, a small call
  bench doctor chat=openai chat.model=NAME                                      a language model, as a teacher calls it
  bench doctor judge=openai judge.model=NAME judge.base_url=http://localhost:8000/v1    the server and how it scores

Given a suite, also check the packages that its tasks and their frames need:

  bench doctor suite=crafter
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.findings import Finding
from guidebench.harness.machine import cores, visible_gpus

HELP = "check packages, GPU, disk and system programs, or a model"
EXTRAS = {"transformers": "vlm", "openai": "openai"}
"""Backend -> the extra of this package that it needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = "judge=…, chat=…, embedder=… or another role of a model, and its settings: check that model too; suite=…"
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=told)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    findings = [*_packages(), *_plugins(), *_machine(), *_system(), *_model(args.overrides)]
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            mark = {True: "ok", False: "PROBLEM", None: "missing"}[finding.ok]
            text = "".join(
                character if character.isprintable() else " " for character in finding.text
            )  # a server's too
            print(f"{mark:>8}  {finding.name:<14} {text}")
    return 1 if any(finding.ok is False for finding in findings) else 0


def _model(overrides: Sequence[str]) -> list[Finding]:
    from guidebench.harness import meanings, registry
    from guidebench.harness.errors import UserError, in_role
    from guidebench.harness.plan import grammar, unknown_words

    if not overrides:
        return []
    given = grammar.single(overrides)
    if set(given) <= {"suite", "task"} and "suite" in given:
        return _suite(given)
    roles = {kind: {kind} for kind in registry.MODELS} | registry.roles()
    found = [(role, kind) for role in given for kind in roles.get(role, ()) if kind in registry.MODELS]
    words = ("suite", *(["task"] if "suite" in given else []), *roles)
    if strange := next((key for key in given if key not in words and "." not in key), ""):
        if meaning := meanings.other_meaning(strange, str(given[strange])):
            raise UserError(f"{strange}= says nothing to bench doctor: {meaning}")
        raise unknown_words.key(strange, [given[strange]], words)
    if not found:
        raise UserError(f"{next(iter(given))}= is given without a model; add judge=…, chat=… or embedder=…")
    role, kind = found[0]
    if other := next((each for each, _ in found if each != role), ""):
        raise UserError(f"{role}= and {other}= name two models; bench doctor checks one at a time")
    from guidebench.harness.models import checkup, single_calls

    config = single_calls.model(kind, given, role)
    told = [each._replace(text=in_role(each.text, kind, role)) for each in checkup.findings(config, kind)]
    return [*_packages(EXTRAS.get(config.backend, "none")), *told]


def _suite(given: Mapping[str, Any]) -> list[Finding]:
    """Check what the tasks of a suite, or one of them, and their frames need."""
    from guidebench.harness import registry
    from guidebench.harness.errors import UserError, count
    from guidebench.harness.plan.config import task_of

    name = str(given["suite"])
    suite = registry.get("suite", name)()
    tasks = (task_of(name, str(given["task"])),) if "task" in given else suite.tasks
    missing: dict[str, None] = {}
    for check in (*(lambda task=task: suite.ready(task) for task in tasks), suite.drawing().ready):
        try:
            check()
        except UserError as error:
            missing[str(error)] = None
    told = f"{count(len(tasks), 'task')} and {'its' if len(tasks) == 1 else 'their'} frames can be made"
    found = [Finding(name, False, text) for text in missing] or [Finding(name, True, told)]
    return [*found, *suite.findings()]


def _packages(extra: str = "") -> list[Finding]:
    """Check the versions of the requirements of the package, or of one of its extras."""
    import re
    from importlib import metadata

    findings = []
    try:
        requirements = metadata.requires("guidebench") or []
    except metadata.PackageNotFoundError:
        return [Finding("guidebench", False, "not installed; pip install -e . in its directory")]
    for requirement in requirements:
        name = re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]
        of_extra = re.search(r"extra == [\"'](\w+)", requirement)
        if (of_extra[1] if of_extra else "") != extra:
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            findings.append(Finding(name, False, f"not installed; pip install '{requirement}'"))
            continue
        from packaging.requirements import Requirement

        fits = Requirement(requirement).specifier.contains(version, prereleases=True)
        findings.append(Finding(name, fits, version if fits else f"{version} does not fit {requirement}"))
    return findings


def _plugins() -> list[Finding]:
    import warnings

    from guidebench.harness import registry

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = sum(len(registry.names(kind)) for kind in registry.KINDS)
    broken = [str(warning.message) for warning in caught]
    return [Finding("registry", not broken, "; ".join(broken) or f"{count} names")]


def _machine() -> list[Finding]:
    import shutil

    from guidebench.harness.errors import count

    findings = [Finding("processor", True, count(cores(), "core"))]
    gpus = visible_gpus()
    if gpus:
        import torch

        usable = torch.cuda.is_available()
        text = (
            torch.cuda.get_device_name() if usable else "a GPU is there but torch cannot use it; install a CUDA build"
        )
        findings.append(Finding("gpu", usable, text))
    else:
        findings.append(Finding("gpu", None, "none; runs train on CPU cores"))
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    findings.append(
        Finding("disk", free > 5, f"{free:.0f} GiB free here" + ("" if free > 5 else "; runs may need more"))
    )
    return findings


def _system() -> list[Finding]:
    import shutil

    from guidebench.harness import registry
    from guidebench.harness.parts import DrawingPart

    drawings = [registry.get("suite", name).drawing for name in registry.names("suite")]
    known = [drawing for drawing in drawings if isinstance(drawing, type) and issubclass(drawing, DrawingPart)]
    findings = list(dict.fromkeys(finding for drawing in known for finding in drawing.findings()))
    for program, purpose in (("pdflatex", "compiles the LaTeX tables"), ("git", "records the commit of a run")):
        path = shutil.which(program)
        findings.append(Finding(program, True if path else None, purpose))
    return findings
