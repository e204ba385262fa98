"""The reward against values worked by hand and TADPoLe's own order of operations, and the call of a dialogue."""

import asyncio
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness.models.calls import Answer, Call, DenoiseCall
from guidebench.methods.tadpole.dialogue import Denoising, reward, symlog
from tests.methods import local

FRAMES = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), dtype=np.uint8)
CONTENT = {"level": 520, "seeds": [3, 4]}


def test_rewards_are_sums_of_logarithms_on_both_sides_worked_by_hand() -> None:
    assert symlog(np.array([0, 1, -1, np.e - 1, 1 - np.e, 99])) == pytest.approx([0, log(2), -log(2), 1, -1, log(100)])
    errors = np.array([[0.001, 0.5, 0.48], [0.0, 0.3, 0.35], [0.0005, 0.2, 0.2]])
    # 2000 · .001 = 2 and 200 · .02 = 4; 0 and 200 · -.05 = -10; 2000 · .0005 = 1 and 0.
    for weights, rewards in (
        ((2000, 200), [log(3) + log(5), -log(11), log(2)]), ((2000, 0), [log(3), 0, log(2)]),
        ((0, 200), [log(5), -log(11), 0]),
    ):  # fmt: skip
        assert reward(errors, *weights) == pytest.approx(rewards)


class FixedErrors:
    """A model that answers with these errors, or fails if they are None."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Answer:
        self.calls.append(call)
        return Answer(None, "timeout") if self._value is None else Answer(self._value)


def test_it_asks_once_with_the_episodes_level_and_a_seed_for_each_frame() -> None:
    model = FixedErrors(np.array([[0.001, 0.5, 0.48], [0, 0.3, 0.3]], np.float32))
    dialogue = Denoising("a door", 2000, 200)
    assert asyncio.run(dialogue(CONTENT, FRAMES, model)) == pytest.approx([log(15), 0], abs=1e-5)
    (call,) = model.calls
    assert isinstance(call, DenoiseCall) and len(model.calls) == dialogue.calls
    assert (call.text, call.level, call.seeds) == ("a door", 520, (3, 4))
    assert np.array_equal(np.stack(call.frames), FRAMES)
    assert asyncio.run(dialogue(CONTENT, FRAMES, FixedErrors(None))) is None


def test_with_a_real_model_it_is_the_released_formula_over_the_predictions(tiny: Callable[..., Path]) -> None:
    """The formula is written again over whole predictions, which are caught as the network makes them."""
    pytest.importorskip("diffusers")
    from guidebench.harness.models.embedders.diffusers_ import Diffusers

    model: Any = Diffusers(model=str(tiny("diffusion"))).spawn_model("cpu")
    network, outputs = model._pipeline.network, []
    network.register_forward_hook(lambda module, inputs, output: outputs.append(output.sample))

    dialogue = Denoising("a robot opens the door", 2000, 200)
    rewards = local.converse(model, lambda ask: dialogue(CONTENT, FRAMES, ask))
    (predictions,) = outputs
    noise = torch.stack([torch.randn((2, 4, 16, 16), generator=torch.Generator().manual_seed(s))[1] for s in (3, 4)])
    without, conditioned = (half[:2] for half in predictions.chunk(2))  # the batch is filled up
    alignment = ((conditioned - without) ** 2).mean([1, 2, 3])
    saved = ((without - noise) ** 2).mean([1, 2, 3]) - ((conditioned - noise) ** 2).mean([1, 2, 3])
    terms = [torch.sign(x) * torch.log(1 + torch.abs(x)) for x in (2000 * alignment, 200 * saved)]
    assert rewards == pytest.approx((terms[0] + terms[1]).numpy(), rel=1e-3, abs=1e-4)
