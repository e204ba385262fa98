"""The oracle's prior: all weight on the action of the suite's solver, in the state that is asked about."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.harness.interfaces import Question
from guidebench.harness.playback.reevaluation import evaluate_run
from guidebench.methods.linvit.oracle import KnownPrior
from guidebench.reports.summary import judges
from guidebench.results import store
from tests.methods.linvit.test_runs import SHORT, SHORTER

ORACLE, BRIEF = (*SHORT, "prior=oracle"), (*SHORTER, "prior=oracle")


def asked(action: int) -> Question:
    return Question(0, np.array([-1]), None, np.zeros((1, 0), bool), "{}", "prior", solver=lambda: action)


def test_all_weight_is_on_the_solvers_action() -> None:
    assert KnownPrior(4, 0.0)(asked(2), np.random.default_rng(0)) == {"weights": [0, 0, 1, 0], "unknown": 0}


def test_errors_come_at_their_rate_and_on_each_action_alike() -> None:
    """Of 1,000 answers, 0.4 · ¾ are on another action than the solver's; 3 standard deviations are ±0.044."""
    known, rng = KnownPrior(4, 0.4), np.random.default_rng(1)
    told = np.array([known(asked(2), rng)["weights"] for _ in range(1_000)])
    assert (told.sum(1) == 1).all() and abs(told[:, [0, 1, 3]].sum() / 1_000 - 0.3) < 0.044
    assert np.abs(told[:, [0, 1, 3]].mean(0) - 0.1).max() < 0.029


@pytest.mark.parametrize(
    "home",
    [(), pytest.param(("suite=crafter_ood", "task=wood_sword", "suite.area=32"), marks=pytest.mark.slow)],
)
def test_the_solver_is_that_of_the_state_whose_sentences_are_asked_about(
    home: tuple[str, ...], train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training, at ends of episodes, in the evaluations of a run, and in a separate one."""
    if home:
        pytest.importorskip("crafter")
    words = (*home, *ORACLE[1:]) if home else ORACLE
    met: list[str] = []
    answer = KnownPrior.__call__

    def heard(self: KnownPrior, question: Question, generator: np.random.Generator) -> Any:
        task = question.solver.__self__  # type: ignore[union-attr]
        assert json.loads(question.content)["state"] == task.text()
        met.append(task.text())
        return answer(self, question, generator)

    monkeypatch.setattr(KnownPrior, "__call__", heard)
    study = train(*words, "seeds=[0]", packs=[(0,)])
    told = results.load(study, log="ledger").sort_values("step").iloc[-1]
    assert len(met) == len(set(met)) == told["questions"] > 20 and not told["failures"]
    (run,) = study.glob("*/*/*/seed-0")
    count = len(met)
    first = evaluate_run(run, None, None, episodes=2, seed=3)
    assert len(met) > count and evaluate_run(run, None, None, episodes=2, seed=3) == first


def test_rows_say_that_the_prior_is_privileged(train: Callable[..., Path]) -> None:
    study = train(*BRIEF, "seeds=[0]", packs=[(0,)])
    (cell,) = store.study(study).cells
    assert (cell.backend, cell.model) == ("oracle", "oracle_prior")
    assert judges.remark(cell) == "privileged: it is told of the task's state what no method may know"
