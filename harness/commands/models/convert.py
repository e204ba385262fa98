"""A published torch.save checkpoint, such as LIV's, as safetensors; done once, and nothing in the checkpoint is run.

bench models convert model.pt liv.safetensors      then name liv.safetensors as the model
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "a torch.save checkpoint as safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="CHECKPOINT", help="a file as torch.save wrote it")
    parser.add_argument("target", type=Path, metavar="FILE", help="the safetensors file to write, new")
    parser.add_argument("--architecture", default="", help="open_clip's name for it; found by itself for CLIP RN50")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.convert import convert

    done = convert(args.source, args.target, args.architecture)
    known = f", {done.architecture}: name it as a model that embeds" if done.architecture else ""
    print(f"{args.target}: {done.tensors} tensors, {done.parameters:,} numbers{known}")
    return 0
