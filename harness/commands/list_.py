"""List suites, methods and the parts of methods by kind, trackers and sets of models, plug-ins included.

  bench list chat      only the chats

A part whose name ends with a role's name is the one that the short name means in that role: where there is a chat
`scripted_feedback`, `feedback=scripted` means it.
"""

from __future__ import annotations

import argparse
import json

HELP = "list suites, methods, learners, replays, judges and other parts, trackers and sets of models"
OTHERS = {"tracker": "trackers (trackers=NAME)", "model_set": "sets of models (models=NAME)"}
"""Kinds that are no parts of a cell -> heading."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        nargs="?",
        help="only this kind: suite, method, learner, replay, guide, agent, judge, teacher, chat, embedder, dataset, "
        "launcher, tracker, model_set",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: kind -> names")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import registry
    from guidebench.harness.errors import unknown

    every = (*registry.KINDS, *OTHERS)
    kind = args.kind.removesuffix("s") if args.kind else None
    if kind is not None and kind not in every:
        raise unknown("kind", args.kind, every)
    kinds = [kind] if kind else every
    names_by_kind = {name: registry.names(name) for name in kinds}
    if args.json:
        print(json.dumps(names_by_kind, indent=1))
        return 0
    for name in kinds:
        print(OTHERS.get(name, f"{name}s"))
        for part_name in names_by_kind[name]:
            part = registry.get(name, part_name)
            print(f"  {part_name:<20} {describe(name, part)}{lacks(name, part_name, part)}".rstrip())
    return 0


def lacks(kind: str, name: str, part: object) -> str:
    """Return a note on how to install the extra that a part needs, if it is missing, else ""."""
    from guidebench.harness import extras

    extra = name if kind == "tracker" else getattr(part, "extra", "")
    if extra not in extras.EXTRAS or extras.is_installed(extra):
        return ""
    return f"  (not installed, {extras.EXTRAS[extra].megabytes} MB: {extras.install_line(extra)})"


def describe(kind: str, part: object) -> str:
    """Return a one-line description of a registered object."""
    if kind == "method":
        return str(part.summary)  # type: ignore[attr-defined]
    first = " ".join((getattr(part, "__doc__", "") or "").strip().split("\n\n")[0].split())
    if kind == "suite":
        tasks, levels = ", ".join(part.tasks) or "any, named with task=…", ", ".join(part.difficulties)  # type: ignore[attr-defined]
        return f"{first}  tasks: {tasks}" + (f"  difficulties: {levels}" if levels else "")
    if kind in ("judge", "chat", "embedder"):
        return f"{first}  [{part.backend}]"  # type: ignore[attr-defined]
    return first
