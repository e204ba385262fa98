"""`bench`: finds the subcommand and hands over. Imports stay out of here so that help answers at once."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.errors import UserError, of_system

COMMANDS = ("list", "show", "run", "ablate", "perturb", "status", "label", "eval", "demos", "models", "new", "doctor")
"""Subcommands in `harness.commands`; others join through the entry point group `guidebench.commands`. A command is a
module with HELP, add_arguments(parser) and run(args) -> exit code."""

EXAMPLES = """\
examples:
  bench list                                              what there is to run
  bench show method=vlm_rb suite=minigrid_doorkey         every setting, who set it and its source
  bench run suite=minigrid_doorkey method=uer,per,vlm_rb profile=quick seeds=3
  bench run suite=minigrid_doorkey method=vlm_rb replay.lambda_max=0.25,0.5 --dry-run
  bench ablate suite=minigrid_doorkey method=vlm_rb profile=quick seeds=3 --only lambda_max
  bench perturb suite=minigrid_doorkey method=vlm_rb,per profile=quick seeds=3
  bench run method=pebble,rl_sallm_f chat=scripted profile=quick seeds=3
  bench label runs/NAME                                    answer the questions that wait for a person
  bench report runs/NAME
  bench compare runs/NAME --against measured               beside runs that nobody needs to repeat
  bench cite runs/NAME > used.bib
  bench leaderboard runs/NAME measured                     many studies on one page, ranked
  bench submit runs/NAME                                   an archive that others can add and verify
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; a UserError becomes one screen of text and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parser, modules = _parser(arguments)
        args, rest = parser.parse_known_args(arguments)
        if args.command is None:
            parser.print_help()
            return 0
        if hasattr(args, "overrides") and not any(word.startswith("-") for word in rest):
            args.overrides, rest = [*args.overrides, *rest], []  # argparse takes no overrides after an option
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return int(modules[args.command].run(args))
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away
        return 0
    except OSError as error:
        told = of_system(error)
        if not told:
            raise
        print(f"bench: {told}", file=sys.stderr)
        return 2


def _parser(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, Any]]:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Benchmark of reinforcement learning guided by foundation models.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", metavar="command")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    modules: dict[str, Any] = {}
    for name in COMMANDS:
        modules[name] = importlib.import_module(f"harness.commands.{name}_")
    # A built-in name needs no look at what is installed, which takes longer than the rest of the start.
    if chosen not in COMMANDS:
        for entry in plugged():
            module = _load(entry)
            if module is not None:
                modules[entry.name] = module
    for name, module in modules.items():
        sub = commands.add_parser(
            name, help=module.HELP, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(sub)
    return parser, modules


def plugged() -> list[EntryPoint]:
    """Subcommands of other packages, `report` of this one among them."""
    return sorted(entry_points(group="guidebench.commands"), key=lambda entry: entry.name)


def command(name: str) -> Any | None:
    """The module of a plugged-in subcommand, or None."""
    return next((_load(entry) for entry in plugged() if entry.name == name), None)


def _load(entry: EntryPoint) -> Any | None:
    try:
        return entry.load()
    except Exception as error:  # a stranger's module may raise anything
        print(f"bench: plug-in command {entry.name!r} is broken and left out: {error!r}", file=sys.stderr)
        return None


class _Version(argparse.Action):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "nargs": 0, "help": "show version and exit"})

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"guidebench {version('guidebench')}")
        parser.exit()
