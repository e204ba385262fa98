"""B-Pref's scripted teachers: preferences by the task's own reward, perfect or flawed in stated ways."""

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
    """Prefers the segment with the larger sum of the task's own reward; perfect as its settings stand (Lee et al. 2021,
    algorithm 2)."""

    beta: Annotated[float | None, Bounds(0), Unit("per unit of return")] = None
    """Rationality β: the second segment is preferred with the probability that a softmax of β times the returns gives
    it; null: always the larger return (B-Pref, §3, Stoc: 1)."""
    gamma: Annotated[float, Bounds(0, 1)] = 1.0
    """Discount of what lies before a segment's end, which a myopic teacher remembers best (B-Pref, §3, Myopic: 0.9)."""
    mistake: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """How often a preference is turned round (B-Pref, §3, Mistake: 0.1)."""
    skip: Annotated[float, Bounds(0), Unit("mean return of a segment")] = 0.0
    """A pair is skipped unless one of its returns exceeds this share of the mean return of the last episodes, scaled to
    a segment's length; 0 skips none (B-Pref, §3, Skip: 0.1)."""
    equal: Annotated[float, Bounds(0), Unit("mean return of a segment")] = 0.0
    """Returns that differ by less than this share of that mean are equally good, label ½; so are equal ones in any case
    (B-Pref, §3, Equal: 0.1; choice: equal ones)."""

    backend: ClassVar[str] = "oracle"
    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("oracle.bib")

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.oracle.teacher import ScriptedTeacher

        return ScriptedTeacher(self)
