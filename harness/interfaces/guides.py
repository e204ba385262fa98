"""Interface of guides, which turn the answers of models and teachers into rewards, labels or relabelled data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from guidebench.harness.types import Array, Metrics, State

if TYPE_CHECKING:
    from torch import Tensor

    from guidebench.harness.interfaces.agents import Context
    from guidebench.harness.interfaces.episodes import Episode, RunPhase, Transition
    from guidebench.harness.interfaces.learning import Learner, Tensors
    from guidebench.harness.interfaces.questions import Question
    from guidebench.harness.interfaces.replay import Batch, Store, TransitionColumn
    from guidebench.harness.models.calls.base import Answer


Rewarded = Callable[[str, int, Array], None]
"""Says that rewards of an ended episode have changed: the store's name, the seed row, and the episode's slots [T] in
time order, as far as it is still stored. What follows from rewards, such as returns, is then computed anew."""


class Guide(Protocol):
    """Turns a model's or a teacher's answers into rewards, labels or relabelled data.

    Its configuration class inherits `harness.parts.AskingPart`. `baselines/guiding.py` has a base class whose methods
    change nothing.
    """

    columns: tuple[TransitionColumn, ...]
    """Columns that the guide adds to every transition."""
    wants_snapshots: bool
    """Whether transitions must carry snapshots."""
    wants_measures: bool
    """Whether transitions must carry measures, which it sends to an oracle (`Question.measures`) and does not read."""
    wants_words: bool
    """Whether transitions must carry state and step in words (`Transition.words`)."""

    def phases(self, steps: int) -> tuple[RunPhase, ...]:
        """Return the run phases of a run of `steps` steps."""

    def connect(self, stores: Mapping[str, Store], rewarded: Rewarded) -> None:
        """Receive the stores of the agent's experiences by their names, "" for what the run collects, and a function
        that the guide calls when a stored episode has new rewards. Called once, when the agent is built."""

    def observed_dataset(self, slot: int, transition: Transition, name: str, ctx: Context) -> None:
        """Receive a transition of a dataset that every seed has stored at `slot` of the store `name`, one of its own.
        Only for guides whose configuration declares `several_stores`."""

    def begun(self, rows: Array, store: Store, ctx: Context) -> None:
        """Receive that episodes of these seed rows begin (`ctx.snapshot` shows their first states). Not called for
        demonstrations and datasets."""

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Receive a transition that every seed has stored at `slot`; questions about it may be sent."""

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Receive episodes that ended with the transition observed last."""

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Receive the guide's questions whose answers take effect at this step."""

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> Array | int:
        """Train the guide's networks, rewrite columns or reset parts of the learner. Called once per environment step,
        before its gradient steps. Return the number of gradient steps in addition to those due by the learner's
        schedule, int [S] or one number for all seeds; a seed with fewer pauses while the others take theirs."""

    def shape(self, batch: Batch) -> Batch:
        """Return the batch that the learner learns from."""

    def unguided(self, batch: Batch) -> Batch:
        """Return the batch that a learner without guidance learns from (`baselines/agents/relay.py`)."""

    def losses(self, batch: Tensors, networks: Any) -> Mapping[str, Tensor]:
        """Return group -> loss term [S], the mean over the batch per seed, with gradients; it is added to the learner's
        loss of that group. Called once per update, for the seeds that the learner updates together (`networks.rows`),
        if the `adds` of the guide's configuration names a group that the update trains.

        `batch` is the result of `shape`; `networks` gives access to the learner's networks before the update
        (`baselines/losses.py`). Random numbers must be drawn per seed, from that seed's streams."""

    def metrics(self) -> Metrics:
        """Return metrics to log."""

    def state(self, row: int) -> State:
        """Return the checkpoint state of one seed row."""

    def load_state(self, row: int, state: State) -> None:
        """Restore one seed row from `state`."""

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return the learnt rewards, float32 [n], of observations [n, …] of seed rows `rows` [n], or None if the guide
        uses the task reward; for diagnostics."""
