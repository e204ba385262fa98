"""The teacher `human`: a person, who is shown pairs of segments by `bench label` while the run waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from guidebench.harness.capabilities import coordinates
from guidebench.harness.interfaces import Build
from guidebench.harness.parts import TeacherPart
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.preference.teaching import Teacher
    from guidebench.harness.models.questions import Backend


@register.teacher("human")
@dataclass(frozen=True)
class Human(TeacherPart):
    """Asks whoever sits at `bench label STUDY`; a run stops until it is answered (Christiano et al. 2017)."""

    frames: bool = True
    """Whether what drawing needs is stored with every transition, so that the person sees pictures; numbers alone
    otherwise (choice)."""

    needs: ClassVar[Mapping[str, str]] = {"human": "human"}
    backend: ClassVar[str] = "human"
    delay: ClassVar[int] = 1
    """Steps between a question and the use of its answer: the run stops right after it has asked."""
    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("human.bib")

    @property
    def keeps_snapshots(self) -> bool:
        """Where the person is shown pictures."""
        return self.frames

    def person(self, runs: Sequence[Path]) -> Backend:
        """The questions and answers in the runs' directories."""
        from guidebench.baselines.teachers.human.backend import HumanBackend

        return HumanBackend(runs)

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.human.teacher import HumanTeacher

        suite = build.parts["suite"]
        things = coordinates(suite, build.task)
        return HumanTeacher(suite.make(build.task).instruction, things, self.frames)
