"""Interfaces of tasks, agents, learners, samplers and guides, and the records that they exchange.

Axis 0 is the seed everywhere: S seeds of one cell train in one worker, in lock-step. `state(row)` and
`load_state(row, state)` concern one seed row, so that a checkpoint belongs to a run and packing may change on resume.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from guidebench.harness.scores import SUCCESS as SUCCESS
from guidebench.harness.scores import Score as Score
from guidebench.harness.types import Array as Array
from guidebench.harness.types import Metrics as Metrics
from guidebench.harness.types import State as State

if TYPE_CHECKING:
    from torch import Tensor

    from guidebench.harness.models.calls.base import Answer, AskModel
    from guidebench.harness.streams import Streams


@dataclass(frozen=True)
class Observations:
    """The observation space of a task: one array, or a record of named parts, each an array in its own dtype.

    `Observations((17,), "float32")` is an array of 17 floats. With `Observations(parts={"grid": …, "text": …})`, each
    part an `Observations` of its own, an observation is a NumPy record: a task returns `np.zeros((), space.numpy)` with
    its fields filled, observations of several seeds are an array [S] of records, and `observation["text"]` of them is
    [S, …] in that part's shape and dtype.
    """

    shape: tuple[int, ...] = ()
    """Shape of one observation; () for a record, which is one item of `numpy`."""
    dtype: str = ""
    """Dtype of the numbers; "" for a record."""
    categories: tuple[int, ...] | None = None
    """Number of codes in each entry of the last axis if observations are categorical codes, else None."""
    stack: int = 1
    """Number of frames stacked on the last axis of an image, oldest first. They shift by one frame per step, so that a
    store keeps each frame once; the task decides the stack of an episode's first observation."""
    encoder: str = ""
    """Registered encoder that networks read it with; "" selects the one of `baselines/encoders/` that fits."""
    mask: bool = False
    """Whether this part of a record says of each discrete action, in order, whether it may be taken: nonzero if it may,
    shape (count,). Learners of action values then choose among those alone; networks read it as any other part."""
    parts: Mapping[str, Observations] = field(default_factory=dict, hash=False)
    """Name -> part of a record; parts cannot be nested."""

    def __post_init__(self) -> None:
        if self.parts:
            array_fields = (
                self.shape,
                self.dtype,
                self.categories is not None,
                self.stack != 1,
                self.encoder,
                self.mask,
            )
            if any(array_fields):
                raise ValueError("a record of named parts has no shape, dtype, stack, encoder or mask of its own")
            if nested := [name for name, part in self.parts.items() if part.parts]:
                raise ValueError(
                    f"part {nested[0]!r} of an observation has parts of its own; declare all parts at one level"
                )
            masks = [name for name, part in self.parts.items() if part.mask]
            if len(masks) > 1:
                raise ValueError(f"parts {masks[0]!r} and {masks[1]!r} are both masks of the actions; declare one")
        elif not self.dtype:
            raise ValueError("observations need a dtype, or named parts")
        elif self.mask and len(self.shape) != 1:
            raise ValueError(f"a mask of the actions has shape (count,), and this one has {self.shape}")
        elif self.stack != 1 and (self.stack < 1 or not self.shape or self.shape[-1] % self.stack):
            raise ValueError(
                f"observations of shape {self.shape} cannot hold stack={self.stack} frames: the last axis must be a "
                f"multiple of {self.stack}"
            )

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy dtype of one observation: a structured dtype for a record, else the dtype of its numbers."""
        if not self.parts:
            return np.dtype(self.dtype)
        return np.dtype([(name, part.dtype, part.shape) for name, part in self.parts.items()])

    @property
    def masking(self) -> str:
        """Return the name of the part that is a mask of the actions, or ""."""
        return next((name for name, part in self.parts.items() if part.mask), "")

    def joined(self, **parts: Observations) -> Observations:
        """Return these observations with further named parts; a single array becomes the part `observation`."""
        return Observations(parts={**(self.parts or {"observation": self}), **parts})

    def join(self, observation: Array, **parts: Array) -> Array:
        """Return records of this space, which `joined` made, from observations [n, …] of the space before it and the
        added parts [n, …]."""
        names = observation.dtype.names
        held = {"observation": observation} if names is None else {name: observation[name] for name in names}
        records = np.empty(len(observation), self.numpy)
        for name, values in {**held, **parts}.items():
            records[name] = values
        return records


@dataclass(frozen=True)
class Actions:
    """The action space of a task: one of `count` choices, or a vector of `shape` in [-1, 1]."""

    count: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def discrete(self) -> bool:
        return self.count is not None


class Step(NamedTuple):
    """The result of one environment step."""

    observation: Array
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class Task(Protocol):
    """One environment. `state()` holds everything that decides its future, its random stream included. The methods that
    read it (`events`, `snapshot`, `position`, and of the capabilities `measures`, `text`, `caption`) change nothing and
    may be called at any time after the first reset, since a task in another process is read ahead."""

    instruction: str
    max_steps: int

    def reset(self, seed: int | None = None) -> Array:
        """Begin an episode and return its first observation; `seed` reseeds the task's random stream, None continues
        it."""

    def step(self, action: Any) -> Step: ...

    def events(self) -> Array:
        """Return which of the suite's `events` occurred in the last step, bool [E]. Privileged: for oracles and
        diagnostics, never for a method. The task may reuse the array, so callers must copy it to keep it."""

    def snapshot(self) -> Array:
        """Return what is needed to draw the current frame, uint8 [n] with constant n."""

    def position(self) -> bytes | None:
        """Return all state that decides the future except the clock and the random stream, or None unless success is
        the only reward and the dynamics are deterministic. Evaluation ends an episode as a failure when its position
        repeats under a deterministic policy."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Drawer(Protocol):
    """Draws frames from snapshots, in the frame worker's process."""

    def __call__(self, snapshots: Array) -> Array:
        """Draw the frames, uint8 [L, height, width, 3], of snapshots, uint8 [L, n]."""


class Suite(Protocol):
    """A registered suite: a frozen dataclass whose fields are its settings (variants) and which inherits
    `harness.parts.SuitePart`. Optional capabilities of suites are in `harness.capabilities`.

    `defaults` and `profiles` are layers of settings: keys are `section.field` or `kind.name.field`, values may
    be `cite(value, source)`.
    """

    version: ClassVar[int]
    title: ClassVar[str]
    source: ClassVar[str]
    citation: ClassVar[str | Path]
    """The `.bib` file whose BibTeX entries a user of it should cite, BibTeX itself, or a comment (%) that says why
    there are none."""
    tasks: ClassVar[tuple[str, ...]]
    learner: ClassVar[str]
    """Learner used if neither the command nor the method names one."""
    method: ClassVar[str]
    """Method used if the command names none."""
    events: ClassVar[tuple[str, ...]]
    """Events on the way to success, in their usual order. The task phase of an episode is the first event that has not
    occurred in it yet. A suite without such an order sets `ordered` = False; its episodes have no task phases."""
    drawing: ClassVar[type]
    """Configuration class of the section `drawing`, in cells whose judge sees frames: a frozen dataclass that inherits
    `harness.parts.DrawingPart`, with `spawn(task) -> Drawer` and, if frames can be perturbed, a field `perturbation`
    whose Literal type lists the perturbations."""
    defaults: ClassVar[Mapping[str, Any]]
    """Layer of settings for all profiles."""
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Profile -> layer of settings. It may also hold `tasks`, the tasks used if the command names none, and `by_task`,
    task -> layer."""

    def spaces(self, task: str) -> tuple[Observations, Actions]: ...

    def horizon(self, task: str) -> int:
        """Return the maximum length of an episode in steps."""

    def seconds_per_step(self, task: str) -> float:
        """Return the seconds of one environment step on the reference machine, for `--dry-run`."""

    def make(self, task: str) -> Task: ...

    def of_run(self, seed: int) -> Suite:
        """Return the suite as the run of this seed uses it. Most suites return themselves; a suite whose seed decides
        more than random streams, such as one layout for all episodes, returns a variant."""

    def in_evaluation(self) -> Suite:
        """Return the suite as evaluation episodes use it; spaces and events are those of training."""

    def repeats(self, task: str) -> bool:
        """Return whether all episodes of a run start in the same state and the dynamics are deterministic."""


class Surroundings(NamedTuple):
    """Description, for a prompt, of surroundings that an observation's coordinates do not cover, such as walls."""

    description: str
    """Description in whole sentences."""
    demand: str
    """Constraint that the surroundings put on a trajectory, as one sentence."""


class Coordinates(NamedTuple):
    """An object of the task whose position an observation holds."""

    name: str
    """Name, such as `tcp`, `obj` or `target`."""
    meaning: str
    """Description for a prompt."""
    entries: tuple[int, ...]
    """Indices into the observation vector, in order x, y, z."""
    former: tuple[int, ...] = ()
    """Indices of the same position one step earlier."""
    constant: bool = False
    """Whether the position is constant within an episode."""
    reach: tuple[tuple[float, float], ...] = ()
    """Minimum and maximum of each entry in the task, in the entry's unit; empty means unbounded."""


class StepWords(NamedTuple):
    """What the tasks say of one step of every seed, in words."""

    before: tuple[str, ...]
    """Each task's `text()` in the state before the step (`harness.capabilities.HasText`)."""
    captions: tuple[str, ...]
    """Each task's `caption()` of the step (`harness.capabilities.HasCaptions`)."""


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


class Mode(enum.Enum):
    TRAIN = "train"
    EVALUATE = "evaluate"


class Question(NamedTuple):
    """A question about one seed: a clip to be judged, or the content of a dialogue (`Dialogue`)."""

    row: int
    key: Array  # int64 [m], the sender's ids of the transitions or queries that the answer concerns
    snapshots: Array | None  # uint8 [L, n], of the frames to draw; None for a question without frames
    events: Array  # bool [m, E], the task's events in these transitions; only an oracle may read them
    content: str = ""  # JSON, of a dialogue
    to: str = "judge"
    """The role that receives the question, a key of the sending part's `needs`."""
    episode: int = 0
    """The seed's episode that the question concerns, if it is sent during an evaluation (`Place.episode`)."""
    measures: Array | None = None
    """`Transition.measures` of these transitions, float32 [m, P]; only an oracle may read them."""
    solver: Callable[[], Any] | None = None
    """Returns the action of the suite's own solver in the state in which a consulted question finds the task of its
    seed, or of its episode. The loop sets it, so that no agent sees it, and only an oracle that declares it receives it
    (`ModelPart.follows_solver`). None for a task without a solver (`harness.capabilities.HasExpert`)."""


class ArraySpec(NamedTuple):
    """Declares array answers in a role: one array of `shape` per key of a question (`Question.key`), so that the value
    of its Answer is [len(key), *shape] of exactly this dtype."""

    name: str
    """Name in errors, and of the column made by `column`."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    """float32 or float16; the dialogue's result is cast to it."""

    def column(self, initial: float = float("nan"), batched: bool = True) -> TransitionColumn:
        """Return a late column for the array of each transition; `Store.apply` fills it from a question's key and
        the value of its answer."""
        return TransitionColumn(self.name, "late", self.shape, self.dtype, initial, batched)


class Unusable(NamedTuple):
    """What a dialogue returns if no reply could be used and the asking part goes on with its fallback. The question
    counts as unanswered, and the part receives `value`."""

    value: Any
    """As a dialogue's answer: what the part records of the replies."""


@runtime_checkable
class ChecksAnswers(Protocol):
    """A dialogue whose answers to one question may not be possible answers to another."""

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why a value that the dialogue returned for another question cannot answer the one with this `content`
        and this number of frames, or ""."""


class Dialogue(Protocol):
    """The calls that answer one question, possibly depending on each other; they run in the model process.

    A part that asks a chat or an embedder defines `dialogue(suite, task, role) -> Dialogue`, and `puts`, role -> kinds
    of calls, if a dialogue makes other calls than chats or embeddings, or asks a judge."""

    calls: int
    """Maximum number of calls per question."""

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Any:
        """Return the answer to a question with this `content` and these `frames`, uint8 [L, height, width, 3]: a JSON
        value or, if the part declares one (`AskingPart.array`), an array of floating-point numbers. Return None if the
        model gave no usable answer, or `Unusable` if the part is to learn what was wrong with the replies; both count
        as unanswered. `ask` makes one call; a call without an answer returns an Answer with a
        `failure`."""


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


class Moment(NamedTuple):
    """The information that a sampler may use when it draws a batch."""

    step: int
    live: Span
    rngs: Sequence[np.random.Generator]  # of each seed
    observation: Array  # [S, …], the observation that each seed acts on next
    store: Store


@dataclass(frozen=True, slots=True)
class Draw:
    """The transitions of a batch: slots int64 [S, B], and loss weights float32 [S, B] or None for all ones."""

    index: Array
    weight: Array | None


class Batch(NamedTuple):
    """A batch for every seed as NumPy arrays; axis 0 is the seed, axis 1 the transition."""

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    weight: Array | None
    columns: Mapping[str, Array] = {}
    """Name -> values [S, B, …] of the guide's columns for these transitions."""
    success: Array | None = None
    """Whether the task counted as solved after the step, bool [S, B]; a guide may read it. None in a batch that was not
    drawn from a store."""
    task_reward: Array | None = None
    """The task reward, [S, B], independent of a guide's changes to `reward`; None in a batch that was not drawn from a
    store. It may be the same array as `reward`, so a guide must replace `reward` and never write into it."""
    number: Array | None = None
    """Numbers of the transitions in the order of storage, from 0, int64 [S, B] (`Store.slot`); None in a batch that was
    not drawn from a store."""
    steps: Array | None = None
    """Number m of environment steps from `observation` to `next_observation`, int64 [S, B], if the learner has an
    `n_step`: `reward` is then a discounted sum of m rewards, and the value of `next_observation` counts γ^m. None if
    every m is 1."""
    from_dataset: Array | None = None
    """Whether a transition is one of a dataset or of demonstrations, bool [S, B]; else the run collected it. None where
    an agent has one store for both."""


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


Rewarded = Callable[[str, int, Array], None]
"""Says that rewards of an ended episode have changed: the store's name, the seed row, and the episode's slots [T] in
time order, as far as it is still stored. What follows from rewards, such as returns, is then computed anew."""


class TransitionColumn(NamedTuple):
    """A column that a guide, a sampler or a learner adds to every transition.

    A fixed column is written once, before it is first read. A mutable column (a relabelled reward) may be rewritten and
    is kept in memory and in checkpoints. A late column (a model's answer) is written once, some time after the
    transition.
    """

    name: str
    kind: Literal["fixed", "mutable", "late"]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    initial: float = 0.0
    batched: bool = True
    """Whether every batch holds the column, for a guide's column."""


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


class Store(Protocol):
    """Access of guides and samplers to stored transitions."""

    @property
    def live(self) -> Span:
        """Return the slots that hold transitions."""

    @property
    def written(self) -> int:
        """Return the number of transitions that each seed has stored so far; they are numbered from 0."""

    def holds(self, number: Array) -> Array:
        """Return which transitions, by their numbers [n], may still be drawn, bool [n]."""

    def slot(self, number: Array) -> Array:
        """Return the slots of transitions by their numbers [n], int [n]."""

    def gather(self, index: Array) -> Batch:
        """Return the batch of transitions at slots `index` [S, B]."""

    def column(self, name: str, index: Array) -> Array:
        """Return values [S, B, …] at slots [S, B] of an added column, or of `observation`, `action`, `reward`,
        `terminated`, `success` or `ended`. A late value that is not written yet reads as the column's initial value."""

    def read(self, column: str, row: int, slots: Array) -> Array:
        """Return values [n, …] of a column at slots [n] of one seed row."""

    def write(self, column: str, row: int, slots: Array, value: Array) -> None:
        """Write values [n, …] of a column at slots [n] of one seed row."""

    def apply(self, column: str, row: int, numbers: Array, values: Array) -> None:
        """Write a late or mutable column of one seed row, addressing transitions by storage order: `numbers` int64 [n],
        the first stored transition is 0, as a question's key may hold them; `values` [n, *shape] in the column's shape
        and dtype, neither cast nor broadcast. Overwritten transitions are skipped. Raise UserError for invalid
        input."""


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


class Sampler(Protocol):
    """Chooses the stored transitions of each batch. Storage is separate; axis 0 of every array is the seed.

    Its configuration class inherits `harness.parts.ReplayPart`.
    """

    clip_length: int
    """Transitions per judged clip; 0 if the sampler needs no judge."""
    columns: tuple[TransitionColumn, ...]
    """Columns that the sampler stores with every transition."""
    wants_reducible: Difference | None
    """The form of `Update.reducible` that `feedback` reads, or None if it does not read it."""

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Receive a transition that every seed has stored at slot `index`; `live` are the slots that hold transitions
        now."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return the slots [S, count] of the next batch."""

    def feedback(self, index: Array, update: Update) -> None:
        """Receive the learner's update on the transitions at slots `index` [S, B], just learnt from."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """Receive a judge's P(yes) for the transitions at slots `index` of one seed row that are still stored."""

    def evaluated(self, returns: Array) -> None:
        """Receive the mean evaluation return of each seed, [S], after an evaluation."""

    def metrics(self, step: int) -> Metrics:
        """Return metrics to log at `step`."""

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...


@dataclass(frozen=True, slots=True)
class Span:
    """The stored transitions of a ring: `count` slots, the oldest at `start`, of `size` slots that wrap around."""

    start: int
    count: int
    size: int

    def slots(self, offsets: Array) -> Array:
        """Return the slots of the k-th oldest transitions, for each k in `offsets`."""
        return np.asarray((self.start + offsets) % self.size)


@dataclass(frozen=True)
class Build:
    """The information that a part receives when it is built for a worker."""

    seeds: tuple[int, ...]
    observations: Observations
    actions: Actions
    steps: int
    """Environment steps in the whole run."""
    horizon: int
    """Maximum length of an episode in steps."""
    events: tuple[str, ...]
    """Names of the entries of the task's `events()`, in order."""
    device: str
    streams: Sequence[Streams]
    directories: tuple[Path, ...]
    """One directory per seed, for data too large for memory."""
    capacity: int
    """Capacity of the replay in transitions."""
    slots: int
    """Slots of the ring: the capacity (or the run's length if shorter) plus a margin, so that transitions which a
    checkpoint refers to are not overwritten until two checkpoints later."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Section -> built configuration of the cell: training, evaluation, suite, drawing, and the part in each role."""
    task: str = ""
    """Name of the task in the suite."""

    @property
    def rows(self) -> int:
        return len(self.seeds)

    def suite(self, row: int) -> Any:
        """Return the suite as the run of this seed row uses it."""
        return self.parts["suite"].of_run(self.seeds[row])

    def evaluated(self, row: int) -> Any:
        """Return the suite as evaluation episodes of this seed row's run use it."""
        return self.suite(row).in_evaluation()


class Judge(Protocol):
    """Estimates, from pixels alone, the probability that a clip shows what the prompt asks for.

    Its configuration class inherits `harness.parts.ModelPart` and defines `delay`. Depending on its backend it also
    defines

    - scripted, hand-written code: `timeout` and `spawn(suite, task)`, which returns a Judge or a `ReadsPrompts`;
    - oracle: `spawn(suite, task)`, which returns a `guidebench.harness.models.oracle.Oracle`, which reads events and
      measures and sees no frame;
    - any other, a foundation model: `model`, `prompt`, `in_flight`; `spawn_model(device)`, which returns a
      `guidebench.harness.models.calls.Model`; `policy()`, the retry and timeout policy of its
      `guidebench.harness.models.desk.Desk`; and `ready()`, which raises UserError, before training begins, if something
      is missing.
    """

    def __call__(self, clips: Sequence[Array]) -> list[float]:
        """Return P(yes), in [0, 1], of each clip, given as uint8 frames [L, height, width, 3]."""


@runtime_checkable
class ReadsPrompts(Protocol):
    """Hand-written code in the role of a judge whose answers depend on the prompt as well as on the clip."""

    def judge(self, clip: Array, prompt: str) -> float:
        """Return P(yes), in [0, 1], of one clip, uint8 frames [L, height, width, 3]."""
