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


def question_to(role: str, **content: str) -> Any:
    return question(role, Place(0, 3), {"text": "", **content})


def test_the_planner_answers_with_the_sub_goals_and_errs_at_its_rate() -> None:
    plan = OraclePlanner().spawn(SUITE, "attack_cow")
    answer = plan(question_to("planner"), np.random.default_rng(0))
    assert answer == {"plan": [[name, 1] for name in STEPS], "thoughts": "", "fault": "", "retries": 0}
    wrong = OraclePlanner(omits=0.5).spawn(SUITE, "attack_cow")
    rng = np.random.default_rng(0)
    lengths = [len(wrong(question_to("planner"), rng)["plan"]) for _ in range(400)]
    assert set(lengths) == {5, 6} and abs(lengths.count(5) / 400 - 0.5) < 3 * 0.5 / 400**0.5
    assert all(len(wrong(question_to("planner", plan="", reflection=""), rng)["plan"]) == 6 for _ in range(50))


def test_the_reflector_suggests_the_sub_goals_unless_they_are_given() -> None:
    reflect = OracleReflector().spawn(SUITE, "attack_cow")
    known_plan = "\n".join(f"{number}. {name}" for number, name in enumerate(STEPS, 1))
    rng = np.random.default_rng(0)
    assert reflect(question_to("reflector", plan=known_plan), rng)["plan"] == []
    for other in ("attack cow", "mine stone"):  # which is none of them
        answer = reflect(question_to("reflector", plan=f"1. find tree\n2. {other}"), rng)
        assert [name for name, _ in answer["plan"]] == STEPS and json.dumps(answer)
        assert answer["weaknesses"].startswith("It is not the known plan")


def test_where_the_goal_changes_plans_and_reflections_are_those_of_the_goal_in_question() -> None:
    plan, reflect = (chat.spawn(SUITE, "wooden") for chat in (OraclePlanner(), OracleReflector()))
    rng, goal = np.random.default_rng(0), "make a wood sword, and attack and eat a cow"
    assert [name for name, _ in plan(question_to("planner", goal=goal), rng)["plan"]] == STEPS
    other = plan(question_to("planner", goal="make a wood sword"), rng)["plan"]
    assert [name for name, _ in other] == STEPS[:4]
    known_plan = "\n".join(f"{number}. {name}" for number, name in enumerate(STEPS, 1))
    assert reflect(question_to("reflector", goal=goal, plan=known_plan), rng)["plan"] == []
    assert reflect(question_to("reflector", goal="make a wood sword", plan=known_plan), rng)["plan"] == other


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
        chat_words = [f"{name}={answers}" for name, answers in chats.items()]
        all_words = ["method=model_with_planner", "profile=smoke", "suite.observation=text", *words, *chat_words]
        (cell,) = matrix.plan(all_words).cells
        cell.section("agent").ready(config.cell_view(cell))

    check_refused("is neither; choose scripted or a model", check, "oracle")
    check("scripted")
    check_refused("is neither", OraclePlanner().spawn, registry.get("suite", "housekeep")(), "adjustment_2")


def performed_action(performer: KnownAction, solver: int, possible: list[int], rng: np.random.Generator) -> str:
    performer_question = question("performer", Place(0, 3), {"possible": possible})._replace(solver=lambda: solver)
    answer = performer(performer_question, rng)
    assert answer == {"action": answer["action"], "faults": [], "said": ""}
    return str(answer["action"])


def test_the_performer_names_the_solvers_action_or_a_possible_one_and_errs_at_its_rate() -> None:
    """Of 1,000 answers, 0.4 · ⅔ are on another action than the solver's; 3 standard deviations are ±0.042."""
    rng = np.random.default_rng(2)
    for solver, possible, actions in ((2, [0, 1, 2], {"c"}), (3, [0, 2], {"a", "c"})):
        assert {performed_action(KnownAction("abcd", 0.0), solver, possible, rng) for _ in range(50)} == actions
    answers = [performed_action(KnownAction("abcd", 0.4), 2, [0, 1, 2], rng) for _ in range(1_000)]
    assert abs(answers.count("a") + answers.count("b") - 1_000 * 0.4 * 2 / 3) < 42 and "d" not in answers
