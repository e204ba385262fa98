"""Answers that are arrays: which may be declared, what a dialogue may return, and how an array reaches its asker."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import ArraySpec, Question
from guidebench.harness.models import questions as asks
from guidebench.harness.models.calls import Ticket
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.parts import AskingPart, CellView
from guidebench.harness.plan import arrays, config, matrix
from guidebench.harness.plan.arrays import Declared, fitted
from guidebench.harness.plan.names import Chosen
from tests.cell_views import cell_view
from tests.refusals import check_refused

HALF = Declared(ArraySpec("frames", (2,), "float16"), "guide 'seeing'", "seer")
SINGLE = Declared(ArraySpec("frames"), "guide 'seeing'", "seer")


@dataclass(frozen=True)
class Seeing(AskingPart):
    """A guide that declares the array it was constructed with."""

    spec: Any = None
    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = {"seer": "embedder", "critic": "judge"}
    role: ClassVar[str] = "seer"

    def array(self, view: CellView, role: str) -> Any:
        return self.spec if role == self.role else None


class Judging(Seeing):
    role: ClassVar[str] = "critic"


def check_declaration(spec: Any, kind: type[Seeing] = Seeing) -> None:
    arrays.every([Chosen("guide", "guide", "seeing")], cell_view({"guide": kind(spec)}))


def test_what_is_declared_is_told_by_role() -> None:
    place = cell_view({"guide": Seeing(ArraySpec("frames", (3, 4), "float16"))})
    parts = [Chosen("guide", "guide", "seeing"), Chosen("seer", "embedder", "transformers")]
    declaration = arrays.of(parts, place, "seer")
    assert declaration is not None and declaration.spec == ("frames", (3, 4), "float16")
    assert str(declaration) == "guide 'seeing' declares its answers of 'seer' as 'frames', float16 [n, 3, 4]"
    assert arrays.of(parts, place, "critic") is None and declaration.bytes == 3 * 4 * 2
    check_declaration(None)
    check_declaration(ArraySpec("one"))
    column = declaration.spec.column()
    assert (column.name, column.kind, column.shape, column.dtype) == ("frames", "late", (3, 4), "float16")
    assert np.isnan(column.initial)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (ArraySpec("frames", (4,), "float64"), "the dtype of 'frames' is 'float64'; expected float16 or float32"),
        (ArraySpec("frames", (4,), "object"), "the dtype of 'frames' is 'object'"),
        (ArraySpec("frames", (4,), np.float32), "the dtype of 'frames' is <class 'numpy.float32'>"),  # type: ignore[arg-type]
        (ArraySpec("frames", (0,)), r"the shape of 'frames' is \(0,\); expected a tuple of at most 8 whole numbers"),
        (ArraySpec("frames", (-1, 4)), r"the shape of 'frames' is \(-1, 4\)"),
        (ArraySpec("frames", (True,)), r"the shape of 'frames' is \(True,\)"),
        (ArraySpec("frames", (2.0,)), r"the shape of 'frames' is \(2\.0,\)"),  # type: ignore[arg-type]
        (ArraySpec("frames", [4]), r"the shape of 'frames' is \[4\]"),  # type: ignore[arg-type]
        (ArraySpec("frames", (1,) * 9), r"the shape of 'frames' is \(1, 1"),
        (ArraySpec("frames", (2**40, 2**40)), "'frames' has 1,208,925,819,614,629,174,706,176 numbers for each key"),
        (ArraySpec("Frame s"), "the name is 'Frame s'"),
        (("frames", (4,), "float32"), "its method `array` returned a tuple; expected an ArraySpec or None"),
    ],
)
def test_a_declaration_that_cannot_be_kept_is_refused_by_part_and_role(spec: Any, says: str) -> None:
    check_refused(rf"guide 'seeing' declares an array of answers in its role 'seer': .*{says}", check_declaration, spec)


def test_a_judge_answers_with_no_array() -> None:
    with pytest.raises(UserError, match="'critic': a judge that gets clips has answers of a fixed form"):
        check_declaration(ArraySpec("frames", (4,)), Judging)


def test_a_ring_has_room_for_arrays_that_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    from guidebench.harness.run.study import ring_bytes
    from guidebench.methods.vlm_rm import VlmRm

    def bytes_of() -> int:
        return ring_bytes(matrix.plan(["suite=point_maze", "task=open", "method=vlm_rm"]).cells[0])

    scalar_bytes = bytes_of()
    monkeypatch.setattr(VlmRm, "array", lambda self, view, role: ArraySpec("frame_reward", (1024,), "float16"))
    array_bytes = bytes_of()
    monkeypatch.setattr(VlmRm, "array", AskingPart.array)
    bytes_without = bytes_of()
    assert (array_bytes - bytes_without) == 512 * (scalar_bytes - bytes_without) > 10**6


def test_a_plan_with_such_a_declaration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from guidebench.methods.vlm_rm import VlmRm

    (cell,) = matrix.plan(["suite=point_maze", "task=open", "method=vlm_rm"]).cells
    monkeypatch.setattr(VlmRm, "array", lambda self, view, role: ArraySpec("frame_reward", (), "float128"))
    check_refused(
        "guide 'vlm_rm' declares an array of answers in its role 'embedder': the dtype", config.validate, cell
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_of_the_declared_shape_are_cast_to_the_declared_dtype(dtype: Any) -> None:
    value = np.array([[0.1, -2], [3, 4], [5, 6]], dtype).T.copy().T  # column-major, as a slice may be
    cast, wrong = fitted(value, HALF, 3)
    assert cast is not None and not wrong and cast.dtype == np.float16 and cast.flags.c_contiguous
    assert np.array_equal(cast, value.astype(np.float16))
    single, _ = fitted(np.array([0.1]), SINGLE, 1)
    assert single is not None and single.dtype == np.float32 and single.tolist() == [np.float32(0.1)]


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (np.zeros((1, 2)), r"float64 \[1, 2\]"),
        (np.zeros(2), r"float64 \[2\]"),
        (np.zeros((3, 1), np.float16), r"float16 \[3, 1\]"),
        (np.zeros((3, 2, 1)), r"float64 \[3, 2, 1\]"),
        (np.zeros((3, 2), np.int64), r"int64 \[3, 2\]"),
        (np.zeros((3, 2), bool), r"bool \[3, 2\]"),
        (np.zeros((3, 2), complex), r"complex128 \[3, 2\]"),
        (np.full((3, 2), None), r"object \[3, 2\]"),
        ([[0.0, 0.0]] * 3, "a list"),
        ("vectors", "a str"),
    ],
)
def test_what_is_no_such_array_is_told_with_the_declaration_and_the_fix(value: Any, description: str) -> None:
    says = (
        rf"guide 'seeing' declares its answers of 'seer' as 'frames', float16 \[n, 2\], and its dialogue returned "
        rf"{description} for a question of 3 keys; expected \[3, 2\]; .*seer\.model=…"
    )
    check_refused(says, fitted, value, HALF, 3)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (np.nan, "frames holds a number that is not finite"),
        (-np.inf, "frames holds a number that is not finite"),
        (-65_520.0, r"frames holds 6.55e\+04, which float16 cannot represent; declare float32"),  # rounds to infinity
    ],
)
def test_a_number_that_is_not_finite_before_or_behind_the_cast_fails_this_answer_alone(
    number: float, says: str
) -> None:
    value = np.array([[0, 1], [2, number]])
    assert fitted(value, HALF, 2)[0] is None
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(fitted(value, HALF, 2)[1])
    assert fitted(np.array([[0, 1], [2, 65_519.0]]), HALF, 2)[1] == "", "65,519 rounds to float16's largest"


# The embedder returns the lengths of a text's words; the question's text decides what the dialogue does with them.
SOURCE = """
    from dataclasses import dataclass
    import numpy as np
    from guidebench.harness.models.calls import EmbedCall
    from guidebench.harness.interfaces import ArraySpec
    from guidebench.harness.parts import AskingPart, ModelPart
    from guidebench.harness.registry import register

    @register.embedder("lengths")
    @dataclass(frozen=True)
    class Lengths(ModelPart):
        '''Counts letters.'''
        version = 1
        backend = "scripted"
        citation = "% a test's own"
        timeout: float = 20.0

        def spawn(self, suite, task):
            return lambda call: np.array([[len(word) for word in text.split()] for text in call.items], np.float32)

    class Reading:
        calls = 1

        async def __call__(self, content, frames, ask):
            if content == "as JSON":
                return [1.0, 2.0]
            answer = await ask(EmbedCall(tuple(content)))
            return answer.value if answer.value.max() < 9 else np.log(answer.value - 9)

    @register.guide("reading")
    @dataclass(frozen=True)
    class Reads(AskingPart):
        '''Asks for lengths.'''
        version = 1
        citation = "% a test's own"
        needs = {"reader": "embedder"}

        def dialogue(self, suite, task, role):
            return Reading()
"""


@pytest.fixture
def make_reader(plugin: Callable[..., Any]) -> Iterator[Callable[..., QuestionQueue]]:
    """Return a function that makes the queue of two seeds' questions to the reader, whose answers are declared as
    `spec`; `window` questions are sent ahead."""
    plugin("reading_module", SOURCE, {"embedder": "lengths", "guide": "reading"})
    processes = []

    def make(spec: ArraySpec | None, window: int = 2) -> QuestionQueue:
        guide = RegisteredPart("guide", "reading")
        array = None if spec is None else Declared(spec, str(guide), "reader")
        voice = Voice(RegisteredPart("embedder", "lengths"), speaker=guide, array=array)
        assignment = Assignment(RegisteredPart("suite", "minigrid_doorkey"), "5x5", {"reader": voice})
        processes.append(ModelProcess(assignment, 20.0, window))
        return QuestionQueue(["cell/0", "cell/1"], 2, processes[-1], role="reader", kind="embedder")

    yield make
    for process in processes:
        process.close()


def question(row: int, content: str, keys: int = 2) -> Question:
    return Question(row, np.arange(keys), None, np.zeros((keys, 0), bool), content, "reader")


WORDS = ArraySpec("words", (3,), "float16")


def test_arrays_come_over_the_pipe_in_the_declared_dtype_late_and_at_once(
    make_reader: Callable[..., QuestionQueue],
) -> None:
    reader = make_reader(WORDS)
    reader.submit(question(0, '["a bb ccc", "dd d dddd"]'), 10)
    reader.submit(question(1, '["a b eeeeeeeee", "a b c"]'), 10)  # log 0 and of less
    first, second = (answer for *_, answer in reader.due(12))
    assert first.value.dtype == np.float16 and first.value.tolist() == [[1, 2, 3], [2, 1, 4]]
    assert first.value.flags.writeable and first.value.flags.c_contiguous
    assert second.value is None and second.failure == "malformed" and reader.accounts[1].failures == 1
    assert second.detail == {"message": "words holds a number that is not finite"}
    now, none = asks.consult(
        {"reader": reader}, [(question(1, '["a bb ccc"]', 1), ""), (question(0, '["f f fffffffff"]', 1), "")], 12
    )
    assert now.dtype == np.float16 and now.tolist() == [[1, 2, 3]] and none is None


@pytest.mark.parametrize(
    ("spec", "content", "says"),
    [
        (
            WORDS,
            '["a b", "c d"]',
            r"float16 \[n, 3\], and its dialogue returned float32 \[2, 2\] for a question of 2",
        ),
        (WORDS, '["a b c"]', r"returned float32 \[1, 3\] for a question of 2 keys; expected \[2, 3\]"),
        (WORDS, '"as JSON"', "returned a list for a question of 2 keys"),
        (
            None,
            '["a b c", "d e f"]',
            r"dialogue of guide 'reading' in the role 'reader' returned float32 \[2, 3\], and",
        ),
    ],
)
def test_another_shape_ends_the_run_and_an_array_that_nobody_declared_too(
    make_reader: Callable[..., QuestionQueue], spec: ArraySpec | None, content: str, says: str
) -> None:
    reader = make_reader(spec)
    reader.submit(question(0, content), 1)
    check_refused(says, reader.due, 3)


def test_questions_and_no_answers_are_in_a_checkpoint(make_reader: Callable[..., QuestionQueue]) -> None:
    reader = make_reader(ArraySpec("words", (2_000,), "float32"))
    reader.submit(question(0, '["' + "a " * 2_000 + '"]', 1), 10)
    empty = reader.state(1)
    reader._backend.wait(Ticket("cell/0", 0, 10, "reader"))  # type: ignore[attr-defined]
    state = reader.state(0)
    assert [*state["asks"][0]] == ["step", "ordinal", "key", "snapshots", "events", "content"]
    ((_, _, answer),) = reader.due(12)
    assert answer.value.nbytes == 8_000
    assert reader.state(0) == empty | {"ordinal": 1, "account": reader.state(0)["account"]}
    restored = QuestionQueue(["cell/0", "cell/1"], 2, reader._backend, role="reader", kind="embedder")
    restored.load_state(0, state)
    assert np.array_equal(restored.due(12)[0][2].value, answer.value)


def test_large_questions_and_large_answers_do_not_wait_for_each_other(
    make_reader: Callable[..., QuestionQueue],
) -> None:
    """Both exceed the buffer of a pipe, so a sender waits until the other side reads."""
    reader = make_reader(ArraySpec("words", (2**17,)), 16)

    def ask() -> None:
        for step in range(20):
            reader.submit(question(0, '["' + "a " * 2**17 + '"]', 1), step)
        for _ in range(4):  # answers arrive meanwhile, and each one that is read makes room for a question
            time.sleep(0.1)
            reader._backend.poll()
        assert len(reader.due(100)) == 20

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    asker.join(400)
    stuck = asker.is_alive()
    if stuck:
        os.kill(reader._backend.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    assert not stuck


def test_an_array_crosses_the_pipe_as_its_bytes() -> None:
    """A few hundred bytes of the message around it are added."""
    from multiprocessing.reduction import ForkingPickler

    from guidebench.harness.models.calls import Answer
    from guidebench.harness.models.messages import Served

    value = np.zeros((32, 1024), np.float16)
    assert len(ForkingPickler.dumps(Served(Ticket("cell/0", 0, 1), Answer(value)))) < value.nbytes + 1_000
