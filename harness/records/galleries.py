"""The format of a run's gallery, RUN/gallery: limits, the encoding of animations, and messages on missing episodes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

CONTENTS = "gallery.json"
"""File that describes a gallery."""
EPISODES = 6
"""Most episodes of a gallery; the last place is a success's if there is one."""
LARGEST = 2**18
"""Most bytes of an episode: 256 KiB."""
SIZES = ((60, 192), (40, 160), (24, 128), (12, 96))
"""Frames and their width in pixels, the first of these with which an episode is small enough."""
RATE, LAST = 8, 1_000
"""Frames per second, and milliseconds of the last frame."""
QUALITY = 60
"""Of WebP, from 0 to 100 (choice)."""
CAPTIONS, CAPTION = 200, 400
"""Most captions of an episode, and most characters of one."""


def animated(pictures: Sequence[Any], effort: int = 4) -> bytes:
    """Return Pillow images as an animated WebP. `effort`: of the compression, from 0 to 6."""
    file = io.BytesIO()
    times = [1_000 // RATE] * (len(pictures) - 1) + [LAST]
    pictures[0].save(
        file,
        "WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=times,
        loop=0,
        quality=QUALITY,
        method=effort,
    )
    return file.getvalue()


def undrawn(failures: Iterable[tuple[int, str]]) -> list[str]:
    """Return one sentence per reason that names the episodes not drawn. `failures`: (episode, reason).

    >>> undrawn([(3, "no OpenGL"), (5, "no OpenGL")])
    ['episodes 3, 5 are not drawn: no OpenGL']
    """
    by: dict[str, list[int]] = {}
    for episode, reason in failures:
        by.setdefault(reason, []).append(episode)
    return [
        f"episode{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))} "
        f"{'are' if len(numbers) > 1 else 'is'} not drawn: {reason}"
        for reason, numbers in by.items()
    ]
