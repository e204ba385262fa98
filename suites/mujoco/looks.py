"""Shared configuration of frames of MuJoCo suites; importing this module does not load MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from guidebench.harness.findings import Finding
from guidebench.harness.parts import DrawingPart
from guidebench.suites.mujoco import need


@dataclass(frozen=True, kw_only=True)
class Looks(DrawingPart):
    """Frames for models; the world and the agent's observations do not depend on these settings."""

    quality: Literal["fast", "full"] = "fast"
    """`full`: as `env.render()` draws. `fast`: without shadows, reflections and smooth edges; software
    rendering takes a tenth of the time (choice)."""

    suite: ClassVar[str]
    """Name of the suite whose frames these are."""
    package: ClassVar[str]
    """Package that provides the suite's scenes."""

    def ready(self) -> None:
        """Raise UserError if this machine cannot draw."""
        from guidebench.suites.mujoco import gl

        need(self.package, f"suite {self.suite}")
        need("OpenGL", "drawing frames")
        gl.backend()

    def opengl(self, task: str) -> str:
        """Return the OpenGL backend: `egl` or `osmesa`."""
        from guidebench.suites.mujoco import gl

        return gl.backend()

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return whether OpenGL draws on this machine."""
        from guidebench.suites.mujoco import gl

        return (gl.finding(),)
