"""Convert a published torch.save checkpoint, such as LIV's or S3D's, or a GGUF file to safetensors. No code in it is
executed.

bench models convert model.pt liv.safetensors      then set liv.safetensors as the model
bench models convert s3d_howto100m.pth s3d.safetensors --words s3d_dict.npy
bench models convert smollm2.gguf smollm2          a directory of full precision; set ./smollm2 as the model of a chat
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "convert a torch.save checkpoint or a GGUF file to safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="CHECKPOINT", help="file written by torch.save, or FILE.gguf")
    parser.add_argument("target", type=Path, metavar="FILE", help="safetensors file (of GGUF: directory) to write; new")
    parser.add_argument(
        "--architecture", default="", help="name of the architecture in open_clip; detected for CLIP RN50 and S3D"
    )
    parser.add_argument(
        "--words", type=Path, metavar="LIST", help="S3D's word list: the published .npy, or text with one word a line"
    )


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.models.access import GGUF
    from guidebench.harness.models.convert import convert

    conversion = convert(args.source, args.target, args.architecture, args.words)
    use = "chats" if args.source.name.endswith(GGUF) else "embeds"
    note = f", {conversion.architecture}: name it as a model that {use}" if conversion.architecture else ""
    print(f"{args.target}: {conversion.tensors} tensors, {conversion.parameters:,} numbers{note}")
    return 0
