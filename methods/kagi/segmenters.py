"""KAGI's segmenters and tracker that need no model: hand-written ones, which look for colours, and a privileged
segmenter, which is given the true places.

`segmenter=scripted`, `segmenter=oracle` and `tracker=scripted` name the embedders `scripted_segmenter`,
`oracle_segmenter` and `scripted_tracker`; they embed nothing, and are of this kind because real ones are
(`harness/models/embedders/transformers_segmenter.py`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from guidebench.harness.capabilities import Locates
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Suite
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit
from guidebench.methods.kagi.questions import COLOURED, SEGMENTER, TRACKER

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Json, SegmentCall, TrackCall
    from guidebench.harness.models.oracle import Oracle

SEES = "% hand-written: it looks for the colours that the instruction names"


@dataclass(frozen=True)
class Scripted(ModelPart, ABC):
    """Base of the hand-written segmenter and the hand-written tracker."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that another coloured thing is taken for the one that the instruction names, by a hash of what is
    asked (choice: none)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (choice: as SAM 2's)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the process is restarted (choice: ample; an answer takes milliseconds)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = SEES
    backend: ClassVar[str] = "scripted"
    suites: ClassVar[tuple[str, ...]] = COLOURED
    role: ClassVar[str]

    def fits(self, view: CellView) -> str:
        """Return why it cannot answer in this cell, or "": it is in its role, and the task's instruction names nothing
        that it knows. Makes the task."""
        if view[self.role] != self:
            return ""
        try:
            instruction = view.suite.make(view.task).instruction
        except UserError:  # what this machine lacks is told by the suite itself
            return ""
        try:
            self.read(instruction)
        except UserError as unknown:
            return str(unknown)
        return ""

    @abstractmethod
    def read(self, instruction: str) -> None:
        """Raise UserError for an instruction that does not name what it looks for."""


@register.embedder("scripted_segmenter")
@dataclass(frozen=True)
class ScriptedSegmenter(Scripted):
    """Hand-written: finds blocks by their colours, and tray and bins beside it; it knows which of them the instruction
    names."""

    title: ClassVar[str] = "hand-written: masks of the colours and places that the instruction names"
    answers: ClassVar[tuple[str, ...]] = ("segment",)
    role: ClassVar[str] = SEGMENTER

    def read(self, instruction: str) -> None:
        from guidebench.methods.kagi import colours

        colours.colour_in(instruction), colours.place_in(instruction)

    def spawn(self, suite: Suite, task: str) -> Callable[[SegmentCall], list[Json]]:
        """Return the callable that answers; it is given neither suite nor task."""
        return ColourSegmenter(self.error)


@register.embedder("oracle_segmenter")
@dataclass(frozen=True)
class OracleSegmenter(ModelPart):
    """Privileged: finds keypoints around the thing and around its place, on any suite that tells where both are."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that thing and place are taken for each other, drawn independently per question (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Environment steps between a question and the use of its answer; null equals 0, since an oracle answers
    immediately (choice: as the other segmenters)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told where things are"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told where things are"
    answers: ClassVar[tuple[str, ...]] = ("segment",)

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether the suite says where things are and where they are to be."""
        return isinstance(suite, Locates)

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that finds keypoints."""
        from guidebench.methods.kagi.oracle import PointReader

        return PointReader(self.error)


@register.embedder("scripted_tracker")
@dataclass(frozen=True)
class ScriptedTracker(Scripted):
    """Hand-written: follows the blob of the colour that the instruction names."""

    title: ClassVar[str] = "hand-written: it follows the colour that the instruction names"
    answers: ClassVar[tuple[str, ...]] = ("track",)
    role: ClassVar[str] = TRACKER

    def read(self, instruction: str) -> None:
        from guidebench.methods.kagi import colours

        colours.colour_in(instruction)

    def spawn(self, suite: Suite, task: str) -> Callable[[TrackCall], Array]:
        """Return the callable that answers; it is given neither suite nor task."""
        return ColourTracker(self.error)


class ColourSegmenter:
    """Answers a `SegmentCall` by colours; it ignores the points of the call."""

    def __init__(self, error: float) -> None:
        self._error = error

    def __call__(self, call: SegmentCall) -> list[dict[str, Any]]:
        """Return the masks of all blocks and places that can be seen, with the meanings of those that the instruction
        names; raise UserError for an instruction without a known colour or place."""
        from guidebench.harness.models.calls.segment import mask_json
        from guidebench.methods.kagi import colours

        named, place = colours.colour_in(call.text), colours.place_in(call.text)
        pixels = colours.look(call.image)
        blocks = colours.blocks(pixels)
        named = mistaken(named, [*blocks], self._error, call.text, call.image)
        masks = [mask_json(mask, 1.0, "thing" if colour == named else "") for colour, mask in blocks.items()]
        for name, mask in colours.places(pixels).items():
            if name == place or not name.endswith("side"):
                masks.append(mask_json(mask, 1.0, "place" if name == place else ""))
        return masks


class ColourTracker:
    """Answers `TrackCall` by the largest blob of a colour in each frame."""

    def __init__(self, error: float) -> None:
        self._error = error

    def __call__(self, call: TrackCall) -> Array:
        """Return where the point is in each frame, float32 [L, 3]; raise UserError for an instruction without a known
        colour."""
        from guidebench.harness.models.calls.track import track_of_masks
        from guidebench.methods.kagi import colours

        first = [*colours.blocks(colours.look(call.frames[0]))]
        colour = mistaken(colours.colour_in(call.text), first, self._error, call.text, call.frames[0])
        nothing = np.zeros(call.frames.shape[1:3], bool)
        masks = [colours.block(colours.look(frame), colour) for frame in call.frames]
        return track_of_masks(np.stack([nothing if mask is None else mask for mask in masks]), call.point)


def mistaken(named: str, visible: list[str], error: float, text: str, image: Array) -> str:
    """Return the colour to look for: the named one or, with probability `error`, another visible one, drawn by a hash
    of text and image."""
    from guidebench.baselines.conversing import chance

    others = [colour for colour in visible if colour != named]
    identity = (text, hashlib.blake2b(np.ascontiguousarray(image).tobytes(), digest_size=8).hexdigest())
    if not others or chance("error", *identity) >= error:
        return named
    return others[int(len(others) * chance("which", *identity))]
