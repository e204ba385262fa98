"""VLM-RM: the only reward is a CLIP model's similarity between each frame and a description of the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.parts import MESSAGE, AskingPart, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit, cite

OURS = "choice: VLM-RM has other tasks; its baselines name what is seen before anything is done"
BASELINES = {
    **dict.fromkeys(("metaworld", "metaworld_mt10", "metaworld_pbrl"), "a robot arm beside a table"),
    "ogbench_scene": "a robot arm above a table",
    "point_maze": "a green ball and a red ball in a maze",
    "minigrid_doorkey": "a grid of two rooms seen from above",
    "classic": "a drawing of a simple machine",
}


@register.guide("vlm_rm")
@dataclass(frozen=True)
class VlmRm(AskingPart):
    """Rewards a state by the similarity of its frame to a description of the goal, measured along the direction from a
    baseline description to that of the goal (VLM-RM, §3.2)."""

    goal: Annotated[str, Text] = ""
    """Description of the goal's appearance, in a sentence; empty uses the task's instruction (choice: VLM-RM writes one
    for each of its tasks)."""
    baseline: Annotated[str, Text] = ""
    """Description of the scene before the agent acts; the method has a default for each suite (VLM-RM, §3.2)."""
    alpha: Annotated[float, Bounds(0, 1)] = 0.5
    """Strength of the projection onto the line through baseline and goal; 0 is plain CLIP cosine similarity and needs
    no baseline (VLM-RM, definition 1, and §3.2: most values in between are better than 0 or 1; .5 is the example in its
    released code, 0 the value of its main experiments)."""
    stretch: Annotated[int, Bounds(1), Unit("transitions")] = 32
    """Transitions whose frames are embedded together; the last stretch of an episode may be shorter (choice: VLM-RM
    waits for the end of the episode, which with one environment would leave the newest states unrewarded for long)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {"guide/reward": "Reward of a frame's similarity"}
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"embedder": "scripted"}}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("vlm_rm.bib")

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if self.alpha and not self.baseline:
            return "it has no baseline there; describe the scene in guide.baseline=…, or set guide.alpha=0"
        if self.alpha and self.baseline == self.goal:
            return "guide.goal and guide.baseline are the same text, and no line goes through one point"
        return ""

    def spawn(self, build: Build) -> Guide:
        from guidebench.baselines.frame_rewards import FrameRewardGuide

        return FrameRewardGuide(build.rows, self.stretch)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that embeds a stretch's frames."""
        from guidebench.methods.vlm_rm.dialogue import GoalBaseline

        return GoalBaseline(self.goal or suite.make(task).instruction, self.baseline, self.alpha)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return upper bounds of the calls to the embedder: the vectors of the texts and of the frames for each
        stretch."""
        from guidebench.baselines.frame_rewards import most_stretches

        count, goal = most_stretches(view, self.stretch), self.goal or view.suite.make(view.task).instruction
        texts = sum(len(text.encode()) + MESSAGE for text in (goal, self.baseline))
        return [Most(count, prompt=texts), Most(count, images=self.stretch)]

    def array(self, view: CellView, role: str) -> ArraySpec:
        from guidebench.baselines.frame_rewards import REWARD

        return REWARD


register.method("vlm_rm")(
    Method(
        summary="reward from a CLIP model: the similarity of a frame to the goal's description",
        guide="vlm_rm",
        suite="metaworld_pbrl",
        on_suite={
            **{suite: {"guide.baseline": cite(text, OURS)} for suite, text in BASELINES.items()},
            "point_maze": {
                "guide.goal": cite("a green ball that touches a red ball in a maze", OURS),
                "guide.baseline": cite(BASELINES["point_maze"], OURS),
            },
        },
        ablations={
            "alpha=0": {"guide.alpha": 0.0},
            "alpha=0.25": {"guide.alpha": 0.25},
            "alpha=0.75": {"guide.alpha": 0.75},
            "alpha=1": {"guide.alpha": 1.0},
            "model=clip": {"embedder": "transformers", "embedder.model": "clip"},
        },
        citation=VlmRm.citation,
    )
)
