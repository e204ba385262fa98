"""Interface of learners, and what they exchange with guides and samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from guidebench.harness.types import Array, Metrics, State

if TYPE_CHECKING:
    from torch import Tensor

    from guidebench.harness.interfaces.replay import Batch, Store, TransitionColumn


class Tensors(NamedTuple):
    """A `Batch` as tensors [S, B, …] on the learner's device, for the seeds that the learner updates together."""

    observation: Tensor | Mapping[str, Tensor]
    """A tensor, or for records a tensor per part, by name."""
    action: Tensor
    reward: Tensor
    next_observation: Tensor | Mapping[str, Tensor]
    terminated: Tensor
    weight: Tensor | None
    success: Tensor | None
    task_reward: Tensor | None
    columns: Mapping[str, Tensor]


class Loss(NamedTuple):
    """A loss that is added to the learner's loss."""

    who: str
    """Name of the part that adds the loss, for errors."""
    groups: tuple[str, ...]
    """Parameter groups of the learner (`LearnerPart.groups`) to whose losses it may add a term."""
    terms: Callable[[Tensors, Any], Mapping[str, Tensor]]
    """Function that computes the terms, with the signature of `Guide.losses`."""


Difference = Literal["error", "loss"]
"""How online and target network are compared: |δ| − |δ̄| (VLM-RB, app. E), or L(δ) − L(δ̄) with the learner's loss
(Sujit et al. 2023)."""


class Update(NamedTuple):
    """The result of a gradient step."""

    td_error: Array  # float32 [S, B]
    metrics: Metrics
    reducible: Array | None = None
    """Reducible error or loss, float32 [S, B], if requested: the online network's absolute error or loss minus the
    target network's, against the same target value y = r + γ max Q̄(s′, ·)."""


class NStep(NamedTuple):
    """A learner's wish for n-step returns (`baselines/n_step.py`)."""

    steps: int
    """Transitions n whose rewards are summed, at least 1."""
    discount: float
    """Discount γ per transition."""


class Learner(Protocol):
    """Turns batches into parameter updates, for all seeds at once.

    Its configuration class inherits `harness.parts.LearnerPart`. `baselines/learning.py` has a base class with defaults
    for the optional methods.
    """

    columns: tuple[TransitionColumn, ...]
    """Columns that the learner stores with every transition and reads from its batches, such as the observed return."""

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Receive an ended episode of the seed in this row of the store: its `slots` in time order, without those that
        the ring has overwritten."""

    def write_returns(self, row: int, slots: Array, rewards: Array, store: Store) -> None:
        """Store anew what follows from the rewards of an ended episode, which have changed to `rewards` [T]; `row` and
        `slots` [T] are as in `ended`."""

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions for observations [n, …] of seed rows `rows` [n]: exploratory with each seed's generator, or
        greedy if `explore` is None."""

    def updates_due(self, step: int, phase_updates: int | None = None) -> int:
        """Return the number of gradient steps after step `step` of the run (counted from 1). `phase_updates`: the
        number that the run phase sets (`RunPhase.updates`), which is then returned; None applies the learner's
        schedule."""

    batch_size: int
    """Transitions per gradient step and seed."""

    n_step: NStep | None
    """The n-step returns that its batches hold (`Batch.steps`); None for single transitions."""

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step at environment step `step`; seeds whose `active` [S] is False keep their parameters
        and optimiser state. `reducible` requests `Update.reducible` in one of its forms, which costs one more forward
        pass. `losses` are added to the learner's losses; the amount added to a group is the metric `GROUP_added`."""

    def update_added(self, batch: Batch, active: Array, losses: Sequence[Loss]) -> Metrics:
        """Take one gradient step of the seeds `active` [S] on the added `losses` alone, for a batch that the learner's
        own loss does not concern, such as one of a guide's own experience. Raise UserError if the learner cannot."""

    def value(self, observation: Array, rows: Array) -> Array:
        """Return the estimated value [n] of the greedy policy at observations [n, …] of seed rows `rows` [n]."""

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...

    def parameters(self, row: int) -> Mapping[str, Array]: ...

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Begin one seed row from a policy: set the parameters that `parameters` returns, and target networks to the
        same."""

    def reset(self, part: str, active: Array) -> None:
        """Reinitialise the named networks and their optimiser for the seeds `active`, bool [S]. Raise ValueError for a
        name that is not in `resets` of the configuration class."""
