"""Questions to models, the dialogues that answer them, and the interface of judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from guidebench.harness.interfaces.replay import TransitionColumn
from guidebench.harness.types import Array

if TYPE_CHECKING:
    from guidebench.harness.models.calls.base import AskModel
    from guidebench.harness.models.calls.chat import Message


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


class Choice(NamedTuple):
    """The candidate that a model chose, and how likely it found each of them."""

    number: int
    """Number of the chosen candidate, from 0."""
    probabilities: Array
    """Probability of each candidate by its score, float64 [candidates] of sum 1."""
    mass: float
    """Probability that the model writes one of the candidates and nothing else; without calibration, and whatever the
    scoring. A small one says that the model would have answered otherwise."""

    @property
    def words(self) -> str:
        """The choice in words, for a log: `probability 0.41 among 12, which have the mass 0.003`."""
        probability, count = self.probabilities[self.number], len(self.probabilities)
        return f"probability {probability:.3g} among {count}, which have the mass {self.mass:.3g}"


class Choose(Protocol):
    """Asks a model to choose among candidates, by how likely they are as its answer."""

    async def __call__(
        self, message: Message, prefix: str, candidates: Sequence[str], neutral: Message, aim: str = ""
    ) -> Choice | None:
        """Return the choice, or None if a call got no answer.

        `message`: the question; `prefix`: beginning of the answer, such as "Action:"; `candidates`: the words that may
        follow it after a space; `neutral`: the question without content, which has "N/A" in place of the state
        (`baselines.conversing.NOTHING`) and by whose answer scores are calibrated; `aim`: what the dialogue wants to
        know, if it makes several choices.
        """


@runtime_checkable
class ChoosesAnswers(Protocol):
    """A dialogue whose question a model can also answer by a choice among candidates (`AskingPart.answer_forms`)."""

    choices: int
    """Maximum number of choices per question."""

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> Any:
        """Return the answer to a question, its content, as the dialogue itself would, in the same form; None if there
        is none."""


@runtime_checkable
class WritesObjects(Protocol):
    """A dialogue that parses JSON objects, whose model can also write them under their schemas
    (`AskingPart.answer_forms`)."""

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """Return the schemas that its calls carry; of one that depends on the question, the longest."""

    def with_schemas(self) -> Dialogue:
        """Return the dialogue whose calls carry the schemas of the objects that it parses. Its answers have the same
        form."""


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
