"""What registered configurations declare: one base, and what each kind has besides.

A configuration is a frozen dataclass whose fields are its settings. What the engine must know of it before anything is
built are class variables and methods here, each with the value that means nothing special. What only some suites
and tasks can tell is a Protocol in `harness/capabilities.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from guidebench.harness.findings import Finding
from guidebench.harness.interfaces import Actions, ArraySpec, Dialogue, Observations, Score, Suite
from guidebench.harness.logs import Log  # settings evaluate the annotations

if TYPE_CHECKING:
    from guidebench.harness.models.calls.base import Call, Usage
    from guidebench.harness.models.questions import Backend
    from guidebench.harness.trajectories import Trajectory

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class There:
    """Where a part is to work: a cell, as `fits` and `ready` see it."""

    parts: Mapping[str, Any]
    """Section -> built configuration: suite, training, evaluation, drawing, and the part in each role."""
    task: str
    observations: Observations
    actions: Actions

    def __getitem__(self, section: str) -> Any:
        """The configuration of a section, or None where the cell has none."""
        return self.parts.get(section)

    @property
    def suite(self) -> Any:
        return self.parts["suite"]


class Part:
    """Whatever a command can name but a method: a suite, a learner, a replay, a guide, an agent, a teacher, a model."""

    version: ClassVar[int]
    """Raised by its author when its results change; it is in a cell's id."""
    citation: ClassVar[str | Path]
    """The `.bib` file whose BibTeX entries a user of it should cite, BibTeX itself, or a comment (%) that says why
    there are none."""
    needs: ClassVar[Mapping[str, str]] = NOTHING
    """Role -> kind of the parts that it works with. A replay whose clips are judged needs a judge, {"judge": "judge"};
    a guide with two chats may call them {"planner": "chat", "critic": "chat"}. The role is the section in which a
    command names that part and sets it (`planner=openai planner.model=…`), and parts that need the same role share
    it. A person, kind `human`, is no part."""
    logs: ClassVar[Mapping[str, Log]] = NOTHING
    """Log -> its columns, for the rows that it notes in runs (`harness/logs.py`)."""
    shows_frames: ClassVar[bool] = False
    """Whether its questions hold snapshots, of which frames are drawn."""

    def fits(self, there: There) -> str:
        """Why it cannot work there, or "". It is asked while a command is planned, so it imports nothing heavy."""
        return ""


class SuitePart(Part):
    """A suite (`harness.interfaces.Suite`)."""

    learners: ClassVar[Mapping[str, str]] = NOTHING
    """Task -> learner, where a task needs another one than the suite's own."""
    aliases: ClassVar[Mapping[str, str]] = NOTHING
    """Another name of a task -> its name."""
    by_turns: ClassVar[tuple[str, ...]] = ()
    """Tasks that ask for something else in each episode."""
    scores: ClassVar[Mapping[str, Score]] = NOTHING
    """Task -> what its evaluation episodes are judged by, where that is not success."""
    ordered: ClassVar[bool] = True
    """Whether its events come in an order, so that an episode has phases."""

    def ready(self, task: str) -> None:
        """UserError where a package is missing that the task needs; it imports nothing."""

    def of_run(self, seed: int) -> Self:
        """The suite as the run of this seed has it, where the seed decides more than random streams."""
        return self

    def repeats(self, task: str) -> bool:
        """Whether every episode of a run begins alike and nothing in it is left to chance. Such a task has one
        evaluation episode, since a second one would be the first again."""
        return False


class DrawingPart:
    """How a suite's frames are drawn: the section `drawing`, whose class the suite names."""

    def ready(self) -> None:
        """UserError where drawing needs what this machine lacks; asked before training begins."""

    def opengl(self, task: str) -> str:
        """Which OpenGL draws, `egl` or `osmesa`, for a run's provenance; "" where none does."""
        return ""

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return what `bench doctor` shows of this machine's means to draw, such as a missing library."""
        return ()


class LearnerPart(Part, ABC):
    """A learner (`harness.interfaces.Learner`)."""

    batch_size: int
    learning_starts: int
    """Environment steps before the first gradient step."""
    resets: ClassVar[tuple[str, ...]] = ()
    """The parts of its networks that `Learner.reset` can begin anew, such as `critic`."""
    groups: ClassVar[tuple[str, ...]] = ()
    """The groups of its parameters to whose losses others may add (`Guide.losses`), such as `actor`."""

    @abstractmethod
    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Cost of learning from one environment step on the reference machine, for `--dry-run`."""

    @abstractmethod
    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Cost of choosing one action there."""

    def encoder_width(self, observations: Observations) -> int:
        """Features that its encoder makes of an observation; 0 where it has none."""
        return 0


class ReplayPart(Part):
    """A replay (`harness.interfaces.Sampler`)."""

    @property
    def judged_transitions(self) -> int:
        """Transitions in a clip that it has judged; 0 where it has none judged."""
        return 0


def clip_length(parts: Mapping[str, Any]) -> int:
    """Transitions in a clip that the replays of a cell have judged; 0 where they have none judged. `parts`: section ->
    built configuration."""
    return max((part.judged_transitions for part in parts.values() if isinstance(part, ReplayPart)), default=0)


class AskingPart(Part):
    """A guide, a teacher or an agent: a part that may ask models."""

    consults: ClassVar[tuple[str, ...]] = ()
    """Those of the roles that it needs whose answers it waits for at once (`Context.consult`), while it acts or learns.
    Their models have no delay."""
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = NOTHING
    """Role -> kinds of calls that its dialogue makes there, where these are not the usual one of that kind of model."""
    adds: ClassVar[tuple[str, ...]] = ()
    """The groups of a learner's parameters (`LearnerPart.groups`) to whose losses it adds (`Guide.losses`)."""

    def ready(self, there: There) -> None:
        """UserError where it finds, before training begins, that it could not do its work later; it may take a
        minute."""

    def asked(self, parts: Mapping[str, Any], role: str) -> Usage | None:
        """About what a run of these parts (section -> configuration) asks of the model that it needs in a role; None
        where that is not known."""
        return None

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """What is said to the chat or embedder that it needs in a role about one of its questions, in the model's
        process. A part that needs such a model cannot be registered without a dialogue of its own."""
        raise TypeError(f"{type(self).__name__} needs no chat and no embedder, so it has nothing to say to one")

    def array(self, there: There, role: str) -> ArraySpec | None:
        """What the answers of a chat or an embedder that it needs in a role are where its dialogue there ends with an
        array, such as embeddings; None where it ends with what JSON can hold. It is asked while a command is planned
        and decides how answers are checked: one of another shape ends the run, one that is not finite is a failure."""
        return None

    def person(self, runs: Sequence[Path]) -> Backend:
        """What answers in the role `human`, for rows whose run directories are `runs`. A part that needs a person
        cannot be registered without it."""
        raise TypeError(f"{type(self).__name__} asks no person")

    def stored_bytes(self, parts: Mapping[str, Any], task: str) -> int:
        """What its columns take of a transition on disk, where that is much, without those that `array` declares."""
        return 0


class AgentPart(AskingPart):
    """An agent (`harness.interfaces.Agent`): what a run is built from. One that needs other parts than these names all
    that it needs."""

    needs: ClassVar[Mapping[str, str]] = MappingProxyType({"learner": "learner", "replay": "replay", "guide": "guide"})


class DatasetPart(Part, ABC):
    """A dataset: recorded episodes, which a phase of a run may store (`harness/episodes/datasets.py`)."""

    def ready(self) -> None:
        """UserError for a missing package or file; nothing is read."""

    def origin(self) -> Mapping[str, Any]:
        """What decides its episodes besides its settings and the suite, such as hashes of files, as JSON holds it."""
        return {}

    @abstractmethod
    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        """Its episodes for a task of a suite; UserError where there are none that can be used there. They are checked
        against the task's spaces, and kept, by who asks."""


class TeacherPart(AskingPart):
    """A teacher: what says which of two segments of behaviour is better."""

    @property
    def imagines(self) -> bool:
        """Whether it also makes up segments, in states that no episode was in."""
        return False

    @property
    def keeps_snapshots(self) -> bool:
        """Whether what drawing needs is stored with every transition, so that it can be shown frames."""
        return self.shows_frames


class ModelPart(Part):
    """A judge, a chat or an embedder: what answers questions."""

    backend: ClassVar[str]
    """`openai` or `transformers`; `scripted` for code written by hand, `oracle` for what is told the task's own
    events."""
    answers: ClassVar[tuple[str, ...]] = ()
    """Kinds of calls that it answers, registered with `@register.call`; () is the usual one of its kind of part."""
    privileged: ClassVar[bool] = False
    """Whether it is told what no method may know."""
    model: str = ""
    """Which model answers, by its own name."""
    price_in: float | None = 0.0
    price_out: float | None = 0.0
    """USD per million tokens read and written; None is the recipe's price."""
    delay: int | None = 1
    """Environment steps between a question and the use of its answer; None uses it as it comes. A model that declares a
    field of this name lets commands set it, and so with `timeout`."""
    timeout: float = 120.0
    """Seconds that one answer may take before the model's process is restarted."""

    def ready(self) -> None:
        """UserError for a missing package, file, key or address; nothing is loaded or asked."""

    def dimensions(self) -> int | None:
        """Return how many numbers each vector of an embedder has, so that a part can refuse another width while a
        command is planned; None where that is not known, and for what embeds nothing."""
        return None

    def sampled(self, call: Call) -> Call:
        """The call as this model is to answer it."""
        return call
