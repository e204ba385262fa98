"""Timers count exclusive time, and matrix products are counted as by hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines import profiling
from guidebench.baselines.profiling import Product, Profiler, Seconds, Stopwatch
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import RunPhase


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that tests set; processor time is half of the wall time."""
    at = [0.0]
    monkeypatch.setattr(profiling, "now", lambda: Seconds(at[0], at[0] / 2))
    yield at


def test_a_section_has_its_time_without_that_of_the_sections_within_it(clock: list[float]) -> None:
    watch = Stopwatch()
    with watch.section("storage"):  # before the start: not counted
        clock[0] = 5.0
    watch.start()
    with watch.section("forward"):
        clock[0] = 6.0
        with watch.section("backward"):
            clock[0] = 9.0
        clock[0] = 10.0
    clock[0] = 10.5
    watch.stop()
    times = {part: watch.seconds(part).wall for part in ("storage", "forward", "backward", "other")}
    assert times == {"storage": 0.0, "forward": 2.0, "backward": 3.0, "other": 0.5}
    assert watch.seconds("forward").processor == 1.0
    assert watch.counts == {"forward": 1, "backward": 1}


def test_a_closed_part_is_not_split_but_for_what_it_lists(clock: list[float]) -> None:
    watch = Stopwatch()
    watch.start()
    with watch.section("guide"):
        with watch.section("backward"):
            clock[0] = 1.0
        with watch.section("asking"):
            clock[0] = 3.0
    with watch.section("log"), watch.section("evaluation"), watch.section("acting"):
        clock[0] = 7.0
    watch.stop()
    times = {part: watch.seconds(part).wall for part in ("guide", "asking", "backward", "evaluation", "acting")}
    assert times == {"guide": 1.0, "asking": 2.0, "backward": 0.0, "evaluation": 4.0, "acting": 0.0}


def test_products_of_layers_and_of_their_gradients_are_counted() -> None:
    products: list[Product] = []
    inputs, weight = torch.randn(8, 3, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    with profiling.collected(products):
        (inputs @ weight).sum().backward()
    assert products == [Product(1, 8, 3, 5), Product(1, 3, 8, 5), Product(1, 8, 5, 3)]
    assert sum(product.flops for product in products) == 3 * 2 * 8 * 3 * 5

    products.clear()
    images, kernels = torch.randn(2, 3, 6, 6, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    with profiling.collected(products):
        torch.conv2d(images, kernels).sum().backward()
    assert products == [Product(1, 2 * 4 * 4, 3 * 3 * 3, 4)] * 3

    products.clear()
    with profiling.collected(products):
        torch.bmm(torch.randn(2, 4, 3), torch.randn(2, 3, 7))
        torch.mv(torch.randn(4, 3), torch.randn(3))
    assert products == [Product(2, 4, 3, 7), Product(1, 4, 3, 1)]


def test_the_rate_of_a_product_is_positive() -> None:
    assert profiling.product_rate(Product(2, 8, 8, 8), seconds=0.01) > 0


@pytest.mark.parametrize("steps", [99, 169, 992])
def test_steps_that_hold_too_few_gradient_steps_or_are_too_many_are_refused(steps: int) -> None:
    loop: Any = _Loop(RunPhase("train", 1_000))
    with pytest.raises(UserError, match=rf"--steps {steps}: .* first gradient step is step 100, .*; give 170 to 991"):
        Profiler(100, steps, 1.0).attach(loop)
    assert np.isfinite(loop.step)


class _Loop:
    """As much of a loop as the choice of steps reads."""

    step, _evaluate_every, _checkpoint_every = 0, 100, 100

    def __init__(self, *phases: RunPhase) -> None:
        self.agent = self
        self.phases = lambda: phases
