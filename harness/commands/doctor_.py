"""Check this machine: package versions, plug-ins, processor, GPU, disk, OpenGL, LaTeX and git.

Given a judge, a chat or an embedder, also check its model and make one call to it. Give one model at a time; roles of a
method are accepted as well (planner=openai planner.model=…):

  bench doctor judge=transformers judge.model=PATH                                files, memory, loading, a small call
  bench doctor chat=openai chat.model=NAME                                      a language model, as a teacher calls it
  bench doctor judge=openai judge.model=NAME judge.base_url=http://localhost:8000/v1    the server and how it scores

Given a suite, also check the packages that its tasks and their frames need:

  bench doctor suite=crafter

Given a suite of open tasks and a task, also show its spaces, frame, speed and determinism:

  bench doctor suite=gymnasium task=Acrobot-v1

Given an embedder and a suite, compare distances between its vectors with distances between the states that frames of
three random episodes show:

  bench doctor embedder=spatial suite=metaworld_mt10 task=reach
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guidebench.harness.findings import Finding
from guidebench.harness.machine import cores, visible_gpus

HELP = "check packages, GPU, disk and system programs, or a model"
RUNS_CODE = True
EXTRAS = {"transformers": "vlm", "openai": "openai"}
"""Backend -> the extra of this package that it needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "judge=…, chat=…, embedder=… or another role of a model, and its settings: check that model too; suite=…"
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=help_text)
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
    settings = grammar.single(overrides)
    if "suite" in settings and all(key in ("suite", "task") or key.startswith("suite.") for key in settings):
        return _suite(settings)
    roles = {kind: {kind} for kind in registry.MODELS} | registry.roles()
    model_roles = [(role, kind) for role in settings for kind in roles.get(role, ()) if kind in registry.MODELS]
    words = ("suite", *(["task"] if "suite" in settings else []), *roles)
    if strange := next((key for key in settings if key not in words and "." not in key), ""):
        if meaning := meanings.other_meaning(strange, str(settings[strange])):
            raise UserError(f"{strange}= says nothing to bench doctor: {meaning}")
        raise unknown_words.key(strange, [settings[strange]], words)
    if not model_roles:
        raise UserError(f"{next(iter(settings))}= is given without a model; add judge=…, chat=… or embedder=…")
    role, kind = model_roles[0]
    if other := next((name for name, _ in model_roles if name != role), ""):
        raise UserError(f"{role}= and {other}= name two models; bench doctor checks one at a time")
    from guidebench.harness.models import checkup, single_calls

    if kind == "embedder" and "suite" in settings:
        return _distances(settings, role)
    config = single_calls.model(kind, settings, role)
    findings = [finding._replace(text=in_role(finding.text, kind, role)) for finding in checkup.findings(config, kind)]
    return [*_packages(EXTRAS.get(config.backend, "none")), *findings]


def _distances(overrides: Mapping[str, Any], role: str) -> list[Finding]:
    """Check how the distances between an embedder's vectors of a task's frames follow those between states; UserError
    for a suite that tells no places, or an embedder that embeds no frames."""
    from guidebench.harness import registry
    from guidebench.harness.models import distances, single_calls
    from guidebench.harness.plan.config import task_of

    name = str(overrides["suite"])
    suite = registry.get("suite", name)()
    task = task_of(name, str(overrides["task"])) if "task" in overrides else suite.tasks[0]
    arguments = {key: setting for key, setting in overrides.items() if key not in ("suite", "task")}
    embed = single_calls.embedding("embedder", arguments, role, suite, task)
    comparison = distances.measure(embed, suite, task, suite.drawing())
    text = (
        f"{name}/{task}: Spearman's ρ of distances between vectors and between states "
        f"{comparison.rank_correlation:.2f}, over {comparison.pairs:,} pairs of frames of three random episodes; "
        f"median distance of two vectors {comparison.median:.2f}"
    )
    if comparison.ranked is not None:
        text += f"; FuRL's gap of {distances.GAP:g} ranks {comparison.ranked:.0%} of the pairs"
    if math.isnan(comparison.rank_correlation):
        text += "; all distances are equal, so the embedder tells no two frames apart: choose another one"
    return [Finding("distances", comparison.rank_correlation > 0, text)]


def _suite(overrides: Mapping[str, Any]) -> list[Finding]:
    """Check what the tasks of a suite, or one of them, and their frames need."""
    from guidebench.harness import registry, settings
    from guidebench.harness.errors import UserError, count
    from guidebench.harness.plan.config import task_of

    name = str(overrides["suite"])
    home = registry.get("suite", name)
    if "task" not in overrides and not home.tasks:
        raise UserError(f"suite={name} lists no tasks, since it makes any of them; add task=…")
    words = settings.typed(home, overrides, "suite")
    suite = home(**words)
    tasks = (task_of(name, str(overrides["task"]), words),) if "task" in overrides else suite.tasks
    missing: dict[str, None] = {}
    for check in (*(lambda task=task: suite.ready(task) for task in tasks), suite.drawing().ready):
        try:
            check()
        except UserError as error:
            missing[str(error)] = None
    message = f"{count(len(tasks), 'task')} and {'its' if len(tasks) == 1 else 'their'} frames can be made"
    findings = [Finding(name, False, text) for text in missing] or [Finding(name, True, message)]
    of_task = suite.examined(tasks[0]) if "task" in overrides else ()
    return [*findings, *suite.findings(), *of_task]


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
    drawing_parts = [drawing for drawing in drawings if isinstance(drawing, type) and issubclass(drawing, DrawingPart)]
    findings = list(dict.fromkeys(finding for drawing in drawing_parts for finding in drawing.findings()))
    for program, purpose in (("pdflatex", "compiles the LaTeX tables"), ("git", "records the commit of a run")):
        path = shutil.which(program)
        findings.append(Finding(program, True if path else None, purpose))
    return findings
