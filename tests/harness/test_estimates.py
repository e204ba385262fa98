"""What a dry run says a study will ask of foundation models."""

from __future__ import annotations

import pytest

from harness import estimates, matrix

SERVED = ("suite=minigrid_doorkey", "task=8x8", "method=vlm_rb", "judge=openai")


def test_a_run_asks_about_one_clip_for_each_stretch_of_its_length() -> None:
    """1,000,000 steps in clips of 32: 31,250 clips; a frame is 85 tokens of 2.50 USD a million: 212.50 USD."""
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "training.steps=1e6"]).cells
    found = estimates.questions(cell)
    assert found is not None
    assert (found.calls, found.images, found.tokens_in) == (31_250, 1_000_000, 85_000_000)
    assert found.usd == pytest.approx(212.5)


def test_a_price_of_one_s_own_counts_instead_of_the_recipe_s() -> None:
    (cell,) = matrix.plan([*SERVED, "judge.model=gpt-4o", "judge.price_in=1", "judge.price_out=1"]).cells
    found = estimates.questions(cell)
    assert found is not None and found.usd == pytest.approx(85.0)


@pytest.mark.parametrize(
    "chosen", [("method=uer",), ("method=vlm_rb", "judge=sprite"), ("method=vlm_rb", "judge=oracle")]
)
def test_who_asks_no_foundation_model_is_estimated_to_ask_none(chosen: tuple[str, ...]) -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=8x8", *chosen]).cells
    assert estimates.questions(cell) is None
