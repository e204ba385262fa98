"""The dual system step by step, with answers given by hand: rewards, memory, routes and emergencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Place, StepWords
from guidebench.suites.crafter_ood.goals import VECTORS as VECTORS_OF_GOALS
from tests.methods.dsadf.rehearsal import Rehearsal

pytest.importorskip("crafter")
WORDS = (
    "method=dsadf", "task=wood_sword", "profile=smoke", "planner=scripted", "reflector=scripted", "performer=scripted",
    "scorer=scripted", "text_embedder=scripted", "text_embedder.width=16", "agent.width=16", "agent.reflect=false",
    "suite.area=16", "evaluation.every=100", "training.steps=300",
)  # fmt: skip
MOVES = ("move left", "move right")
GRASS = "you see grass. you are targeting grass."
VECTORS = {"chop tree": [3, 4], "mine coal": [4, 3]}
Performer = Callable[[Mapping[str, Any]], str]


class Dual(Rehearsal):
    """A dual system in Crafter."""

    def __init__(
        self, directory: Path, *words: str, scores: Sequence[float | None] = (), count: int = 1,
        begins: list[list[Any]] | None = None,
    ) -> None:  # fmt: skip
        """`begins`: the plan of a training episode that begins at once."""
        last = {word.partition("=")[0]: word for word in (*WORDS, *words)}
        super().__init__(directory, [*last.values()], "deforestation", count)
        self.vectors, self.scores, self.plan = VECTORS, [*scores], list[list[Any]]()
        self.acts: Performer = lambda content: "move left"
        self.shown_goal = ""
        """The goal that observations show, where it changes."""
        if begins is not None:
            self.begin(begins)

    def planner(self, content: Any) -> Any:
        return {"plan": self.plan, "thoughts": "", "fault": "", "retries": 0} if self.plan else None

    def performer(self, content: Any) -> Any:
        return {"action": self.acts(content), "faults": [], "said": ""}

    def scorer(self, content: Any) -> Any:
        p = self.scores.pop(0)
        return None if p is None else {"proficiency": p, "said": "so"}

    def observation(self, possible: Sequence[str], text: str = GRASS) -> Any:
        observations = self.blank_observations(text)
        observations["admissible"] = [name in possible for name in self.agent.names]
        if self.shown_goal:
            observations["instruction"] = VECTORS_OF_GOALS[self.shown_goal]
        return observations

    # Training

    def begin(self, plan: list[list[Any]]) -> None:
        self.plan = plan
        self.agent.begin(np.zeros(1, np.int64), self.observation(MOVES), self.ctx)

    def step(
        self, action: str, before: Sequence[str], after: Sequence[str], caption: str = "", success: bool = False
    ) -> float:
        """Let the agent observe a step that the task rewards with 9, and return the reward that it stores."""
        texts = StepWords((GRASS,), (caption,))
        return self.observe_step(self.observation(before), action, self.observation(after), texts, 9, success)

    # Evaluation

    def knows(self, **proficiencies: float) -> None:
        for name, p in proficiencies.items():
            skill = self.agent.memories[0].skill(name.replace("_", " "))
            skill.rewarded, skill.proficiency = True, p

    def play(self, **proficiencies: float) -> Dual:
        """Begin evaluation episodes with `PLAN`, where these sub-goals have these proficiencies in memory."""
        self.knows(**proficiencies)
        self.plan = PLAN
        self.actor = self.agent.actor([Place(0, episode) for episode in range(self.count)])
        self.ctx.rows = np.zeros(self.count, np.int64)
        self.actor.begin(self.observation(MOVES), self.ctx)
        return self

    def act(self, possible: Sequence[str], text: str = GRASS, near: int = 0) -> str:
        """Return the first episode's action; `near`: code of an object two cells to the right of the player."""
        observations = self.observation(possible, text)
        if near:
            columns, rows = observations["local"].shape[1:3]
            observations["local"][:, columns // 2 + 2, rows // 2, 1] = near
        return str(self.agent.names[self.actor.act(observations, np.arange(self.count), self.ctx)[0]])

    def end(self) -> None:
        self.actor.end(np.arange(self.count), self.ctx)


PLAN: list[list[Any]] = [["find tree", 1], ["chop tree", 2], ["mine coal", 1], ["make wood sword", 1]]
CHOPS = (*MOVES, "chop tree")


def test_the_progressive_reward_replaces_the_tasks(tmp_path: Path) -> None:
    """By hand: .5 for each completed sub-goal, .2·cos for a caption of the present one, 1 for the task, once."""
    dual = Dual(tmp_path, begins=PLAN)
    assert [dual.step(*step) for step in (
        ("move left", MOVES, MOVES, "move left"),
        ("move left", MOVES, CHOPS, "move left"),  # the tree is found
        ("chop tree", CHOPS, CHOPS, "mine coal"),  # cos = .96, and β = .99
        ("chop tree", CHOPS, CHOPS, "chop tree"),  # done twice, and so captioned
        ("chop tree", CHOPS, CHOPS, "chop tree"),  # the present sub-goal is another one
        ("mine coal", ("mine coal",), MOVES, "mine coal", True),
        ("move left", MOVES, MOVES, "", True),  # the task is solved once
    )] == pytest.approx([0, 0.5, 0, 0.7, 0, 1.7, 0])  # fmt: skip
    dual.end_episode(7, True)
    assert dual.log_rows("progress") == [{
        "episode": 0, "length": 7, "plan": 4, "completed": 3, "proximity": 2.0, "reward": pytest.approx(2.9),
        "succeeded": True,
    }]  # fmt: skip


def test_weights_and_similarity_are_settings(tmp_path: Path) -> None:
    words = ("agent.gamma_task=2", "agent.gamma_subgoals=3", "agent.gamma_proximity=0.5", "agent.beta=0.95")
    dual = Dual(tmp_path, *words, begins=PLAN[1:])
    assert dual.step("chop tree", CHOPS, CHOPS, "mine coal") == pytest.approx(0.48), ".5·.96"
    assert dual.step("chop tree", CHOPS, CHOPS, success=True) == 5


def test_without_a_plan_the_task_is_the_goal_and_nothing_enters_memory(tmp_path: Path) -> None:
    dual = Dual(tmp_path, begins=[])
    assert dual.step("chop tree", CHOPS, CHOPS, "chop tree", success=True) == 1
    assert dual.build.suite(0).make("wood_sword").instruction in dual.questions("text_embedder")
    assert not dual.agent.memories[0].skills


def test_what_the_learner_sees(tmp_path: Path) -> None:
    """Batches hold the vector of the present sub-goal before and after the step, and no sentences."""
    dual = Dual(tmp_path, begins=PLAN[1:])
    dual.step("chop tree", CHOPS, CHOPS)
    dual.step("chop tree", CHOPS, CHOPS)
    batch = dual.agent.experience.store.gather(np.array([[0, 1]]))
    assert batch.observation["goal"][0, :, :3].tolist() == [[3, 4, 0]] * 2
    assert batch.next_observation["goal"][0, :, :3].tolist() == [[3, 4, 0], [4, 3, 0]]
    assert "text" not in batch.observation.dtype.names and "local" in batch.observation.dtype.names
    assert dual.questions("text_embedder").count("chop tree") == 1, "a text is asked about once"


def test_memory_holds_what_was_rewarded_with_all_attempts(tmp_path: Path) -> None:
    dual = Dual(tmp_path, scores=[0.9, None], begins=PLAN)
    dual.step("move left", MOVES, MOVES)
    dual.step("move left", MOVES, CHOPS)
    dual.step("chop tree", CHOPS, CHOPS)
    dual.end_episode(3)
    memory = dual.agent.memories[0]
    assert [*memory.skills] == ["find tree"] and memory.skill("chop tree").recent == [(1, False)]
    dual.begin(PLAN[1:])
    dual.step("chop tree", CHOPS, CHOPS, "chop tree")
    dual.end_episode(1)
    assert memory.skill("find tree").recent == [(2, True)]
    assert memory.skill("chop tree").recent == [(1, False), (1, False)], "rewarded by its caption, never reached"

    dual.agent._score(dual.ctx)
    assert [content["subgoal"] for content in dual.questions("scorer")] == ["find tree", "chop tree"]
    assert memory.proficiency("find tree") == 0.9 and memory.proficiency("chop tree") is None, "no answer came"
    assert dual.log_rows("memory", "noun", "failed", "proficiency") == [("tree", False, 0.9), ("tree", True, None)]
    dual.scores = [0.2]
    dual.agent._score(dual.ctx)
    assert memory.proficiency("chop tree") == 0.2 and len(dual.questions("scorer")) == 3, "what is known is not asked"


def test_memory_is_scored_before_evaluations_alone(tmp_path: Path) -> None:
    dual = Dual(tmp_path, scores=[0.9])
    dual.knows(chop_tree=0.0)
    for step, question_count in ((99, 0), (100, 1), (101, 1), (200, 1)):
        dual.agent.update(dual.at(step))
        assert len(dual.questions("scorer")) == question_count


def test_a_policy_carries_network_and_memory(tmp_path: Path) -> None:
    source, target = Dual(tmp_path / "one"), Dual(tmp_path / "other", "agent.trains=false", "learner.lr=0.5")
    source.knows(chop_tree=0.75)
    parameters = source.agent.parameters(0)
    assert parameters["memory"].dtype == np.uint8 and parameters["memory"].shape == (32_768,)
    target.agent.load_parameters(0, parameters)
    assert target.agent.memories[0].proficiency("chop tree") == 0.75
    assert all(np.array_equal(parameters[name], array) for name, array in target.agent.parameters(0).items())
    with pytest.raises(UserError, match="no memory of proficiencies"):
        target.agent.load_parameters(0, {name: array for name, array in parameters.items() if name != "memory"})
    (phase,) = target.agent.phases()
    assert (phase.source, phase.updates) == ("none", 0) and target.agent.update(target.ctx) == {}


def test_sub_goals_are_divided_by_their_proficiency(tmp_path: Path) -> None:
    dual = Dual(tmp_path).play(find_tree=0.7, chop_tree=0.6)
    assert dual.act(MOVES) in MOVES and not dual.questions("performer"), "System 1, among the possible actions"
    dual.acts = lambda content: "chop tree"
    assert [dual.act(CHOPS) for _ in range(2)] == ["chop tree"] * 2
    assert [content["subgoal"] for content in dual.questions("performer")] == ["chop tree (2 times)"] * 2
    dual.acts = lambda content: "move right"
    assert dual.act(MOVES) == "move right"
    dual.end()
    assert dual.log_rows("routes", "subgoal", "by", "why", "proficiency", "steps", "reached") == [
        ("find tree", "learner", "proficient", 0.7, 1, True),
        ("chop tree", "performer", "not proficient", 0.6, 2, True),
        ("mine coal", "performer", "it is not in memory", None, 1, False),
    ]
    assert dual.log_rows("trials", "steps", "fast", "performed", "emergencies") == [(4, 1, 3, 0)]


def test_a_sub_goal_that_the_performer_declares_reached_gives_way_to_system_1_in_the_same_step(tmp_path: Path) -> None:
    dual = Dual(tmp_path).play(chop_tree=1.0)
    dual.acts = lambda content: "done"
    assert dual.act(MOVES) in MOVES and len(dual.questions("performer")) == 1
    assert dual.log_rows("routes")[0]["reached"] is True
    dual.end()
    assert dual.log_rows("routes", "subgoal", "steps") == [("find tree", 0), ("chop tree", 1)]


@pytest.mark.parametrize(("router", "fast"), [("rl", True), ("model", False)])
def test_one_system_may_act_alone(tmp_path: Path, router: str, fast: bool) -> None:
    dual = Dual(tmp_path, f"agent.router={router}", "agent.trains=false").play(find_tree=1.0 - fast)
    dual.act(MOVES, near=ZOMBIE)
    assert len(dual.questions("performer")) == (0 if fast else 1), "and a danger changes nothing"


ZOMBIE, ARROW = 7, 9
"""Codes of objects in the part `local`: their index among the package's pictures, from 1."""


def test_an_unknown_danger_nearby_is_an_emergency_of_one_step(tmp_path: Path) -> None:
    dual = Dual(tmp_path).play(find_tree=1.0)
    dual.acts = lambda content: "move right"
    dual.act(MOVES)
    assert not dual.questions("performer")
    assert dual.act(MOVES, near=ZOMBIE) == "move right"
    (question,) = dual.questions("performer")
    assert question["subgoal"] == "attack zombie or move away from it" and not question["may_end"]
    dual.act(MOVES)
    assert len(dual.questions("performer")) == 1, "the danger is gone"
    dual.knows(attack_zombie=0.0)
    dual.act(MOVES, near=ZOMBIE)
    assert len(dual.questions("performer")) == 1, "it is in memory as a noun"
    dual.act(MOVES, near=ARROW)
    assert dual.questions("performer")[1]["subgoal"] == "move away from arrow"
    dual.end()
    assert dual.log_rows("trials")[0]["emergencies"] == dual.log_rows("routes")[0]["emergencies"] == 2


def test_without_distances_a_danger_is_near_when_it_is_the_target(tmp_path: Path) -> None:
    dual = Dual(tmp_path, "suite.observation=grey_text", "suite.size=20").play(find_tree=1.0)
    for target, count in (("grass", 0), ("zombie", 1)):
        dual.act(MOVES, f"you see zombie. you are targeting {target}.")
        assert len(dual.questions("performer")) == count


def test_all_episodes_are_asked_about_in_one_batch(tmp_path: Path) -> None:
    dual, batches = Dual(tmp_path, count=3), list[int]()
    dual.ctx.answer = lambda questions: batches.append(len(questions)) or dual.answers(questions)
    dual.play().act(MOVES)
    assert batches == [3, 3]


def test_where_the_goal_changes_plans_scores_and_memory_are_by_the_goal_of_the_episode(tmp_path: Path) -> None:
    """The same sub-goal is planned, scored and routed anew for each goal; no answer for one serves the other."""
    dual = Dual(tmp_path, "task=wooden", "agent.threshold=0.5", scores=[0.9, 0.1])
    goals = [*VECTORS_OF_GOALS][:2]
    for goal in goals:
        dual.shown_goal = goal
        dual.begin(PLAN[1:])
        dual.step("chop tree", CHOPS, CHOPS, "chop tree")
        dual.end_episode(1)
    assert [question["goal"] for question in dual.questions("planner")] == goals
    dual.agent._score(dual.ctx)
    assert [question["goal"] for question in dual.questions("scorer")] == goals
    memory = dual.agent.memories[0]
    assert [memory.proficiency("chop tree", goal) for goal in goals] == [0.9, 0.1]
    assert dual.log_rows("memory", "goal", "proficiency") == [(goals[0], 0.9), (goals[1], 0.1)]
    dual.acts = lambda question: "move right"
    for goal, by in zip(goals, ("learner", "performer"), strict=True):
        dual.shown_goal, dual.plan = goal, PLAN[1:]
        dual.actor = dual.agent.actor([Place(0, 0)])
        dual.actor.begin(dual.observation(MOVES), dual.ctx)
        dual.act(CHOPS)
        dual.end()
        assert dual.log_rows("routes", "by")[-1] == (by,)
    assert [question["goal"] for question in dual.questions("performer")] == goals[1:]
    state = dual.agent.state(0)
    assert state["pursuit"]["goal"] == goals[1]
    dual.shown_goal = goals[0]
    dual.begin([])
    dual.step("move left", MOVES, MOVES)
    assert goals[0] in dual.questions("text_embedder"), "without a plan the learner sees the episode's own goal"
