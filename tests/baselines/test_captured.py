"""An update replayed as a CUDA graph is the update that was captured; without CUDA, updates run uncaptured.

What a graph needs is tested without CUDA: an update computes on its device alone, reads no value there, and depends
only on its sample and the networks."""

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
EVERY_CASE = pytest.mark.parametrize(
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

    def _recorded(self, sample: Any, kind: Any) -> tuple[Any, Any]:
        class Graph:
            def replay(_) -> None:
                graph.statistics = self.learn(sample, kind)

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
        output = function(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, output)):
            assert not isinstance(leaf, torch.Tensor) or leaf.device.type == self.device, (function, leaf.device)
        return output


def learner(learner_of: Any, device: str, capture: type[Captured] | None, space: Observations = VECTOR) -> Any:
    """Return a learner of two seeds; on a CPU of one seed if it learns action values, since seeds updated one by one
    are not captured. SAC's and TD3's targets use two of three critics."""
    if learner_of in CONTINUOUS:
        trainee = learner_of(**continuous.SMALL).spawn(continuous.build((0, 1), device=device, observations=space))
    else:
        seeds = (0,) if device == "cpu" else (0, 1)
        trainee = make(learner_of(**conftest.SMALL, target_every=2), space, seeds=seeds, device=device)
    learn = trainee.learn if learner_of in CONTINUOUS else trainee.learn_together
    trainee._learn = learn if capture is None else capture(learn)
    return trainee


def batches(trainee: Any, learner_of: Any, space: Observations) -> list[Batch]:
    if learner_of not in CONTINUOUS:
        singles = (conftest.batches(space, seed, 16, 2, UPDATES) for seed in trainee.seeds)
        return [beside(*pair) for pair in zip(*singles, strict=True)]
    joint = [beside(continuous.batch(step), continuous.batch(50 + step)) for step in range(UPDATES)]
    if space is VECTOR:
        return joint
    rng = np.random.default_rng(0)
    observations, following = ([observed(space, rng, 2, 16) for _ in joint] for _ in range(2))
    return [
        batch._replace(observation=now, next_observation=after)
        for batch, now, after in zip(joint, observations, following, strict=True)
    ]


def taught(
    trainee: Any, learner_of: Any, active: tuple[bool, bool] = (True, True), space: Observations = VECTOR
) -> list[Any]:
    updates = enumerate(batches(trainee, learner_of, space), start=1)
    return [trainee.update(batch, np.array(active[: len(trainee.seeds)]), step, "error") for step, batch in updates]


def alike(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether two lists of updates are equal to the last bit."""
    return all(
        np.array_equal(first.td_error, second.td_error)
        and np.array_equal(first.reducible, second.reducible)
        and same(first.metrics, second.metrics)
        for first, second in zip(ours, theirs, strict=True)
    )


@ALL
def test_on_a_cpu_nothing_is_captured(learner_of: Any) -> None:
    discrete = learner_of not in CONTINUOUS
    trainee = (
        make(learner_of(**conftest.SMALL)) if discrete else learner_of(**continuous.SMALL).spawn(continuous.build())
    )
    assert trainee._learn == (trainee.learn_together if discrete else trainee.learn)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA there, a capture on a CPU does not fail")
@ALL
def test_where_capturing_fails_updates_go_on_as_they_are_with_one_warning(learner_of: Any) -> None:
    eager, failing = learner(learner_of, "cpu", None), learner(learner_of, "cpu", Captured)
    with pytest.warns(Notice, match="updates cannot be captured as a CUDA graph") as warned:
        outcomes = taught(failing, learner_of)
    assert len(warned) == 1 and failing._learn.refused and not failing._learn.graphs
    assert alike(outcomes, taught(eager, learner_of))
    assert all(same(eager.state(row), failing.state(row)) for row in range(len(eager.seeds)))


class Reached(Exception):
    """Raised where an update would be captured; its arguments are the sample and the kind."""


@EVERY_CASE
def test_an_update_computes_on_its_device_alone_and_reads_no_value_there(learner_of: Any, space: Observations) -> None:
    """The device `meta` has tensors without values: to read one is an error."""
    trainee = learner(learner_of, "meta", None, space)
    learn = trainee._learn

    def reach(*arguments: Any) -> None:
        raise Reached(*arguments)

    trainee._learn = reach
    for step, batch in enumerate(batches(trainee, learner_of, space)[:4], start=1):
        with pytest.raises(Reached) as reached:
            trainee.update(batch, np.array([True, True]), step, "error")
        learn(*reached.value.args)  # constants are made at the first update, before anything is captured
        with OnDevice("meta"):
            outcome = learn(*reached.value.args)
        assert outcome.numbers.numel() == 2 * (len(outcome.names) + 2 * 16) and outcome.numbers.device.type == "meta"


@EVERY_CASE
def test_a_replay_reads_its_sample_and_the_networks_alone(learner_of: Any, space: Observations) -> None:
    """Batches of another size have graphs of their own."""
    eager, repeated = learner(learner_of, "cpu", None, space), learner(learner_of, "cpu", Repeated, space)
    assert alike(taught(repeated, learner_of, space=space), taught(eager, learner_of, space=space))
    for batch in batches(eager, learner_of, space):
        fewer = Batch(*(None if part is None else part[:, :12] for part in batch[:6]))
        active = np.array([True, False][: len(eager.seeds)])
        ours, theirs = (trainee.update(fewer, active, UPDATES + 1) for trainee in (repeated, eager))
        assert np.array_equal(ours.td_error, theirs.td_error) and same(ours.metrics, theirs.metrics)
    assert {shape for _, shape in repeated._learn.graphs} == {(1, 16), (1, 12)}
    assert all(same(eager.state(row), repeated.state(row)) for row in range(len(eager.seeds)))


@pytest.mark.gpu
@EVERY_CASE
def test_captured_updates_are_the_eager_ones(full_precision: None, learner_of: Any, space: Observations) -> None:
    eager, captured = (learner(learner_of, "cuda", capture, space) for capture in (None, Captured))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        ours = taught(captured, learner_of, space=space)
    pairs = list(zip(ours, taught(eager, learner_of, space=space), strict=True))
    assert captured._learn.graphs, "updates were captured"
    for ours, theirs in pairs:
        close(ours.td_error, theirs.td_error)
        close(ours.reducible, theirs.reducible)
        assert ours.metrics.keys() == theirs.metrics.keys()
        for name in theirs.metrics:
            close(ours.metrics[name], theirs.metrics[name])
    for row in range(2):
        for name in eager.networks() if learner_of in CONTINUOUS else ("parameters", "target"):
            ours, theirs = captured.state(row)[name], eager.state(row)[name]
            assert all(close(ours[key], theirs[key]) for key in theirs)


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
    for candidate in (captured, other):
        for stream, seed in zip(getattr(candidate, "noise", ()), (3, 4), strict=False):
            stream.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    ours, theirs = (taught(candidate, learner_of, (True, False)) for candidate in (captured, other))
    for first, second in zip(ours, theirs, strict=True):
        close(first.td_error[0], second.td_error[0])


def close(ours: Any, expected: Any) -> bool:
    """Return True, or raise an error where values differ by more than 1e-5, absolutely and relatively."""
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    return True
