"""Calls to foundation models are estimated from clips, and priced by recipe or settings."""

import pytest

from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates

SERVED = ("suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "judge=openai")


def test_a_run_asks_about_one_clip_for_each_stretch_of_its_length() -> None:
    """1,000,000 steps in clips of 32 are 31,250 clips; a frame is 85 tokens at 2.50 USD a million: 212.50 USD."""
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "training.steps=1e6"]).cells
    usage = estimates.questions(cell)
    assert usage is not None and (usage.calls, usage.images, usage.tokens_in) == (31_250, 1_000_000, 85_000_000)
    assert usage.usd == pytest.approx(212.5)


def test_a_price_of_one_s_own_counts_instead_of_the_recipe_s() -> None:
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "judge.price_in=1", "judge.price_out=1"]).cells
    usage = estimates.questions(cell)
    assert usage is not None and usage.usd == pytest.approx(85.0)


@pytest.mark.parametrize(
    "words", [("method=uer",), ("method=vlm_rb", "judge=sprite"), ("method=vlm_rb", "judge=oracle")]
)
def test_who_asks_no_foundation_model_is_estimated_to_ask_none(words: tuple[str, ...]) -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=8x8", *words]).cells
    assert estimates.questions(cell) is None
