"""An update as a CUDA graph is the update that it was captured from; where there is no CUDA, it is as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.actor_critic.captured import WARM_UP, Captured
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import Batch, Observations
from tests.baselines.learners.conftest import RECORD, beside, observed, same
from tests.baselines.learners.continuous import SMALL, batch, build

BOTH = pytest.mark.parametrize("learner_of", [Sac, Td3])
UPDATES = 4 * WARM_UP


@pytest.fixture
def full_precision() -> Iterator[None]:
    """Float32 products in full, which a GPU may otherwise round."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def learner(learner_of: Any, device: str, captured: bool, space: Observations | None = None) -> Any:
    """Two seeds' learner, three critics of which two make a target."""
    made = learner_of(**SMALL).spawn(build((0, 1), device=device, observations=space))
    made._learn = Captured(made.learn) if captured else made.learn
    return made


def batches(space: Observations | None = None) -> list[Batch]:
    found = [beside(batch(step), batch(50 + step)) for step in range(UPDATES)]
    if space is None:
        return found
    rng = np.random.default_rng(0)
    seen, following = ([observed(space, rng, 2, 16) for _ in found] for _ in range(2))
    return [
        data._replace(observation=now, next_observation=after)
        for data, now, after in zip(found, seen, following, strict=True)
    ]


def taught(made: Any, active: tuple[bool, bool] = (True, True), space: Observations | None = None) -> list[Any]:
    return [made.update(data, np.array(active), step, "error") for step, data in enumerate(batches(space), start=1)]


@BOTH
def test_on_a_cpu_nothing_is_captured(learner_of: Any) -> None:
    made = learner_of(**SMALL).spawn(build())
    assert made._learn == made.learn


@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA there, a capture on a CPU does not fail")
@BOTH
def test_where_capturing_fails_updates_go_on_as_they_are_with_one_warning(learner_of: Any) -> None:
    eager, failing = learner(learner_of, "cpu", False), learner(learner_of, "cpu", True)
    with pytest.warns(Notice, match="updates cannot be captured as a CUDA graph") as warned:
        told = taught(failing)
    assert len(warned) == 1 and failing._learn.refused and not failing._learn.graphs
    for ours, wanted in zip(told, taught(eager), strict=True):
        assert np.array_equal(ours.td_error, wanted.td_error) and same(ours.metrics, wanted.metrics)
    assert all(same(eager.state(row), failing.state(row)) for row in range(2))


@pytest.mark.gpu
@pytest.mark.parametrize("space", [None, RECORD], ids=["vector", "record"])
@BOTH
def test_captured_updates_are_the_eager_ones(full_precision: None, learner_of: Any, space: Observations | None) -> None:
    eager, captured = (learner(learner_of, "cuda", graphs, space) for graphs in (False, True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        pairs = list(zip(taught(captured, space=space), taught(eager, space=space), strict=True))
    assert captured._learn.graphs, "updates were captured"
    for ours, wanted in pairs:
        close(ours.td_error, wanted.td_error)
        close(ours.reducible, wanted.reducible)
        assert ours.metrics.keys() == wanted.metrics.keys()
        for name in wanted.metrics:
            close(ours.metrics[name], wanted.metrics[name])
    for row in range(2):
        for name in eager.networks():
            ours, wanted = captured.state(row)[name], eager.state(row)[name]
            assert all(close(ours[key], wanted[key]) for key in wanted)


@pytest.mark.gpu
@BOTH
def test_a_captured_update_leaves_an_inactive_seed_as_it_is_and_a_restored_state_is_learnt_from(
    full_precision: None, learner_of: Any
) -> None:
    captured, other = learner(learner_of, "cuda", True), learner(learner_of, "cuda", False)
    before = captured.state(1)
    taught(captured, (True, False))
    assert captured._learn.graphs and same(captured.state(1), before)
    assert not same(captured.state(0), before)
    # graphs hold on to memory, so what is loaded has to land in it
    restored = captured.state(0)
    taught(captured, (True, False))
    captured.load_state(0, restored)
    other.load_state(0, restored)
    for each in (captured, other):
        for stream, seed in zip(each.noise, (3, 4), strict=True):
            stream.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    for ours, wanted in zip(taught(captured, (True, False)), taught(other, (True, False)), strict=True):
        close(ours.td_error[0], wanted.td_error[0])


def close(ours: Any, wanted: Any) -> bool:
    """True; an error where they differ by more than 1e-5, absolutely and relatively."""
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)
    return True
