"""Clips judged per second by batch size, against a plain loop over `generate`, on models with random weights.

    python -m benchmarks.judging [--json] [--rounds 3] [--clips 16] [--batches 1 2 4 8 16]
    python -m benchmarks.judging --device cuda --real --clips 64 --batches 1 4 16 64      Perception-LM 1B's own sizes
    python -m benchmarks.judging --models qwen_vl                                          one of the two

The plain loop judges one clip at a time and generates four tokens, "Answer: Yes" and the end. Ours uses the backend of
studies: batches, one scored token, equal frames encoded once, and a cached prompt if the prompt comes first
(Qwen2.5-VL; Perception-LM puts frames first). Clips show an agent that acts randomly on DoorKey 16x16, or noise without
equal frames. A round's ratio uses processor time on a CPU, which other processes do not affect, and wall-clock time on
a GPU. A prompt's token is one byte here, so prompts are long compared with these small frames: with published
tokenizers and frames, caching the prompt saves less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.table import Line
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import JudgeCall
from guidebench.suites.minigrid_doorkey import PROMPT, DoorKeyDrawing
from guidebench.suites.minigrid_doorkey.task import DoorKey

REAL_TEXT = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 11_520,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
"""Sizes of Llama 3.2 1B, the language model of Perception-LM 1B, whose 448-pixel tower gives 256 tokens per frame."""
REAL_TOWER = {"embed_dim": 1024}
"""Size of Perception Encoder's language-aligned L/14 in timm, with 448 pixels per side."""
WRITTEN = 4
ARCHITECTURES = ["perception_lm", "qwen_vl"]


def measure(options: argparse.Namespace, architecture: str) -> dict[str, Any]:
    """Return seconds per clip of each batch size and of the plain loop, and their ratios."""
    from guidebench.harness.models.backends.transformers_.loaded_model import Source
    from guidebench.harness.models.backends.transformers_.model import TransformersModel
    from tests.harness.models import tiny_models

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sizes: dict[str, Any] = {"hidden": options.hidden, "layers": options.layers}
        if architecture == "perception_lm":
            sizes |= {"side": 448, "text": REAL_TEXT, "tower": REAL_TOWER} if options.real else {"side": 56}
        directory = getattr(tiny_models, architecture)(Path(folder) / "model", **sizes)
        dtype: Any = "bfloat16" if options.device.startswith("cuda") else "float32"
        source = Source(str(directory), dtype=dtype, device=options.device)
        models = {size: TransformersModel(source, batch_size=size) for size in options.batches}
    every = {"DoorKey": walk(options.clips, options.length), "noise": noise(options.clips, options.length)}
    parameters = sum(part.numel() for part in models[options.batches[0]]._loaded.model.parameters())
    rows, tokens = [], 0
    for name, clips in every.items():
        plain: list[Array] = []
        ours: dict[int, list[Array]] = {size: [] for size in options.batches}
        for turn in range(options.rounds + 1):  # the first turn warms up
            begun = _clocks(options.device)
            for clip in clips[: options.plain]:
                loop(models[options.batches[0]]._loaded, clip)
            plain.append((_clocks(options.device) - begun) / options.plain)
            for size, model in models.items():
                begun = _clocks(options.device)
                tokens = judge(model, clips[: 2 * size] if not turn else clips)
                ours[size].append((_clocks(options.device) - begun) / len(clips))
        clock = 0 if options.device.startswith("cuda") else 1
        for size, taken in ours.items():
            seconds = [times[clock] for times in taken[1:]]
            ratios = [theirs[clock] / mine for theirs, mine in zip(plain[1:], seconds, strict=True)]
            row = {"clips": name, "batch": size, "seconds_per_clip": statistics.median(seconds)}
            row |= {"wall_seconds_per_clip": statistics.median(times[0] for times in taken[1:])}
            row |= {"plain_seconds_per_clip": statistics.median(times[clock] for times in plain[1:])}
            row |= {"ratio": statistics.median(ratios), "ratio_lowest": min(ratios), "ratio_highest": max(ratios)}
            rows.append(row)
    different = {name: len({frame.tobytes() for clip in clips for frame in clip}) for name, clips in every.items()}
    return {
        "model": architecture,
        "parameters": parameters,
        "device": options.device,
        "clips": options.clips,
        "length": options.length,
        "tokens": tokens,
        "different_frames": different,
        "rows": rows,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if options.device.startswith("cuda") else None,
    }


def judge(model: Any, clips: Sequence[Array]) -> int:
    """Judge all clips concurrently; return the tokens of a clip."""

    async def together() -> int:
        replies = await asyncio.gather(*(model.answer(JudgeCall(clip, PROMPT)) for clip in clips))
        return int(replies[0].usage.tokens_in)

    return asyncio.run(together())


def loop(loaded: Any, clip: Array) -> str:
    """Judge one clip as a simple script would: the processor's chat template, `generate`, and the text."""
    content = [{"type": "video", "video": list(clip)}, {"type": "text", "text": PROMPT}]
    inputs = loaded.processor.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"do_sample_frames": False},
    ).to(loaded.device, loaded.model.dtype)
    with torch.inference_mode():
        tokens = loaded.model.generate(**inputs, max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, do_sample=False)
    return str(loaded.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :]))


def walk(count: int, length: int) -> list[Array]:
    """Return clips of an agent that acts randomly on DoorKey 16x16, uint8 [length, 256, 256, 3]."""
    task, draw, random = DoorKey(16), DoorKeyDrawing(tile_size=16).spawn("16x16"), np.random.default_rng(0)
    task.reset(0)
    clips = []
    for _ in range(count):
        snapshots = []
        for _ in range(length):
            snapshots.append(task.snapshot())
            task.step(int(random.integers(5)))
        clips.append(draw(np.stack(snapshots)))
    return clips


def noise(count: int, length: int) -> list[Array]:
    return list(np.random.default_rng(0).integers(0, 256, (count, length, 256, 256, 3), dtype=np.uint8))


def _clocks(device: str) -> Any:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return np.array([time.perf_counter(), time.process_time()])


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for of in figures["runs"]:
        best = {row["clips"]: row for row in sorted(of["rows"], key=lambda row: row["ratio"])}
        for row in best.values():
            rates = [f"{1 / row[f'{name}seconds_per_clip']:.1f} clips/s" for name in ("", "plain_")]
            label = f"{of['model']} judging {row['clips']}, {row['batch']} clips at a time: a loop over generate"
            yield Line(label, *rates, row["ratio"], "5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clips", type=int, default=16, help="clips judged per round (default %(default)s)")
    parser.add_argument("--plain", type=int, default=4, help="clips that the plain loop is timed on")
    parser.add_argument("--length", type=int, default=32, help="frames of a clip (default %(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--models", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--real", action="store_true", help="Perception-LM 1B alone, in its own sizes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    runs = [measure(options, name) for name in (["perception_lm"] if options.real else options.models)]
    if options.json:
        print(json.dumps({"runs": runs}))
        return
    for figures in runs:
        show(figures, options)


def show(figures: dict[str, Any], options: argparse.Namespace) -> None:
    total = options.clips * options.length
    distinct_frames = ", ".join(
        f"{count} of {total} frames of {name} differ" for name, count in figures["different_frames"].items()
    )
    print(f"{figures['model']}, {figures['parameters']:,} parameters on {options.device}, ", end="")
    print(f"{figures['tokens']} tokens a clip")
    print(distinct_frames)
    print("| clips | batch | clips/s | frames/s | plain loop, clips/s | ratio |\n| --- | --- | --- | --- | --- | --- |")
    for row in figures["rows"]:
        rate, spread = 1 / row["seconds_per_clip"], f"{row['ratio_lowest']:.2f} to {row['ratio_highest']:.2f}"
        print(
            f"| {row['clips']} | {row['batch']} | {rate:.2f} | {rate * options.length:.0f} | "
            f"{1 / row['plain_seconds_per_clip']:.2f} | {row['ratio']:.2f} ({spread}) |"
        )
    if figures["peak_gib"] is not None:
        print(f"{figures['peak_gib']:.2f} GiB at most. VLM-RB, table 5: 69.27 frames/s, RTX 4090, 32-frame clips")


if __name__ == "__main__":
    main()
