"""What the configurations of frames of MuJoCo's have in common; importing this loads no MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from guidebench.harness.findings import Finding
from guidebench.harness.parts import DrawingPart
from guidebench.suites.mujoco import need


@dataclass(frozen=True, kw_only=True)
class Looks(DrawingPart):
    """Frames for models; the world and what the agent observes are the same however they are drawn."""

    quality: Literal["fast", "full"] = "fast"
    """As `env.render()` draws, or without shadows, reflections and smooth edges, which in software takes a tenth of the
    time (choice)."""

    suite: ClassVar[str]
    package: ClassVar[str]
    """Whose frames they are, and where its scenes come from."""

    def ready(self) -> None:
        """UserError where nothing can be drawn."""
        from guidebench.suites.mujoco import gl

        need(self.package, f"suite {self.suite}")
        need("OpenGL", "drawing frames")
        gl.backend()

    def opengl(self, task: str) -> str:
        """What draws: `egl` or `osmesa`."""
        from guidebench.suites.mujoco import gl

        return gl.backend()

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Whether this machine has an OpenGL that draws."""
        from guidebench.suites.mujoco import gl

        return (gl.finding(),)
