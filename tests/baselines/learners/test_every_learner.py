"""What holds for every learner: a seed learns the same bits alone, beside others and after a resume."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.bc import Bc
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.learners.q_learning import QLearning
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.baselines.parameters import Parameters
from guidebench.baselines.returns import RETURN
from guidebench.harness.interfaces import Batch, Build, Observations
from guidebench.harness.streams import Streams
from tests.baselines.learners import conftest, continuous
from tests.baselines.learners.conftest import GRID, RECORD, VECTOR, beside, observed, same

IMAGE = Observations((7, 7, 2), "uint8", stack=2)
ODD, LONG = Observations((5,), "float32"), Observations((17,), "float32")
SMALL = {"batch_size": 8, "channels": 8, "features": 16, "hidden": (9,), "lr": 1e-3}
WIDE = {"batch_size": 64, "hidden": (256, 256)}
QUANTILES = {"train_quantiles": 5, "target_quantiles": 11, "policy_quantiles": 3, "cosines": 9}
CONTINUOUS = continuous.SMALL
CASES: dict[str, tuple[Any, Observations]] = {
    "dqn, grid": (Dqn(**SMALL), GRID),
    "dqn, record": (Dqn(**SMALL, target_every=2), RECORD),
    "dqn, wide": (Dqn(**WIDE, lr=1e-3), Observations((4,), "float32")),
    "dueling, odd": (DuelingDqn(batch_size=33, trunk=(31,), hidden=(7, 5), lr=1e-3), ODD),
    "dueling, record": (DuelingDqn(**SMALL, trunk=(9,)), RECORD),
    "iqn, odd": (Iqn(batch_size=33, hidden=(31, 7), **QUANTILES), ODD),
    "iqn, record": (Iqn(**SMALL), RECORD),
    "sac": (Sac(**CONTINUOUS), VECTOR),
    "sac, odd": (
        Sac(**{**CONTINUOUS, "hidden": (31, 7), "batch_size": 13, "ensemble": 5}, target_reduction="min"),
        ODD,
    ),
    "sac, grid": (Sac(**CONTINUOUS), Observations((3, 4, 2), "uint8", (5, 3))),
    "sac, record": (Sac(**CONTINUOUS), RECORD),
    "td3, wide": (Td3(**{**CONTINUOUS, **WIDE, "learning_starts": 64}), LONG),
    "td3, image": (Td3(**CONTINUOUS), IMAGE),
    "td3, record": (Td3(**CONTINUOUS), RECORD),
    "bc": (Bc(hidden=(16,), batch_size=16, max_grad_norm=1.0), VECTOR),
    "bc, record": (Bc(hidden=(16,), batch_size=16, loss="nll", max_grad_norm=1.0), RECORD),
    "cal_ql, odd": (CalQl(**{**CONTINUOUS, "hidden": (31, 7), "ensemble": 2, "cql_actions": 3}), ODD),
    "cal_ql, linear": (CalQl(**{**CONTINUOUS, "hidden": (), "ensemble": 2}, initialisation="uniform"), VECTOR),
    "cal_ql, cloning": (CalQl(**{**CONTINUOUS, "ensemble": 2, "cql_actions": 3}, bc_weight=4.0), VECTOR),
    "cal_ql, record": (CalQl(**{**CONTINUOUS, "ensemble": 2, "cql_actions": 3}), RECORD),
}
KINDS = ("dqn, grid", "dueling, odd", "iqn, odd", "sac", "td3, image", "bc", "cal_ql, odd")


def spawn(config: Any, space: Observations, seeds: tuple[int, ...], streams: Sequence[Streams] = ()) -> Any:
    """Return the learner of these seeds, with three discrete actions or two continuous ones."""
    if isinstance(config, QLearning):
        return conftest.make(config, space, 3, seeds, streams=streams)
    build = continuous.build(seeds, observations=space, actions=2)
    return config.spawn(Build(**{**vars(build), "streams": streams or build.streams}))


def batch(config: Any, space: Observations, seed: int, step: int) -> Batch:
    """Return a seed's transitions [1, B, …] of a step."""
    if isinstance(config, QLearning):
        return conftest.batches(space, 100 * seed + step, config.batch_size, 3, 1)[0]
    rng = np.random.default_rng(100 * seed + step)
    observation, following = (observed(space, rng, 1, config.batch_size) for _ in range(2))
    returns = rng.standard_normal((1, config.batch_size)).astype(np.float32)
    transitions = continuous.batch(100 * seed + step, config.batch_size, actions=2)
    return transitions._replace(
        observation=observation,
        next_observation=following,
        columns={RETURN.name: returns},
        from_dataset=rng.random((1, config.batch_size)) < 0.5,
    )


def joined(*single: Batch) -> Batch:
    names = single[0].columns or {}
    columns = {name: np.concatenate([part.columns[name] for part in single]) for name in names}
    marks = [part.from_dataset for part in single if part.from_dataset is not None]
    return beside(*single)._replace(columns=columns, from_dataset=np.concatenate(marks) if marks else None)


def update(learner: Any, transitions: Batch, step: int, active: Sequence[bool] | None = None) -> Any:
    active = [True] * len(transitions.reward) if active is None else active
    return learner.update(transitions, np.array(active), step, None if isinstance(learner.config, Bc) else "error")


@pytest.mark.parametrize("case", CASES)
def test_a_seed_learns_the_same_bits_alone_and_beside_others_and_after_a_resume(case: str) -> None:
    config, space = CASES[case]
    streams, rows, first_row = [Streams(seed) for seed in range(3)], np.arange(3), np.zeros(1, int)
    together = spawn(config, space, (0, 1, 2))
    alone = [spawn(config, space, (seed,), [streams[seed]]) for seed in range(3)]
    for step in range(1, 6):
        parts = [batch(config, space, seed, step) for seed in range(3)]
        packed = update(together, joined(*parts), step)
        assert packed.td_error.dtype == np.float32 and packed.td_error.shape == (3, config.batch_size)
        for row in range(3):
            single = update(alone[row], parts[row], step)
            assert np.array_equal(packed.td_error[row], single.td_error[0])
            assert packed.reducible is None or np.array_equal(packed.reducible[row], single.reducible[0])
            assert same({name: metric[[row]] for name, metric in packed.metrics.items()}, dict(single.metrics))
        if step == 3:
            resumed = spawn(config, space, (7,), [streams[1]])
            resumed.load_state(0, alone[1].state(0))
            alone[1] = resumed
    assert all(same(together.state(row), alone[row].state(0)) for row in range(3))
    assert not same(together.state(0), together.state(1))
    observations = np.concatenate([part.observation[:, 0] for part in parts])
    acted = together.act(observations, rows, [np.random.default_rng(seed) for seed in range(3)], 500)
    valued, fresh = together.value(observations, rows), spawn(config, space, (9,))
    for row in range(3):
        observation = observations[[row]]
        assert np.array_equal(acted[[row]], alone[row].act(observation, first_row, [np.random.default_rng(row)], 500))
        fresh.load_parameters(0, together.parameters(row))
        assert np.array_equal(
            fresh.act(observation, first_row, None, 0), together.act(observation, first_row + row, None, 0)
        )
        assert np.array_equal(fresh.value(observation, first_row), valued[[row]], equal_nan=True)


@pytest.mark.parametrize("case", KINDS)
def test_one_seeds_nan_stays_with_it_and_an_inactive_seed_keeps_everything(case: str) -> None:
    config, space = CASES[case]
    clean, spoilt = (spawn(config, space, (0, 1, 2)) for _ in range(2))
    for step in range(1, 4):
        good = joined(*(batch(config, space, seed, step) for seed in range(3)))
        wrong = "action" if isinstance(config, Bc) else "reward"
        bad = getattr(good, wrong).copy()
        bad[1, 3] = np.nan
        update(clean, good, step)
        outcome = update(spoilt, good._replace(**{wrong: bad}), step)
        assert np.isnan(outcome.metrics["loss"]).tolist() == [False, True, False]
    assert [same(clean.state(row), spoilt.state(row)) for row in range(3)] == [True, False, True]
    before = [clean.state(row) for row in range(3)]
    update(clean, good, 4, [True, False, True])
    assert [same(before[row], clean.state(row)) for row in range(3)] == [False, True, False]


@pytest.mark.parametrize("case", KINDS)
def test_all_seeds_at_once_compute_what_each_does(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All seeds and members in one product, as on a GPU."""
    config, space = CASES[case]
    transitions = joined(*(batch(config, space, seed, 1) for seed in range(3)))
    one_by_one = spawn(config, space, (0, 1, 2))
    for module in ("actor_critic", "bc", "q_learning", "sac"):
        path = f"guidebench.baselines.learners.{module}.learner.Parameters"
        monkeypatch.setattr(path, functools.partial(Parameters, together=True))
    together = spawn(config, space, (0, 1, 2))
    ours, expected = (update(candidate, transitions, 2) for candidate in (together, one_by_one))
    close = functools.partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5)
    assert ours.metrics.keys() == expected.metrics.keys() and together.state(0).keys() == one_by_one.state(0).keys()
    for name in expected.metrics:
        close(ours.metrics[name], expected.metrics[name], err_msg=name)
    close(ours.td_error, expected.td_error)
    close(0 if ours.reducible is None else ours.reducible, 0 if expected.reducible is None else expected.reducible)
    for first, second in zip(gradients(together), gradients(one_by_one), strict=True):
        torch.testing.assert_close(first.flat, second.flat, atol=1e-5, rtol=1e-5)


def gradients(learner: Any) -> list[Parameters]:
    """The gradients of a learner's networks."""
    buffers = getattr(learner, "gradients", None) or [learner.gradient]
    return [*(buffers.values() if isinstance(buffers, dict) else buffers)]


@pytest.mark.parametrize(("case", "space"), [*zip(KINDS, itertools.cycle([GRID, VECTOR, IMAGE]))])
def test_one_named_part_is_learnt_from_as_the_array_itself_to_the_bit(case: str, space: Observations) -> None:
    config = CASES[case][0]
    parts = Observations(parts={"x": space})

    def named(array: np.ndarray) -> np.ndarray:
        records = np.zeros(array.shape[: array.ndim - len(space.shape)], parts.numpy)
        records["x"] = array
        return records

    flat, part = (spawn(config, observations, (5,)) for observations in (space, parts))
    for step in range(1, 4):
        transitions = batch(config, space, 1, step)
        outcome = update(flat, transitions, step)
        observation, following = named(transitions.observation), named(transitions.next_observation)
        again = update(part, transitions._replace(observation=observation, next_observation=following), step)
        assert np.array_equal(outcome.td_error, again.td_error) and same(dict(outcome.metrics), dict(again.metrics))
    rows = np.zeros(config.batch_size, int)
    assert np.array_equal(flat.act(transitions.observation[0], rows, None, 0), part.act(observation[0], rows, None, 0))
    first, second = flat.parameters(0), part.parameters(0)
    assert all(np.array_equal(*pair) for pair in zip(first.values(), second.values(), strict=True))


DEFAULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"{config.__name__}, VLM-RB, table 3": (config(), {
        "lr": 4e-5, "batch_size": 128, "discount": 0.95, "max_grad_norm": 1.0, "target_every": 1000, "target_rate": 1.0,
        "learning_starts": 500, "train_every": 4, "epsilon_start": 1.0, "epsilon_end": 0.05, "exploration_share": 0.5,
        "double": True,
    }) for config in (Dqn, Iqn)},
    "IQN, quantiles": (Iqn(), {
        "policy_quantiles": 32, "train_quantiles": 64, "target_quantiles": 64, "cosines": 64, "kappa": 1.0,
    }),
    "SAC, VLM-RB, table 2": (Sac(), {
        "hidden": (512, 512, 512), "layer_norm": True, "critic_lr": 3e-4, "actor_lr": 1e-3, "alpha_lr": 3e-4,
        "batch_size": 256, "discount": 0.99, "target_rate": 0.005, "max_grad_norm": 10, "learning_starts": 10_000,
        "ensemble": 10, "subset": 2, "utd": 4, "actor_utd": 2, "target_reduction": "mean", "actor_reduction": "mean",
        "policy_frequency": 1, "alpha": 1, "target_entropy_scale": 0.5, "tune_alpha": True,
    }),
    "TD3, VLM-RB, table 2": (Td3(), {
        "hidden": (512, 512, 512), "layer_norm": False, "critic_lr": 3e-4, "actor_lr": 3e-4, "batch_size": 256,
        "discount": 0.99, "target_rate": 0.005, "max_grad_norm": 10, "learning_starts": 10_000, "ensemble": 10,
        "subset": 2, "utd": 4, "actor_utd": 2, "policy_frequency": 2, "target_reduction": "min",
        "actor_reduction": "min", "exploration_noise": 0.1, "target_noise": 0.2, "noise_clip": 0.5,
    }),
    "Cal-QL, the released code": (CalQl(), {
        "actor_lr": 1e-4, "critic_lr": 3e-4, "alpha_lr": 1e-4, "target_rate": 0.005, "ensemble": 2, "subset": 2,
        "utd": 1, "actor_utd": 1, "cql_weight": 5.0, "cql_actions": 10, "max_backup": True, "calibrated": True,
        "target_reduction": "min", "actor_reduction": "min", "target_entropy_scale": 1.0,
    }),
}  # fmt: skip


@pytest.mark.parametrize("source", DEFAULTS)
def test_defaults_are_those_of_their_source(source: str) -> None:
    config, defaults = DEFAULTS[source]
    assert {name: getattr(config, name) for name in defaults} == defaults
