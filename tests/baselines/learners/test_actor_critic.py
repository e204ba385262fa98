"""What holds for SAC and TD3 alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.agents.standard import Standard
from guidebench.baselines.guides.none import Unguided
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.baselines.replay.per import Per
from guidebench.baselines.replay.uer import Uer
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.loop.evaluation import Evaluator
from guidebench.harness.loop.training import Loop
from tests.baselines.learners.conftest import beside, same
from tests.baselines.learners.continuous import SMALL, Reach, batch, build
from tests.cell_views import cell_view
from tests.harness.loop.memory_journal import MemoryJournal
from tests.refusals import check_refused

BOTH = pytest.mark.parametrize("learner_of", [Sac, Td3])


def all_active(learner: Any) -> np.ndarray:
    return np.ones(len(learner.noise), bool)


@BOTH
def test_a_reset_gives_the_chosen_seeds_new_critics_from_their_own_stream_and_leaves_the_rest(learner_of: type) -> None:
    config = learner_of(**SMALL)
    learner, alone = config.spawn(build((0, 1))), config.spawn(build((1,)))
    for step in range(1, 4):
        learner.update(beside(batch(step), batch(50 + step)), all_active(learner), step)
        alone.update(batch(50 + step), np.ones(1, bool), step)
    first = config.spawn(build((1,))).state(0)["critic"]
    before = [learner.state(row) for row in range(2)]
    learner.reset("critic", np.array([False, True]))
    alone.reset("critic", np.ones(1, bool))
    after = learner.state(1)
    assert same(before[0], learner.state(0)) and same(after, alone.state(0))
    assert same(after["critic"], after["target"])
    assert not same(after["critic"], before[1]["critic"]) and not same(after["critic"], first)
    assert same(after["actor"], before[1]["actor"]) and same(after["actor_optimiser"], before[1]["actor_optimiser"])
    fresh = config.spawn(build((1,))).state(0)["critic_optimiser"]
    assert same(after["critic_optimiser"], fresh)
    check_refused("unknown part of this learner to be reset: 'actor'", learner.reset, "actor", all_active(learner))


@BOTH
def test_targets_move_after_every_nth_update_that_may_move_them_also_after_a_resume(learner_of: type) -> None:
    config = learner_of(**{**SMALL, "policy_frequency": 1}, target_frequency=3)
    learner = config.spawn(build())
    moved = []
    for step in range(1, 10):
        before = learner.target.flat.clone()
        learner.update(batch(step), np.ones(1, bool), step)
        moved.append(not torch.equal(before, learner.target.flat))
        resumed = config.spawn(build())
        resumed.load_state(0, learner.state(0))
        learner = resumed
    assert moved == [False, False, True] * 3


def test_td3_counts_the_updates_that_are_the_actors() -> None:
    learner = Td3(**SMALL, target_frequency=2).spawn(build())
    due = [bool(learner.targets_due(acts, np.ones(1, bool))[0]) for acts in (True, False, True, False, True, True)]
    assert due == [False, False, True, False, False, True]


@BOTH
def test_each_seeds_gradient_is_clipped_by_its_own_norm(learner_of: type) -> None:
    """A reward of 1000 makes seed 1's gradient long; seed 0's is the same as without a limit."""
    config = learner_of(**{**SMALL, "max_grad_norm": 10.0})
    learner, free = config.spawn(build((0, 1))), learner_of(**{**SMALL, "max_grad_norm": None}).spawn(build((0, 1)))
    joint = beside(batch(0), batch(1))
    joint.reward[1] = 1000
    norms, unlimited = (
        candidate.update(joint, np.ones(2, bool), 1).metrics["grad_norm"] for candidate in (learner, free)
    )
    assert np.array_equal(norms, unlimited) and norms[0] < 10 < norms[1]
    gradient, unclipped = learner.gradients[1].flat, free.gradients[1].flat
    assert torch.equal(gradient[0], unclipped[0])
    torch.testing.assert_close(gradient[1], unclipped[1] * 10 / norms[1], rtol=1e-4, atol=1e-6)


def test_targets_move_by_their_share_after_every_update_of_sac_and_with_the_actor_in_td3() -> None:
    """θ̄ ← τθ + (1 − τ)θ̄ with τ = ¼."""
    for config, moves in ((Sac(**SMALL, target_rate=0.25), (1, 2, 3, 4)), (Td3(**SMALL, target_rate=0.25), (2, 4))):
        learner: Any = config.spawn(build())
        for step in range(1, 5):
            before = learner.target.flat.clone()
            learner.update(batch(step), all_active(learner), step)
            expected = 0.25 * learner.critic.flat + 0.75 * before if step in moves else before
            torch.testing.assert_close(learner.target.flat, expected)


def test_the_actor_follows_evenly_spaced_updates_on_every_nth_step() -> None:
    """Four updates a step, the actor after the second and fourth; on every second step only for TD3 (table 2)."""
    assert (Td3().utd, Td3().actor_utd, Td3().policy_frequency, Sac().policy_frequency) == (4, 2, 2, 1)
    small = {**SMALL, "utd": 4, "actor_utd": 2}
    for config, on in ((Sac(**small), (1, 2, 3)), (Td3(**small), (2,))):
        learner: Any = config.spawn(build())
        assert [learner.updates_due(step) for step in (15, 16, 17)] == [0, 4, 4]
        for step in (1, 2, 3):
            updates = [learner.update(batch(step), all_active(learner), step).metrics for _ in range(4)]
            assert ["actor_loss" in metrics for metrics in updates] == [False, step in on, False, step in on]
    learner = Sac(**{**SMALL, "utd": 3, "actor_utd": 2}).spawn(build())
    assert [learner.actor_due(1) for _ in range(3)] == [False, True, True]


def test_a_targets_critics_are_distinct_and_drawn_anew_by_each_seeds_own_stream() -> None:
    learner: Any = Sac(**{**SMALL, "ensemble": 4, "subset": 2}).spawn(build((0, 1)))
    joint = beside(batch(0), batch(1))
    drawn = np.stack([learner.sample(joint, slice(0, 2), False).chosen.numpy() for _ in range(600)])
    assert (drawn[:, :, 0] != drawn[:, :, 1]).all() and not np.array_equal(drawn[:, 0], drawn[:, 1])
    pairs, counts = np.unique(np.sort(drawn.reshape(-1, 2), 1), axis=0, return_counts=True)
    assert len(pairs) == 6 and counts.min() > 150  # 200 of 1,200 expected, deviation 13
    assert Sac(**{**SMALL, "ensemble": 2}).spawn(build()).sample(batch(0), slice(0, 1), False).chosen is None


def test_random_until_learning_starts_then_by_the_policy() -> None:
    learner: Any = Td3(**{**SMALL, "hidden": ()}).spawn(build())
    learner.load_parameters(0, {**learner.parameters(0), "actor.0.weight": np.zeros((2, 1)), "actor.0.bias": [0.5]})
    rng, observation, rows = [np.random.default_rng(0)], np.zeros((1, 2), np.float32), np.zeros(1, int)
    early = np.array([learner.act(observation, rows, rng, 16) for _ in range(2000)])
    assert np.abs(early).max() <= 1 and early.std() == pytest.approx(1 / np.sqrt(3), abs=0.02)
    late = np.array([learner.act(observation, rows, rng, 17) for _ in range(2000)])
    assert late.mean() == pytest.approx(np.tanh(0.5), abs=0.01) and late.std() == pytest.approx(0.1, abs=0.01)
    assert learner.act(observation, rows, None, 0) == pytest.approx(np.tanh(0.5))


@BOTH
def test_what_does_not_fit_is_refused_with_both_numbers(learner_of: type) -> None:
    vector, box = Observations((4,), "float32"), Actions(shape=(2,))
    assert learner_of().fits(cell_view(None, "", vector, box)) == ""
    assert "continuous actions, and these are 3" in learner_of().fits(cell_view(None, "", vector, Actions(3)))
    assert learner_of().fits(cell_view(None, "", Observations((5, 5, 3), "uint8", (11, 6, 4)), box)) == ""
    assert "vector of floats" in learner_of().fits(cell_view(None, "", Observations((5, 5), "float32"), box))
    check_refused(r"subset=3 .*ensemble=2", learner_of, ensemble=2, subset=3)
    check_refused(r"actor_utd=2 .*utd=1", learner_of, utd=1)
    check_refused(r"batch_size=256 .*learning_starts=100", learner_of, learning_starts=100)


@BOTH
def test_the_encoder_is_the_actors_hidden_layers(learner_of: type) -> None:
    config = learner_of(**SMALL)
    shapes = [spec.shape for spec in config.encoder(Observations((2,), "float32")).specs().values()]
    assert shapes == [spec.shape for spec in config.actor(build().observations, build().actions).specs().values()][:4]
    assert config.encoder_width(Observations((2,), "float32")) == 16


def run(
    path: Path,
    seeds: tuple[int, ...],
    learner: Any,
    steps: int,
    replay: Any = None,
    spoil: Any = None,
    guide: Any = None,
) -> Any:
    """Run the line task to the end; return the agent, its notes and the loop."""
    parts = {"learner": learner, "guide": guide or Unguided(), "replay": replay or Uer()}
    run_build = build(seeds, path=path, steps=steps, parts=parts)
    agent, notes = Standard().spawn(run_build), MemoryJournal()
    notes.rows = len(seeds)
    if spoil:
        spoil(agent, notes)
    tasks = [Reach() for _ in seeds]
    for task, streams in zip(tasks, run_build.streams, strict=True):
        task.reset(int(streams.environment.integers(2**31)))
    loop = Loop(
        agent, tasks, run_build.streams, Evaluator(lambda row: Reach(), 5, run_build.streams), notes,
        evaluate_every=steps // 4, checkpoint_every=steps,
    )  # fmt: skip
    loop.run()
    return agent, notes


@BOTH
def test_the_line_is_learnt(tmp_path: Path, learner_of: type) -> None:
    """Standing still returns −20 · 2/3 on average; going there at 0.3 a step about −1."""
    config = learner_of(
        hidden=(16, 16), batch_size=32, learning_starts=100, ensemble=2, utd=1, actor_utd=1, critic_lr=1e-2,
        actor_lr=1e-2,
    )  # fmt: skip
    _, notes = run(tmp_path, (0,), config, 600)
    assert np.mean([row[3] for row in notes.evaluations if row[0] == 600]) > -6.0


@pytest.mark.parametrize("quantity", ["loss", "grad_norm", "action"])
def test_a_seed_with_a_nan_stops_and_the_other_goes_on_as_if_alone(tmp_path: Path, quantity: str) -> None:
    stopped = []

    def spoil(agent: Any, notes: Any) -> None:
        notes.diverged = lambda row, step: stopped.append((row, step))
        update, act = agent.learner.update, agent.learner.act

        def spoilt_update(batch: Any, active: Any, step: int, *more: Any) -> Any:
            outcome = update(batch, active, step, *more)
            if step == 60 and quantity != "action":
                outcome.metrics[quantity][0] = np.nan
            return outcome

        def spoilt_act(observation: Any, rows: Any, explore: Any, step: int) -> Any:
            actions = act(observation, rows, explore, step)
            if explore is not None and step >= 60 and quantity == "action":
                actions[0] = np.nan
            return actions

        agent.learner.update, agent.learner.act = spoilt_update, spoilt_act

    both, notes = run(tmp_path / "both", (0, 1), Sac(**SMALL), 120, spoil=spoil)
    alone, _ = run(tmp_path / "alone", (1,), Sac(**SMALL), 120)
    assert stopped == [(0, 60)] and both.active.tolist() == [False, True]
    assert [(step, row) for step, row, *_ in notes.evaluations if step != 60] == [
        *((30, row) for row in (0, 1) for _ in range(5)), *((step, 1) for step in (90, 120) for _ in range(5)),
    ]  # fmt: skip
    assert same(both.learner.state(1), alone.learner.state(0))


def test_the_time_of_an_update_counts_every_evaluation_and_gradient() -> None:
    """Actor 2·4 + 4·2 = 16 (SAC's last layer gives 2), critic 3·4 + 4·1 = 16: 16 + (2 + 3·3)·16 for the critics, and
    on half of the updates 3·16 + 2·3·16 for the actor."""
    config = Sac(hidden=(4,), ensemble=3, utd=4, actor_utd=2)
    spaces = Observations((2,), "float32"), Actions(shape=(1,))
    assert config.multiplications_to_act(*spaces) == 16
    assert config.multiplications_to_learn(*spaces) == 16 + 11 * 16 + 0.5 * (48 + 96)
    assert config.seconds_per_step(*spaces) > config.utd * config.overhead_of_update
    assert config.seconds_per_action(*spaces) < config.seconds_per_step(*spaces)


class Resetting(Unguided):
    """A guide that resets each seed's critics once, at that seed's step, and then asks for further updates."""

    def __init__(self, when: dict[int, int], further: dict[int, int]) -> None:
        self.when, self.further = when, further

    def spawn(self, build: Any) -> Any:
        part = self

        class Guide(BaseGuide):
            def before_update(self, store: Any, learner: Any, ctx: Any) -> Any:
                chosen = np.array([part.when.get(seed) == ctx.step for seed in build.seeds])
                if chosen.any():
                    learner.reset("critic", chosen)
                return np.where(chosen, [part.further.get(seed, 0) for seed in build.seeds], 0)

        return Guide()


@pytest.mark.parametrize(("learner", "replay"), [(Td3, Uer()), (Sac, Per())])
def test_updates_after_a_reset_reach_the_seeds_that_were_reset_alone(
    tmp_path: Path, learner: type, replay: Any
) -> None:
    """Seeds begin anew at different steps, with different numbers of updates, seed 5 never does: each is the run that
    it is alone."""
    config = learner(
        **{**SMALL, "learning_starts": 40, "policy_frequency": 2, "utd": 1, "actor_utd": 1}, target_frequency=3
    )
    guide = Resetting({1: 61, 7: 74}, {1: 7, 7: 5})
    together, _ = run(tmp_path / "all", (1, 5, 7), config, 100, replay, guide=guide)
    for row, seed in enumerate((1, 5, 7)):
        alone, _ = run(tmp_path / str(seed), (seed,), config, 100, replay, guide=guide)
        assert same(together.learner.state(row), alone.learner.state(0)), seed
        assert same(together.experience.sampler.state(row), alone.experience.sampler.state(0)), seed


@pytest.mark.parametrize("step", [60, 61])
def test_td3_delays_its_actor_among_the_updates_after_a_reset_whatever_the_step(tmp_path: Path, step: int) -> None:
    config = Td3(**{**SMALL, "learning_starts": 40, "policy_frequency": 2, "utd": 1, "actor_utd": 1})
    updates: list[bool] = []

    def spoil(agent: Any, notes: Any) -> None:
        update = agent.learner.update

        def watched(batch: Any, active: Any, at: int, *rest: Any) -> Any:
            outcome = update(batch, active, at, *rest)
            updates.append("actor_loss" in outcome.metrics)
            return outcome

        agent.learner.update = watched

    run(tmp_path, (0,), config, 80, spoil=spoil, guide=Resetting({0: step}, {0: 6}))
    before = step - 40
    usual = [(40 + number) % 2 == 0 for number in range(41)]
    assert updates == [*usual[:before], True, False, True, False, True, False, *usual[before:]]
