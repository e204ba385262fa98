"""The call `judge`: the probability that a clip shows what the prompt asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.interfaces import ReadsPrompts
from guidebench.harness.models.calls.base import Call, CallSections, Json, part
from guidebench.harness.registry import register
from guidebench.harness.types import Array

PROMPT = 'Does the bright square move? Reply with exactly "Answer: Yes" or "Answer: No".'
"""Prompt of the small call."""


@register.call("judge")
@dataclass(frozen=True, eq=False)
class JudgeCall(Call):
    """Asks how likely a clip shows what the prompt describes; the answer is P(yes), in [0, 1]."""

    clip: Array
    """uint8 [L, height, width, 3], padded to its full length."""
    prompt: str

    kind: ClassVar[str] = "judge"
    tolerance: ClassVar[float] = 0.05
    measure: ClassVar[str] = "difference of P(yes)"

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {"prompt": self.prompt, "clip": [named(frame) for frame in self.clip]}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"prompt": str(prompt), "clip": [dict(), *_] as clip}:
                return cls(np.stack([np.asarray(part(frame, image)) for frame in clip]), prompt)
        raise ValueError("a judgement has a prompt and a clip of images")

    @classmethod
    def small(cls) -> Self:
        clip = np.zeros((4, 56, 56, 3), np.uint8)
        for number, frame in enumerate(clip):
            frame[20:36, 8 * number : 8 * number + 16] = 255
        return cls(clip, PROMPT)

    def images(self) -> Sequence[Array]:
        return list(self.clip)

    def fault(self, value: Any) -> str:
        return "" if isinstance(value, float) and 0.0 <= value <= 1.0 else f"P(yes) lies in [0, 1], not {value!r:.80}"

    @classmethod
    def encode(cls, value: Any) -> Json:
        return float(value)

    @classmethod
    def decode(cls, stored: Json) -> Any:
        if not (isinstance(stored, float) and 0.0 <= stored <= 1.0):
            raise ValueError("P(yes) is a number in [0, 1]")
        return stored

    def distance(self, recorded: Any, now: Any) -> float:
        return float(abs(recorded - now))

    def answered_by(self, code: Callable[..., Any]) -> Any:
        if isinstance(code, ReadsPrompts):
            return code.judge(self.clip, self.prompt)
        return code([self.clip])[0]

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        return [("frames", form["clip"]), ("prompt", [form["prompt"]])]

    @classmethod
    def words(cls, value: Any) -> str:
        return f"P(yes) {value:.3f}"
