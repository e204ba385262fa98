"""Galleries of runs as `bench eval --gallery` writes them, made up for tests."""

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from guidebench.harness.records.schema import SCHEMA_VERSION


def webp(frames: int = 5, size: tuple[int, int] = (8, 6), first: int = 0, **options: Any) -> bytes:
    """Return an animated WebP file whose frames differ."""
    pictures = [Image.new("RGB", size, (first, 40 * (number % 6), number % 256)) for number in range(frames)]
    buffer = io.BytesIO()
    pictures[0].save(buffer, "WEBP", save_all=True, append_images=pictures[1:], lossless=True, **options)
    return buffer.getvalue()


def episode(number: int = 3, *, success: bool = False, **changes: Any) -> dict[str, Any]:
    """Return the entry of an episode in gallery.json."""
    return {
        **{"episode": number, "success": success, "return": 0.5, "length": 9, "moves": 9, "score": float(success)},
        **{"file": f"{number:02d}.webp", "frames": 5, "words_left_out": 0},
        "words": [{"step": 2, "text": "open the door"}],
        **changes,
    }


def write(run: Path, *episodes: dict[str, Any], **changes: Any) -> Path:
    """Write a gallery with these episodes and an animation of each; return its directory."""
    home = run / "gallery"
    home.mkdir(parents=True, exist_ok=True)
    about = {
        **{"schema": SCHEMA_VERSION, "suite": "grid", "task": "8x8", "seed": 0, "own": False, "step": 0, "played": 32},
        **{"successes": 20, "measure": "success", "unjudged": "", "undrawn": [], "reason": ""},
        **{"episodes": episodes, **changes},
    }
    for number, shown_episode in enumerate(episodes):
        if "/" not in shown_episode["file"]:
            (home / shown_episode["file"]).write_bytes(webp(first=10 * number))
    (home / "gallery.json").write_text(json.dumps(about))
    return home
