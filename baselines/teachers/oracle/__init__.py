"""B-Pref's scripted teachers, which prefer by the task's own reward, without error or with configured kinds of
error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from guidebench.harness.interfaces import Build
from guidebench.harness.parts import TeacherPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.preference.teaching import Teacher


@register.teacher("oracle")
@dataclass(frozen=True)
class Oracle(TeacherPart):
    """Prefers the segment with the larger sum of the task's own reward; the defaults make no errors (Lee et al. 2021,
    algorithm 2)."""

    beta: Annotated[float | None, Bounds(0), Unit("per unit of return")] = None
    """Rationality β: the preferred segment is drawn from a softmax of β times the returns; null always prefers the
    larger return (B-Pref, §3, Stoc: 1)."""
    gamma: Annotated[float, Bounds(0, 1)] = 1.0
    """Discount γ per transition before a segment's end: a myopic teacher weighs later transitions more (B-Pref, §3,
    Myopic: 0.9)."""
    mistake: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that a preference is reversed (B-Pref, §3, Mistake: 0.1)."""
    skip: Annotated[float, Bounds(0), Unit("mean return of a segment")] = 0.0
    """Threshold below which pairs are skipped: one of the returns must exceed this share of the mean return of the last
    episodes, scaled to a segment's length; 0 skips none (B-Pref, §3, Skip: 0.1)."""
    equal: Annotated[float, Bounds(0), Unit("mean return of a segment")] = 0.0
    """Difference below which returns count as equal and the label is ½, as a share of the same mean return; identical
    returns always count as equal (B-Pref, §3, Equal: 0.1; choice: identical ones)."""

    backend: ClassVar[str] = "oracle"
    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("oracle.bib")

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.oracle.teacher import ScriptedTeacher

        return ScriptedTeacher(self)
