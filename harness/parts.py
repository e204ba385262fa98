"""Base classes of registered configurations: `Part`, and one subclass per kind.

A configuration is a frozen dataclass whose fields are its settings. The class variables and methods here tell the
engine what it must know before the part is built; their defaults mean that the part needs nothing special. Optional
capabilities of suites and tasks are Protocols in `harness/capabilities.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from guidebench.harness.capabilities import demonstrates
from guidebench.harness.errors import UserError
from guidebench.harness.findings import Finding
from guidebench.harness.interfaces import SUCCESS, Actions, ArraySpec, Dialogue, Observations, Score, Suite
from guidebench.harness.logs import Log  # settings evaluate the annotations
from guidebench.harness.settings import Cited

if TYPE_CHECKING:
    from guidebench.harness.execution import Execution, Models
    from guidebench.harness.launchers.base import Launcher, Slot
    from guidebench.harness.models.calls.base import Call, Usage
    from guidebench.harness.models.questions import Backend
    from guidebench.harness.trajectories import Trajectory

NOTHING: Mapping[str, Any] = MappingProxyType({})
AUTO = "auto"
"""Value of a setting that follows from the files which a part reads (`FilePart.of_files`)."""
TEXT, CHOICE, SCHEMA = "text", "choice", "schema"
"""Forms of a chat's answers (`ModelPart.answer_form`): what it writes, a choice among candidates by likelihood, or an
object that it writes under a JSON schema."""
EVERY_CALL = ("every",)
"""`ModelPart.answers` of a model that answers every kind of call."""


@dataclass(frozen=True)
class CellView:
    """The cell that a part is to work in, as `fits` and `ready` see it."""

    parts: Mapping[str, Any]
    """Section -> built configuration: suite, training, evaluation, drawing, and the part in each role."""
    task: str
    observations: Observations
    """The observations that learner, replay and guide get (`AgentPart.observes`)."""
    actions: Actions

    def __getitem__(self, section: str) -> Any:
        """Return the configuration of a section, or None if the cell lacks that section."""
        return self.parts.get(section)

    @property
    def suite(self) -> Any:
        return self.parts["suite"]

    def worded(self, model: ModelPart) -> bool:
        """Return whether other parts' dialogues word all questions to this judge, so that it needs no prompt of its
        own."""
        roles = [role for role, part in self.parts.items() if part == model]
        spoken = {role for part in self.parts.values() if isinstance(part, AskingPart) for role in part.puts}
        return bool(roles) and spoken.issuperset(roles)


class Part:
    """A component that a command can name: a suite, learner, replay, guide, agent, teacher, dataset or model."""

    version: ClassVar[int]
    """Version of the part, hashed into cell ids; increase it when the part's results change."""
    citation: ClassVar[str | Path]
    """The `.bib` file whose BibTeX entries a user of the part should cite, BibTeX itself, or a comment (%) that says
    why there are none."""
    needs: ClassVar[Mapping[str, str]] = NOTHING
    """Role -> kind of the parts that this part uses. A replay whose clips are judged needs a judge, {"judge": "judge"};
    a guide with two chats may declare {"planner": "chat", "critic": "chat"}. The role is the section in which a
    command names and configures that part (`planner=openai planner.model=…`); parts that need the same role share
    it. The kind `human` stands for a person and has no part."""
    logs: ClassVar[Mapping[str, Log]] = NOTHING
    """Log name -> its columns, for the table rows that the part logs during a run (`harness/logs.py`)."""
    guidance: ClassVar[Mapping[str, str]] = NOTHING
    """Metric that the part logs -> how much of a run models guide by it, in words: a share of the reward or of the
    draws. `bench pilot` prints it, to see that a guide acts."""
    tuned_as: ClassVar[str] = ""
    """Name of another part of the same kind on which this one is built: what suites, methods and profiles set for that
    part (`learner.dueling_dqn.lr`) holds for this one too, unless the same layer sets this one's own."""
    extra: ClassVar[str] = ""
    """Extra of the package (`harness/extras.py`) that the part needs, or ""."""
    shows_frames: ClassVar[bool] = False
    """Whether the part's questions hold snapshots, from which frames are drawn."""

    @property
    def cycle(self) -> int:
        """Return the environment steps after which the part's regular work, such as gradient steps, repeats; estimates
        of hours rest on whole cycles. Work that occurs more rarely than every thousandth step is not in them."""
        return 1

    def fits(self, view: CellView) -> str:
        """Return why the part cannot work in this cell, or "". Called during planning, so it must not import heavy
        packages."""
        return ""


class FilePart(Part, ABC):
    """A part that reads files: the weights of a model on this machine, or a dataset. The settings named in
    `file_settings` say where the files are, and the setting `digest` says what they hold. Once the digest is known, the
    cell id hashes it instead of the place; while it is unknown, the id hashes the place."""

    file_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that say where the files are, such as a path or the name and revision of a repository."""
    of_files: ClassVar[Mapping[str, Any]] = NOTHING
    """Setting that follows from the files while it is `AUTO` -> its value where nothing tells of these. It is resolved
    while a command is planned, so that a cell id hashes what it stands for."""
    digest: str | None = None
    """SHA-256 of the files' content (`harness/identity/digests.py`); None where it is unknown. Defined as a field that
    is marked `Digest` and `Later`."""

    @abstractmethod
    def content(self) -> str | None:
        """Return the digest of the files on this machine; None if they are missing or incomplete. Reads all files whose
        digests are not remembered."""

    def content_in(self, role: str) -> str | None:
        """Return the digest of what the part uses of its files in a role, which is all unless it says otherwise.
        The setting `digest` of the role is compared with it."""
        return self.content()

    def placed(self) -> Mapping[str, Any]:
        """Return those of `file_settings` that are better written in another form, such as a relative path that looks
        like the name of a repository."""
        return {}

    def follow_files(self) -> Mapping[str, Cited]:
        """Return the settings of `of_files` that are `AUTO`, with the values that follow from what this program knows
        of the files or from the files on this machine; leave out those of which neither tells."""
        return {}

    def resolved(self) -> Self:
        """Return the part with a value for each setting that is `AUTO`."""
        usual = {name: self.of_files[name] for name in self.of_files if getattr(self, name, None) == AUTO}
        following = {name: cited.value for name, cited in self.follow_files().items()}
        return replace(self, **{**usual, **following}) if usual else self  # type: ignore[type-var]

    def published(self) -> str | None:
        """Return the digest that this program knows for the name in its settings, or None."""
        return None

    def values_on_record(self, name: str, role: str, models: Models, study: Path | None) -> Iterator[Any]:
        """Yield each value of a setting of `of_files` under which recorded calls hold answers in a role. `study`: as
        for `on_record`."""
        yield from ()

    def on_record(self, role: str, models: Models, study: Path | None) -> Iterator[str | None]:
        """Yield each digest under which recorded calls hold answers in a role, and None for answers that are recorded
        under the name in the settings alone. `study`: directory of the study, None where it has no name yet."""
        yield from ()

    def verify(self) -> None:
        """Raise UserError, with both digests, if the files on this machine are not those of the setting `digest`."""
        present_digest = self.content() if self.digest is not None else None
        if present_digest is not None and present_digest != self.digest:
            file_words = " ".join(f"{name}={getattr(self, name)}" for name in self.file_settings if getattr(self, name))
            raise UserError(
                f"{file_words}: its files have the digest {present_digest}, and the digest on record is {self.digest}; "
                f"restore the files, or run the study anew with these in another output=…"
            )


class SuitePart(Part):
    """A suite (`harness.interfaces.Suite`)."""

    learners: ClassVar[Mapping[str, str]] = NOTHING
    """Task -> learner, for tasks that need another learner than the suite's default."""
    judges: ClassVar[Mapping[str, str]] = MappingProxyType({"oracle": "oracle"})
    """Set of models (`paper`, `scripted`, …) -> the judge of clips that it has on this suite."""
    dataset: ClassVar[str] = "scripted"
    """Default dataset of the suite's methods, if one needs it; this one holds episodes of the scripted policy."""
    aliases: ClassVar[Mapping[str, str]] = NOTHING
    """Alias of a task -> its name."""
    by_turns: ClassVar[tuple[str, ...]] = ()
    """Tasks whose goal changes from episode to episode."""
    joint: ClassVar[tuple[str, ...]] = ()
    """Tasks in which one policy learns all other tasks of the suite (of `by_turns`)."""
    scores: ClassVar[Mapping[str, Score]] = NOTHING
    """Task -> score of its evaluation episodes, for tasks that are not scored by success."""
    views: ClassVar[tuple[str, ...]] = ()
    """Settings that say in which form the task is observed, such as `observation`. Rows of methods whose recipes choose
    them are compared with others; rows of a command that chooses them are not."""
    pretraining: ClassVar[str] = ""
    """Task on which a pre-training stage runs if the command names none; "" for the task of the method that follows."""
    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """Name -> words of a command that the word `difficulty=NAME` stands for: `task`, `profile` and settings such as
    `suite.length`, `training.steps` or `learner.dqn.channels` -> value or `cite(value, source)`. They are graded, so
    that a method without a guide can be measured where it neither fails nor succeeds in every episode."""
    ordered: ClassVar[bool] = True
    """Whether the suite's events occur in a fixed order, so that episodes have task phases."""
    goalless: ClassVar[tuple[str, ...]] = ()
    """Tasks without a goal: nothing in them is a success, so they have no solver, no goal image, no events and no task
    phases."""

    apart: ClassVar[bool] = False
    """Whether its tasks and drawers run their environments in processes of their own, so that none is made in processes
    beside a worker (`env_workers`)."""
    required: ClassVar[tuple[str, ...]] = ()
    """Settings without a default on this suite, such as `training.steps`, which a command or a method has to set."""
    remarked: ClassVar[Mapping[str, Any]] = NOTHING
    """Setting of the suite -> value that row names show although no command has set it."""

    @classmethod
    def task_known(cls, name: str, words: Mapping[str, Any] | None = None) -> bool:
        """Return whether a suite whose tasks are open has a task that `tasks` does not list. `words`: the suite's
        settings that a command has, where it is planned; None where the name alone counts. Raise UserError for a task
        that these settings exclude."""
        return False

    def settle(self, task: str) -> Mapping[str, Any]:
        """Return the settings, of the suite and of `drawing`, that follow from the others and from what is installed,
        by `section.field`. Called while a command is planned, so that a cell's id hashes them."""
        return NOTHING

    def score(self, task: str) -> Score:
        """Return the score of a task's evaluation episodes."""
        return self.scores.get(task, SUCCESS)

    def examined(self, task: str) -> Sequence[Finding]:
        """Return what `bench doctor suite=… task=…` says of a task."""
        return ()

    def ready(self, task: str) -> None:
        """Raise UserError if a package is missing that the task needs. Imports nothing heavy."""

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return what `bench doctor suite=…` says of the suite besides what this machine lacks for it."""
        return ()

    def of_run(self, seed: int) -> Self:
        """Return the suite as the run of this seed uses it, if the seed decides more than random streams."""
        return self

    def in_evaluation(self) -> Self:
        """Return the suite as evaluation episodes use it, if they differ from training, such as in length. Spaces and
        events are the same."""
        return self

    def shortest(self, task: str) -> int:
        """Return the fewest environment steps of an episode of training: its horizon if nothing ends an episode before,
        and 1, the default, if one may end at any step. Upper bounds of calls to models rest on it."""
        return 1

    def repeats(self, task: str) -> bool:
        """Return whether all episodes of a run start in the same state and the dynamics are deterministic. Such a task
        has one evaluation episode, since further ones would repeat it."""
        return False


class DrawingPart:
    """Configuration of how a suite's frames are drawn: the section `drawing`, whose class the suite names."""

    def ready(self) -> None:
        """Raise UserError if this machine lacks something that drawing needs. Called before training begins."""

    def opengl(self, task: str) -> str:
        """Return the OpenGL backend that draws, `egl` or `osmesa`, for a run's provenance, or "" if none does."""
        return ""

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return what `bench doctor` reports about drawing on this machine, such as a missing library."""
        return ()


class LearnerPart(Part, ABC):
    """A learner (`harness.interfaces.Learner`)."""

    batch_size: int
    """Transitions per gradient step and seed."""
    learning_starts: int
    """Environment steps before the first gradient step."""
    resets: ClassVar[tuple[str, ...]] = ()
    """Networks that `Learner.reset` can reinitialise, such as `critic`."""
    groups: ClassVar[tuple[str, ...]] = ()
    """Parameter groups to whose losses a guide may add terms (`Guide.losses`), such as `actor`."""

    @property
    def learns_from(self) -> tuple[str, ...]:
        """Return which of `reward` and `success` a dataset must state for the learner (`DatasetPart.lacks`)."""
        return ("reward",)

    @abstractmethod
    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Return the seconds of learning per environment step on the reference machine, for `--dry-run`."""

    @abstractmethod
    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Return the seconds to choose one action on the reference machine, for `--dry-run`."""

    def encoder_width(self, observations: Observations) -> int:
        """Return the number of features of the learner's encoder, or 0 if it has no encoder."""
        return 0


class ReplayPart(Part):
    """A replay (`harness.interfaces.Sampler`)."""

    @property
    def judged_transitions(self) -> int:
        """Number of transitions per judged clip; 0 if the replay sends no clips to a judge."""
        return 0


def clip_length(parts: Mapping[str, Any]) -> int:
    """Return the transitions per clip that a cell's replays send to a judge, or 0 if they send none. `parts`: section
    -> built configuration."""
    return max((part.judged_transitions for part in parts.values() if isinstance(part, ReplayPart)), default=0)


MESSAGE = 64
"""Tokens of a message, or of a text to embed, besides its content: its role and what separates it from others."""


class Most(NamedTuple):
    """An upper bound of one kind of conversations that a run has with the model in one role. What a server may need for
    one call, such as several attempts, is not part of it.

    Text that a model wrote takes as many tokens wherever it is quoted as it took to write, and at most as many as the
    model may write; for our own text the unit is the byte, of which a token has at least one.
    """

    questions: int
    """Conversations."""
    calls: int = 1
    """Calls of one conversation, with its retries."""
    prompt: int = 0
    """Bytes of our texts in the first call of a conversation, and tokens of the model's texts that it quotes."""
    reminder: int = 0
    """Bytes of text that each further call of a conversation adds, besides the model's last reply."""
    images: int = 0
    """Images of one call."""
    schema: bool = False
    """Whether the answer has to fit a JSON schema, so that a call may take repairs."""


class AskingPart(Part):
    """A guide, a teacher or an agent: a part that may ask models."""

    consults: ClassVar[tuple[str, ...]] = ()
    """Roles (of `needs`) whose answers the part waits for synchronously (`Context.consult`) while it acts or learns.
    Their models have no delay."""
    reads_words: ClassVar[bool] = False
    """Whether the part reads what tasks say of states in words (`Transition.words`), besides its observations."""
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = NOTHING
    """Role -> kinds of calls that the part's dialogue makes in that role, if not the default of that kind of model. A
    judge in such a role is asked by the part's dialogue and gets no clips."""
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = NOTHING
    """Role (of `needs`) of a chat -> forms of answers that the part's dialogue takes besides text: `choice` for a
    dialogue that is also a `ChoosesAnswers`, `schema` for one that is a `WritesObjects`. A command selects one by the
    chat's setting `answer`."""
    uses_probabilities: ClassVar[tuple[str, ...]] = ()
    """Roles of `answer_forms` in which the dialogue uses the probabilities of the candidates (`Choice.probabilities`)
    and not the chosen one alone. A chat that tells none is refused there."""
    later: ClassVar[Mapping[str, str]] = NOTHING
    """Role (of `needs`) that was added when cells without it were on record -> the setting of the part, marked `Later`,
    that has it asked. While that setting has its default, the role is excluded from the cell id."""
    essential: ClassVar[Mapping[str, str]] = NOTHING
    """Role (of `needs`) -> what is said of a run in which less than nine in ten of the questions in this role had a
    usable answer, such as `routed without scores`; its row has no rank. Only for a role without whose answers the run
    is another method; of any other role the row's share of answers counts."""
    shares: ClassVar[Mapping[str, type]] = NOTHING
    """Role -> class of the dialogue, made without arguments, that the part has in that role. Parts that name the same
    class may share the role."""
    adds: ClassVar[tuple[str, ...]] = ()
    """Parameter groups of the learner (`LearnerPart.groups`) to whose losses the part adds terms (`Guide.losses`)."""
    several_stores: ClassVar[bool] = False
    """Whether a guide works with an agent that keeps a dataset in a store of its own (`Guide.observed_dataset`)."""
    each_goal: ClassVar[bool] = False
    """Whether the part asks about each episode by its own instruction, so that it works on tasks whose goal changes
    from episode to episode (`SuitePart.by_turns`)."""
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = NOTHING
    """Set of models (`scripted`, `oracle`, …) -> its words for the roles of `needs`: `ROLE` -> part, and `ROLE.FIELD`
    -> value where the part needs it. A tuple of parts means the first that is made for the suite (`ModelPart.suites`),
    else its last. `models=scripted` names these parts (`harness/plan/model_sets`)."""
    widths: ClassVar[Mapping[str, str]] = NOTHING
    """Setting of the part -> the role (of `needs`) of the embedder whose vectors have so many numbers. While the
    embedder's width is known and a command sets no other, the setting follows it."""
    max_tokens: ClassVar[Mapping[str, int | Cited]] = NOTHING
    """Role (of `needs`) -> most tokens of one answer in it, in place of the default of the chat that fills the role.
    Suites, methods, profiles and commands may set others."""

    @property
    def unasked(self) -> tuple[str, ...]:
        """Return the roles of `needs` that the part never asks under its settings. Their models need not be there: they
        are neither checked nor started, and no row is named after them."""
        return ()

    def ready(self, view: CellView) -> None:
        """Raise UserError if the part could not work later in the run. Called before training begins; may take a
        minute."""

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of the calls that a run makes to the model in a role, or None if it is unknown: those that
        are to be expected if every reply can be used at once."""
        return None

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of what a run asks the model in a role, one for each kind of conversation, so that their
        sum is never exceeded, whatever the model answers; None if none is known beforehand. May make the task."""
        return None

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the calls that answer one question to the chat or embedder in a role, or to a judge that is named in
        `puts`; they run in the model process. A part that has such a role must define it, or it cannot be
        registered."""
        raise TypeError(f"{type(self).__name__} asks no chat, no embedder and no judge, so it has no dialogue")

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the array spec of the answers in a role if its dialogue returns arrays, such as embeddings, or None if
        it returns JSON values. Called during planning. Answers are checked against the spec: one of another shape ends
        the run, one that is not finite counts as a failure."""
        return None

    def person(self, runs: Sequence[Path]) -> Backend:
        """Return the backend that answers in the role `human`, for seed rows whose run directories are `runs`. A part
        that needs a person must define it, or it cannot be registered."""
        raise TypeError(f"{type(self).__name__} asks no person")

    def stored_bytes(self, parts: Mapping[str, Any], task: str) -> int:
        """Return the bytes per transition that the part's columns take on disk, if that is much, without those that
        `array` declares."""
        return 0


class AgentPart(AskingPart):
    """An agent (`harness.interfaces.Agent`). A subclass that needs other parts than the default ones redefines `needs`
    in full."""

    backend: ClassVar[str] = ""
    """`oracle` for an agent that acts by privileged knowledge of the task (`capabilities.FollowsSolvers`), which names
    its rows and keeps them apart on the leaderboard; "" for any other."""
    stochastic: ClassVar[bool] = False
    """Whether it draws random numbers in evaluations, so that episodes that begin alike differ."""
    model: ClassVar[str] = ""
    """Name of what acts in an agent whose `backend` is `oracle`, for its rows."""
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({"learner": "learner", "replay": "replay", "guide": "guide"})

    @property
    def learns(self) -> bool:
        """Whether a run of the agent takes training steps, and not evaluations alone."""
        return True

    @property
    def inherits(self) -> bool:
        """Whether the agent acts by a policy that a pre-training stage must have learnt."""
        return not self.learns and "learner" in self.needs

    def observes(self, observations: Observations, actions: Actions) -> Observations:
        """Return the observations that the agent gives to its learner, replay and guide, given the task's observations
        and actions. Called during planning, so that these parts can refuse what they cannot read; by default they are
        the task's."""
        return observations


class DatasetPart(Part, ABC):
    """A dataset of recorded episodes, whose transitions a run phase may store (`harness/episodes/datasets.py`)."""

    def ready(self) -> None:
        """Raise UserError for a missing package or file. Reads nothing."""

    @property
    def count(self) -> int | None:
        """Return the number of episodes, or None if it is unknown until they are gathered."""
        return None

    def origin(self) -> Mapping[str, Any]:
        """Return, as JSON values, what decides the episodes in addition to the settings and the suite, such as hashes
        of files."""
        return {}

    def lacks(self) -> tuple[str, ...]:
        """Return which of `reward` and `success` the dataset does not state, so that all of its episodes have zeros
        there. May read metadata of its files."""
        return ()

    def remarks(self, actions: Actions) -> Sequence[str]:
        """Return what a plan is to say of how the dataset is read for a task with these actions, such as the range from
        which they are scaled. May read metadata of its files; raise UserError if they cannot be read."""
        return ()

    @abstractmethod
    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        """Return the episodes for a task of a suite. Raise UserError if none can be used there. The caller checks them
        against the task's spaces and caches them."""


class TeacherPart(AskingPart):
    """A teacher, which states a preference between two segments of behaviour."""

    @property
    def imagines(self) -> bool:
        """Whether the teacher also generates segments, in states that no episode visited."""
        return False

    @property
    def keeps_snapshots(self) -> bool:
        """Whether every transition is stored with its snapshot, so that the teacher can see frames."""
        return self.shows_frames


class ModelPart(Part):
    """A model that answers questions: a judge, a chat or an embedder."""

    backend: ClassVar[str]
    """`openai` or `transformers` for foundation models, `scripted` for hand-written code, `oracle` for a model that
    reads the task's events or measures, or asks its solver, `placebo` for answers to other questions."""
    remark: ClassVar[str] = ""
    """What tables say beside a row in which this model answers; "" for what they say of its backend. Hand-written code
    that knows nothing of the task says so."""
    answers: ClassVar[tuple[str, ...]] = ()
    """Kinds of calls that the model answers, registered with `@register.call`; () is the default of its kind of part,
    `EVERY_CALL` means all."""
    privileged: ClassVar[bool] = False
    """Whether the model reads privileged information that no method may use."""
    suites: ClassVar[tuple[str, ...]] = ()
    """Names of the suites that hand-written code is made for; () for any. On others a set of models takes another part;
    a command may name it wherever it `fits`."""
    draws: ClassVar[bool] = False
    """Whether hand-written code draws frames of its own: `spawn` then gets the cell's drawing configuration as a third
    argument."""
    follows_solver: ClassVar[bool] = False
    """Whether its questions hold the suite's own solver (`Question.solver`), which it may ask for the action in the
    present state; only with the backend `oracle`, and in roles that are consulted synchronously. Cells whose task has
    no solver, or that learn from steps that no task of the run took, are refused."""
    model: str = ""
    """Name of the model, as its backend knows it."""
    price_in: float | None = 0.0
    """USD per million input tokens; None for the price of the model recipe."""
    price_out: float | None = 0.0
    """USD per million output tokens; None for the price of the model recipe."""
    delay: int | None = 1
    """Environment steps between a question and the use of its answer; None uses the answer as soon as it arrives.
    Commands can set `delay` and `timeout` for models that declare them as fields."""
    timeout: float = 120.0
    """Seconds that one answer may take before the model's process is restarted."""
    clip_requests: int = 1
    """Requests that a judge takes for one clip."""
    clip_words: int = 0
    """Bytes that each of these requests adds to the prompt and the beginning of the answer."""
    constrains: ClassVar[bool] = False
    """Whether a chat can write under a JSON schema (`SCHEMA`)."""
    choice_settings: ClassVar[tuple[str, ...]] = ("candidate_score", "calibrate", "acts")
    """Settings of chats that apply to choices alone (`harness/models/choosing.py`)."""
    reasoning_tokens: int = 0
    """Most tokens that a chat reasons before an answer (`harness/models/reasoning.py`)."""
    answer_form: str = TEXT
    """Form of a chat's answers: `TEXT`, or one of `AskingPart.answer_forms`, which chats take from their setting
    `answer` (`harness/models/choosing.py`)."""

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether a suite, in its default settings, has what the model needs on a task. On others a set of
        models takes another part. Makes no task and imports nothing heavy."""
        return not cls.follows_solver or demonstrates(suite, task)

    def ready(self) -> None:
        """Raise UserError for a missing package, file, key or address. Loads no model and makes no call."""

    def warning(self, role: str) -> str:
        """Return what a plan should warn of that asks the model in a role, or ""."""
        return ""

    @property
    def unweighed(self) -> str:
        """Setting by which a chat's choices hold the chosen candidate and no probabilities, such as `choice_by=enum`;
        "" if they hold probabilities."""
        return ""

    @property
    def row_name(self) -> str:
        """Name of the model in rows and records: `model`, unless the backend knows a better one."""
        return self.model

    def dimensions(self) -> int | None:
        """Return how many numbers each vector of an embedder has, so that a part can refuse another width while a
        command is planned; None where that is not known, and for what embeds nothing."""
        return None

    def sampled(self, call: Call) -> Call:
        """Return the call with this model's sampling settings."""
        return call


class LauncherPart(ABC):
    """A launcher, which starts the workers of a study (`harness/launchers/base.py`). It is no part of a cell: its
    settings, written `launcher.SETTING=VALUE`, are in no id."""

    extra: ClassVar[str] = ""
    """Extra of the package (`harness/extras.py`) that the launcher needs, or ""."""

    @property
    def detached(self) -> bool:
        """Whether the command returns when its jobs are submitted, and a scheduler goes on without it."""
        return False

    @property
    def shared(self) -> bool:
        """Whether workers may be on several machines, so that no file with a lock serves them."""
        return False

    @abstractmethod
    def ready(self, execution: Execution, study: Path) -> None:
        """Raise UserError for what is missing to start workers that write into the directory `study`. Called before
        anything is trained; starts nothing."""

    @abstractmethod
    def slots(self, execution: Execution) -> Sequence[Slot]:
        """Return the slots on which workers run at the same time, at least one, for packing and estimates."""

    @abstractmethod
    def spawn(self, execution: Execution, study: Path) -> Launcher:
        """Return what starts the workers of one command, whose study lies in the directory `study`."""
