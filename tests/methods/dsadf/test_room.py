"""The dual system in Housekeep's room: the target, partial plans, their rewards and what a policy carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Place, StepWords
from guidebench.harness.plan import matrix
from guidebench.harness.playback.reevaluation import evaluate_run
from guidebench.harness.run import study
from tests.methods.dsadf.rehearsal import Rehearsal

SCRIPTED = ("suite=housekeep", "planner=scripted", "reflector=scripted", "performer=scripted")
SYSTEMS = (
    *SCRIPTED, "scorer=scripted", "text_embedder=scripted", "text_embedder.width=16", "agent.width=16",
    "learner.trunk=[8]", "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=16",
    "training.capacity=100",
)  # fmt: skip
PLAN = [["find mug", 1], ["grab mug", 1], ["find table", 1], ["put mug on table", 1]]
GRAB, PUT = {"objects": ("mug", 1.0)}, {"receptacles": ("table", 1.0), "held": "mug"}
"""States in which `grab mug`, and `put mug on table`, are possible."""
CARRY = {"held": "mug"}


class Room(Rehearsal):
    """A dual system in Housekeep."""

    def __init__(self, directory: Path, *words: str) -> None:
        settings = ("method=dsadf", "task=task13", "profile=smoke", "agent.reflect=false", "agent.history=3", *words)
        super().__init__(directory, [*SYSTEMS, *settings], "task12")
        self.plans, self.targets = [PLAN] * 9, [{"target": "put the mug away", "fault": "", "retries": 1}]
        self.acts = "look up"
        self.at(0)

    def planner(self, content: Any) -> Any:
        if "history" in content:
            return self.targets.pop(0)
        return {"plan": self.plans.pop(0), "thoughts": "", "fault": "", "retries": 0}

    def performer(self, content: Any) -> Any:
        return {"action": self.acts, "faults": [], "said": ""}

    def scorer(self, content: Any) -> Any:
        return {"proficiency": 0.9, "said": ""}

    def observation(self, held: str = "", text: str = "you hold nothing.", **things: tuple[str, float]) -> Any:
        observations, stands = (
            self.blank_observations(text),
            self.build.parts["suite"].deed_forms("adjustment_3").stands,
        )
        for kind, (name, metres) in things.items():
            at = 5 * stands["OBJECT" if kind == "objects" else "RECEPTACLE"].index(name)
            observations[kind][0, at : at + 5] = 1, metres, 0, 1, 0
        observations["held"] = 1 + stands["OBJECT"].index(held) if held else 0
        return observations

    def begin(self) -> None:
        self.agent.begin(np.zeros(1, np.int64), self.observation(), self.ctx)

    def step(
        self, before: Any, action: str, after: Any, caption: str = "", reward: float = 0, truncated: bool = False
    ) -> float:
        """Let the agent observe a step between two states, and return the reward that it stores."""
        texts = StepWords(("",), (caption,))
        return self.observe_step(
            self.observation(**before), action, self.observation(**after), texts, reward, truncated=truncated
        )

    def waits(self, steps: int) -> None:
        """Let the agent observe steps in which nothing happens."""
        for _ in range(steps):
            self.step({}, "look up", {})

    def infers(self, step: int) -> None:
        """Let the agent update at this step, which may infer the target."""
        self.agent.update(self.at(step))

    def tidy(self) -> Room:
        """Skip the inference of the target and begin an episode."""
        self.agent._inferring[:] = False
        self.begin()
        return self


def test_a_part_of_the_room_is_put_in_order_plan_by_plan(tmp_path: Path) -> None:
    """By hand: .5 for each of four sub-goals, the last one too, and .2 for a caption of the present one."""
    room = Room(tmp_path).tidy()
    assert [room.step(*step) for step in (
        ({}, "move forward", GRAB),  # the mug is found
        (GRAB, "look up", GRAB), (GRAB, "grab or release", CARRY, "grab mug"), (CARRY, "move forward", PUT),
        (PUT, "grab or release", {}, "put mug on table"),
    )] == pytest.approx([0.5, 0, 0.7, 0.5, 0.7])  # fmt: skip
    pursuit = room.agent._pursuits[0]
    assert pursuit.plans == 2 and str(pursuit.course.present) == "find mug", "the plan was over, so another follows"
    memory = room.agent.memories[0]
    assert memory.subspaces() == {
        "find": {"mug": None, "table": None}, "grab": {"mug": None}, "put": {"mug on table": None},
    }  # fmt: skip
    assert memory.skill("grab mug").recent == [(2, True)]
    room.end_episode(5)
    assert room.log_rows("progress", "completed") == [(4,)]


def test_a_sub_goal_that_takes_too_long_is_planned_again_but_not_as_the_episode_ends(tmp_path: Path) -> None:
    room, other = Room(tmp_path, "agent.patience=3", "agent.replans=1").tidy(), Room(tmp_path / "b", "agent.patience=3")
    for steps, plans in ((2, 1), (1, 2), (9, 2)):
        room.waits(steps)
        assert len(room.questions("planner")) == plans, "after three steps, and once by agent.replans"
    assert room.agent.memories[0].skill("find mug").recent[0] == (3, False)
    other.tidy().waits(2)
    other.step({}, "look up", {}, truncated=True)
    assert len(other.questions("planner")) == 1
    assert room.log_rows("plans", "number") == [(0,), (1,)]


def test_the_target_is_inferred_from_the_first_steps_and_is_the_goal_of_all_prompts(tmp_path: Path) -> None:
    room = Room(tmp_path, "agent.dangers=[]")
    room.begin()
    assert not room.calls and room.agent._pursuits[0].course.present is None, "no plan before the target is known"
    for number, caption in enumerate(("", "grab mug", "put mug on table"), 1):
        room.at(number)
        room.step(GRAB, "grab or release", GRAB, caption, reward=0.2 * (number == 3))
        room.agent.update(room.ctx)
    (inference,) = room.questions("planner")
    assert (
        "Action: grab or release (grab mug). Reward: 0." in inference["history"]
        and "Reward: 0.2." in inference["history"]
    )
    ((*row, history),) = room.log_rows("targets", "steps", "target", "fault", "retries", "told")
    assert row == [3, "put the mug away", "", 1] and history.startswith("Step 1. Seen: you hold nothing.")
    room.begin()
    assert room.questions("planner")[1]["goal"] == "put the mug away"
    actor = room.agent.actor([Place(0, 0)])
    actor.begin(room.observation(), room.ctx)
    actor.act(room.observation(**GRAB), np.arange(1), room.ctx)
    (content,) = room.questions("performer")
    assert (content["goal"], content["effects"]) == ("put the mug away", {"grab or release": "grab mug"})
    room.agent.memories[0].skill("grab mug").rewarded = True
    room.agent._score(room.ctx)
    assert room.questions("scorer")[0]["goal"] == "put the mug away"
    room.infers(4)
    assert len([question for question in room.questions("planner") if "history" in question]) == 1, "once"


@pytest.mark.parametrize("answer", [None, {"target": "", "fault": "long", "retries": 2}])
def test_without_an_answer_the_tasks_instruction_stands(tmp_path: Path, answer: Any) -> None:
    room = Room(tmp_path)
    room.targets = [answer]
    room.begin()
    room.waits(1)
    room.infers(3)
    assert room.log_rows("targets", "target", "fault") == [("", "failed" if answer is None else "long")]
    room.begin()
    assert "goal" not in room.questions("planner")[1]
    instruction = room.build.suite(0).make("adjustment_3").instruction
    assert instruction in room.questions("text_embedder")


def test_state_and_policy_hold_the_target(tmp_path: Path) -> None:
    def restored() -> Any:
        room = Room(tmp_path / "one")
        room.agent.load_state(0, original.agent.state(0))
        return room.agent

    original = Room(tmp_path / "one")
    original.begin()
    original.step({}, "look up", {}, "grab mug")
    again = restored()
    assert again._histories[0].text() == original.agent._histories[0].text() != "" and again._inferring[0]
    original.infers(3)
    again = restored()
    assert again._targets[0] == "put the mug away" and not again._inferring[0]

    parameters, third = original.agent.parameters(0), Room(tmp_path / "three", "agent.trains=false").agent
    third.load_parameters(0, parameters)
    assert third._targets[0] == "put the mug away"
    assert all(np.array_equal(parameters[name], array) for name, array in third.parameters(0).items())
    with pytest.raises(UserError, match=r"no target, since its run inferred none; set agent\.infer=false"):
        third.load_parameters(0, {name: array for name, array in parameters.items() if name != "target"})
    fourth = Room(tmp_path / "four", "agent.infer=false").agent
    fourth.load_parameters(0, parameters)
    assert fourth._targets[0] == "" and "target" not in fourth.parameters(0)


def test_evaluations_follow_one_plan_after_another(tmp_path: Path) -> None:
    room = Room(tmp_path, "agent.router=model", "agent.trains=false", "agent.replans=1")
    room.plans, room.acts = [PLAN, PLAN[:2]], "grab or release"
    actor = room.agent.actor([Place(0, 0)])
    actor.begin(room.observation(), room.ctx)
    for state in (GRAB, PUT, {}, GRAB, GRAB):
        (action,) = actor.act(room.observation(**state), np.arange(1), room.ctx)
        assert room.agent.names[action] == "grab or release"
    actor.end(np.arange(1), room.ctx)
    assert room.log_rows("routes", "number", "subgoal", "steps", "reached") == [
        (0, "find mug", 0, True), (0, "grab mug", 1, True), (0, "find table", 0, True),
        (0, "put mug on table", 1, True), (1, "find mug", 1, True), (1, "grab mug", 1, True),
        (1, "", 1, False),
    ]  # fmt: skip
    assert room.log_rows("trials", "reached", "plans") == [(6, 2)]


# Whole runs

SHORT = (
    *SYSTEMS, "task=task12", "suite.length=30", "training.steps=80", "evaluation.every=40", "evaluation.episodes=2",
    "agent.history=35", "agent.patience=8",
)  # fmt: skip


@pytest.mark.slow
def test_the_target_arrives_on_another_task_and_in_an_evaluation(tmp_path: Path) -> None:
    words = ("method=dsadf_transfer", "profile=smoke", *SHORT, "task=task13", "training.steps=20")
    words += ("evaluation.every=20", f"output={tmp_path}", "seeds=[0]", "pretraining.task=task12")
    settings = {word.split("=", 1)[0]: word for word in words}
    stage = ("pretraining.training.steps=60", "pretraining.evaluation.every=60", "pretraining.agent.history=20")
    outcome = study.carry_out(matrix.plan([*settings.values(), *stage]))
    assert outcome.finished
    first, last = outcome.runs
    targets = [stored_target(run.directory) for run in (first, last)]
    assert targets[0] == targets[1] != ""
    assert results.load(outcome.directory, log="targets")["target"].tolist() == [targets[0]]
    again = evaluate_run(first.directory, None, None, episodes=2, seed=3, models=Models(mode="record"))
    assert evaluate_run(first.directory, None, None, episodes=2, seed=3) == again, "towards the target of the policy"


def stored_target(directory: Path) -> str:
    from safetensors.numpy import load_file

    from guidebench.methods.dsadf.targets import unpacked

    return unpacked(load_file(directory / "policy.safetensors")["target"])


@pytest.mark.parametrize("method", ["dsadf", "dsadf_transfer"])
def test_the_recipe_infers_the_target(method: str) -> None:
    stage = ["pretraining.task=task11"] if method == "dsadf_transfer" else []
    (cell,) = matrix.plan([*SYSTEMS, f"method={method}", "task=task13", *stage]).cells
    agent = cell.section("agent")
    assert (agent.infer, agent.partial, agent.trains) == (True, True, method == "dsadf")
    assert cell.section("suite").observation == "text"
