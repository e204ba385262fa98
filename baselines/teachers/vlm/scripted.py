"""A hand-written substitute for a vision-language model, which answers the two calls of teacher `vlm` in free text, or
a choice of its verdict.

    spread      the root mean square distance of a frame's coloured pixels from their centre, in sides of the frame; a
                pixel counts by its saturation, max − min of its channels, from half of the largest one on
    judgement   the frame with the smaller spread is better; no difference where the spreads differ by less than `equal`
    error       with probability `error`, by a hash of the two frames in either order: the opposite, both times

The second call holds the text of the first answer alone, from which the label is read. In a maze with a coloured ball
and target, the spread falls as the ball comes near. Elsewhere it says little: the chat checks that a method runs.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.baselines.teachers.vlm import prompts
from guidebench.harness.interfaces import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guidebench.harness.models.calls import Message

SATURATED = 128
"""Saturation, of 255, from which a pixel is coloured."""
VERDICTS = (
    "I see no difference that matters.",
    "More of the task is achieved in Image 1.",
    "More of the task is achieved in Image 2.",
)
"""What an analysis ends with -> its index is the label."""
LOST = "I see neither two images nor a comparison of them in what you write."


class FrameComparer:
    """Answers the last question of a conversation; equal questions get equal answers."""

    def __init__(self, error: float, equal: float) -> None:
        self._error, self._equal = error, equal

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return an analysis if the messages hold two images uint8 [height, width, 3], or else the label that an
        analysis in the conversation implies."""
        images = [part for message in messages for part in message.content if not isinstance(part, str)]
        if len(images) >= 2:
            return self._compared(images[0], images[1])
        text = "\n".join(part for message in messages for part in message.content if isinstance(part, str))
        verdicts = re.findall("|".join(map(re.escape, VERDICTS)), text)
        return str(VERDICTS.index(verdicts[0])) if verdicts else LOST

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        """Return 1 for the verdict that its analysis ends with, else 0; 1 for all without two images."""
        analysis = self(messages)
        labels = [label for label, verdict in enumerate(VERDICTS) if analysis.endswith(verdict)]
        if not labels:
            return [1.0] * len(candidates)
        return [float(candidate.strip() == prompts.VERDICTS[labels[0]]) for candidate in candidates]

    def _compared(self, first: Array, second: Array) -> str:
        spreads = spread(first), spread(second)
        difference = spreads[0] - spreads[1]
        # the spread of a frame without colours is NaN, which compares as False
        label = 0 if not abs(difference) >= self._equal else 2 if difference > 0 else 1
        pair = sorted(hashlib.blake2b(np.ascontiguousarray(image).tobytes()).hexdigest() for image in (first, second))
        if label and chance("pair", *pair) < self._error:
            label = 3 - label
        sentences = (
            f"In Image {index} the coloured things are {far:.4f} apart." for index, far in enumerate(spreads, 1)
        )
        return " ".join((*sentences, VERDICTS[label]))


def spread(image: Array) -> float:
    """Return the root mean square distance of the coloured pixels of a frame uint8 [height, width, 3] from their
    centre, weighted by saturation, in sides of the frame; NaN without a coloured pixel."""
    saturation = image.max(-1).astype(np.float64) - image.min(-1)
    weight = np.where(saturation >= SATURATED, saturation, 0.0)
    if not (total := weight.sum()):
        return float("nan")
    rows, columns = np.arange(image.shape[0]), np.arange(image.shape[1])
    along = [(weight.sum(1), rows), (weight.sum(0), columns)]
    means = [(mass @ places) / total for mass, places in along]
    variance = sum((mass @ (places - mean) ** 2) / total for (mass, places), mean in zip(along, means, strict=True))
    return float(np.sqrt(variance) / image.shape[0])
