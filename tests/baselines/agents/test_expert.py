"""The expert: it follows the suite's solver, where there is one, and its rows say so."""

import json
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.reports.summary import judges
from guidebench.results import store

WORDS = (
    "suite=minigrid_doorkey",
    "task=6x6",
    "method=expert",
    "training.steps=20",
    "evaluation.every=20",
    "evaluation.episodes=20",
)


def test_it_solves_every_layout_and_is_recorded_as_privileged(train: Any) -> None:
    study = train(*WORDS, packs=[(0,)])
    episodes = results.load(study)
    assert len(episodes) == 20 and episodes["success"].all()
    assert episodes["length"].nunique() > 3  # it acts by the state, not by one sequence of actions
    (record,) = study.glob("*/*/*/cell.json")
    record_fields = json.loads(record.read_bytes())
    assert (record_fields["backend"], record_fields["model"], record_fields["learner"]) == ("oracle", "solver", "")
    assert record_fields["parts"] == {
        "agent": {"kind": "agent", "name": "expert", "backend": "oracle", "model": "solver"}
    }
    (cell,) = store.study(study).cells
    assert cell.label == "expert · solver · smoke"
    assert "privileged" in judges.remark(cell) and "solver" in judges.remark(cell)


@pytest.mark.parametrize(("suite", "task"), [("crafter", "game"), ("classic", "CartPole-v1")])
def test_a_suite_without_a_solver_is_refused(suite: str, task: str) -> None:
    with pytest.raises(UserError, match=rf"'expert' does not fit .*no solver comes with the task '{task}'"):
        matrix.plan([f"suite={suite}", f"task={task}", "method=expert", "profile=smoke"])
