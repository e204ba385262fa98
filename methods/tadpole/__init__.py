"""TADPoLe: the reward of a state is how much better a text-to-image diffusion model denoises its frame given a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.models.calls.denoise import MOST_STEPS
from guidebench.harness.parts import AskingPart, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit, cite

CODE = "TADPoLe, released code"
METAWORLD = ("metaworld", "metaworld_mt10", "metaworld_pbrl")


@register.guide("tadpole")
@dataclass(frozen=True)
class Tadpole(AskingPart):
    """Rewards a state by how a diffusion model denoises its frame with and without a text, and by the task's success
    (TADPoLe, with success as on MetaWorld)."""

    text: Annotated[str, Text] = ""
    """Description of the task, given to the diffusion model; empty uses the task's instruction (choice: TADPoLe writes
    one for each of its tasks)."""
    alignment: Annotated[float, Bounds(0)] = 2000.0
    """Weight of the squared difference that the text makes to the predicted noise (TADPoLe, released code)."""
    reconstruction: Annotated[float, Bounds(0)] = 200.0
    """Weight of the squared error that the text saves (TADPoLe, released code)."""
    success: Annotated[float, Bounds(0)] = 2.0
    """Reward added at each step at which the task counts as solved; at 0 the task gives no reward at all (TADPoLe, on
    MetaWorld)."""
    least_noise: Annotated[int, Bounds(0, MOST_STEPS - 1), Unit("noise levels")] = 500
    """Smallest noise level that an episode may have, of the model's, usually 1,000 (TADPoLe, on MetaWorld)."""
    noise_levels: Annotated[int, Bounds(1, MOST_STEPS), Unit("noise levels")] = 100
    """Number of noise levels, from the smallest on, of which one is drawn for each episode (TADPoLe, on MetaWorld)."""
    stretch: Annotated[int, Bounds(1), Unit("transitions")] = 32
    """Transitions whose frames are denoised together; the last stretch of an episode may be shorter (choice: TADPoLe
    denoises one at a time)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {"guide/reward": "Reward of the diffusion model"}
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"embedder": "scripted"}}
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedder": ("denoise",)}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("tadpole.bib")

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.tadpole.guide import DenoisingGuide

        return DenoisingGuide(build, self)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that denoises a stretch's frames."""
        from guidebench.methods.tadpole.dialogue import Denoising

        return Denoising(self.text or suite.make(task).instruction, self.alignment, self.reconstruction)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return an upper bound of the calls to the diffusion model: one for each stretch."""
        from guidebench.baselines.frame_rewards import most_stretches

        text = self.text or view.suite.make(view.task).instruction
        return [Most(most_stretches(view, self.stretch), prompt=len(text.encode()), images=self.stretch)]

    def array(self, view: CellView, role: str) -> ArraySpec:
        from guidebench.baselines.frame_rewards import REWARD

        return REWARD


register.method("tadpole")(
    Method(
        summary="reward from a diffusion model: how much better it denoises a frame given the task's text; and success",
        guide="tadpole",
        suite="metaworld_pbrl",
        embedder="diffusers",
        on_suite={suite: {"drawing.size": cite(480, CODE)} for suite in METAWORLD},
        ablations={
            "success=0": {"guide.success": 0.0},
            "terms=alignment": {"guide.reconstruction": 0.0},
            "terms=reconstruction": {"guide.alignment": 0.0},
            "noise=300": {"guide.least_noise": 300},
            "noise=700": {"guide.least_noise": 700},
        },
        citation=Tadpole.citation,
    )
)
