"""Relay: whose turn it is, what ends it, what the explorer learns from, and seeds that keep apart."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.agents.relay import COUNTS, Relay, RelayAgent, Turns, positives, success_steps
from guidebench.baselines.experience import Drawn
from guidebench.baselines.guides.none import Unguided
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learning import BaseLearner
from guidebench.harness import registry
from guidebench.harness.interfaces import Actions, Array, Draw, Episode, Mode, RunPhase, Update
from guidebench.harness.loop.evaluation import Evaluator
from guidebench.harness.loop.training import Loop
from guidebench.harness.plan import matrix
from guidebench.harness.run.estimates import Nowhere
from guidebench.harness.streams import Streams
from tests.baselines.learners.continuous import SMALL, Reach, batch, build
from tests.cell_views import cell_view
from tests.refusals import check_refused

STARTS = 10
TRAIN = RunPhase("train", 10_000)


def turns(period: int, enough: int = 100, until: str = "positives") -> Turns:
    counter = Turns(COUNTS[until], enough)
    counter.period = period
    return counter


def episode(counter: Turns, success: list[int]) -> list[int]:
    """Whether the explorer took each step."""
    explored = []
    for step in success:
        explored.append(int(counter.exploring))
        counter.step(bool(step))
    counter.end()
    return explored


@pytest.mark.parametrize(
    ("success", "positive", "successful"),
    [
        ([0, 0, 1, 1, 0, 1], 4, 3),  # steps 1 to 3, and one more
        ([0, 0, 0], 0, 0),
        ([1, 1, 1], 3, 3),
        ([0, 1], 2, 1),
        ([1, 0, 1, 1], 1, 3),
    ],
)
def test_steps_that_count(success: list[int], positive: int, successful: int) -> None:
    assert positives(np.array(success, bool)) == positive
    assert success_steps(np.array(success, bool)) == successful


def test_learner_and_explorer_act_in_turn_and_each_begins_every_other_episode() -> None:
    counter = turns(period=2)
    assert episode(counter, [0] * 5) == [0, 0, 1, 1, 0]
    assert counter.share == 2 / 5
    assert episode(counter, [0] * 5) == [1, 1, 0, 0, 1]
    assert counter.share == 3 / 5
    counter.period = 3
    assert episode(counter, [0] * 5) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("until", "after"), [("positives", [4, 8]), ("success_steps", [3, 6])])
def test_the_relay_ends_with_the_episode_that_reaches_the_count(until: str, after: list[int]) -> None:
    counter = turns(1, enough=after[1], until=until)
    assert episode(counter, [0, 0, 1, 1, 0, 1]) == [0, 1, 0, 1, 0, 1]
    assert (counter.collected, counter.over) == (after[0], False)
    assert episode(counter, [0, 0, 1, 1, 0, 1]) == [1, 0, 1, 0, 1, 0], "it goes on to the end of this episode"
    assert (counter.collected, counter.over) == (after[1], True)
    assert episode(counter, [1, 1, 1]) == [0, 0, 0]
    assert (counter.collected, counter.share) == (after[1], 0.0)


class Constant(BaseLearner):
    """A learner that acts by a fixed number and records its batches."""

    batch_size = 4

    def __init__(self, action: float) -> None:
        self.action = np.float32(action)
        self.batches: list[tuple[Array, Array]] = []
        self.acted: list[int] = []

    def act(self, observation: Array, rows: Array, explore: Any, step: int) -> Array:
        self.acted += rows.tolist()
        return np.full((len(rows), 2), self.action)

    def updates_due(self, step: int, phase_updates: int | None = None) -> int:
        return 2

    def update(self, batch: Any, active: Array, step: int, reducible: Any = None, losses: Any = ()) -> Update:
        self.batches.append((batch.reward.copy(), active.copy()))
        return Update(np.zeros_like(batch.reward), {"loss": np.full(len(active), float(self.action))})


class Doubled(BaseGuide):
    def shape(self, batch: Any) -> Any:
        return batch._replace(reward=2 * batch.reward)


def by_hand(seeds: tuple[int, ...], **settings: Any) -> tuple[RelayAgent, Any]:
    """An agent whose learner acts by 0.1 and whose explorer by 0.9, and a context at a step with noise."""
    config = Relay(**settings)
    run_build = build(seeds, actions=2, parts={"explorer": SimpleNamespace(learning_starts=STARTS)})
    batch_drawn = Drawn(Draw(np.zeros((len(seeds), 16), np.int64), None), sampled(seeds), np.ones(len(seeds), bool))
    experience: Any = SimpleNamespace(
        name="", judged=False, wants_reducible=None, store=None, sample=lambda *arguments: batch_drawn,
        feedback=lambda *arguments: None, metrics=lambda step: {}, spread=lambda batch_drawn: {},
    )  # fmt: skip
    learner: Any = Constant(0.1)
    explorer: Any = Constant(0.9)
    agent = RelayAgent(config, run_build, learner, explorer, experience, Doubled())
    rows = np.arange(len(seeds))
    return agent, SimpleNamespace(mode=Mode.TRAIN, step=STARTS + 1, rows=rows, streams=run_build.streams, phase=TRAIN)


def sampled(seeds: tuple[int, ...]) -> Any:
    singles = [batch(seed, actions=2) for seed in seeds]
    fields = ("observation", "action", "reward", "next_observation", "terminated")
    return singles[0]._replace(
        weight=None, **{name: np.concatenate([getattr(b, name) for b in singles]) for name in fields}
    )


def test_only_the_explorers_actions_are_noisy_and_they_are_clipped() -> None:
    agent, ctx = by_hand((3, 5), noise=0.5)
    agent.turns[1]._episodes = 1  # the explorer's turn in the second seed alone
    noise = Streams(5).named("relay/noise")
    explored = []
    for _ in range(20):
        actions = agent.act(np.zeros((2, 2), np.float32), ctx)
        assert actions.dtype == np.float32 and (actions[0] == np.float32(0.1)).all()
        expected = np.float32(0.9) + np.float32(0.5) * noise.standard_normal(2, np.float32)
        assert (actions[1] == expected.clip(-1, 1)).all()
        explored.append(actions[1])
    assert np.max(explored) == 1.0 and np.min(explored) < 0.9
    assert agent.learner.acted == [0] * 20 and agent.explorer.acted == [1] * 20
    assert ctx.streams[0].named("relay/noise").random() == Streams(3).named("relay/noise").random(), "drawn of no other"


def test_random_actions_at_the_beginning_get_no_noise() -> None:
    agent, ctx = by_hand((5,))
    agent.turns[0]._episodes, ctx.step = 1, STARTS
    assert (agent.act(np.zeros((1, 2), np.float32), ctx) == np.float32(0.9)).all()
    assert ctx.streams[0].named("relay/noise").random() == Streams(5).named("relay/noise").random()


def test_an_evaluation_is_the_learners_alone() -> None:
    agent, ctx = by_hand((5,))
    agent.turns[0]._episodes, ctx.mode = 1, Mode.EVALUATE
    assert (agent.act(np.zeros((1, 2), np.float32), ctx) == np.float32(0.1)).all()


def test_the_period_of_each_episode_is_drawn_from_the_set_by_the_seed() -> None:
    def drawn(seeds: tuple[int, ...], row: int) -> list[int]:
        agent, ctx = by_hand(seeds)
        periods = []
        for _ in range(40):
            agent.begin(np.array([row]), np.zeros((1, 2)), ctx)
            periods.append(agent.turns[row].period)
        return periods

    alone = drawn((4,), 0)
    assert {*alone} == {50, 100, 150, 200}
    assert drawn((9, 4), 1) == alone != drawn((9, 4), 0)


def test_the_explorer_learns_from_the_batch_as_it_was_before_the_guide_and_only_while_it_relays() -> None:
    agent, ctx = by_hand((3, 5))
    metrics = agent.update(ctx)
    reward = sampled((3, 5)).reward
    assert [(rewards == 2 * reward).all() for rewards, _ in agent.learner.batches] == [True, True], "two steps were due"
    assert [(rewards == reward).all() for rewards, _ in agent.explorer.batches] == [True, True]
    assert metrics["loss"].tolist() == pytest.approx([0.1, 0.1])
    assert metrics["explorer/loss"].tolist() == pytest.approx([0.9, 0.9])
    agent.turns[0].over = True
    metrics = agent.update(ctx)
    assert agent.explorer.batches[-1][1].tolist() == [False, True] and agent.learner.batches[-1][1].all()
    assert np.isnan(metrics["explorer/loss"][0]) and metrics["relay/over"].tolist() == [1, 0]
    agent.turns[1].over = True
    before = len(agent.explorer.batches)
    assert not any(name.startswith("explorer/") for name in agent.update(ctx))
    assert len(agent.explorer.batches) == before


def test_gradient_steps_that_a_guide_takes_further_are_the_learners_alone() -> None:
    agent, ctx = by_hand((3, 5))
    agent.experience.sampler = SimpleNamespace(state=lambda row: {}, load_state=lambda row, state: None)
    agent.guide.before_update = lambda store, learner, ctx: np.array([3, 1])
    agent.update(ctx)
    assert [active.tolist() for _, active in agent.learner.batches] == [[1, 1], [1, 0], [1, 0], [1, 1], [1, 1]]
    assert [active.tolist() for _, active in agent.explorer.batches] == [[1, 1], [1, 1]]


def test_a_dataset_and_demonstrations_are_no_turns() -> None:
    agent, ctx = by_hand((3,))
    agent.experience.add = lambda transition, ctx: 0
    transition: Any = SimpleNamespace(success=np.array([True]))
    agent.observe(transition, SimpleNamespace(phase=RunPhase("none", 0, "none")))
    assert len(agent.turns[0].state()["success"]) == 0
    agent.observe(transition, ctx)
    agent.end([Episode(0, 1.0, 1, True)], ctx)
    assert agent.turns[0].collected == 1


def trained(seeds: tuple[int, ...], path: Path, steps: int, **settings: Any) -> tuple[RelayAgent, Loop]:
    """SAC as learner and as explorer after so many steps of Reach."""
    config = Relay(**settings)
    parts: Mapping[str, Any] = {
        "agent": config, "learner": Sac(**SMALL), "explorer": Sac(**SMALL), "guide": Unguided(),
        "replay": registry.get("replay", "uer")(),
    }  # fmt: skip
    run_build = build(seeds, path=path, parts=parts)
    for directory in run_build.directories:
        directory.mkdir(parents=True)
    agent: Any = config.spawn(run_build)
    tasks = [Reach() for _ in seeds]
    for task, streams in zip(tasks, run_build.streams, strict=True):
        task.reset(int(streams.environment.integers(2**31)))
        task.reset()
    loop = Loop(
        agent, tasks, run_build.streams, Evaluator(lambda row: Reach(), 1, run_build.streams), Nowhere(),
        evaluate_every=10_000, checkpoint_every=10_000,
    )  # fmt: skip
    loop._observation = np.stack([task.observation.copy() for task in tasks])
    for _ in range(steps):
        loop.advance(TRAIN)
    return agent, loop


def leaves(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: leaves(value) for key, value in state.items()}
    return (state.dtype, state.shape, state.tobytes()) if isinstance(state, np.ndarray) else state


def test_after_the_relay_the_explorer_neither_acts_nor_learns(tmp_path: Path) -> None:
    agent, loop = trained((0,), tmp_path, 100, periods=(5,), enough=1)
    (turn,) = agent.turns
    assert turn.over
    explorer, streams = leaves(agent.explorer.state(0)), leaves(agent._branches[0].state())
    learner = leaves(agent.learner.state(0))
    for _ in range(60):
        loop.advance(TRAIN)
        assert not turn.exploring
    assert leaves(agent.explorer.state(0)) == explorer and leaves(agent._branches[0].state()) == streams
    assert leaves(agent.learner.state(0)) != learner
    assert turn.share == 0.0


def test_the_explorer_differs_from_the_learner_and_moves(tmp_path: Path) -> None:
    first, _ = trained((0,), tmp_path / "first", 1)
    agent, _ = trained((0,), tmp_path / "later", 60)
    for first_learner, second_learner in ((agent.learner, agent.explorer), (agent.explorer, first.explorer)):
        parameters, others = first_learner.parameters(0), second_learner.parameters(0)
        assert any((parameters[name] != others[name]).any() for name in parameters)


def test_a_seed_is_the_same_beside_others_whose_relay_ends_at_another_time(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"periods": (3, 5, 8), "enough": 12, "until": "success_steps"}
    together, both = trained((0, 1, 2), tmp_path / "together", 140, **settings)
    assert {turns.over for turns in together.turns} == {False, True}
    for row in (0, 2):
        _, alone = trained((row,), tmp_path / f"alone-{row}", 140, **settings)
        assert leaves(alone.state(0) | {"clock": None}) == leaves(both.state(row) | {"clock": None})


def test_what_does_not_fit_is_refused() -> None:
    parts: dict[str, Any] = {
        "learner": Sac(**SMALL),
        "explorer": Sac(**SMALL),
        "replay": registry.get("replay", "uer")(),
    }
    continuous = Actions(shape=(2,))
    assert Relay().fits(cell_view(parts, actions=continuous)) == ""
    assert "explorer's actions, so it needs continuous ones" in Relay().fits(cell_view(parts))
    for name, value in {"batch_size": 8, "learning_starts": 20, "utd": 2}.items():
        parts["explorer"] = dataclasses.replace(Sac(**SMALL), **{name: value})
        assert f"learner.{name}={SMALL[name]} differs from explorer.{name}={value}" in Relay().fits(
            cell_view(parts, actions=continuous)
        )
    steps = dataclasses.make_dataclass("Steps", [("n_step", int, 3)], bases=(Sac,), frozen=True)
    parts |= {"learner": steps(**SMALL), "explorer": steps(**{**SMALL, "discount": 0.5})}
    assert "the same n-step returns" in Relay().fits(cell_view(parts, actions=continuous))
    check_refused(r"agent\.periods=\[\]", Relay, periods=())


METHOD = """
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register

    register.method("relaying")(
        Method(summary="SAC with an explorer", agent="relay", roles={"explorer": "sac"}, citation="% a test")
    )
"""
CORRIDOR = Path(__file__).parents[2] / "harness" / "corridor.py"


@pytest.fixture
def relaying(plugin: Callable[..., Path]) -> None:
    plugin("corridor", CORRIDOR.read_text(), {"suite": "seen_corridor"})
    plugin("relaying", METHOD, {"method": "relaying"})


def words(*more: str) -> tuple[str, ...]:
    small = ("hidden=[8]", "batch_size=8", "learning_starts=40", "ensemble=2", "utd=1", "actor_utd=1")
    sizes = [f"{role}.{setting}" for role in ("learner", "explorer") for setting in small]
    return ("suite=seen_corridor", "task=slides", *sizes, "agent.periods=[2,3]", *more)


def test_discrete_actions_are_refused_as_a_command_is_planned(relaying: None) -> None:
    check_refused(
        "needs continuous ones, and these are 2 discrete ones",
        matrix.plan,
        ["method=relaying", "suite=seen_corridor", "profile=smoke", "task=steps", "learner=dqn", "explorer=dqn"],
    )


@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_what_a_suite_sets_of_a_learner_holds_for_the_explorer_too(relaying: None, profile: str) -> None:
    command = ["method=relaying", "suite=point_maze", "task=umaze", f"profile={profile}", "explorer.discount=0.9"]
    (cell,) = matrix.plan(command).cells
    learner = cell.section("learner")
    assert cell.section("explorer") == dataclasses.replace(learner, discount=0.9) != learner
    assert learner.batch_size == {"paper": 512, "quick": 256, "smoke": 32}[profile]
