"""VLM-RB: a judge's word on short clips decides which transitions make up a growing share of each batch."""

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
    """Replay whose batches mix judged clips with uniform draws (VLM-RB, §3 and algorithm 1)."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = {"judge": "judge"}
    citation: ClassVar[str | Path] = Path(__file__).with_name("vlm_rb.bib")

    lambda_max: Annotated[float | None, Bounds(0, 1)] = 0.5
    """Largest share of a batch drawn by judged priority, reached from 0 linearly; null: no schedule, all of every
    batch (VLM-RB, table 3; null is table 4's "None")."""
    schedule_share: Annotated[float, Bounds(0, 1), Unit("share of the run's steps")] = 0.5
    """Stretch of the run over which the share grows (VLM-RB, §3.1; table 3: 500k steps of 1M)."""
    clip_length: Annotated[int, Bounds(1), Unit("transitions")] = 32
    """Transitions in a clip, which ends early with its episode (VLM-RB, table 3)."""
    threshold: Annotated[float, Bounds(0, 1)] = 0.5
    """A clip whose score exceeds this counts as 1, any other as 0 (VLM-RB, table 3)."""
    alpha: Annotated[float, Bounds(0, 1)] = 0.7
    """Exponent of the priority; with scores of 0 and 1 it acts on unjudged transitions and on the TD boost only
    (VLM-RB, app. E: as PER unless specified; tables 2 and 3)."""
    td_boost: bool = False
    """Whether the priority of a judged transition is multiplied by its |TD error| (VLM-RB, §3.3; §4.1: on OGBench)."""
    epsilon: Annotated[float, Bounds(0)] = 1e-6
    """Added to |TD error| under td_boost (VLM-RB, app. E)."""
    new_error: Annotated[float, Bounds(0), Unit("|TD error|")] = 1.0
    """|TD error| that a new transition is taken to have under td_boost (choice: as app. E has it for ERO)."""

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
