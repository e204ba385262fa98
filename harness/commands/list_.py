"""List suites, methods and the parts of methods by kind, plug-ins included.

  bench list chat      only the chats

A part whose name ends with a role's name is the one that the short name means in that role: where there is a chat
`scripted_feedback`, `feedback=scripted` means it.
"""

from __future__ import annotations

import argparse
import json

HELP = "list suites, methods, learners, replays, judges and other parts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        nargs="?",
        help="only this kind: suite, method, learner, replay, guide, agent, judge, teacher, chat, embedder, dataset, "
        "launcher",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: kind -> names")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import registry
    from guidebench.harness.errors import unknown

    kind = args.kind.removesuffix("s") if args.kind else None
    if kind is not None and kind not in registry.KINDS:
        raise unknown("kind", args.kind, registry.KINDS)
    kinds = [kind] if kind else list(registry.KINDS)
    found = {name: registry.names(name) for name in kinds}
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for name in kinds:
        print(f"{name}s" if name != "replay" else "replays")
        for entry in found[name]:
            print(f"  {entry:<20} {describe(name, registry.get(name, entry))}".rstrip())
    return 0


def describe(kind: str, thing: object) -> str:
    """Return a one-line description of a registered object."""
    if kind == "method":
        return str(thing.summary)  # type: ignore[attr-defined]
    first = " ".join((getattr(thing, "__doc__", "") or "").strip().split("\n\n")[0].split())
    if kind == "suite":
        return f"{first}  tasks: {', '.join(thing.tasks)}"  # type: ignore[attr-defined]
    if kind in ("judge", "chat", "embedder"):
        return f"{first}  [{thing.backend}]"  # type: ignore[attr-defined]
    return first
