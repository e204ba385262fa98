"""Records of what a run collects: transitions, episodes, run phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.types import Array

if TYPE_CHECKING:
    from guidebench.harness.interfaces.tasks import StepWords


class Transition(NamedTuple):
    """One step of every seed. `next_observation` is the true successor, never the first observation of the next
    episode."""

    observation: Array  # [S, …]
    action: Array  # [S, …]
    reward: Array  # [S] float32
    terminated: Array  # [S] bool
    truncated: Array  # [S] bool
    next_observation: Array  # [S, …]
    events: Array  # [S, E] bool, events that occurred in this step; for oracles and diagnostics only
    snapshot: Array | None  # [S, n] uint8, of the state after the step, if the agent asked for snapshots
    success: Array  # [S] bool, whether the task counts as solved after this step
    measures: Array | None = None
    """The tasks' `measures()` (`harness.capabilities.HasMeasures`) after the step, float32 [S, P], if the agent asked
    for them on behalf of an oracle; None for a step that no task took, such as a demonstration's."""
    words: StepWords | None = None
    """State and step in words, if the agent asked for them; None for a step that no task took, such as a
    demonstration's."""
    opening: Array | None = None
    """Snapshots of the states in which the episodes began, uint8 [S, n], in the first transition of an episode of a
    dataset that knows them (`Trajectory.opening`); None elsewhere."""


class Episode(NamedTuple):
    """One finished episode of one seed."""

    row: int
    ret: float
    length: int
    success: bool


class RunPhase(NamedTuple):
    """A contiguous part of a run: `steps` steps whose transitions come from `source`.

    Steps of every run phase count as steps of the run: for its length, its evaluations and checkpoints, and for the
    learner's schedules in environment steps, such as `learning_starts`, the annealing of exploration and target
    network updates. So a learner whose first run phase is longer than `learning_starts` skips its random actions.
    """

    name: str
    steps: int
    source: str = "environment"
    """`environment`: every step is one step of each seed's task. `none`: no transitions. A role of kind dataset: all
    transitions of that dataset are observed, for every seed, before the run phase's first step, unless an earlier run
    phase had the same source; its steps bring no further transitions."""
    updates: int | None = None
    """Gradient updates per step, regardless of `learning_starts`; None for the learner's own schedule."""
