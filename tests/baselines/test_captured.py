"""An update as a CUDA graph is the update that it was captured from; where there is no CUDA, it is as it was.

What a graph needs of an update is tested without one: an update computes on its device alone and reads no value there,
and what it reads is its sample and the networks.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from guidebench.baselines.captured import WARM_UP, Captured
from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.dueling_dqn import DuelingDqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.td3 import Td3
from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import Batch, Observations
from tests.baselines.learners import conftest, continuous
from tests.baselines.learners.conftest import (
    GRID,
    MASKED,
    RECORD,
    VECTOR,
    beside,
    make,
    observed,
    one_thread,  # noqa: F401 - a fixture of every test
    same,
)

CONTINUOUS = (Sac, Td3)
DISCRETE = (Dqn, DuelingDqn, Iqn)
ALL = pytest.mark.parametrize("learner_of", [*CONTINUOUS, *DISCRETE])
EACH = pytest.mark.parametrize(
    ("learner_of", "space"),
    [(Sac, VECTOR), (Sac, RECORD), (Td3, VECTOR), (Dqn, VECTOR), (Dqn, MASKED), (DuelingDqn, RECORD), (Iqn, GRID)],
)
UPDATES = 4 * WARM_UP


@pytest.fixture
def full_precision() -> Iterator[None]:
    """Float32 products in full, which a GPU may otherwise round."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


class Repeated(Captured):
    """Stands in for graphs where there is no GPU: a replay repeats the update on the memory that was captured."""

    def _recorded(self, own: Any, kind: Any) -> tuple[Any, Any]:
        class Graph:
            def replay(_) -> None:
                graph.statistics = self.learn(own, kind)

        graph: Any = Graph()
        return graph, None

    def _replay(self, captured: Any, sample: Any) -> Any:
        super()._replay(captured, sample)
        return captured.graph.statistics


class OnDevice(TorchDispatchMode):
    """Raises an error for a tensor of another device, such as a constant that a graph cannot copy from the CPU."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for each in tree_leaves((args, kwargs, found)):
            assert not isinstance(each, torch.Tensor) or each.device.type == self.device, (function, each.device)
        return found


def learner(learner_of: Any, device: str, how: type[Captured] | None, space: Observations = VECTOR) -> Any:
    """Two seeds' learner, or one seed's if it learns from action values on a CPU, where seeds that are updated one by
    one are not captured; of SAC's and TD3's three critics two make a target."""
    if learner_of in CONTINUOUS:
        made = learner_of(**continuous.SMALL).spawn(continuous.build((0, 1), device=device, observations=space))
    else:
        seeds = (0,) if device == "cpu" else (0, 1)
        made = make(learner_of(**conftest.SMALL, target_every=2), space, seeds=seeds, device=device)
    learn = made.learn if learner_of in CONTINUOUS else made.learn_together
    made._learn = learn if how is None else how(learn)
    return made


def batches(made: Any, learner_of: Any, space: Observations) -> list[Batch]:
    if learner_of not in CONTINUOUS:
        singles = (conftest.batches(space, seed, 16, 2, UPDATES) for seed in made.seeds)
        return [beside(*pair) for pair in zip(*singles, strict=True)]
    found = [beside(continuous.batch(step), continuous.batch(50 + step)) for step in range(UPDATES)]
    if space is VECTOR:
        return found
    rng = np.random.default_rng(0)
    seen, following = ([observed(space, rng, 2, 16) for _ in found] for _ in range(2))
    return [
        data._replace(observation=now, next_observation=after)
        for data, now, after in zip(found, seen, following, strict=True)
    ]


def taught(
    made: Any, learner_of: Any, active: tuple[bool, bool] = (True, True), space: Observations = VECTOR
) -> list[Any]:
    updates = enumerate(batches(made, learner_of, space), start=1)
    return [made.update(data, np.array(active[: len(made.seeds)]), step, "error") for step, data in updates]


def alike(ours: list[Any], wanted: list[Any]) -> bool:
    """Whether updates tell the same to the last bit."""
    return all(
        np.array_equal(one.td_error, other.td_error)
        and np.array_equal(one.reducible, other.reducible)
        and same(one.metrics, other.metrics)
        for one, other in zip(ours, wanted, strict=True)
    )


@ALL
def test_on_a_cpu_nothing_is_captured(learner_of: Any) -> None:
    discrete = learner_of not in CONTINUOUS
    made = make(learner_of(**conftest.SMALL)) if discrete else learner_of(**continuous.SMALL).spawn(continuous.build())
    assert made._learn == (made.learn_together if discrete else made.learn)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA there, a capture on a CPU does not fail")
@ALL
def test_where_capturing_fails_updates_go_on_as_they_are_with_one_warning(learner_of: Any) -> None:
    eager, failing = learner(learner_of, "cpu", None), learner(learner_of, "cpu", Captured)
    with pytest.warns(Notice, match="updates cannot be captured as a CUDA graph") as warned:
        told = taught(failing, learner_of)
    assert len(warned) == 1 and failing._learn.refused and not failing._learn.graphs
    assert alike(told, taught(eager, learner_of))
    assert all(same(eager.state(row), failing.state(row)) for row in range(len(eager.seeds)))


class Reached(Exception):
    """An update came to what would be captured; its arguments are the sample and the kind."""


@EACH
def test_an_update_computes_on_its_device_alone_and_reads_no_value_there(learner_of: Any, space: Observations) -> None:
    """The device `meta` has tensors without values: to read one is an error."""
    made = learner(learner_of, "meta", None, space)
    learn = made._learn

    def reach(*given: Any) -> None:
        raise Reached(*given)

    made._learn = reach
    for step, data in enumerate(batches(made, learner_of, space)[:4], start=1):
        with pytest.raises(Reached) as reached:
            made.update(data, np.array([True, True]), step, "error")
        learn(*reached.value.args)  # constants are made at the first update, before anything is captured
        with OnDevice("meta"):
            told = learn(*reached.value.args)
        assert told.numbers.numel() == 2 * (len(told.names) + 2 * 16) and told.numbers.device.type == "meta"


@EACH
def test_a_replay_reads_its_sample_and_the_networks_alone(learner_of: Any, space: Observations) -> None:
    """Also of batches of another size, which have graphs of their own."""
    eager, repeated = learner(learner_of, "cpu", None, space), learner(learner_of, "cpu", Repeated, space)
    assert alike(taught(repeated, learner_of, space=space), taught(eager, learner_of, space=space))
    for data in batches(eager, learner_of, space):
        fewer = Batch(*(None if part is None else part[:, :12] for part in data[:6]))
        active = np.array([True, False][: len(eager.seeds)])
        ours, wanted = (made.update(fewer, active, UPDATES + 1) for made in (repeated, eager))
        assert np.array_equal(ours.td_error, wanted.td_error) and same(ours.metrics, wanted.metrics)
    assert {shape for _, shape in repeated._learn.graphs} == {(1, 16), (1, 12)}
    assert all(same(eager.state(row), repeated.state(row)) for row in range(len(eager.seeds)))


@pytest.mark.gpu
@EACH
def test_captured_updates_are_the_eager_ones(full_precision: None, learner_of: Any, space: Observations) -> None:
    eager, captured = (learner(learner_of, "cuda", how, space) for how in (None, Captured))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        ours = taught(captured, learner_of, space=space)
    pairs = list(zip(ours, taught(eager, learner_of, space=space), strict=True))
    assert captured._learn.graphs, "updates were captured"
    for ours, wanted in pairs:
        close(ours.td_error, wanted.td_error)
        close(ours.reducible, wanted.reducible)
        assert ours.metrics.keys() == wanted.metrics.keys()
        for name in wanted.metrics:
            close(ours.metrics[name], wanted.metrics[name])
    for row in range(2):
        for name in eager.networks() if learner_of in CONTINUOUS else ("parameters", "target"):
            ours, wanted = captured.state(row)[name], eager.state(row)[name]
            assert all(close(ours[key], wanted[key]) for key in wanted)


@pytest.mark.gpu
@ALL
def test_a_captured_update_leaves_an_inactive_seed_as_it_is_and_a_restored_state_is_learnt_from(
    full_precision: None, learner_of: Any
) -> None:
    captured, other = learner(learner_of, "cuda", Captured), learner(learner_of, "cuda", None)
    before = captured.state(1)
    taught(captured, learner_of, (True, False))
    assert captured._learn.graphs and same(captured.state(1), before)
    assert not same(captured.state(0), before)
    # graphs hold on to memory, so what is loaded has to land in it
    restored = captured.state(0)
    taught(captured, learner_of, (True, False))
    captured.load_state(0, restored)
    other.load_state(0, restored)
    for each in (captured, other):
        for stream, seed in zip(getattr(each, "noise", ()), (3, 4), strict=False):
            stream.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    ours, wanted = (taught(each, learner_of, (True, False)) for each in (captured, other))
    for one, its in zip(ours, wanted, strict=True):
        close(one.td_error[0], its.td_error[0])


def close(ours: Any, wanted: Any) -> bool:
    """True; an error where they differ by more than 1e-5, absolutely and relatively."""
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)
    return True
