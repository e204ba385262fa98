"""Convert a published torch.save checkpoint, such as LIV's, to safetensors. No code in the checkpoint is executed.

bench models convert model.pt liv.safetensors      then set liv.safetensors as the model
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "convert a torch.save checkpoint to safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="CHECKPOINT", help="file written by torch.save")
    parser.add_argument("target", type=Path, metavar="FILE", help="safetensors file to write; must not exist")
    parser.add_argument(
        "--architecture", default="", help="name of the architecture in open_clip; detected for CLIP RN50"
    )


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.convert import convert

    done = convert(args.source, args.target, args.architecture)
    known = f", {done.architecture}: name it as a model that embeds" if done.architecture else ""
    print(f"{args.target}: {done.tensors} tensors, {done.parameters:,} numbers{known}")
    return 0
