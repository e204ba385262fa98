"""The privileged chats know the task's sub-goals."""

import json
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.interfaces import Place
from guidebench.harness.plan import config, matrix
from guidebench.methods.dsadf.chats import OraclePlanner, OracleReflector
from guidebench.methods.dsadf.deliberation import question
from guidebench.methods.dsadf.oracle import KnownAction
from tests.refusals import check_refused

pytest.importorskip("crafter")
SUITE = registry.get("suite", "crafter_ood")(actions="find")
STEPS = ["find tree", "chop tree", "place crafting table", "make wood sword", "find cow", "attack cow"]


def asked(role: str, **content: str) -> Any:
    return question(role, Place(0, 3), {"text": "", **content})


def test_the_planner_answers_with_the_sub_goals_and_errs_at_its_rate() -> None:
    plan = OraclePlanner().spawn(SUITE, "attack_cow")
    found = plan(asked("planner"), np.random.default_rng(0))
    assert found == {"plan": [[name, 1] for name in STEPS], "thoughts": "", "fault": "", "retries": 0}
    wrong = OraclePlanner(omits=0.5).spawn(SUITE, "attack_cow")
    rng = np.random.default_rng(0)
    lengths = [len(wrong(asked("planner"), rng)["plan"]) for _ in range(400)]
    assert set(lengths) == {5, 6} and abs(lengths.count(5) / 400 - 0.5) < 3 * 0.5 / 400**0.5
    assert all(len(wrong(asked("planner", plan="", reflection=""), rng)["plan"]) == 6 for _ in range(50))


def test_the_reflector_suggests_the_sub_goals_unless_they_are_given() -> None:
    reflect = OracleReflector().spawn(SUITE, "attack_cow")
    given = "\n".join(f"{number}. {name}" for number, name in enumerate(STEPS, 1))
    rng = np.random.default_rng(0)
    assert reflect(asked("reflector", plan=given), rng)["plan"] == []
    for other in ("attack cow", "mine stone"):  # which is none of them
        found = reflect(asked("reflector", plan=f"1. find tree\n2. {other}"), rng)
        assert [name for name, _ in found["plan"]] == STEPS and json.dumps(found)
        assert found["weaknesses"].startswith("It is not the known plan")


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("planner", ("suite=housekeep", "task=adjustment_2")),
        ("reflector", ("suite=housekeep", "task=adjustment_3")),
    ],
)
def test_a_task_whose_sub_goals_are_in_other_words_is_refused_before_a_run(role: str, words: tuple[str, ...]) -> None:
    def check(chat: str) -> None:
        chats = dict.fromkeys(("planner", "reflector", "performer"), "scripted") | {role: chat}
        given = [f"{name}={answers}" for name, answers in chats.items()]
        told = ["method=model_with_planner", "profile=smoke", "suite.observation=text", *words, *given]
        (cell,) = matrix.plan(told).cells
        cell.section("agent").ready(config.cell_view(cell))

    check_refused("is neither; choose scripted or a model", check, "oracle")
    check("scripted")
    check_refused("is neither", OraclePlanner().spawn, registry.get("suite", "housekeep")(), "adjustment_2")


def named(performer: KnownAction, solver: int, possible: list[int], rng: np.random.Generator) -> str:
    told = question("performer", Place(0, 3), {"possible": possible})._replace(solver=lambda: solver)
    answer = performer(told, rng)
    assert answer == {"action": answer["action"], "faults": [], "said": ""}
    return str(answer["action"])


def test_the_performer_names_the_solvers_action_or_a_possible_one_and_errs_at_its_rate() -> None:
    """Of 1,000 answers, 0.4 · ⅔ are on another action than the solver's; 3 standard deviations are ±0.042."""
    rng = np.random.default_rng(2)
    for solver, possible, actions in ((2, [0, 1, 2], {"c"}), (3, [0, 2], {"a", "c"})):
        assert {named(KnownAction("abcd", 0.0), solver, possible, rng) for _ in range(50)} == actions
    found = [named(KnownAction("abcd", 0.4), 2, [0, 1, 2], rng) for _ in range(1_000)]
    assert abs(found.count("a") + found.count("b") - 1_000 * 0.4 * 2 / 3) < 42 and "d" not in found
