"""Evaluation rows equal those of running every episode to its end."""

import zlib

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Score, Step
from guidebench.harness.loop.evaluation import Evaluator, Memoryless, solving
from guidebench.harness.streams import Streams
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey


class Fixed:
    """A deterministic agent that acts by a fixed random table of observations and mostly ends in cycles."""

    def __init__(self, deterministic: bool) -> None:
        self.deterministic = deterministic
        self.active = np.ones(2, bool)
        self.batches: list[int] = []

    def actor(self, places):
        return Memoryless(self)

    def act(self, observation, ctx):
        self.batches.append(len(observation))
        return np.array([zlib.crc32(frame.tobytes()) % 5 for frame in observation])


def evaluate(deterministic: bool):
    suite = MiniGridDoorKey()
    agent = Fixed(deterministic)
    evaluator = Evaluator(lambda row: suite.make("5x5"), 12, [Streams(0), Streams(1)])
    return evaluator(agent, 100, [0, 1]), agent


def test_stopping_at_a_repeated_state_equals_running_it_out() -> None:
    stopped, short = evaluate(deterministic=True)
    run_out, long = evaluate(deterministic=False)
    assert stopped == run_out
    assert len(short.batches) < len(long.batches)
    assert any(not episode_result.success and episode_result.length == 250 for episode_result in stopped)


def test_no_seed_is_no_episode() -> None:
    assert Evaluator(lambda row: Countdown(), 5, [Streams(0)])(Fixed(True), 40, []) == []


def test_finished_episodes_leave_the_batch() -> None:
    _, agent = evaluate(deterministic=True)
    assert agent.batches[0] == 24 and agent.batches == sorted(agent.batches, reverse=True) and agent.batches[-1] < 24


class Countdown:
    """A task solved after (reset seed modulo 3) + 1 steps; without positions, so evaluation never cuts it short."""

    instruction, max_steps = "", 10

    def reset(self, seed=None):
        self.steps_left = seed % 3 + 1
        return np.zeros(1, np.float32)

    def step(self, action):
        self.steps_left -= 1
        return Step(np.zeros(1, np.float32), 1.0, self.steps_left == 0, False, self.steps_left == 0)

    def position(self):
        return None


def test_layouts_depend_on_seed_step_and_episode_alone() -> None:
    streams = [Streams(4), Streams(9)]
    together = Evaluator(lambda row: Countdown(), 5, streams)(Fixed(True), 40, [0, 1])
    alone = Evaluator(lambda row: Countdown(), 5, [Streams(9)])(Fixed(True), 40, [0])
    assert [episode_result[1:] for episode_result in together if episode_result.row == 1] == [
        episode_result[1:] for episode_result in alone
    ]
    expected = [streams[0].evaluation_seed(40, episode) % 3 + 1 for episode in range(5)]
    assert [episode_result.length for episode_result in together if episode_result.row == 0] == expected
    assert [episode_result.ret for episode_result in together if episode_result.row == 0] == [
        float(length) for length in expected
    ]
    assert expected != [streams[0].evaluation_seed(41, episode) % 3 + 1 for episode in range(5)]


def test_subgoals_are_those_that_hold_when_the_episode_ends() -> None:
    class Parted(Countdown):
        def subgoals(self):
            return {"begun": True, "long": self.steps_left == 0 and self.first == 3}

        def reset(self, seed=None):
            observation = super().reset(seed)
            self.first = self.steps_left
            return observation

    episode_results = Evaluator(lambda row: Parted(), 12, [Streams(0)])(Fixed(True), 0, [0])
    assert {episode_result.length for episode_result in episode_results} == {1, 2, 3}
    assert all(
        episode_result.subgoals == {"begun": True, "long": episode_result.length == 3}
        for episode_result in episode_results
    )
    assert Evaluator(lambda row: Countdown(), 1, [Streams(0)])(Fixed(True), 0, [0])[0].subgoals == {}


def test_outcomes_are_the_tasks_numbers_when_the_episode_ends() -> None:
    class Counting(Countdown):
        def outcomes(self):
            return {"left": float(self.steps_left), "half": 0.5}

    episode_results = Evaluator(lambda row: Counting(), 3, [Streams(0)])(Fixed(True), 0, [0])
    assert [episode_result.outcomes for episode_result in episode_results] == [{"left": 0.0, "half": 0.5}] * 3
    assert Evaluator(lambda row: Countdown(), 1, [Streams(0)])(Fixed(True), 0, [0])[0].outcomes == {}


def test_asking_a_judge_during_evaluation_is_refused() -> None:
    class Asking(Fixed):
        def act(self, observation, ctx):
            ctx.ask(None)

    with pytest.raises(RuntimeError, match="not available during an evaluation"):
        Evaluator(lambda row: Countdown(), 1, [Streams(0)])(Asking(True), 0, [0])


@pytest.mark.parametrize(
    ("score", "worth"),
    [(Score("return"), 0.25), (Score("completion", low=0, high=1), 0.5), (Score("badges"), 7.0)],
)
def test_an_episode_is_worth_what_the_suite_names(score: Score, worth: float) -> None:
    class Ended:
        max_steps = 1

        def step(self, action: object) -> Step:
            return Step(np.zeros(1), 0.25, True, False, False)

        def reset(self, seed: int | None = None) -> object:
            return np.zeros(1)

        def position(self) -> bytes:
            return b"where it always is"

        def subgoals(self) -> dict[str, bool]:
            return {"key": True, "door": False}

        def score(self) -> float:
            return 7.0

    (episode_result,) = Evaluator(lambda row: Ended(), 1, [Streams(0)], score)(Fixed(True), 0, [0])  # type: ignore[arg-type, return-value]
    assert episode_result.score == worth and not episode_result.success


class Following(Fixed):
    """An agent whose actor records the solvers it is given."""

    def __init__(self) -> None:
        super().__init__(False)
        self.solved: list[int] = []

    def actor(self, places):
        outer = self

        class Follower(Memoryless):
            def follow(self, solvers):
                self.solvers = solvers

            def act(self, observation, numbers, ctx):
                outer.solved += [self.solvers[number]() for number in numbers.tolist()]
                return super().act(observation, numbers, ctx)

        return Follower(self)


def test_an_actor_follows_the_solver_of_each_of_its_episodes() -> None:
    agent, streams = Following(), [Streams(4), Streams(9)]
    evaluator = Evaluator(
        lambda row: Countdown(), 2, streams, solve=lambda row, task, seed: lambda: (row, seed, task.steps_left)
    )
    episode_results = evaluator(agent, 30, [0, 1])
    places = [(row, streams[row].evaluation_seed(30, episode)) for row in (0, 1) for episode in (0, 1)]
    assert [call[:2] for call in agent.solved[:4]] == places
    assert len(agent.solved) == sum(episode_result.length for episode_result in episode_results)


def test_an_agent_that_is_not_labelled_as_privileged_gets_no_solver() -> None:
    suite = registry.get("suite", "minigrid_doorkey")()
    solve = solving(registry.get("agent", "standard")(), lambda row: suite, "5x5")
    with pytest.raises(UserError, match="privileged; declare backend = 'oracle'"):
        Evaluator(lambda row: suite.make("5x5"), 1, [Streams(0)], solve=solve)(Following(), 0, [0])


def test_an_actor_sees_the_snapshot_of_the_state_that_its_episode_is_in() -> None:
    snapshots: list[tuple[int, bytes]] = []

    class Looking(Fixed):
        def actor(self, places):
            agent = self

            class Actor(Memoryless):
                def begin(self, observation, ctx):
                    snapshots.extend(
                        (place.episode, ctx.snapshot(place.row, place.episode).tobytes()) for place in places
                    )

            return Actor(agent)

    suite, streams = MiniGridDoorKey(), [Streams(3)]
    Evaluator(lambda row: suite.make("5x5"), 2, streams)(Looking(True), 50, [0])
    task = suite.make("5x5")
    for episode, shot in snapshots:
        task.reset(streams[0].evaluation_seed(50, episode))
        assert shot == task.snapshot().tobytes()
    assert len(snapshots) == 2 and snapshots[0][1] != snapshots[1][1]
