"""The teacher `human`: a person labels pairs of segments in `bench label` while the run waits."""

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
    """Asks a person at `bench label STUDY`; the run stops until the answers arrive (Christiano et al. 2017)."""

    frames: bool = True
    """Whether snapshots are stored with every transition, so that the person sees pictures; otherwise only numbers are
    shown (choice)."""

    needs: ClassVar[Mapping[str, str]] = {"human": "human"}
    backend: ClassVar[str] = "human"
    delay: ClassVar[int] = 1
    """Environment steps between a question and the use of its answer: the run stops right after asking."""
    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("human.bib")

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the person is shown pictures."""
        return self.frames

    def person(self, runs: Sequence[Path]) -> Backend:
        """Return the backend that reads and writes questions and answers in the runs' directories."""
        from guidebench.baselines.teachers.human.backend import HumanBackend

        return HumanBackend(runs)

    def spawn(self, build: Build) -> Teacher:
        from guidebench.baselines.teachers.human.teacher import HumanTeacher

        suite = build.parts["suite"]
        things = coordinates(suite, build.task)
        return HumanTeacher(suite.make(build.task).instruction, things, self.frames)
