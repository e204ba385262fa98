"""The agent `seeing_dual_system`: the dual system whose System 1 sees and is rewarded through a model of images."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.baselines.text_acting import tells
from guidebench.harness import lengths
from guidebench.harness.capabilities import NamesDeeds
from guidebench.harness.interfaces import Actions, Agent, ArraySpec, Build, Dialogue, Observations, Suite
from guidebench.harness.parts import CellView, Most
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings
from guidebench.methods.dsadf.dual_system import DualSystem
from guidebench.methods.dsadf.looking import CAPTIONER, IMAGE_ENCODER, FrameVector, StepCaption, spec

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage

PICTURE, IMAGE = "picture", "image"
"""Names of the parts of an observation: the suite's pictures, and the vector that takes their place."""


@register.agent("seeing_dual_system")
@dataclass(frozen=True)
class SeeingDualSystem(DualSystem):
    """The dual system in which a model of images captions the steps of training, and encodes what System 1 sees.

    The learner sees what that of `dual_system` does, and the part `image`, float32 [image_width], the vector of the
    frame of the state, in place of a part `picture`.
    """

    captions: Literal["captioner", "task"] = "captioner"
    """Who captions a step for the proximity reward: the model in the role captioner, from the frames before and after
    it, or the task itself, from its state (DSADF, §3.1 and eq. 9: CLIP)."""
    images: bool = True
    """Whether the model in the role image_encoder encodes the frame of each state for System 1 (DSADF, §5.1:
    ImageBind)."""
    image_width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 768
    """Numbers in a vector of the image encoder (choice: those of the embedder's default, CLIP ViT-L/14; ImageBind, with
    1,024, has no recipe here)."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({
        **DualSystem.needs, CAPTIONER: "embedder", IMAGE_ENCODER: "embedder",
    })  # fmt: skip
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **DualSystem.model_sets,
        "scripted": {**DualSystem.model_sets["scripted"], CAPTIONER: "scripted", IMAGE_ENCODER: "scripted"},
    }
    widths: ClassVar[Mapping[str, str]] = {**DualSystem.widths, "image_width": IMAGE_ENCODER}
    consults: ClassVar[tuple[str, ...]] = (*DualSystem.consults, CAPTIONER, IMAGE_ENCODER)
    shows_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, "agent")

    @property
    def unasked(self) -> tuple[str, ...]:
        """Return the roles that nothing asks: as in `dual_system`, and those that settings leave out."""
        captioner = () if self.trains and self.captions == "captioner" else (CAPTIONER,)
        encoder = () if self.images and self.router != "model" else (IMAGE_ENCODER,)
        return (*super().unasked, *captioner, *encoder)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return bounds: the captioner is asked in each step of training, the image encoder in each state, and the
        others as in `dual_system`."""
        steps = int(view["training"].steps) if self.trains else 0
        if role == CAPTIONER:
            from guidebench.methods.dsadf.bounds import captions

            assert isinstance(view.suite, NamesDeeds), "`fits` refuses other suites"
            return captions(steps, view.suite.deeds(view.task))
        if role == IMAGE_ENCODER:
            begun = (1 + lengths.ended(view, steps)) * self.trains
            return [Most(begun + steps + lengths.tested_steps(view), images=1)]
        return super().at_most(view, role)

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of a run's calls: those of a step of training, and for the image encoder also of each step
        that evaluations may take."""
        from guidebench.harness.models.calls import Usage

        trained = int(view["training"].steps) if self.trains else 0
        if role == CAPTIONER:
            return Usage(2 * trained)
        if role == IMAGE_ENCODER:
            return Usage(trained + lengths.tested_steps(view))
        return super().expected_usage(view, role)

    def observes(self, observations: Observations, actions: Actions) -> Observations:
        seen = super().observes(observations, actions)
        if not self.images or not tells(observations):
            return seen
        others = {name: part for name, part in seen.parts.items() if name != PICTURE}
        return Observations(parts={**others, IMAGE: Observations((self.image_width,), "float32")})

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.dsadf.seeing_agent import SeeingAgent

        seen = dataclasses.replace(build, observations=self.observes(build.observations, build.actions))
        return SeeingAgent(self, seen, *self.built(seen))

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot work there, or ""."""
        if reason := super().fits(view):
            return reason
        if IMAGE in view.suite.spaces(view.task)[0].parts:
            return f"the task's observations have a part {IMAGE!r} of their own; choose agent=dual_system"
        if self.captions == "captioner" and not isinstance(view.suite, NamesDeeds):
            return "its captioner chooses among the suite's deeds, and the suite names none; set agent.captions=task"
        return ""

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue of a role."""
        if role == CAPTIONER:
            assert isinstance(suite, NamesDeeds), "`fits` refuses other suites"
            return StepCaption(suite.deeds(task))
        return FrameVector() if role == IMAGE_ENCODER else super().dialogue(suite, task, role)

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the declaration of a vector; captions and chats answer in JSON."""
        return spec(self.image_width) if role == IMAGE_ENCODER else super().array(view, role)
