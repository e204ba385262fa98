"""Another package defines a kind of call, which is recorded, replayed, exported and shown like the built-in ones."""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from guidebench.baselines.text_vectors import TextVector
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import BudgetReached, MissingCall, UserError
from guidebench.harness.execution import Models
from guidebench.harness.models import cassette, checkup, contact, exchange, study_models
from guidebench.harness.models.calls import Answer, ChatCall, Message, Ticket
from guidebench.harness.parts import AgentPart, AskingPart
from guidebench.harness.plan import answering, config, matrix
from guidebench.harness.plan.names import Chosen
from guidebench.reports.runs import calls as pages
from tests.refusals import check_refused

PACKAGE = '''
"""Images and labels in, probabilities out; a model that tells colours by their mean."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guidebench.harness.models.calls import Call, Failure, Form, Reply, Usage, part
from guidebench.harness.models.desk import Policy
from guidebench.harness.parts import ModelPart
from guidebench.harness.registry import register


@register.call("classify")
@dataclass(frozen=True, eq=False)
class ClassifyCall(Call):
    """Which of the labels shows an image? The answer is float32 [images, labels], whose rows add up to 1."""

    pictures: tuple
    labels: tuple

    kind: ClassVar[str] = "classify"
    tolerance: ClassVar[float] = 0.02
    measure: ClassVar[str] = "difference of a probability"
    array: ClassVar[Form] = Form("float32", 2)

    def form(self, named):
        return {"pictures": [named(image) for image in self.pictures], "labels": list(self.labels)}

    @classmethod
    def read(cls, form, image):
        match form:
            case {"pictures": list(pictures), "labels": list(labels)} if all(isinstance(name, str) for name in labels):
                return cls(tuple(part(picture, image) for picture in pictures), tuple(labels))
        raise ValueError("a call to classify has pictures and labels")

    @classmethod
    def small(cls):
        return cls((np.zeros((8, 8, 3), np.uint8),), ("dark", "bright"))

    def images(self):
        return list(self.pictures)

    def fault(self, value):
        shape = (len(self.pictures), len(self.labels))
        if not isinstance(value, np.ndarray) or value.dtype != np.float32 or value.shape != shape:
            return f"expected float32 {list(shape)}, got {getattr(value, 'shape', type(value).__name__)}"
        is_valid = bool(np.isfinite(value).all()) and bool((value >= 0).all())
        return "" if is_valid and np.allclose(value.sum(1), 1, atol=1e-3) else "its rows are no probabilities"

    def distance(self, recorded, repeated):
        return float(np.abs(recorded - repeated).max())

    @classmethod
    def words(cls, value):
        return f"{len(value)} images classified"


class Colours:
    """Tells the labels "dark" and "bright" apart, or answers nonsense, or fails, as its name says."""

    def __init__(self, model):
        self.model, self.calls = model, 0

    async def answer(self, call):
        self.calls += 1
        if self.model == "away":
            raise Failure("rejected", "colours are out")
        bright = np.array([image.mean() / 255 for image in call.pictures], np.float32)
        probabilities = np.stack([1 - bright, bright], axis=1) * (3 if self.model == "nonsense" else 1)
        return Reply(probabilities, Usage(1, images=len(bright), usd=0.25))

    def estimate(self, call):
        return Usage(1, images=len(call.images()), usd=0.25)

    async def close(self):
        """There is nothing to end."""


@register.embedder("colours")
@dataclass(frozen=True)
class ColoursEmbedder(ModelPart):
    """A classifier by mean brightness."""

    model: str = "mean"
    delay: int = 0

    version: ClassVar[int] = 1
    title: ClassVar[str] = "a classifier by mean brightness"
    citation: ClassVar[str] = ""
    backend: ClassVar[str] = "colours"
    answers: ClassVar[tuple] = ("classify",)

    def policy(self):
        return Policy(timeout=5.0, attempts=2, backoff=0.001)

    def spawn_model(self, device):
        return Colours(self.model)
'''


@pytest.fixture
def colours(plugin: Callable[..., Path]) -> Any:
    """Install the package and return its module."""
    plugin("colours", PACKAGE, {"call": "classify", "embedder": "colours"})
    import colours as module

    registry.get("call", "classify")
    return module


DARK, BRIGHT = (np.full((4, 4, 3), level, np.uint8) for level in (51, 204))


def call(module: Any, *pictures: np.ndarray) -> Any:
    return module.ClassifyCall(pictures or (DARK, BRIGHT), ("dark", "bright"))


def desk_answers(directory: Path, calls: list[Any], *, model: str = "mean", **models: Any) -> list[Answer]:
    """Return a desk's results of calls, one after the other, and merge its shard."""
    classifier = registry.get("embedder", "colours")(model=model)

    async def ask() -> list[Answer]:
        desk = study_models.desk(classifier, Models(**models), directory / "models", "cpu")
        try:
            return [await desk.answer(call, Ticket("cell/0", number, number)) for number, call in enumerate(calls)]
        finally:
            await desk.close()

    try:
        return asyncio.run(ask())
    finally:
        study_models.settle(directory / "models")


def test_it_is_asked_recorded_and_replayed_with_its_images(colours: Any, tmp_path: Path) -> None:
    (first,) = desk_answers(tmp_path, [call(colours)])
    assert np.allclose(first.value, [[0.8, 0.2], [0.2, 0.8]]) and first.billed.usd == 0.25
    (replayed,) = desk_answers(tmp_path, [call(colours)], mode="replay")
    assert replayed.value.dtype == np.float32 and np.array_equal(replayed.value, first.value)
    assert replayed.billed.calls == 0 and replayed.usage == first.usage
    with pytest.raises(MissingCall, match="was never recorded"):
        desk_answers(tmp_path, [call(colours, DARK)], mode="replay")
    (model,) = exchange.stats(tmp_path).models
    assert model.answers.calls == 1 and exchange.stats(tmp_path).images == 2


def test_a_budget_ends_it_and_wrong_answers_and_failures_are_counted(colours: Any, tmp_path: Path) -> None:
    with pytest.raises(BudgetReached, match=r"models.budget_usd=0.3 is reached"):
        desk_answers(tmp_path, [call(colours), call(colours, DARK)], budget_usd=0.3)
    assert len(desk_answers(tmp_path, [call(colours)])) == 1  # billed calls are recorded
    (wrong,) = desk_answers(tmp_path / "nonsense", [call(colours)], model="nonsense")
    assert wrong.failure == "malformed" and wrong.detail["message"] == "its rows are no probabilities"
    (away,) = desk_answers(tmp_path / "away", [call(colours)], model="away")
    assert away.failure == "rejected"


def test_it_goes_from_study_to_study_by_command(colours: Any, tmp_path: Path, capsys: Any) -> None:
    desk_answers(tmp_path / "study", [call(colours), call(colours, BRIGHT)])
    file = tmp_path / "calls.sqlite"
    assert cli.main(["models", "export", str(tmp_path / "study"), str(file)]) == 0
    assert cli.main(["models", "import", str(file), str(tmp_path / "new")]) == 0
    assert cli.main(["models", "stats", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "2 questions" in out and "3 images" in out
    answers = desk_answers(tmp_path / "new", [call(colours), call(colours, BRIGHT)], mode="replay")
    assert [len(reply.value) for reply in answers] == [2, 1]
    page = pages.recorded(tmp_path / "study", "cell/0")
    assert [reply.answer for reply in page.sample] == ["2 images classified", "1 images classified"] and not page.notes
    assert [message.role for message in page.sample[0].messages] == ["labels", "pictures"]
    assert [bool(part.content) for part in page.sample[0].messages[1].parts] == [True, True]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE answers SET value = '0.5'", "is no recorded answer to a call of kind 'classify'"),
        ("UPDATE arrays SET data = zeroblob(16)", "its rows are no probabilities"),
        ("DELETE FROM answers", r"row 1 of arrays .*no answer that is an array with its key and run"),
        ("UPDATE answers SET value = replace(value, '[2,2]', '[1,4]')", "expected float32 .2, 2., got .1, 4."),
    ],
)
def test_a_strangers_answer_is_held_to_the_same_check(colours: Any, tmp_path: Path, statement: str, says: str) -> None:
    desk_answers(tmp_path / "study", [call(colours)])
    exchange.export(tmp_path / "study", tmp_path / "calls.sqlite")
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as db, db:
        db.execute(statement)
    check_refused(says, exchange.import_, tmp_path / "calls.sqlite", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_calls_of_a_kind_that_nobody_here_defines_are_refused_by_its_name(tmp_path: Path) -> None:
    text = json.dumps({"kind": "listen", "model": {}, "pictures": []})
    cassette.create(tmp_path / "calls.sqlite")
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as db, db:
        db.execute("INSERT INTO requests VALUES (?, ?)", (hashlib.sha256(text.encode()).hexdigest(), text))
    with pytest.raises(UserError, match=r"row 1 of requests is a call of kind 'listen'.*install the package"):
        exchange.import_(tmp_path / "calls.sqlite", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_model_is_put_no_call_that_it_does_not_answer(colours: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="got a call of kind 'chat' and answers only classify"):
        desk_answers(tmp_path, [ChatCall((Message("user", ("?",)),))])


@dataclass(frozen=True)
class Asks(AskingPart):
    """A guide that makes calls of the kinds that are usual in its role."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder"}

    def dialogue(self, suite: Any, task: str, role: str) -> Any:
        raise AssertionError("a plan is checked before any dialogue is led")


@dataclass(frozen=True)
class Puts(Asks):
    """A guide that declares calls of the kind `classify`."""

    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedder": ("classify",)}


@dataclass(frozen=True)
class Unknown(Asks):
    """A guide that declares calls of the kind `listen`, which nobody defines."""

    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {"embedder": ("listen",)}


def parts_with(guide: type, embedder: str, agent: str = "standard") -> tuple[Chosen, ...]:
    """Register a guide for the test and return the parts of a cell with it."""
    registry.register.guide(guide.__name__.lower())(guide)
    parts = (("guide", guide.__name__.lower()), ("agent", agent), ("embedder", embedder))
    return tuple(Chosen(kind, kind, name) for kind, name in parts)


def test_before_anything_starts_who_asks_and_who_answers_have_to_fit(colours: Any) -> None:
    answering.check(parts_with(Puts, "colours"))
    answering.check(parts_with(Asks, "transformers"))
    with pytest.raises(UserError, match=r"the guide makes calls of kind 'embed' to its embedder.*only classify"):
        answering.check(parts_with(Asks, "colours"))
    with pytest.raises(
        UserError, match=r"the guide makes calls of kind 'classify'.*embedder 'transformers' answers only"
    ):
        answering.check(parts_with(Puts, "transformers"))
    check_refused("unknown call 'listen'", answering.check, parts_with(Unknown, "colours"))


def test_two_parts_share_a_role_in_which_they_have_the_same_dialogue(colours: Any) -> None:
    @dataclass(frozen=True)
    class Sharing(AgentPart):
        """An agent that may ask the same embedder as its guide."""

        version: ClassVar[int] = 1
        needs: ClassVar[Mapping[str, str]] = {**AgentPart.needs, **Asks.needs}
        shares: ClassVar[Mapping[str, type]] = {"embedder": TextVector}
        dialogue = Asks.dialogue

    class Willing(Asks):
        shares: ClassVar[Mapping[str, type]] = {"embedder": TextVector}

    class Other(Asks):
        shares: ClassVar[Mapping[str, type]] = {"embedder": str}

    registry.register.agent("sharing")(Sharing)
    answering.check(parts_with(Willing, "transformers", "sharing"))
    for guide in (Asks, Other):
        with pytest.raises(UserError, match="the guide and the agent both have a dialogue"):
            answering.check(parts_with(guide, "transformers", "sharing"))


def test_a_plan_whose_parts_do_not_fit_is_refused(colours: Any) -> None:
    words = ["suite=minigrid_doorkey", "method=vlm_rm", "profile=smoke", "embedder=colours"]
    with pytest.raises(UserError, match=r"the guide makes calls of kind 'embed' to its embedder.*only classify"):
        config.validate(matrix.plan(words).cells[0])


def test_the_first_call_before_training_is_one_of_its_kind(colours: Any, tmp_path: Path) -> None:
    classifier = registry.get("embedder", "colours")()
    assert checkup.tiny(classifier, "embedder").kind == "classify"
    messages: list[str] = []
    embedder_contact = contact.StudyModel("embedder", "embedder", classifier)
    contact.check([embedder_contact], Models(), tmp_path / "models", "cpu", lambda _, message: messages.append(message))
    assert messages == ["embedder mean answered a first call in 0.0 s"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('@register.call("classify")', '@register.call("classified")'), "with kind = 'classified'"),
        (("    def fault(self, value):", "    def faulty(self, value):"), "that defines fault"),
        (("class ClassifyCall(Call)", "class ClassifyCall"), "inherits guidebench.harness.models.calls.Call"),
    ],
)
@pytest.mark.filterwarnings("ignore:plug-in")
def test_a_call_that_is_not_whole_is_left_out_and_says_what_it_lacks(
    plugin: Callable[..., Path], change: tuple[str, str], says: str
) -> None:
    plugin("colours", PACKAGE.replace(*change), {"call": "classify"})
    check_refused(f"call 'classify' is broken and cannot be used: .*{says}", registry.get, "call", "classify")
