"""RoboCLIP: the only reward comes at an episode's end, the similarity of a video of the episode and the task's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from guidebench.harness import lengths
from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.models.backends import recipes
from guidebench.harness.parts import AskingPart, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Unit, cite

CODE = "RoboCLIP, released code"
METAWORLD = ("metaworld", "metaworld_mt10", "metaworld_pbrl")
CROP = 115 / 480
REWARD = ArraySpec("video_reward")
"""The answer about an episode: one number."""


@register.guide("roboclip")
@dataclass(frozen=True)
class RoboClip(AskingPart):
    """Rewards the last step of an episode by the similarity of the episode's video and a text, and all other steps by 0
    (RoboCLIP)."""

    text: Annotated[str, Text] = ""
    """Description of the task to which the video is compared; empty uses the task's instruction (choice: RoboCLIP
    writes one for each of its tasks)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 4
    """Steps between the frames of the video, which begins with the first step's (RoboCLIP, released code: every fourth
    of 128)."""
    crop: Annotated[float, Bounds(0, 0.45), Unit("of the frame's side")] = CROP
    """Share of a frame that is cut off at each edge before the video is embedded (RoboCLIP, released code: 250 of 480
    rows are left; a wider frame loses as many columns as leave a square)."""
    similarity: Literal["dot", "cosine"] = "dot"
    """`dot`: the dot product of the two vectors. `cosine`: that of the vectors scaled to length 1 (dot: RoboCLIP,
    released code)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {"guide/reward": "Reward of a video's similarity"}
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {"embedder": "scripted"}}
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedder": ("embed", "video")}
    shows_frames: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("roboclip.bib")

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        recipe = recipes.recipe(view["embedder"].model)
        if recipe is not None and "video" not in recipe.calls:
            return (
                f"its embedder.model {recipe.name!r} ({recipe.title}) embeds no videos; choose xclip, or S3D as "
                f"`bench models convert` writes it"
            )
        return ""

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.roboclip.guide import VideoRewardGuide

        return VideoRewardGuide(build.rows, self.every)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that compares an episode's video with the text."""
        from guidebench.methods.roboclip.dialogue import VideoText

        return VideoText(self.text or suite.make(task).instruction, self.crop, self.similarity)

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return upper bounds of the calls to the embedder: the vectors of the text and of the video for each
        episode."""
        episodes = int(view["training"].demonstrations) + lengths.ended(view, int(view["training"].steps))
        text = self.text or view.suite.make(view.task).instruction
        frames = -(-int(view.suite.horizon(view.task)) // self.every)
        return [Most(episodes, prompt=len(text.encode())), Most(episodes, images=frames)]

    def array(self, view: CellView, role: str) -> ArraySpec:
        return REWARD


register.method("roboclip")(
    Method(
        summary="reward at an episode's end: the similarity of its video and the task's text",
        guide="roboclip",
        suite="metaworld_pbrl",
        defaults={
            "embedder.transformers.model": cite("s3d.safetensors", "RoboCLIP: S3D, as `bench models convert` writes it")
        },
        on_suite={
            suite: {"drawing.size": cite(480, f"{CODE}: frames of 480 rows, of which 250 are left")}
            for suite in METAWORLD
        },
        ablations={
            "model=xclip": {"embedder": "transformers", "embedder.model": "xclip"},
            "similarity=cosine": {"guide.similarity": "cosine"},
            "every=1": {"guide.every": 1},
            "every=16": {"guide.every": 16},
            "crop=0": {"guide.crop": 0.0},
        },
        citation=RoboClip.citation,
    )
)
