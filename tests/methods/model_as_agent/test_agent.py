"""The actors step by step, with answers given by hand: who acts, what is counted, and which sub-goal is present."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.interfaces import Build, Place, Question
from guidebench.harness.loop.evaluation import EvaluationContext
from guidebench.harness.streams import Streams
from guidebench.methods.dsadf.slow_system import Performs
from guidebench.methods.model_as_agent import ModelAsAgent, ModelWithPlanner
from guidebench.suites.crafter_ood.goals import VECTORS

SUITE = registry.get("suite", "crafter_ood")(observation="text", impossible="masked", actions="find")
NAMES = SUITE.action_names("wood_sword")
START = "you see grass and tree."
Answers = Callable[[Question, Mapping[str, Any]], Any]


class Episodes:
    """Episodes of one seed whose observations and answers a test gives."""

    def __init__(
        self, config: Performs, answers: Answers, count: int = 1, task: str = "wood_sword", goals: Sequence[str] = ()
    ) -> None:
        """`goals`: those that the episodes' observations show, on a task whose goal changes."""
        observations, actions = SUITE.spaces(task)
        self.goals = goals
        self.space, self.questions = observations.numpy, list[tuple[str, int, Any]]()
        build = Build((0,), observations, actions, 100, 50, (), "cpu", (Streams(0),), (), 1, 1, {"suite": SUITE}, task)

        def consult(questions: Any) -> list[Any]:
            self.batches.append(len(questions))
            contents = [json.loads(question.content) for question in questions]
            self.questions += [(q.to, q.episode, content) for q, content in zip(questions, contents, strict=True)]
            return [answers(question, content) for question, content in zip(questions, contents, strict=True)]

        self.batches: list[int] = []
        self.ctx: Any = EvaluationContext(100, (Streams(0),), answer=consult)
        self.count = count
        self.actor = config.spawn(build).actor([Place(0, episode) for episode in range(count)])
        self.actor.begin(self.observation(NAMES), self.ctx)

    def observation(self, possible: Any, text: str = START) -> Any:
        observations = np.zeros(self.count, self.space)
        observations["text"][:, : len(text)] = np.frombuffer(text.encode(), np.uint8)
        observations["admissible"] = [name in possible for name in NAMES]
        if self.goals:
            observations["instruction"] = [VECTORS[goal] for goal in self.goals]
        return observations

    def act(self, *possible: str) -> list[str]:
        numbers = np.arange(self.count)
        return [NAMES[action] for action in self.actor.act(self.observation(possible or NAMES), numbers, self.ctx)]

    def log_rows(self, log: str) -> list[dict[str, Any]]:
        return [dict(note.values) for note in self.ctx.notes if note.log == log]

    def end(self) -> dict[str, Any]:
        """End the first episode and return its row."""
        self.actor.end(np.array([0]), self.ctx)
        return self.log_rows("trials")[0]

    def subgoals(self) -> list[str]:
        """Return the sub-goals that the performer was asked about."""
        return [content["subgoal"] for role, _, content in self.questions if role == "performer"]


def says(*names: str) -> Answers:
    """Return a performer that names these actions in turn."""
    replies = [*names]
    return lambda question, content: {"action": replies.pop(0), "faults": [], "said": "so"}


def test_all_episodes_ask_in_one_batch_and_one_without_a_choice_does_not_ask() -> None:
    episodes = Episodes(ModelAsAgent(), says("chop tree", "move left", "sleep"), count=3)
    assert episodes.act() == ["chop tree", "move left", "sleep"] and episodes.batches == [3]
    assert [place for _, place, _ in episodes.questions] == [0, 1, 2]
    assert episodes.act("do nothing") == ["do nothing"] * 3 and episodes.batches == [3]
    assert episodes.questions[0][2] == {
        "text": START, "possible": list(range(len(NAMES))), "subgoal": "", "recent": [], "may_end": False,
    }  # fmt: skip


def test_the_prompt_repeats_the_last_actions() -> None:
    episodes = Episodes(ModelAsAgent(recent=2), says("chop tree", "move left", "sleep", "move up"))
    for _ in range(4):
        episodes.act()
    assert [content["recent"] for *_, content in episodes.questions] == [
        [], ["chop tree"], ["chop tree", "move left"], ["move left", "sleep"],
    ]  # fmt: skip


def test_the_fallback_acts_where_no_usable_reply_came_and_is_counted() -> None:
    answers = iter([
        {"action": "", "faults": ["impossible", "impossible", "unknown"], "said": "?"}, None,
        {"action": "sleep", "faults": ["unknown"], "said": "sleep"},
    ])  # fmt: skip
    episodes = Episodes(ModelAsAgent(), lambda question, content: next(answers))
    actions = [episodes.act("chop tree", "sleep")[0] for _ in range(3)]
    assert set(actions[:2]) <= {"chop tree", "sleep"} and actions[2] == "sleep"
    assert episodes.end() == {
        "trial": 0, "steps": 3, "performed": 1, "fallback": 2, "impossible": 2, "unknown": 2, "failed": 1, "reached": 0,
        "declared": 0, "plans": 0,
    }  # fmt: skip


def test_the_fallback_draws_uniformly_and_by_the_episode_alone() -> None:
    def fallback_actions(count: int) -> list[list[str]]:
        episodes = Episodes(ModelAsAgent(), lambda question, content: None, count)
        return [episodes.act("chop tree", "sleep", "move up") for _ in range(150)]

    both = fallback_actions(2)
    assert [first for first, _ in both] == [first for (first,) in fallback_actions(1)] != [second for _, second in both]
    assert all(abs([first for first, _ in both].count(name) - 50) < 18 for name in ("chop tree", "sleep", "move up"))


def test_equal_steps_share_a_row_and_rows_are_bounded() -> None:
    episodes = Episodes(ModelAsAgent(logged=2), says("sleep", "sleep", "move up", "sleep", "sleep"))
    for _ in range(5):
        episodes.act()
    assert episodes.end()["steps"] == 5
    rows = [(row["first"], row["steps"], row["action"], row["by"]) for row in episodes.log_rows("actions")]
    assert rows == [(0, 2, "sleep", "performer"), (2, 1, "move up", "performer")]


PLAN = [["find tree", 1], ["chop tree", 2], ["make wood sword", 1]]


def planning(replies: Mapping[str, list[Any]], performer: Answers) -> Answers:
    """Return answers of a planner and a reflector, in turn, and of a performer."""

    def answer(question: Question, content: Mapping[str, Any]) -> Any:
        return performer(question, content) if question.to == "performer" else replies[question.to].pop(0)

    return answer


def plan(steps: list[Any], fault: str = "") -> dict[str, Any]:
    return {"plan": steps, "thoughts": "so", "fault": fault, "retries": 0}


def reflection(steps: list[Any], weaknesses: str = "") -> dict[str, Any]:
    return {"strengths": "", "weaknesses": weaknesses, "plan": steps, "fault": ""}


def test_an_episode_goes_through_its_plan() -> None:
    replies = {"planner": [plan(PLAN)], "reflector": [reflection([])]}
    performer = says("find tree", "done", "chop tree", "chop tree", "make wood sword", "make wood sword")
    episodes = Episodes(ModelWithPlanner(), planning(replies, performer))
    moves = ("move left", "find tree")
    assert episodes.act(*moves) == ["find tree"]
    assert episodes.act("chop tree", *moves) == ["chop tree"], "what is possible now shows that the tree is found"
    assert episodes.subgoals() == [
        "find tree", "chop tree (2 times)", "make wood sword",
    ], "the sub-goal may be declared reached, and the next one is asked about in the same step"  # fmt: skip


def test_sub_goals_declared_reached_are_bounded_in_a_step() -> None:
    replies = {"planner": [plan([["find tree", 1], ["find cow", 1], ["find coal", 1], ["find iron", 1]])]}
    offered = []

    def performer(question: Question, content: Mapping[str, Any]) -> Any:
        offered.append((content["subgoal"], content["may_end"]))
        return {"action": "done" if content["may_end"] else "sleep", "faults": [], "said": ""}

    episodes = Episodes(ModelWithPlanner(reflect=False, ends=2), planning(replies, performer))
    assert episodes.act() == episodes.act() == ["sleep"]
    assert offered[:3] == [("find tree", True), ("find cow", True), ("find coal", False)]
    assert offered[3:] == [("find coal", True), ("find iron", False)], "the last sub-goal does not end"
    row = episodes.end()
    assert (row["reached"], row["declared"]) == (3, 3)


@pytest.mark.parametrize(
    ("replies", "settings", "final", "fault", "again", "question_count"),
    [
        # eq. 4: the planner writes the final plan, given the reflection
        ({"planner": [plan(PLAN[:1]), plan(PLAN)], "reflector": [reflection([], "short")]}, {}, 3, "", "", 3),
        ({"planner": [plan(PLAN)], "reflector": [reflection([])]}, {}, 3, "", "", 2),
        # app. B.2: the reflector's own plan
        ({"planner": [plan(PLAN[:1])], "reflector": [reflection(PLAN, "short")]}, {"again": "revised"}, 3, "", "", 2),
        ({"planner": [plan(PLAN)], "reflector": [reflection([], "bad")]}, {"again": "revised"}, 3, "", "", 2),
        ({"planner": [plan(PLAN)]}, {"reflect": False}, 3, "", "", 1),  # variation V
        # failures: the first plan stands, or there is none
        ({"planner": [plan(PLAN[:2])], "reflector": [None]}, {}, 2, "", "", 2),
        ({"planner": [plan(PLAN[:2]), None], "reflector": [reflection(PLAN)]}, {}, 2, "", "failed", 3),
        ({"planner": [plan(PLAN[:2]), plan([], "long")], "reflector": [reflection(PLAN)]}, {}, 2, "", "long", 3),
        ({"planner": [plan([], "unknown")]}, {}, 0, "unknown", "", 1),
        ({"planner": [None]}, {}, 0, "failed", "", 1),
    ],
)  # fmt: skip
def test_how_often_a_deliberation_asks_and_which_plan_it_ends_with(
    replies: dict[str, list[Any]], settings: dict[str, Any], final: int, fault: str, again: str, question_count: int
) -> None:
    episodes = Episodes(ModelWithPlanner(**settings), planning(replies, says("sleep")))
    assert len(episodes.questions) == question_count and not any(replies.values())
    (row,) = episodes.log_rows("plans")
    assert row["final"].count(";") + bool(row["final"]) == final and (row["fault"], row["again"]) == (fault, again)
    assert len(episodes.log_rows("reflections")) == ("reflector" in replies)
    episodes.act("sleep", "move up")
    assert episodes.questions[-1][2]["subgoal"] == ("find tree" if final else "")


def test_plans_that_lack_something_are_counted_and_amounts_are_supplied() -> None:
    hint = "- chop tree: gives wood\n- make wood sword: needs crafting table; uses 3 wood"
    replies = {"planner": [plan([["chop tree", 1], ["make wood sword", 1]])], "reflector": [reflection([])]}
    episodes = Episodes(ModelWithPlanner(hint=hint), planning(replies, says()))
    (row,) = episodes.log_rows("plans")
    assert (row["lacking"], row["still_lacking"]) == (1, 1)
    assert (row["first"], row["final"]) == ("chop tree; make wood sword", "chop tree (3 times); make wood sword")


def test_a_sub_goal_that_takes_too_long_leads_to_a_bounded_number_of_plans() -> None:
    replies = {"planner": [plan([["chop tree", 1]]), plan([["find cow", 1]])]}
    episodes = Episodes(ModelWithPlanner(reflect=False, replans=1, patience=3), planning(replies, says(*["sleep"] * 9)))
    for _ in range(9):
        episodes.act()
    assert episodes.subgoals() == ["chop tree"] * 3 + ["find cow"] * 6
    assert [row["number"] for row in episodes.log_rows("plans")] == [0, 1]


@pytest.mark.parametrize("config", [ModelAsAgent(), ModelWithPlanner()])
def test_where_the_goal_changes_each_question_has_the_goal_of_its_episode(config: Performs) -> None:
    """Two episodes in the same state, in one batch, with two goals."""
    goals = ("chop four trees", "make a wood sword")

    def answers(question: Question, content: Mapping[str, Any]) -> Any:
        if question.to == "performer":
            return {"action": "chop tree", "faults": [], "said": ""}
        return {
            "plan": [["chop tree", 1]],
            "thoughts": "",
            "fault": "",
            "retries": 0,
            "strengths": "",
            "weaknesses": "",
        }

    episodes = Episodes(config, answers, 2, "wooden", goals)
    episodes.act()
    goals_by_role = {(to, episode, fields["goal"]) for to, episode, fields in episodes.questions}
    assert goals_by_role == {(to, episode, goals[episode]) for to in config.needs for episode in (0, 1)}
    (alone,) = {fields.get("goal") for _, _, fields in Episodes(config, answers).questions} or {None}
    assert alone is None, "a single task's goal is what the dialogue knows"
