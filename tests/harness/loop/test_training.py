"""The loop drives any Agent: here one with two learners that take turns within an episode, on one replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.replay.uer import Uer
from guidebench.baselines.storage import Storage
from guidebench.harness.errors import Stopped
from guidebench.harness.interfaces import Build, Mode, Moment, RunPhase
from guidebench.harness.loop.evaluation import Evaluator, Memoryless
from guidebench.harness.loop.training import Loop
from guidebench.harness.streams import Streams
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

PERIOD = 7
DQN = Dqn(lr=1e-3, batch_size=16, learning_starts=32, train_every=4, channels=4, features=16, hidden=(16,))


class Relay:
    """Two learners take turns every PERIOD steps of an episode, each seed by its own clock, on one replay."""

    deterministic = True
    wants_snapshots = False
    wants_measures = False
    wants_told = False

    def __init__(self, build: Build) -> None:
        self.active = np.ones(build.rows, bool)
        self.learners = [DQN.spawn(build), DQN.spawn(build)]
        self.storage, self.sampler = Storage(build), Uer().spawn(build)
        self.clock = np.zeros(build.rows, np.int64)
        self.turns: list[list[int]] = []
        self.begun = np.zeros(build.rows, np.int64)

    def phases(self) -> tuple[RunPhase, ...]:
        return (RunPhase("collect", 40), RunPhase("learn", 160), RunPhase("distil", 5, source="none"))

    def begin(self, rows, observation, ctx) -> None:
        self.clock[rows] = 0
        self.begun[rows] += 1

    def end(self, episodes, ctx) -> None:
        return None

    def actor(self, places):
        return Memoryless(self)

    def act(self, observation, ctx):
        turn = (self.clock // PERIOD % 2)[ctx.rows] if ctx.mode is Mode.TRAIN else np.zeros(len(ctx.rows), np.int64)
        explore = [streams.explore for streams in ctx.streams] if ctx.mode is Mode.TRAIN else None
        proposals = [learner.act(observation, ctx.rows, explore, ctx.step) for learner in self.learners]
        return np.where(turn == 0, *proposals)

    def observe(self, transition, ctx) -> None:
        self.turns.append((self.clock // PERIOD % 2).tolist())
        self.clock += 1
        self.sampler.added(self.storage.append(transition), self.storage.live, transition)

    def answered(self, answers, ctx) -> None:
        raise AssertionError("nothing was asked")

    def update(self, ctx):
        if ctx.step <= 40 or not self.learners[0].updates_due(ctx.step):
            return {}
        rngs = [streams.sample for streams in ctx.streams]
        moment = Moment(ctx.step, self.storage.live, rngs, ctx.observation, self.storage)
        metrics = {}
        for number, learner in enumerate(self.learners):
            draw = self.sampler.draw(DQN.batch_size, moment)
            update = learner.update(self.storage.gather(draw.index), self.active, ctx.step)
            metrics |= {f"{number}/{name}": value for name, value in update.metrics.items()}
        return metrics

    def evaluated(self, returns, ctx) -> None:
        return None

    def state(self, row: int) -> dict[str, Any]:
        learners = [learner.state(row) for learner in self.learners]
        return {"learners": learners, "storage": self.storage.state(row), "clock": int(self.clock[row])}

    def load_state(self, row: int, state: dict[str, Any]) -> None:
        for learner, saved in zip(self.learners, state["learners"], strict=True):
            learner.load_state(row, saved)
        self.storage.load_state(row, state["storage"])
        self.clock[row] = state["clock"]

    def parameters(self, row: int):
        return {f"{n}.{k}": v for n, learner in enumerate(self.learners) for k, v in learner.parameters(row).items()}


class Notes:
    """A Journal in memory."""

    def __init__(self) -> None:
        self.evaluations: list[Any] = []
        self.metrics: list[Any] = []
        self.states: dict[int, list[Any]] = {}
        self.rows = 0

    def evaluated(self, step, results) -> None:
        self.evaluations += [(step, *result) for result in results]

    def measured(self, row, step, metrics) -> None:
        self.metrics.append((row, step, metrics))

    def checkpoint(self, step, states) -> None:
        self.states[step] = [states(row) for row in range(self.rows)]

    def judged(self, *args) -> None: ...
    def timed(self, *args) -> None: ...
    def diverged(self, *args) -> None: ...
    def progress(self, *args) -> None: ...


def loop(path: Path, stop=lambda: False, agent=Relay, evaluate_every: int = 50) -> tuple[Loop, Notes, Any]:
    suite, seeds = MiniGridDoorKey(), (3, 5)
    observations, actions = suite.spaces("5x5")
    build = Build(
        seeds=seeds, observations=observations, actions=actions, horizon=100, events=(), steps=205, device="cpu",
        streams=[Streams(seed) for seed in seeds], directories=(path / "a", path / "b"), capacity=1000, slots=1200,
    )  # fmt: skip
    notes = Notes()
    notes.rows = len(seeds)
    tasks = [suite.make("5x5") for _ in seeds]
    for task, streams in zip(tasks, build.streams, strict=True):
        task.reset(int(streams.environment.integers(2**31)))
    driven = agent(build)
    evaluator = Evaluator(lambda row: suite.make("5x5"), 2, build.streams)
    protocol = {"evaluate_every": evaluate_every, "checkpoint_every": 60, "stop": stop}
    return Loop(driven, tasks, build.streams, evaluator, notes, **protocol), notes, driven


def test_two_learners_take_turns_within_an_episode_and_both_learn(tmp_path: Path) -> None:
    whole, notes, agent = loop(tmp_path)
    whole.run()
    turns = np.array(agent.turns)
    assert turns[:14, 0].tolist() == [0] * 7 + [1] * 7
    assert agent.storage.written == 200  # the last phase has no environment
    assert {step for step, *_ in notes.evaluations} == {50, 100, 150, 200, 205}
    names = set(notes.metrics[-1][2])
    assert {"0/loss", "1/loss"} <= names
    first, second = agent.learners[0].parameters(0), agent.learners[1].parameters(0)
    assert any(not np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("moment", [20, 61, 133, 202])
def test_such_an_agent_resumes_bit_for_bit_in_every_phase(tmp_path: Path, moment: int) -> None:
    whole, notes, agent = loop(tmp_path / "whole")
    whole.run()
    calls = iter(range(1, 1000))
    first, before, _ = loop(tmp_path / "parts", stop=lambda: next(calls) == moment)
    with pytest.raises(Stopped):
        first.run()
    second, after, resumed = loop(tmp_path / "parts")
    for row, state in enumerate(before.states[moment]):
        second.load_state(row, state)
    second.run()
    assert before.evaluations + after.evaluations == notes.evaluations
    for row in range(2):
        ours, theirs = resumed.parameters(row), agent.parameters(row)
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)


class Diverging(Relay):
    """The second seed's loss is no longer a number from step 100 on."""

    def update(self, ctx):
        metrics = super().update(ctx)
        if ctx.step >= 100:
            self.active[1] = False
        return metrics


def test_a_seed_that_diverges_is_reported_once_and_the_other_goes_on(tmp_path: Path) -> None:
    made, notes, _ = loop(tmp_path, agent=Diverging)
    told: list[tuple[int, int]] = []
    notes.diverged = lambda row, step: told.append((row, step))  # type: ignore[method-assign]
    made.run()
    assert told == [(1, 100)]
    assert {row for step, row, *_ in notes.evaluations if step <= 50} == {0, 1}
    assert {row for step, row, *_ in notes.evaluations if step >= 100} == {0}
