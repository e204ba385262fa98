"""Interfaces of agents, of their actors in an evaluation, and of the loop as they see it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from guidebench.harness.types import Array, Metrics, State

if TYPE_CHECKING:
    from guidebench.harness.interfaces.episodes import Episode, RunPhase, Transition
    from guidebench.harness.interfaces.questions import Question
    from guidebench.harness.models.calls.base import Answer
    from guidebench.harness.streams import Streams


class Mode(enum.Enum):
    TRAIN = "train"
    EVALUATE = "evaluate"


class Context(Protocol):
    """The loop's state and services, as agents, guides and samplers see them."""

    mode: Mode
    step: int
    rows: Array
    """Seed row of each observation given to `act`, [n]; 0..S-1 in training."""
    streams: Sequence[Streams]

    @property
    def phase(self) -> RunPhase:
        """Return the run phase of the current step; in training only."""

    @property
    def observation(self) -> Array:
        """Return the observation that each seed acts on next, [S, …]; in training only. Before a task's first step it
        is the first observation of its first episode."""

    @property
    def active(self) -> Array:
        """Return which seeds still train, bool [S]; in training only. One that does not is stepped and observed all the
        same, and what a part stores, asks or logs of it is lost."""

    def snapshot(self, row: int, episode: int = 0) -> Array:
        """Return the snapshot, uint8 [n], of the state that a seed acts on next; in an evaluation, of the state that
        its episode `episode` is in. A transition holds the snapshot of the state after it, so the first state of an
        episode is drawn from here."""

    def ask(self, ask: Question) -> None:
        """Send a question; it is passed to `answered` with its answer, after the model's delay."""

    def consult(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answer to each question, in order, synchronously; None if there is no usable answer, and for a
        seed that has stopped training, whose question is not sent. The questions of one call are one batch and are
        answered in parallel. Their roles must be in the `consults` of the part that asks. Allowed in training and in
        evaluation. Questions about an action concern the state that the seed's task, or that of the episode, is in: an
        oracle may be told what the suite's solver does there."""

    def note(self, log: str, row: int, values: Mapping[str, Any]) -> None:
        """Append a table row for one seed, with the step, to the run's LOG.jsonl. The part's configuration must declare
        the log in its `logs` (`guidebench.harness.logs`). Raise UserError for values that do not fit the log."""


class Place(NamedTuple):
    """An episode of an evaluation."""

    row: int
    """Seed row."""
    episode: int
    """Index among the seed's episodes in this evaluation, from 0."""


class Actor(Protocol):
    """Plays the episodes of an evaluation for an agent. It holds its own memory of them and leaves the agent's training
    state unchanged."""

    def begin(self, observation: Array, ctx: Context) -> None:
        """Begin all episodes; observation [places, …]."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        """Return actions [n, …] for observations [n, …] of the episodes `numbers` [n], indices into the places.
        `ctx.rows` are their seed rows."""

    def end(self, numbers: Array, ctx: Context) -> None:
        """Record that these episodes have ended."""


class Agent(Protocol):
    """The object that the training loop drives: it acts and learns for all seeds of a worker at once."""

    wants_snapshots: bool
    """Whether transitions must carry snapshots."""
    datasets_unseen: bool
    """Whether it needs no snapshots of a dataset's transitions, although it may of others."""
    wants_measures: bool
    """Whether transitions must carry measures, which an oracle will read."""
    wants_words: bool
    """Whether transitions must carry state and step in words (`Transition.words`)."""
    deterministic: bool
    """Whether evaluation actions are a function of the observation alone, so that a repeated state is a cycle. False
    for an actor with memory."""
    repeatable: bool
    """Whether an evaluation with the same parameters, layouts and answers consists of the same episodes again."""
    active: Array
    """Seeds still training, bool [S]. A seed whose action, loss or gradient is not finite stops; others continue."""

    def phases(self) -> tuple[RunPhase, ...]:
        """Return the run phases, in order."""

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Begin episodes of these seed rows; observation [len(rows), …]."""

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        """Receive episodes that have ended."""

    def act(self, observation: Array, ctx: Context) -> Array:
        """Return actions [n, …] for observations [n, …] of the seed rows `ctx.rows`."""

    def actor(self, places: Sequence[Place]) -> Actor:
        """Return the actor for these episodes of an evaluation (`harness.loop.evaluation.Memoryless` if `act` needs no
        memory)."""

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Store a transition and send questions about it. At step 0, before any episode begins, it comes from the run's
        demonstrations, and before the first step of a run phase whose source is a dataset from that dataset; such a
        transition is the same for every seed."""

    def cut(self, ctx: Context) -> None:
        """Mark that the next observed transition does not follow the last one although no episode ended: a dataset is
        observed while episodes of the environment are unfinished, and these continue after it."""

    def answered(self, answers: Sequence[tuple[Question, Answer]], ctx: Context) -> None:
        """Receive questions, all of one role, whose answers take effect at this step."""

    def update(self, ctx: Context) -> Metrics:
        """Take the gradient steps due now and return their metrics; empty if none is due."""

    def value(self, observation: Array, rows: Array) -> Array | None:
        """Return value estimates [n] for observations [n, …] of seed rows `rows` [n], or None if the agent estimates
        none; for diagnostics."""

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return the learnt rewards [n] of observations [n, …] of seed rows `rows` [n], or None if the agent uses the
        task reward; for diagnostics."""

    def evaluated(self, returns: Array, ctx: Context) -> None:
        """Receive the mean evaluation return of each seed, [S]."""

    def state(self, row: int) -> State:
        """Return the checkpoint state of one seed row."""

    def load_state(self, row: int, state: State) -> None:
        """Restore one seed row from `state`."""

    def parameters(self, row: int) -> Mapping[str, Array]:
        """Return the parameters that acting needs, so that `bench eval` can test the agent on any task its spaces
        fit."""

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Begin one seed row from a policy: set the parameters that `parameters` returns, and target networks to the
        same."""

    def adopted(self, policy: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the policy of a pre-training stage as parameters of this agent: unchanged, unless the agent reads
        more than that of the stage did. What does not fit is left as it is, and the caller refuses it. UserError for a
        policy from which this agent cannot begin."""
