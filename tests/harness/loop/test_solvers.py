"""The solver's action in the present state reaches only oracles that declare that they follow it."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Question
from guidebench.harness.loop import backends
from guidebench.harness.loop.job import Job
from guidebench.harness.models.calls import Ticket
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.oracle import OracleBackend, solution
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import config, matrix
from guidebench.harness.run import readiness
from guidebench.harness.streams import Streams
from tests.refusals import check_refused

ASK = Question(0, np.array([-1]), None, np.zeros((1, 0), bool), "{}", "prior", solver=lambda: 3)


def plan_cell(*words: str) -> Any:
    (cell,) = matrix.plan(["profile=smoke", *words]).cells
    return cell


def follows(cell: Any) -> dict[str, bool]:
    """Return role -> whether its questions keep the solver."""
    backend = OracleBackend(lambda question, rng: None, [Streams(0)])
    job = Job("t", "d", {}, (0,), models={})
    roles = [part.role for part in cell.models]
    return {
        role: asks.follows_solver
        for role, asks in backends.question_queues(dict.fromkeys(roles, backend), job, cell).items()
    }


def test_a_question_keeps_its_solver_only_on_the_way_to_an_oracle_that_declares_it() -> None:
    for declared, answer in ((True, 3), (False, None)):
        backend = OracleBackend(lambda question, rng: question.solver and question.solver(), [Streams(0)])
        asks = QuestionQueue(["cell/0"], 0, backend, role="prior", kind="chat", follows_solver=declared)
        assert asks.values(asks.send([(ASK, "")], 1), lambda: False) == [answer]


def test_models_that_are_no_oracle_or_do_not_declare_it_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    linvit = ("suite=housekeep", "method=linvit")
    assert follows(plan_cell(*linvit, "prior=oracle")) == {"prior": True}
    scripted = plan_cell(*linvit, "prior=scripted")
    assert follows(scripted) == {"prior": False}
    monkeypatch.setattr(registry.get("chat", "scripted_prior"), "follows_solver", True)
    assert follows(scripted) == {"prior": False}
    dsadf = ("suite=crafter_ood", "method=dsadf", "reflector=scripted", "scorer=scripted", "text_embedder=scripted")
    dsadf += ("text_embedder.width=384", "planner=oracle", "task=wood_sword")
    assert [
        role for role, follows_solver in follows(plan_cell(*dsadf, "performer=oracle")).items() if follows_solver
    ] == ["performer"]
    assert not any(follows(plan_cell(*dsadf, "performer=scripted")).values()), "the planner's oracle declares nothing"


def test_a_solver_is_not_sent_to_a_model_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelProcess, "_send", lambda self: None)
    voices = {"prior": Voice(RegisteredPart("chat", "scripted_prior"))}
    process = ModelProcess(Assignment(RegisteredPart("suite", "housekeep"), "adjustment_2", voices), 1.0)
    process.ask(Ticket("cell/0", 0, 0), ASK)
    (message,) = process._waiting
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ASK)
    assert pickle.dumps(message), "the message holds no solver, which could not be pickled"


def test_an_oracle_whose_question_holds_no_solver_says_why() -> None:
    assert solution(ASK) == 3
    with pytest.raises(UserError, match="in the role 'prior' answers with the action of the suite's solver, and its"):
        solution(ASK._replace(solver=None))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("suite=crafter", "method=linvit", "prior=oracle"), "no solver comes with the task 'game' of suite 'crafter'"),
        (("suite=crafter_ood", "task=free_play", "method=linvit", "prior=oracle"), "no solver comes with the task"),
        (
            ("suite=crafter", "method=model_as_agent", "performer=oracle"),
            "choose another performer=…, or a task with a solver",
        ),
        (
            ("suite=housekeep", "method=linvit", "prior=oracle", "training.demonstrations=1"),
            "the states of demonstrations and datasets are past",
        ),
        (("suite=housekeep", "method=linvit", "prior=oracle_performer"), "it answers in the role performer"),
        (("suite=housekeep", "method=model_as_agent", "performer=oracle_prior"), "it weighs actions"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_any_work(words: tuple[str, ...], reason: str) -> None:
    check_refused(re.escape(reason), plan_cell, *words)


def test_a_task_whose_solver_plans_whole_episodes_is_refused_as_the_run_begins(
    train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_check_solver", lambda cell: None)
    words = ("suite=crafter", "method=linvit", "prior=oracle", "training.steps=2000", "seeds=[0]")
    check_refused(re.escape("prior=… answers with the action of the suite's solver"), train, *words, packs=[(0,)])


def test_nothing_of_an_oracle_is_recorded_so_it_works_without_recording() -> None:
    live = Models(mode="live")
    readiness.consultable(live, [plan_cell("suite=housekeep", "method=linvit", "prior=oracle")])
    with pytest.raises(UserError, match=r"models\.mode=live records nothing"):
        readiness.consultable(live, [plan_cell("suite=housekeep", "method=linvit", "prior=openai", "prior.model=m")])
