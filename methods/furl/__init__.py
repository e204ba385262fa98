"""LIV's cosine of frame and instruction as a reward, and FuRL, which aligns it while the agent learns.

Five methods of FuRL's paper, which are baselines of LaGEA's: `liv`, `liv_proj`, `relay`, `furl_no_goal` and `furl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness.capabilities import shows_goal
from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.parts import AskingPart, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite

CODE = "FuRL, released code"
RAW = "FuRL, released code, whose relay embeds whole frames and keeps a million transitions"


@register.guide("liv")
@dataclass(frozen=True)
class Liv(AskingPart):
    """Adds ρ times the cosine of the frame's and the instruction's vectors to the task's reward (LIV, as in FuRL)."""

    rho: Annotated[float, Bounds(0)] = 0.05
    """Weight ρ of the model's reward, which lies in [-1, 1] (FuRL, released code)."""
    width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 1024
    """Dimension of the embedder's vectors (LIV, which is a CLIP RN50: 1,024)."""
    crop: Annotated[float, Bounds(0, 0.45), Unit("of the frame's side")] = 0.125
    """Share of a frame that is cut off at each edge before it is embedded (FuRL, released code: pixels 32 to 223 of
    256)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 1
    """Environment steps between embedded frames. Vectors in between are interpolated; 1 embeds every frame (FuRL)."""
    stretch: Annotated[int, Bounds(1), Unit("frames")] = 32
    """Frames embedded in one call; the last call of an episode may hold fewer (choice: FuRL embeds one at a time)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {"guide/reward": "Reward of the model's vectors, before its weight rho"}
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"embedder": ("spatial", "scripted")}}
    widths: ClassVar[Mapping[str, str]] = {"width": "embedder"}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("liv.bib")

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import LivGuide

        return LivGuide(build, self)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue with the embedder that answers one question."""
        from guidebench.methods.furl.dialogue import Vectors

        return Vectors(suite.make(task).instruction, self.crop)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls to the embedder: the vectors of all frames, and that of the instruction,
        which is asked for once."""
        from guidebench.baselines.frame_rewards import most_stretches

        instruction = len(view.suite.make(view.task).instruction.encode())
        return [
            Most(most_stretches(view, self.every * self.stretch), images=self.stretch), Most(1, prompt=instruction)
        ]  # fmt: skip

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the array specification of the embedder's answers, one vector per frame or text."""
        from guidebench.baselines.frame_vectors import spec

        return spec(self.width)


@register.guide("liv_proj")
@dataclass(frozen=True)
class LivProj(Liv):
    """Adds ρ times the cosine of the frame's and the instruction's vectors, both projected by random networks, to the
    task's reward (FuRL's baseline LIV-Proj)."""

    hidden: tuple[int, ...] = (256,)
    """Widths of the hidden layers of each projection head (FuRL, released code)."""
    out: Annotated[int, Bounds(1), Unit("numbers")] = 64
    """Output dimension of each projection head (FuRL, released code)."""
    learning_rate: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of the projection heads, if the guide trains them (FuRL, released code)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("furl.bib")

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import LivProjGuide

        return LivProjGuide(build, self)


@register.guide("furl")
@dataclass(frozen=True)
class Furl(LivProj):
    """Adds ρ times the cosine of the projected frame and instruction to the task's reward; the projections are trained
    while the agent learns (FuRL)."""

    goal: bool = True
    """Whether the heads are trained to rank frames by distance to the goal image until the first success. If
    false, the heads stay as initialised until then (FuRL; false: its ablation)."""
    margin: Annotated[float, Bounds(0)] = 0.1
    """Margin by which the cosine of the better frame should exceed that of the other (FuRL, released code, which does
    not pass on the .25 of its configuration)."""
    l2: Annotated[float, Bounds(0)] = 0.25
    """Difference of distances to the goal image above which two frames are ranked (FuRL, released code)."""
    gap: Annotated[int, Bounds(1), Unit("environment steps")] = 10
    """Steps between a success frame and the earlier frame that it is compared with (FuRL, released code)."""
    kept: Annotated[int, Bounds(1), Unit("frames")] = 20_000
    """Newest frames of successes, and as many of failures, from which the losses draw (FuRL, released code)."""
    batch_size: Annotated[int, Bounds(1), Unit("frames")] = 256
    """Frames of each kind (success, failure) per gradient step of the heads (FuRL, released code)."""

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if self.goal and not shows_goal(view.suite, view.task):
            return "its suite has no goal image of the task; set guide.goal=false"
        return super().fits(view)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls to the embedder: those of LIV, and the vector of the goal image, which is
        asked for once."""
        bounds = super().at_most(view, role)
        return None if bounds is None else [*bounds, Most(int(self.goal), images=1)]

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import FurlGuide

        return FurlGuide(build, self)


def _method(name: str, summary: str, guide: str, citation: str, relay: bool = False, **more: Any) -> None:
    """Register one of the five methods, on MT10 unless a command names another suite."""
    defaults = {"embedder.transformers.model": cite("liv", "FuRL"), **more.pop("defaults", {})}
    with_relay: Mapping[str, Any] = {"agent": "relay", "roles": {"explorer": "sac"}} if relay else {}
    bibliography = Path(__file__).with_name(citation)
    recipe = Method(
        summary=summary,
        guide=guide,
        suite="metaworld_mt10",
        citation=bibliography,
        defaults=defaults,
        **with_relay,
        **more,
    )
    register.method(name)(recipe)


EVERY = {"every=4": {"guide.every": 4}}
_method(
    "liv", "reward from LIV: the cosine of frame and instruction, without projection", "liv", "liv.bib", ablations=EVERY
)
_method("liv_proj", "reward from LIV through random, fixed projections", "liv_proj", "furl.bib", ablations=EVERY)
_method(
    "relay",
    "reward from LIV, and a second learner that sees the task's reward alone; the two take turns to act",
    "liv",
    "furl.bib",
    relay=True,
    defaults={
        "agent.until": cite("success_steps", CODE),
        "guide.crop": cite(0.0, RAW),
        "training.capacity": cite(1_000_000, RAW),
    },
    ablations=EVERY,
)
_method(
    "furl_no_goal",
    "FuRL without the goal image: the projections are trained from the first success on",
    "furl",
    "furl.bib",
    relay=True,
    defaults={"guide.goal": cite(False, "LaGEA, table 1: FuRL w/o goal-image")},
    ablations=EVERY,
)
_method(
    "furl",
    "LIV's reward through trained projections, and a second learner; the two take turns to act",
    "furl",
    "furl.bib",
    relay=True,
    ablations={
        "margin=0.25": {"guide.margin": 0.25},
        "relay=off": {"agent": "standard"},
        "heads=fixed": {"guide": "liv_proj"},
        **EVERY,
    },
)
