"""LIV's cosine of frame and instruction as a reward, and FuRL, which aligns it while the agent learns.

Five methods of FuRL's paper, which are baselines of LaGEA's: `liv`, `liv_proj`, `relay`, `furl_no_goal` and `furl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness.capabilities import HasGoal
from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.parts import AskingPart, There
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite

CODE = "FuRL, released code"
RAW = "FuRL, released code, whose relay embeds whole frames and keeps a million transitions"


@register.guide("liv")
@dataclass(frozen=True)
class Liv(AskingPart):
    """Adds ρ times the cosine of the frame's and the instruction's vector to the task's reward (LIV, as in FuRL)."""

    rho: Annotated[float, Bounds(0)] = 0.05
    """Weight ρ of the model's reward, which lies in [-1, 1] (FuRL, released code)."""
    width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 1024
    """Numbers in a vector of the embedder (LIV, which is a CLIP RN50: 1,024)."""
    crop: Annotated[float, Bounds(0, 0.45), Unit("of the frame's side")] = 0.125
    """Share of a frame that is cut off at each edge before it is embedded (FuRL, released code: pixels 32 to 223 of
    256)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 1
    """Embeds each frame with this interval and interpolates the vectors between them; 1 embeds every frame (FuRL)."""
    stretch: Annotated[int, Bounds(1), Unit("frames")] = 32
    """Frames that are embedded together; an episode's end sends fewer (choice: FuRL embeds one at a time)."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("liv.bib")

    def fits(self, there: There) -> str:
        """Return why this guide cannot work there, or ""."""
        known = getattr(there["embedder"], "dimensions", lambda: None)()
        if known is not None and known != self.width:
            return f"its embedder's vectors have {known} numbers; set guide.width={known}"
        return ""

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import LivGuide

        return LivGuide(build, self)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return what is asked of the embedder."""
        from guidebench.methods.furl.dialogue import Vectors

        return Vectors(suite.make(task).instruction, self.crop)

    def array(self, there: There, role: str) -> ArraySpec:
        """Return that its answers are vectors."""
        from guidebench.baselines.frame_vectors import spec

        return spec(self.width)


@register.guide("liv_proj")
@dataclass(frozen=True)
class LivProj(Liv):
    """Adds ρ times the cosine of randomly projected vectors to the task's reward (FuRL's baseline LIV-Proj)."""

    hidden: tuple[int, ...] = (256,)
    """Widths of the hidden layers of each projection head (FuRL, released code)."""
    out: Annotated[int, Bounds(1), Unit("numbers")] = 64
    """Numbers in a projected vector (FuRL, released code)."""
    learning_rate: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of the heads, where they are trained (FuRL, released code)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("furl.bib")

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import LivProjGuide

        return LivProjGuide(build, self)


@register.guide("furl")
@dataclass(frozen=True)
class Furl(LivProj):
    """Adds ρ times the cosine of vectors whose projections are aligned while the agent learns (FuRL)."""

    goal: bool = True
    """Whether frames are ranked by their distance to the goal image until the first success (FuRL; without: its
    ablation, whose heads stay as they were initialised until then)."""
    margin: Annotated[float, Bounds(0)] = 0.1
    """By how much cosines should differ (FuRL, released code, which does not pass on the .25 of its configuration)."""
    l2: Annotated[float, Bounds(0)] = 0.25
    """By how much distances to the goal image must differ for two frames to be ranked (FuRL, released code)."""
    gap: Annotated[int, Bounds(1), Unit("environment steps")] = 10
    """Steps between a frame of a success and the earlier frame that it is compared with (FuRL, released code)."""
    kept: Annotated[int, Bounds(1), Unit("frames")] = 20_000
    """Frames of successes, and of failures, that the losses draw from; the newest count (FuRL, released code)."""
    batch_size: Annotated[int, Bounds(1), Unit("frames")] = 256
    """Frames of each kind in a step of the heads (FuRL, released code)."""

    def fits(self, there: There) -> str:
        """Return why this guide cannot work there, or ""."""
        if self.goal and not isinstance(there["suite"], HasGoal):
            return "its suite has no goal image; set guide.goal=false"
        return super().fits(there)

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.furl.guide import FurlGuide

        return FurlGuide(build, self)


def _method(name: str, summary: str, guide: str, citation: str, relay: bool = False, **more: Any) -> None:
    """Register one of the five methods, on MT10 unless a command names another suite."""
    defaults = {"embedder.transformers.model": cite("liv", "FuRL"), **more.pop("defaults", {})}
    with_relay: Mapping[str, Any] = {"agent": "relay", "roles": {"explorer": "sac"}} if relay else {}
    where = Path(__file__).with_name(citation)
    recipe = Method(
        summary=summary, guide=guide, suite="metaworld_mt10", citation=where, defaults=defaults, **with_relay, **more
    )
    register.method(name)(recipe)


EVERY = {"every=4": {"guide.every": 4}}
_method("liv", "reward from LIV: the cosine of frame and instruction, as it is", "liv", "liv.bib", ablations=EVERY)
_method("liv_proj", "reward from LIV through random, fixed projections", "liv_proj", "furl.bib", ablations=EVERY)
_method(
    "relay",
    "reward from LIV, and a second learner of the task's reward that acts in turn",
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
    "FuRL without the goal image: heads are aligned from the first success on",
    "furl",
    "furl.bib",
    relay=True,
    defaults={"guide.goal": cite(False, "LaGEA, table 1: FuRL w/o goal-image")},
    ablations=EVERY,
)
_method(
    "furl",
    "LIV's reward, aligned while the agent learns, and a second learner that acts in turn",
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
