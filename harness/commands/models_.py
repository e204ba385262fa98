"""List foundation models, draft prompts, and inspect, export or import the recorded calls of a study.

examples:
  bench models list                            models by short name, with calls, backends, prices and licences
  bench models prompt suite=classic            a request for a judging prompt, for any chat model
  bench models stats runs/mine                 recorded questions, images and failures, and their cost
  bench models export runs/mine calls.sqlite   every recorded call in one file, to replay the study elsewhere
  bench models import calls.sqlite runs/mine   add calls to a study; then `bench run … models.mode=replay`
  bench models convert liv.pt liv.safetensors  convert a torch.save checkpoint (LIV's, S3D's) or a GGUF file
"""

from __future__ import annotations

import argparse
import importlib

SUBCOMMANDS = {
    "stats": "guidebench.harness.commands.models.stats",
    "export": "guidebench.harness.commands.models.export",
    "import": "guidebench.harness.commands.models.import_",
    "convert": "guidebench.harness.commands.models.convert",
    "list": "guidebench.harness.commands.models.list_",
    "prompt": "guidebench.harness.commands.models.prompt",
}
"""Subcommand -> module; heavy packages are imported in its `run`."""
HELP = "inspect foundation models: recipes, prompts, recorded calls and their cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="subcommand", metavar="subcommand", required=True)
    for name, path in SUBCOMMANDS.items():
        module = importlib.import_module(path)
        sub = commands.add_parser(
            name, help=module.HELP, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(sub)
        sub.set_defaults(run_subcommand=module.run)


def run(args: argparse.Namespace) -> int:
    return int(args.run_subcommand(args))
