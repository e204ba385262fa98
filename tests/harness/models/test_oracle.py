"""An oracle that answers a chat from privileged measures, under the short name of its role."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import Ticket
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.oracle import OracleBackend
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates
from guidebench.harness.streams import Streams
from tests.logs import log_rows
from tests.refusals import check_refused

# A guide asks its critic about stretches of ten steps. An oracle gets the measures; a scripted chat reports only
# what it sees of the question.
SOURCE = """
    import json
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.capabilities import HasMeasures
    from guidebench.harness.interfaces import Question
    from guidebench.harness.logs import Column, Log
    from guidebench.harness.models.calls import ChatCall, Message
    from guidebench.harness.parts import AskingPart, ModelPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.chat("oracle_critic")
    @dataclass(frozen=True)
    class Knows(ModelPart):
        '''Says how far the object was from the target on average.'''

        delay: int = 40
        silent: bool = False

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        backend: ClassVar[str] = "oracle"
        privileged: ClassVar[bool] = True

        def fits(self, view):
            return "" if isinstance(view.suite, HasMeasures) else "its suite measures nothing"

        def spawn(self, suite, task):
            def answer(question, generator):
                if self.silent:
                    return None
                far = question.measures[:, list(suite.measures(task)).index("obj_to_target")]
                about = json.loads(question.content)["step"]
                return {"far": float(far.mean()), "steps": len(far), "about": about, "drawn": generator.random()}
            return answer


    @register.chat("scripted_critic")
    @dataclass(frozen=True)
    class Sees(ModelPart):
        '''Answers with the question itself.'''

        delay: int = 40
        timeout: float = 20.0

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        backend: ClassVar[str] = "scripted"

        def spawn(self, suite, task):
            return lambda messages: messages[-1].content[0]


    class Asks:
        calls = 1

        async def __call__(self, content, frames, ask):
            answer = await ask(ChatCall((Message("user", (json.dumps(content),)),)))
            return {"far": -1.0, "steps": 0, "about": json.loads(answer.value)["step"], "drawn": 0.0}


    @register.guide("criticised")
    @dataclass(frozen=True)
    class Criticised(AskingPart):
        '''Has every stretch of ten steps criticised.'''

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"critic": "chat"}
        logs: ClassVar = {
            "heard": Log("an answer", {
                "far": Column(float, "m"), "steps": Column(int, "n"), "about": Column(int, "step"),
                "drawn": Column(float, "of it"),
            })
        }

        def spawn(self, build):
            return Critic(build.rows, build.parts["critic"].privileged)

        def dialogue(self, suite, task, role):
            return Asks()


    class Critic(BaseGuide):
        def __init__(self, rows, privileged):
            self.rows, self.wants_measures = rows, privileged
            self.held = [[] for _ in range(rows)]

        def observed(self, slot, transition, store, ctx):
            assert (transition.measures is not None) == self.wants_measures
            for row in range(self.rows):
                if self.wants_measures:
                    self.held[row] = [*self.held[row], transition.measures[row]][-10:]
                if ctx.step % 10 == 0:
                    measures = np.array(self.held[row]) if self.wants_measures else None
                    ctx.ask(Question(
                        row, np.arange(1), None, np.zeros((1, 0), bool), json.dumps({"step": ctx.step}), "critic",
                        measures=measures,
                    ))

        def answered(self, answers, store, ctx):
            for question, answer in answers:
                ctx.note("heard", question.row, answer.value or {"far": -2.0, "steps": 0, "about": 0, "drawn": 0.0})

        def state(self, row):
            return {"held": np.array(self.held[row])}

        def load_state(self, row, state):
            self.held[row] = list(state["held"])


    register.method("criticised")(Method(
        summary="asks a critic", suite="metaworld", guide="criticised", chat="oracle", citation="% a test",
        defaults={"critic.scripted.delay": 7},
    ))
"""
SHORT = (
    "method=criticised",
    "suite=metaworld",
    "task=reach",
    "training.steps=80",
    "evaluation.every=80",
    "evaluation.episodes=1",
    "learner.learning_starts=40",
)


@pytest.fixture
def criticised_method(plugin: Callable[..., Path]) -> None:
    chats = "oracle_critic = criticising\nscripted_critic = criticising"
    plugin(
        "criticising",
        SOURCE,
        {"guide": "criticised = criticising", "method": "criticised = criticising", "chat": chats},
    )


def plan_cell(*words: str) -> Any:
    (cell,) = matrix.plan(["profile=smoke", *SHORT, *words]).cells
    return cell


def test_a_name_means_the_part_of_that_role_and_records_hold_the_registered_one(criticised_method: None) -> None:
    cell = plan_cell()
    assert cell.names.part("critic") == "oracle_critic", "the method's own chat is `oracle`"
    assert cell.id == plan_cell("critic=oracle").id == plan_cell("critic=oracle_critic").id
    assert record(cell)["parts"]["critic"]["name"] == "oracle_critic"
    assert plan_cell("critic=oracle", "critic.oracle.delay=3").section("critic").delay == 3
    assert plan_cell("critic.oracle_critic.delay=4").section("critic").delay == 4
    scripted = plan_cell("critic=scripted")
    assert scripted.names.part("critic") == "scripted_critic" and scripted.section("critic").delay == 7
    cells = matrix.plan(["profile=smoke", *SHORT, "critic=scripted,oracle,oracle_critic"]).cells
    assert [chat_cell.names.part("critic") for chat_cell in cells] == ["scripted_critic", "oracle_critic"]


def test_an_unknown_name_is_told_with_the_known_ones(
    criticised_method: None, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused("unknown chat 'scriptet'; did you mean 'scripted'", plan_cell, "critic=scriptet")
    with pytest.raises(UserError, match=r"critic=scripted_critic .scripted. stands for no foundation model"):
        from guidebench.harness.models import single_calls

        single_calls.model("chat", {"critic": "scripted"}, "critic")
    assert cli.main(["list", "chat"]) == 0
    assert "  oracle_critic        Says how far the object was from the target on average.  [oracle]" in (
        capsys.readouterr().out
    )


def test_a_run_with_an_oracle_chat_starts_no_process_and_hears_of_each_stretch_after_its_delay(
    criticised_method: None, train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("an oracle needs no process")

    monkeypatch.setattr("guidebench.harness.loop.backends.ModelProcess", refuse)
    study = train(*SHORT, "seeds=[0,1]", packs=[(0, 1)])
    for seed in (0, 1):
        rows = log_rows(next(study.glob(f"*/*/*/seed-{seed}")), "heard")
        assert [row["about"] for row in rows] == list(range(10, 50, 10)), "answers to later questions are not due"
        assert all(row["steps"] == 10 and 0.04 < row["far"] < 1 for row in rows)


def test_a_chat_that_is_no_oracle_gets_no_measures(criticised_method: None, train: Callable[..., Path]) -> None:
    study = train(*SHORT, "critic=scripted", "seeds=[0]", packs=[(0,)])
    rows = log_rows(next(study.glob("*/*/*/seed-0")), "heard")
    assert [row["about"] for row in rows] == list(range(10, 80, 10)) and {row["far"] for row in rows} == {-1.0}


def test_measures_are_not_sent_to_a_model_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelProcess, "_send", lambda self: None)
    voices = {"critic": Voice(RegisteredPart("chat", "scripted"))}
    process = ModelProcess(Assignment(RegisteredPart("suite", "metaworld"), "reach", voices), 1.0)
    measures = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    shots = np.arange(64, dtype=np.uint8).reshape(4, 16)
    ask = Question(0, np.arange(5), shots, np.zeros((5, 1), bool), "{}", "critic", measures=measures)
    process.ask(Ticket("cell/0", 0, 0), ask)
    (message,) = process._waiting
    assert shots.tobytes() in pickle.dumps(message) and measures.tobytes() not in pickle.dumps(message)


def test_an_oracle_without_an_answer_is_a_counted_failure() -> None:
    asks = QuestionQueue(
        ["cell/0"], 0, OracleBackend(lambda question, rng: None, [Streams(0)]), role="critic", kind="chat"
    )
    asks.submit(Question(0, np.arange(1), None, np.zeros((1, 0), bool), "{}", "critic"), 1)
    ((_, _, answer),) = asks.due(1)
    assert answer.value is None and answer.failure == "empty" and asks.accounts[0].failures == 1


def test_errors_differ_between_episodes_of_an_evaluation_and_come_again_in_its_repetition() -> None:
    backend = OracleBackend(lambda question, rng: rng.random(), [Streams(0)])

    def draw(asks: QuestionQueue, *scopes: str) -> list[float]:
        ask = Question(0, np.arange(1), None, np.zeros((1, 0), bool), "{}", asks.role)
        return asks.values(asks.send([(ask, scope) for scope in scopes], 1), lambda: False)

    episodes = [f"evaluation/{step}/{episode}" for step in (10, 20) for episode in range(3)]
    for role in ("critic", "judge"):
        asks = QuestionQueue(["cell/0"], 0, backend, role=role, kind="chat")
        first, second = draw(asks, *episodes), draw(asks, *episodes)
        assert len({*first, *second}) == 12
        asks.begin_scopes()
        assert draw(asks, *reversed(episodes)) == first[::-1], "independent of the order of episodes"
        training = [Streams(0).of_question(ordinal, role).random() for ordinal in range(2)]
        assert draw(asks, "", "") == training, "questions of training keep their errors"


def test_measures_of_questions_in_flight_are_in_their_state_and_absent_without_any() -> None:
    answers: list[Any] = []
    backend = OracleBackend(lambda question, rng: answers.append(question.measures) or 1, [Streams(0)])
    asks = QuestionQueue(["cell/0"], 5, backend, role="critic", kind="chat")
    measures = np.array([[0.0, 1.0, 0.25]], np.float32)
    for measured in (measures, None):
        asks.submit(Question(0, np.arange(1), None, np.zeros((1, 0), bool), "{}", "critic", measures=measured), 1)
    state = asks.state(0)
    assert ["measures" in item for item in state["asks"]] == [True, False]
    QuestionQueue(["cell/0"], 5, backend, role="critic", kind="chat").load_state(0, state)
    assert len(answers) == 4 and answers[3] is None
    assert np.array_equal(answers[2], measures) and answers[2].dtype == np.float32


def test_planning_and_readiness_accept_it_and_another_suite_is_refused(
    criticised_method: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert estimates.by_model(plan_cell()) == []
    assert cli.main(["run", *SHORT, "profile=smoke", "seeds=1", f"output={tmp_path / 'study'}", "--dry-run"]) == 0
    assert "oracle_critic" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"critic 'oracle_critic' does not fit suite 'classic'.*measures nothing"):
        matrix.plan(["profile=smoke", "method=criticised", "suite=classic", "task=CartPole-v1"])


def test_an_agent_that_wants_measures_of_a_task_without_any_is_refused(
    criticised_method: None, train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.get("chat", "oracle_critic"), "fits", lambda self, cell: "")
    words = ("method=criticised", "suite=classic", "task=CartPole-v1", "training.steps=1500", "seeds=[0]")
    check_refused("an oracle of the cell reads measures, and the task has none", train, *words, packs=[(0,)])
