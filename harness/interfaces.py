"""The words of the design as types: task, agent, learner, sampler, guide, and the small records they exchange.

Axis 0 is the seed everywhere: S seeds of one cell train in one worker, in lock-step. `state(row)` and
`load_state(row, state)` speak of one seed, so that a checkpoint belongs to a run and packing may change on resume.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from guidebench.harness.scores import SUCCESS as SUCCESS
from guidebench.harness.scores import Score as Score
from guidebench.harness.types import Array as Array
from guidebench.harness.types import Metrics as Metrics
from guidebench.harness.types import State as State

if TYPE_CHECKING:
    from torch import Tensor

    from guidebench.harness.models.calls.base import Call, CallResult
    from guidebench.harness.streams import Streams


@dataclass(frozen=True)
class Observations:
    """What a task shows: one array, or a record of named parts, each an array in its own dtype.

    `Observations((17,), "float32")` is an array of 17 floats. With `Observations(parts={"grid": …, "text": …})`, each
    part an `Observations` of its own, an observation is a NumPy record: a task returns `np.zeros((), space.numpy)` with
    its fields filled, observations of several seeds are an array [S] of records, and `observation["text"]` of them is
    [S, …] in that part's shape and dtype.
    """

    shape: tuple[int, ...] = ()
    """Of one observation; () for a record, which is one item of `numpy`."""
    dtype: str = ""
    """Of its numbers; "" for a record."""
    categories: tuple[int, ...] | None = None
    """Number of codes in each entry of the last axis if observations are codes, else None."""
    stack: int = 1
    """Frames that the last axis of an image holds, the oldest first. From one step to the next they move up by one, so
    that a store keeps each frame once; in the first observation of an episode they are as the task has them."""
    encoder: str = ""
    """The registered encoder that networks read it with; "" takes the one of `baselines/encoders/` that fits."""
    parts: Mapping[str, Observations] = field(default_factory=dict, hash=False)
    """Name -> part of a record; a part has no parts."""

    def __post_init__(self) -> None:
        if self.parts:
            if self.shape or self.dtype or self.categories is not None or self.stack != 1 or self.encoder:
                raise ValueError("observations of named parts have no shape, dtype, stack or encoder of their own")
            if nested := [name for name, part in self.parts.items() if part.parts]:
                raise ValueError(
                    f"part {nested[0]!r} of an observation has parts of its own; name them all at one level"
                )
        elif not self.dtype:
            raise ValueError("observations need a dtype, or named parts")
        elif self.stack != 1 and (self.stack < 1 or not self.shape or self.shape[-1] % self.stack):
            raise ValueError(
                f"observations of shape {self.shape} cannot hold stack={self.stack} frames: the last axis is not a "
                f"multiple of that"
            )

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of one observation: a structured one for named parts, whose array shape is `shape`."""
        if not self.parts:
            return np.dtype(self.dtype)
        return np.dtype([(name, part.dtype, part.shape) for name, part in self.parts.items()])

    def joined(self, **parts: Observations) -> Observations:
        """These observations with further named parts; a single array becomes the part `observation`."""
        return Observations(parts={**(self.parts or {"observation": self}), **parts})

    def join(self, observation: Array, **parts: Array) -> Array:
        """Records of these observations, made by `joined`: `observation` [n, …] as before it, and the parts [n, …] that
        it added."""
        names = observation.dtype.names
        held = {"observation": observation} if names is None else {name: observation[name] for name in names}
        records = np.empty(len(observation), self.numpy)
        for name, values in {**held, **parts}.items():
            records[name] = values
        return records


@dataclass(frozen=True)
class Actions:
    """What a task takes: one of `count` choices, or a vector of `shape` in [-1, 1]."""

    count: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def discrete(self) -> bool:
        return self.count is not None


class Step(NamedTuple):
    """What a task answers to one action."""

    observation: Array
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class Task(Protocol):
    """One environment. Everything that decides its future is in `state()`, its random stream included."""

    instruction: str
    max_steps: int

    def reset(self, seed: int | None = None) -> Array:
        """A new episode; with `seed` the task's random stream starts anew, without it the stream goes on."""

    def step(self, action: Any) -> Step: ...

    def events(self) -> Array:
        """Which of its suite's `events` the last step brought about, bool [E]; privileged: for oracles and diagnostics,
        never for a method. The array is the task's own."""

    def snapshot(self) -> Array:
        """What drawing the present frame needs, uint8 [n], the same n throughout the task."""

    def position(self) -> bytes | None:
        """All that decides the future but the clock and the random stream, if success is the only reward and the
        dynamics are deterministic; None where that does not hold. Evaluation ends an episode whose position
        repeats under a deterministic policy, as the failure it is."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Drawer(Protocol):
    """Turns snapshots into pixels, in the frame worker's process."""

    def __call__(self, snapshots: Array) -> Array:
        """uint8 [L, n] -> uint8 [L, height, width, 3]."""


class Suite(Protocol):
    """A registered suite: a frozen dataclass whose fields are its own settings (variants), which inherits
    `harness.parts.SuitePart`. What only some suites can tell is in `harness.capabilities`.

    `defaults` and `profiles` are layers of configuration: keys are `section.field` or `kind.name.field`, values may
    be `cite(value, source)`. `profiles[p]` may hold `tasks` (the tasks meant when none is named) and
    `by_task` (task -> layer).
    """

    version: ClassVar[int]
    title: ClassVar[str]
    source: ClassVar[str]
    citation: ClassVar[str | Path]
    """The `.bib` file whose BibTeX entries a user of it should cite, BibTeX itself, or a comment (%) that says why
    there are none."""
    tasks: ClassVar[tuple[str, ...]]
    learner: ClassVar[str]
    """The learner meant where a command names none."""
    method: ClassVar[str]
    events: ClassVar[tuple[str, ...]]
    """What happens on the way to success, in the usual order; an episode's phase is the first not yet seen in it.
    A suite whose events come in no order says `ordered` = False: its episodes have no phases."""
    drawing: ClassVar[type]
    """Configuration class of how frames are drawn, the section `drawing` of cells whose judge looks at frames: a frozen
    dataclass that inherits `harness.parts.DrawingPart`, with `spawn(task) -> Drawer` and, where frames can be
    perturbed, a field `perturbation` whose Literal type lists how."""
    defaults: ClassVar[Mapping[str, Any]]
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Name -> a layer of settings; also `tasks`, those meant where a command names none, `judge`, the one meant where a
    method needs one and neither it nor the command names it, and `by_task`, a layer for each task that needs one."""

    def spaces(self, task: str) -> tuple[Observations, Actions]: ...

    def horizon(self, task: str) -> int:
        """Most steps of an episode."""

    def seconds_per_step(self, task: str) -> float:
        """Cost of one environment step on the reference machine, for `--dry-run`."""

    def make(self, task: str) -> Task: ...

    def of_run(self, seed: int) -> Suite:
        """The suite as the run of this seed has it, where the seed decides more than random streams, such as one layout
        for all its episodes; most suites are the same for all."""

    def repeats(self, task: str) -> bool:
        """Whether every episode of a run begins alike and nothing in it is left to chance."""


class Surroundings(NamedTuple):
    """What surrounds the things of a task and no coordinate tells, in words, for a prompt."""

    description: str
    """Whole sentences."""
    demand: str
    """What it asks of a trajectory, as a sentence about it."""


class Coordinates(NamedTuple):
    """A thing in the task's world whose place an observation holds."""

    name: str
    """`tcp`, `obj`, `target`, …"""
    meaning: str
    """In words, for a prompt."""
    entries: tuple[int, ...]
    """Of the observation vector, in order x, y, z."""
    former: tuple[int, ...] = ()
    """Entries that hold the same of the step before."""
    constant: bool = False
    """Whether it stays as it is throughout an episode."""
    reach: tuple[tuple[float, float], ...] = ()
    """Least and greatest value that each entry can have in the task, in its own unit; empty means unbounded."""


class Transition(NamedTuple):
    """One step of every seed. `next_observation` is the true one, never the first of the next episode."""

    observation: Array  # [S, …]
    action: Array  # [S, …]
    reward: Array  # [S] float32
    terminated: Array  # [S] bool
    truncated: Array  # [S] bool
    next_observation: Array  # [S, …]
    events: Array  # [S, E] bool, what this step brought about; for oracles and diagnostics only
    snapshot: Array | None  # [S, n] uint8, of the state after the step, if the agent asked for snapshots
    success: Array  # [S] bool, whether the task counts as solved after this step


class Episode(NamedTuple):
    """One finished episode of one seed."""

    row: int
    ret: float
    length: int
    success: bool


class RunPhase(NamedTuple):
    """A stretch of a run: `steps` steps whose transitions come from `source`.

    Steps of every phase count as steps of the run, for its length, its evaluations and its checkpoints, and also for
    what a learner counts in environment steps: `learning_starts`, the annealing of exploration, renewals of target
    networks. So a learner whose first phase is longer than `learning_starts` does not act at random after it.
    """

    name: str
    steps: int
    source: str = "environment"
    """`environment`: each step is one of every seed's task. `none`: no transition comes. A role of kind dataset: before
    the phase's first step all transitions of that dataset are observed for every seed, unless an earlier phase had the
    same source; then none comes."""
    updates: int | None = None
    """Gradient updates of a step, whatever `learning_starts` says. None leaves them to the learner's own schedule."""


class Mode(enum.Enum):
    TRAIN = "train"
    EVALUATE = "evaluate"


class Question(NamedTuple):
    """A question about one seed: a clip to be judged, or what a dialogue is about (`Dialogue`)."""

    row: int
    key: Array  # int64 [m], the asker's own: transitions, or queries, that the answer concerns
    snapshots: Array | None  # uint8 [L, n], of what is to be drawn
    events: Array  # bool [m, E], what the tasks told of these transitions; only an oracle may look
    content: str = ""  # JSON, of a dialogue
    to: str = "judge"
    """The role that it goes to, which the asking part's configuration has in its `needs`."""
    episode: int = 0
    """Which of the seed's episodes it is about, where it is put in an evaluation (`Place.episode`)."""


class Response(NamedTuple):
    """The response to a Question, due at this step."""

    row: int
    key: Array
    value: Any
    """A judge's P(yes), in [0, 1]; what a dialogue ended with, as JSON holds it, or the array that the asking part
    declares for the role, [len(key), *shape]. None where there was no usable answer, which the asker bears as it
    states."""
    to: str = "judge"


class ArraySpec(NamedTuple):
    """The arrays that are the answers in a role: one of `shape` for each key of a question (`Question.key`), so that
    the value of its Response is [len(key), *shape] of exactly this dtype."""

    name: str
    """For errors, and of the column that may hold it."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    """Or float16. What a dialogue ends with is cast to it."""

    def column(self, initial: float = float("nan"), batched: bool = True) -> TransitionColumn:
        """The late column that holds it for each transition, which `Store.apply` fills in from an Answer's key and
        value."""
        return TransitionColumn(self.name, "late", self.shape, self.dtype, initial, batched)


class Dialogue(Protocol):
    """What is said to a model about one question, in the model process: it may take several calls that depend on each
    other. A part that asks a chat or an embedder has `dialogue(suite, task, role) -> Dialogue` in its configuration,
    and `puts`, role -> kinds of calls, where a dialogue makes other calls than chats or embeddings."""

    calls: int
    """The most calls it makes."""

    async def __call__(self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]) -> Any:
        """Return the answer to a question with this `content` and these `frames`, uint8 [L, height, width, 3]: what
        JSON can hold, or, where the part declares it (`AskingPart.array`), an array of floating-point numbers. Return
        None where the model gave nothing usable. A call without an answer comes back as a CallResult with a
        `failure`."""


class Context(Protocol):
    """What the loop offers an agent."""

    mode: Mode
    step: int
    rows: Array
    """Seed row of each observation given to `act`, [n]; 0..S-1 in training."""
    streams: Sequence[Streams]

    @property
    def phase(self) -> RunPhase:
        """That of the step; in training only."""

    @property
    def observation(self) -> Array:
        """What each seed acts on next, [S, …]; in training only. Before the first step of its task it is what its first
        episode begins with."""

    def ask(self, ask: Question) -> None:
        """Send a question; its answer comes to `answered` when its delay is over."""

    def consult(self, questions: Sequence[Question]) -> list[Any]:
        """The answer to each question, in order, before anything else happens; None where there is no usable one, and
        for a seed that trains no more, whose question is not sent. One call is one batch: its questions are answered
        side by side. Their roles stand in the `consults` of the asking part's configuration; it is allowed in training
        and in evaluation alike."""

    def note(self, log: str, row: int, values: Mapping[str, Any]) -> None:
        """A row of diagnosis of one seed, with the step, in the run's LOG.jsonl. The part's configuration declares
        the log in its `logs` (`guidebench.harness.logs`); UserError for a row that does not fit."""


class Place(NamedTuple):
    """An episode of an evaluation."""

    row: int
    """Of its seed."""
    episode: int
    """Which of the seed's episodes it is, from 0."""


class Actor(Protocol):
    """An agent as it plays the episodes of an evaluation: it remembers what belongs to them and leaves what training
    remembers alone."""

    def begin(self, observation: Array, ctx: Context) -> None:
        """All episodes begin; observation [places, …]."""

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        """Observations [n, …] of the episodes `numbers` [n], which index the places -> actions [n, …]. `ctx.rows` are
        their seeds."""

    def end(self, numbers: Array, ctx: Context) -> None:
        """These episodes have ended."""


class Agent(Protocol):
    """What the training loop drives: all seeds of a worker at once."""

    wants_snapshots: bool
    deterministic: bool
    """Whether evaluation actions are a function of the observation, so that a repeated state is a cycle. Those of an
    actor that remembers anything are not."""
    active: Array
    """[S] bool: seeds still training; one whose action, loss or gradient is no longer finite stops, the others go
    on."""

    def phases(self) -> tuple[RunPhase, ...]: ...

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Episodes of these seeds begin; observation [len(rows), …]."""

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None: ...

    def act(self, observation: Array, ctx: Context) -> Array:
        """Observations [n, …] of the seeds `ctx.rows` -> actions [n, …]."""

    def actor(self, places: Sequence[Place]) -> Actor:
        """What plays these episodes of an evaluation (`harness.loop.evaluation.Memoryless` where `act` is enough)."""

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Store it, ask about it. At step 0, before any episode begins, these are the run's demonstrations, the same
        transition for every seed, and before the first step of a phase whose source is a dataset they are that
        dataset's."""

    def cut(self, ctx: Context) -> None:
        """What is observed next does not follow what was observed last, although no episode ended: a dataset comes
        while episodes of the environment are under way, and these go on after it."""

    def answered(self, answers: Sequence[Response], ctx: Context) -> None:
        """Answers that count from now on, of one role."""

    def update(self, ctx: Context) -> Metrics:
        """The gradient steps due now; empty when none is."""

    def value(self, observation: Array, rows: Array) -> Array:
        """What the agent expects to gain from observations [n, …] of seeds `rows` [n], [n]; for diagnostics."""

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """The reward that it has learnt to see in observations [n, …] of seeds `rows` [n], [n], or None where it takes
        the task's; for diagnostics."""

    def evaluated(self, returns: Array, ctx: Context) -> None:
        """Mean evaluation return of each seed, [S]."""

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...

    def parameters(self, row: int) -> Mapping[str, Array]:
        """What acting needs: enough for `bench eval` to test the agent anywhere its spaces fit."""

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None: ...


class Moment(NamedTuple):
    """What a sampler may look at when it draws."""

    step: int
    live: Span
    rngs: Sequence[np.random.Generator]  # of each seed
    observation: Array  # [S, …], what each seed acts on next
    store: Store


@dataclass(frozen=True, slots=True)
class Draw:
    """Which transitions a batch holds: index int64 [S, B]; weight float32 [S, B], or None for all ones."""

    index: Array
    weight: Array | None


class Batch(NamedTuple):
    """A batch for every seed, NumPy, axis 0 the seed, axis 1 the transition."""

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    weight: Array | None
    columns: Mapping[str, Array] = {}
    """What the guide's own columns hold for these transitions, name -> [S, B, …]."""
    success: Array | None = None
    """Whether the task counted as solved after the step, bool [S, B], which a guide may read; None in a batch that was
    not drawn from a store."""
    task_reward: Array | None = None
    """The task's own reward, [S, B], whatever a guide makes of `reward`; None in a batch that was not drawn from a
    store. It may be the same array as `reward`: a guide replaces that, and never writes into it."""


class Tensors(NamedTuple):
    """A `Batch` as a learner learns from it, as tensors on its device, of those seeds that it works on together:
    [S, B, …]."""

    observation: Tensor | Mapping[str, Tensor]
    """Of records, a tensor of each part by name."""
    action: Tensor
    reward: Tensor
    next_observation: Tensor | Mapping[str, Tensor]
    terminated: Tensor
    weight: Tensor | None
    success: Tensor | None
    task_reward: Tensor | None
    columns: Mapping[str, Tensor]


class Loss(NamedTuple):
    """A loss that is added to a learner's own."""

    who: str
    """Who gives it, in words, for errors."""
    groups: tuple[str, ...]
    """To the losses of which groups of the learner's parameters (`LearnerPart.groups`) it may add a term."""
    terms: Callable[[Tensors, Any], Mapping[str, Tensor]]
    """As `Guide.losses`."""


class TransitionColumn(NamedTuple):
    """A column that a guide or a sampler adds to every transition.

    A fixed one is written once, before it is first read; a mutable one (a relabelled reward) may be rewritten and is
    kept in memory and in checkpoints; a late one (a model's answer) is written once, some time after the transition.
    """

    name: str
    kind: Literal["fixed", "mutable", "late"]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    initial: float = 0.0
    batched: bool = True
    """Whether a guide's column is in every batch."""


class Guide(Protocol):
    """Turns a model's or a teacher's word into reward, labels or relabelled data.

    Its configuration class inherits `harness.parts.AskingPart`. `baselines/guiding.py` has a guide that leaves
    everything as it is.
    """

    columns: tuple[TransitionColumn, ...]
    wants_snapshots: bool

    def phases(self, steps: int) -> tuple[RunPhase, ...]:
        """The stretches of a run of `steps` steps."""

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Every seed stored `transition` at `slot`; questions about it may be asked."""

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Episodes of these seeds have ended with the transition that was last observed."""

    def answered(self, answers: Sequence[Response], store: Store, ctx: Context) -> None:
        """Answers to its questions."""

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> Array | int:
        """Called once per environment step before its gradient steps, to train its own parts, to rewrite columns or to
        reset parts of the learner. It tells how many gradient steps each seed takes beyond those that the learner has
        due, int [S] or one number for all; a seed with fewer stays as it is while the others take theirs."""

    def shape(self, batch: Batch) -> Batch:
        """The batch the learner sees."""

    def losses(self, batch: Tensors, networks: Any) -> Mapping[str, Tensor]:
        """Group -> what is added to the learner's own loss of that group, [S], the mean over the batch for each seed,
        with gradients. It is asked once in an update for those seeds that the learner works on together
        (`networks.rows`), if `adds` of its configuration names a group that the update moves.

        `batch` is as `shape` left it; `networks` offers the learner's networks as they were before the update
        (`baselines/losses.py`). Random numbers are drawn from the streams of those seeds, by the seed."""

    def metrics(self) -> Metrics: ...

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """The reward that it has learnt to see in observations [n, …] of seeds `rows` [n], float32 [n], or None where
        it takes the task's; for diagnostics."""


class Store(Protocol):
    """What guides and samplers may do with stored transitions."""

    @property
    def live(self) -> Span: ...

    @property
    def written(self) -> int:
        """Transitions that each seed has stored so far. The first one has the number 0."""

    def holds(self, number: Array) -> Array:
        """Return which transitions, by their numbers [n], may still be drawn, bool [n]."""

    def slot(self, number: Array) -> Array:
        """Return the slots of transitions by their numbers [n], int [n]."""

    def gather(self, index: Array) -> Batch: ...

    def column(self, name: str, index: Array) -> Array:
        """Values [S, B, …] at slots [S, B] of an added column, or of `observation`, `action`, `reward`, `terminated`,
        `ended`; a late value not yet there reads as its initial."""

    def read(self, column: str, row: int, slots: Array) -> Array:
        """Values [n, …] at slots [n] of one seed, as of `column`."""

    def write(self, column: str, row: int, slots: Array, value: Array) -> None: ...

    def apply(self, column: str, row: int, numbers: Array, values: Array) -> None:
        """Fill in a late column, or rewrite a mutable one, of one seed by the order in which transitions were stored:
        `numbers` int64 [n], the first transition 0, as a question's key may hold them; `values` [n, *shape], of the
        column's own shape and dtype, neither cast nor broadcast. Transitions that are no longer held are skipped.
        UserError for anything else."""


Difference = Literal["error", "loss"]
"""What the online network has less the target network: |δ| − |δ̄| (VLM-RB, app. E) or L(δ) − L(δ̄) by the learner's own
loss (Sujit et al. 2023)."""


class Update(NamedTuple):
    """What a gradient step tells."""

    td_error: Array  # float32 [S, B]
    metrics: Metrics
    reducible: Array | None = None
    """How much worse the online network is than the target network, float32 [S, B], if asked for: the difference of
    their absolute errors or of their losses, against the same target value y = r + γ max Q̄(s′, ·)."""


class Learner(Protocol):
    """Turns batches into parameter updates, for all seeds at once.

    Its configuration class inherits `harness.parts.LearnerPart`. `baselines/learning.py` has what leaves the rest as it
    is.
    """

    columns: tuple[TransitionColumn, ...]
    """What it wants stored with every transition and finds in its batches, such as the return that followed."""

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """An episode of the seed in this row of the store lies complete at `slots`, in time order; what the ring has
        overwritten is left out."""

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Actions for observations [n, …] of seeds `rows` [n]; exploring by each seed's generator, or greedy."""

    def updates_due(self, step: int, asked: int | None = None) -> int:
        """Gradient steps to take after step `step` of the run (counted from 1). `asked`: how many the phase wants
        (`RunPhase.updates`), which it then tells; None where they follow from its own schedule."""

    batch_size: int

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """One gradient step at environment step `step`; seeds whose `active` [S] is False keep parameters and
        optimiser as they are. `reducible` asks for `Update.reducible` in one of its forms, which costs an
        evaluation. `losses` are added to the learner's own; what they add to a group is in the metrics as
        `GROUP_added`."""

    def value(self, observation: Array, rows: Array) -> Array:
        """What acting greedily from observations [n, …] of seeds `rows` [n] is expected to return, [n]."""

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...

    def parameters(self, row: int) -> Mapping[str, Array]: ...

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None: ...

    def reset(self, part: str, active: Array) -> None:
        """Begin the named part of the networks of seeds `active` [S] anew, its optimiser too; ValueError for one that
        the configuration class does not name in `resets`."""


class Sampler(Protocol):
    """Decides which stored transitions a batch holds. Storage is apart; every array has the seed first.

    Its configuration class inherits `harness.parts.ReplayPart`.
    """

    clip_length: int
    """Transitions in a clip to be judged; 0 if this sampler needs no judge."""
    columns: tuple[TransitionColumn, ...]
    """What it keeps with every transition, in the store."""
    wants_reducible: Difference | None
    """The form in which `feedback` reads `Update.reducible`, or None where it does not."""

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Every seed stored `transition` at slot `index`; `live` are the slots that now hold transitions."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """The slots [S, count] that the next batch holds."""

    def feedback(self, index: Array, update: Update) -> None:
        """What the learner told of the transitions [S, B] just learnt from."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """A judge's P(yes) for the transitions `index` of one seed that are still stored."""

    def evaluated(self, returns: Array) -> None:
        """Mean evaluation return of each seed, [S], right after an evaluation."""

    def metrics(self, step: int) -> Metrics: ...

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...


@dataclass(frozen=True, slots=True)
class Span:
    """The stored transitions of a ring: `count` slots, the oldest at `start`, of `size` slots that wrap around."""

    start: int
    count: int
    size: int

    def slots(self, offsets: Array) -> Array:
        """Slot of the k-th oldest transition."""
        return np.asarray((self.start + offsets) % self.size)


@dataclass(frozen=True)
class Build:
    """What a part may know when it is built for a worker."""

    seeds: tuple[int, ...]
    observations: Observations
    actions: Actions
    steps: int
    """Environment steps in the whole run."""
    horizon: int
    """Most steps of an episode."""
    events: tuple[str, ...]
    """What the task's `events()` tell of, in order."""
    device: str
    streams: Sequence[Streams]
    directories: tuple[Path, ...]
    """One per seed, for what is too large for memory."""
    capacity: int
    """Transitions that the replay holds."""
    slots: int
    """Slots of the ring: the capacity (or the run's length if shorter) and enough beyond it that what a checkpoint
    refers to is not overwritten before the next but one."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The cell's built configuration by section: training, evaluation, suite, drawing, and the part in each role."""
    task: str = ""
    """Its name in the suite, for what only the suite can tell of it."""

    @property
    def rows(self) -> int:
        return len(self.seeds)

    def suite(self, row: int) -> Any:
        """The suite as the run in this row has it."""
        return self.parts["suite"].of_run(self.seeds[row])


class Judge(Protocol):
    """Answers how likely a clip shows what the prompt asks for, from pixels alone.

    Its configuration class inherits `harness.parts.ModelPart` and has `delay`. By its backend it also has

    - scripted, hand-written code: `timeout` and `spawn(suite, task)`, which returns a Judge;
    - oracle: `spawn(suite, task)`, which returns a `guidebench.harness.models.oracle.Oracle`, told events and
      shown no frame;
    - any other, a foundation model: `model`, `prompt`, `in_flight`, `spawn_model(device)`, which returns a
      `guidebench.harness.models.calls.Model`, `policy()`, how its `guidebench.harness.models.desk.Desk` asks
      it, and `ready()`, a UserError for what is missing, asked before training begins.
    """

    def __call__(self, clips: Sequence[Array]) -> list[float]:
        """uint8 frames [L, height, width, 3] of each clip -> P(yes) of each, in [0, 1]."""
