"""What a cell is made of besides its suite: the method's recipe and the protocol every suite states."""

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
    """A named recipe: which parts, their defaults here, the ablations it declares."""

    summary: str
    replay: str = "uer"
    suite: str | None = None
    """The suite that is meant where a command names none, its paper's first; None: one must be named."""
    learner: str | None = None
    """None: the suite's default learner."""
    guide: str = "none"
    agent: str = "standard"
    judge: str | None = None
    """None: the suite's default judge, where a part asks for one."""
    teacher: str = "oracle"
    """Who teaches a guide that is taught."""
    chat: str = "openai"
    embedder: str = "transformers"
    """The models asked by parts that ask such ones."""
    dataset: str = "scripted"
    """The dataset of parts that need one: of the suite's scripted policy."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role -> part, where a part needs another role than one called as its kind, and not the part of that kind."""
    defaults: Layer = field(default_factory=dict)
    on_suite: Mapping[str, Layer] = field(default_factory=dict)
    ablations: Mapping[str, Layer] = field(default_factory=dict)
    """Name -> overrides, part names among them (`"judge": "oracle"`); what precedes the "=" of a name is its group."""
    version: int = 1
    """Raised when the method's results change."""
    citation: str | Path = ""
    """The `.bib` file whose BibTeX entries a user of the method should cite, BibTeX itself, or a comment (%) that says
    why there are none."""

    def named(self, role: str, kind: str) -> str:
        """The part that the method names for a role of this kind; "" where it leaves that to the suite."""
        return self.roles.get(role) or getattr(self, kind) or ""


@dataclass(frozen=True)
class Training:
    """How much a run trains."""

    steps: Annotated[int, Bounds(1), Unit("environment steps per seed")] = 1_000_000
    """Length of a run."""
    capacity: Annotated[int, Bounds(2), Unit("transitions")] = 1_000_000
    """Transitions that the replay buffer holds (VLM-RB, table 2; choice for MiniGrid)."""
    demonstrations: Annotated[int, Bounds(0), Unit("episodes")] = 0
    """Episodes of the suite's own solver that the replay holds before the first step, the same for every method and
    seed (VLM-RB, app. B and table 2: 10 on OGBench)."""


@dataclass(frozen=True)
class Evaluation:
    """How a run is evaluated: greedy episodes on layouts that depend on (seed, step, episode) alone."""

    every: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """Steps between evaluations; the last step is always evaluated."""
    episodes: Annotated[int, Bounds(1), Unit("episodes")] = 32
    """Episodes per evaluation and seed (VLM-RB, §4.1)."""
