"""An agent that asks models once, as an episode begins, and then follows their path in open loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.baselines.fixed_policies import FixedPolicyAgent
from guidebench.harness.interfaces import Actor, Array, Build, Context, Place, Question
from guidebench.methods.kagi.questions import SEGMENTER, WAYPOINTS, Candidates, WaypointQuestion, oracles
from guidebench.methods.kagi.sight import Sight
from guidebench.methods.moka import motion
from guidebench.methods.moka.motion import Leg
from guidebench.methods.robofume import instructions

if TYPE_CHECKING:
    from guidebench.methods.moka import OpenLoop


class OpenLoopAgent(FixedPolicyAgent):
    """Acts in evaluations by following models' paths; it does not learn."""

    def __init__(self, config: OpenLoop, build: Build) -> None:
        super().__init__(build)
        self.config, self.task, self.suite = config, build.task, build.parts["suite"]
        self.instruction = instructions(build)
        self.oracles = oracles(build.parts)
        self.sight = Sight(self.suite, build.task, 1, False) if self.oracles else None
        """The views by which questions state true places to oracles; None without oracles."""

    def actor(self, places: Sequence[Place]) -> Actor:
        return OpenLoopActor(self, places)

    def legs(self, keypoints: Any, answer: Any) -> list[Leg]:
        """Return the movements of an episode for its keypoints and the answer of the waypoints' model
        (`motion.led`)."""
        return motion.led(self.config, self.suite, self.task, keypoints, answer)


class Trial:
    """An episode of an evaluation."""

    def __init__(self, place: Place, instruction: str, legs: list[Leg], answer: Any) -> None:
        self.place, self.instruction, self.legs, self.answer = place, instruction, legs, answer
        self.steps = self.waited = 0
        """Steps of the present movement so far, and how many of them waited at its place."""

    def moved(self, tip: Array, near: float, patience: int) -> None:
        """Drop the movements that are finished with the gripper's tip at `tip` [3], in metres; the last one stays.
        `near`: distance at which a place is reached; `patience`: most steps of a movement."""
        while len(self.legs) > 1:
            leg = self.legs[0]
            reached = bool(np.linalg.norm(leg.place - tip) <= near)
            if not (self.waited >= leg.wait if leg.wait else reached) and self.steps < patience:
                return
            self.legs.pop(0)
            self.steps = self.waited = 0


class OpenLoopActor:
    """Plays the episodes of an evaluation; all of them ask in one batch."""

    def __init__(self, agent: OpenLoopAgent, places: Sequence[Place]) -> None:
        self._agent, self._places = agent, places
        self._trials: list[Trial] = []

    def begin(self, observation: Array, ctx: Context) -> None:
        agent = self._agent
        openings = [ctx.snapshot(place.row, place.episode) for place in self._places]
        instructions = [
            agent.instruction(place.row, opening) for place, opening in zip(self._places, openings, strict=True)
        ]
        keypoints = ctx.consult(
            [
                self._question(SEGMENTER, place, opening, json.dumps({"instruction": text}))
                for place, opening, text in zip(self._places, openings, instructions, strict=True)
            ]
        )
        candidates = {
            number: Candidates(points["grasp"], points["target"])
            for number, points in enumerate(keypoints)
            if points is not None
        }
        questions = [
            self._question(
                WAYPOINTS, self._places[number], openings[number],
                WaypointQuestion(instructions[number], points).content(),
            )
            for number, points in candidates.items()
        ]  # fmt: skip
        answers = dict(zip(candidates, ctx.consult(questions), strict=True))
        self._trials = [
            Trial(place, instructions[number], agent.legs(keypoints[number], answers.get(number)), answers.get(number))
            for number, place in enumerate(self._places)
        ]

    def _question(self, role: str, place: Place, opening: Array, content: str) -> Question:
        """Return a question about an episode's first state."""
        nothing = np.zeros(0, np.int64)
        question = Question(place.row, nothing, opening[None], np.zeros((0, 0), bool), content, role, place.episode)
        sight = self._agent.sight if role in self._agent.oracles else None
        return question if sight is None else question._replace(measures=sight.places(opening))

    def act(self, observation: Array, numbers: Array, ctx: Context) -> Array:
        agent, config = self._agent, self._agent.config
        tips = agent.suite.tip(agent.task, observation)
        goals, closed = tips.copy(), np.zeros(len(numbers), bool)
        for index, number in enumerate(numbers.tolist()):
            trial = self._trials[number]
            trial.moved(tips[index], config.near, config.patience)
            if trial.legs:
                leg = trial.legs[0]
                goals[index], closed[index] = leg.place, leg.closed
                trial.steps += 1
                trial.waited += bool(leg.wait)
        return np.asarray(agent.suite.towards(agent.task, observation, goals, closed))

    def end(self, numbers: Array, ctx: Context) -> None:
        for number in numbers.tolist():
            trial = self._trials[number]
            answer = trial.answer or {"grasp": 0, "target": 0, "blocks": [], "retries": 0}
            ctx.note("paths", trial.place.row, {
                "trial": trial.place.episode, "instruction": trial.instruction, "grasp": answer["grasp"],
                "target": answer["target"], "blocks": json.dumps(answer["blocks"]), "retries": answer["retries"],
                "carried_out": len(trial.legs) == 1,
            })  # fmt: skip
