"""The oracle's goals: what the task measures as possible next."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.plan import config, matrix
from guidebench.methods.ellm.oracle import KnownGoals
from tests.methods.ellm.test_runs import SCRIPTED

DEEDS = ("chop tree", "eat cow", "sleep")
ORACLE = tuple("goals=oracle" if word == "goals=scripted" else word for word in SCRIPTED)


def asked(*measures: float) -> Question:
    return Question(0, np.array([-1]), None, np.zeros((1, 0), bool), '"state"', "goals", measures=np.array([measures]))


def test_deeds_that_are_measured_as_possible_are_goals() -> None:
    known = KnownGoals(("health", "sleep", "chop tree", "eat cow"), DEEDS, 0.0)
    assert known(asked(9, 1, 1, 0), np.random.default_rng(0)) == ["chop tree", "sleep"]
    known = KnownGoals(DEEDS, DEEDS, 1.0)
    assert set(known(asked(1, 1, 1), np.random.default_rng(0))) <= {"chop cow", "eat tree"}, "at rate one"


def test_a_suite_that_does_not_measure_a_deed_is_refused() -> None:
    class Unmeasured:
        def deeds(self, task: str) -> tuple[str, ...]:
            return DEEDS

    class Partly(Unmeasured):
        def measures(self, task: str) -> dict[str, str]:
            return {"chop tree": "1 if so", "sleep": "1 if so"}

    (cell,) = matrix.plan(["method=ellm_exploration", "profile=smoke", *ORACLE]).cells
    chat, there = cell.section("goals"), config.cell_view(cell)
    assert chat.fits(there) == ""
    for suite, deed in ((Unmeasured(), "chop tree"), (Partly(), "eat cow")):
        reason = chat.fits(replace(there, parts={**there.parts, "suite": suite}))
        assert reason == f"the suite does not measure whether '{deed}' is possible next; choose another goals=…"


def test_it_answers_in_no_other_role() -> None:
    with pytest.raises(UserError, match="suggests goals in words, for ELLM's guide alone"):
        matrix.plan(["suite=crafter_ood", "method=linvit", "profile=smoke", "prior=oracle_goals"])


def test_rows_say_that_the_goals_are_privileged() -> None:
    (cell,) = matrix.plan(["method=ellm", "profile=smoke", "task=deforestation", *ORACLE[2:]]).cells
    assert (cell.backend, cell.model) == ("oracle+scripted", "oracle_goals+scripted")


def test_its_goals_earn_a_reward(train: Callable[..., Path]) -> None:
    words = ("training.steps=100", "evaluation.every=100", "evaluation.episodes=1", "learner.learning_starts=64")
    study = train(*ORACLE, *words, "method=ellm_exploration", "seeds=[0]", packs=[(0,)])
    goals = results.load(study, log="goals")
    assert goals["failed"].sum() == goals["senseless"].sum() == 0 and goals["kept"].sum() > 0
    assert results.load(study, log="achieved")["count"].sum() > 0
