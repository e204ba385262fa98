"""VLM-RB: a judge scores short clips, and a growing share of each batch is drawn from clips with high scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.harness.interfaces import Build, Sampler
from guidebench.harness.parts import ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite


@register.replay("vlm_rb")
@dataclass(frozen=True)
class VlmRb(ReplayPart):
    """Replay that mixes transitions of judged clips with uniform draws (VLM-RB, §3 and algorithm 1)."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = {"judge": "judge"}
    guidance: ClassVar[Mapping[str, str]] = {"replay/judged_share": "Share of a batch drawn by judged priority"}
    citation: ClassVar[str | Path] = Path(__file__).with_name("vlm_rb.bib")

    lambda_max: Annotated[float | None, Bounds(0, 1)] = 0.5
    """Largest share of a batch drawn by judged priority, reached linearly from 0; null draws every batch entirely by
    judged priority, without a schedule (VLM-RB, table 3; null is table 4's "None")."""
    schedule_share: Annotated[float, Bounds(0, 1), Unit("share of the run's steps")] = 0.5
    """Share of the run's steps over which that share grows (VLM-RB, §3.1; table 3: 500k steps of 1M)."""
    clip_length: Annotated[int, Bounds(1), Unit("transitions")] = 32
    """Transitions in a clip; a clip ends early if its episode does (VLM-RB, table 3)."""
    threshold: Annotated[float, Bounds(0, 1)] = 0.5
    """Score above which a clip counts as 1; other clips count as 0 (VLM-RB, table 3)."""
    alpha: Annotated[float, Bounds(0, 1)] = 0.7
    """Exponent of the priority. With scores of 0 and 1 it affects only unjudged transitions and the TD boost (VLM-RB,
    app. E: as PER unless specified; tables 2 and 3)."""
    td_boost: bool = False
    """Whether the priority of a judged transition is multiplied by its |TD error| (VLM-RB, §3.3; §4.1: on OGBench)."""
    epsilon: Annotated[float, Bounds(0)] = 1e-6
    """Constant added to |TD error| under td_boost (VLM-RB, app. E)."""
    new_error: Annotated[float, Bounds(0), Unit("|TD error|")] = 1.0
    """|TD error| assumed for a new transition under td_boost (choice: as in app. E for ERO)."""

    @property
    def judged_transitions(self) -> int:
        """Transitions in a clip."""
        return self.clip_length

    def spawn(self, build: Build) -> Sampler:
        from guidebench.methods.vlm_rb.sampler import BoostedSampler, JudgedSampler

        sampler = BoostedSampler if self.td_boost else JudgedSampler
        return sampler(self, build.rows, build.slots, build.steps)


register.method("vlm_rb")(
    Method(
        summary="replay that prefers clips in which a judge sees something meaningful happen",
        replay="vlm_rb",
        suite="minigrid_doorkey",
        on_suite={"ogbench_scene": {"replay.td_boost": cite(True, "VLM-RB, §4.1")}},
        ablations={
            "lambda_max=null": {"replay.lambda_max": None},
            "lambda_max=0.25": {"replay.lambda_max": 0.25},
            "lambda_max=0.5": {"replay.lambda_max": 0.5},
            "lambda_max=0.75": {"replay.lambda_max": 0.75},
            "lambda_max=1": {"replay.lambda_max": 1.0},
            "threshold=0.25": {"replay.threshold": 0.25},
            "threshold=0.75": {"replay.threshold": 0.75},
            "clip_length=8": {"replay.clip_length": 8},
            "clip_length=16": {"replay.clip_length": 16},
            "clip_length=64": {"replay.clip_length": 64},
            "delay=0": {"judge.delay": 0},
            "delay=8192": {"judge.delay": 8192},
            "td_boost=true": {"replay.td_boost": True},
            "td_boost=false": {"replay.td_boost": False},
            "alpha=1+td_boost=true": {"replay.td_boost": True, "replay.alpha": 1.0},
            "model=perception_lm_1b": {"judge": "transformers", "judge.model": "perception_lm_1b"},
            "model=perception_lm_3b": {"judge": "transformers", "judge.model": "perception_lm_3b"},
            "model=perception_lm_8b": {"judge": "transformers", "judge.model": "perception_lm_8b"},
            "judge=oracle": {"judge": "oracle"},
            "judge=oracle+false_positive=0.1": {"judge": "oracle", "judge.false_positive": 0.1},
            "judge=oracle+false_positive=0.3": {"judge": "oracle", "judge.false_positive": 0.3},
            "judge=oracle+false_negative=0.1": {"judge": "oracle", "judge.false_negative": 0.1},
            "judge=oracle+false_negative=0.3": {"judge": "oracle", "judge.false_negative": 0.3},
        },
        citation=VlmRb.citation,
    )
)
