"""The method's recipe and the settings of training and evaluation, which with the suite define a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from guidebench.harness.settings import Bounds, Unit

Layer = Mapping[str, Any]
"""Overrides: `section.field` or `kind.name.field` -> value or `cite(value, source)`."""


@dataclass(frozen=True)
class Method:
    """A named recipe: the parts of a method, the defaults that it sets for them, and its ablations."""

    summary: str
    replay: str = "uer"
    suite: str | None = None
    """Suite if the command names none, usually the first one of the paper; None requires the command to name one."""
    learner: str | None = None
    """Learner; None selects the suite's default learner."""
    guide: str = "none"
    agent: str = "standard"
    judge: str | None = None
    """Judge, if a part needs one; None selects the suite's default judge."""
    teacher: str = "oracle"
    """Teacher, if a part needs one."""
    chat: str = "openai"
    """Chat model, if a part needs one."""
    embedder: str = "transformers"
    """Embedding model, if a part needs one."""
    dataset: str | None = None
    """Dataset, if a part needs one; None selects the suite's default dataset."""
    pretraining: str = ""
    """Method of the pre-training stage, from whose policies the runs begin; "" for runs that begin with random
    parameters."""
    pretrains_on_own_task: bool = False
    """Whether the pre-training stage runs on the run's own task if the command names none, rather than on the suite's
    task for stages (`SuitePart.pretraining`)."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role -> part, for roles that are not named after their kind and whose part differs from the one of that kind."""
    defaults: Layer = field(default_factory=dict)
    on_suite: Mapping[str, Layer] = field(default_factory=dict)
    """Suite -> settings there, over which the suite's profiles have precedence."""
    on_profile: Mapping[str, Mapping[str, Layer]] = field(default_factory=dict)
    """Suite -> profile -> settings that have precedence over that profile: what the method cannot do without."""
    ablations: Mapping[str, Layer] = field(default_factory=dict)
    """Ablation name -> overrides, which may replace parts (`"judge": "oracle"`). The text before "=" in a name is its
    group."""
    version: int = 1
    """Version of the method; increase it when the method's results change."""
    citation: str | Path = ""
    """The `.bib` file whose BibTeX entries a user of the method should cite, BibTeX itself, or a comment (%) that says
    why there are none."""

    def named(self, role: str, kind: str) -> str:
        """Return the part that the method names for a role of this kind, or "" if the suite's default applies."""
        return self.roles.get(role) or getattr(self, kind) or ""


@dataclass(frozen=True)
class Training:
    """Length of training, replay capacity and initial demonstrations."""

    steps: Annotated[int, Bounds(1), Unit("environment steps per seed")] = 1_000_000
    """Length of training."""
    capacity: Annotated[int, Bounds(2), Unit("transitions")] = 1_000_000
    """Capacity of the replay buffer (VLM-RB, table 2; choice for MiniGrid)."""
    demonstrations: Annotated[int, Bounds(0), Unit("episodes")] = 0
    """Episodes of the suite's solver stored in the replay before the first step, identical for every method and seed
    (VLM-RB, app. B and table 2: 10 on OGBench)."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation by greedy episodes, whose layouts depend only on (seed, step, episode)."""

    every: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """Steps between evaluations; the last step is always evaluated."""
    episodes: Annotated[int, Bounds(1), Unit("episodes")] = 32
    """Episodes per evaluation and seed (VLM-RB, §4.1)."""
