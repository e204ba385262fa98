"""Scores of candidates, computed by hand."""

import math

import numpy as np
import pytest

from guidebench.harness.models.choice_scores import Acting, Scoring, chosen, entropy, mass, scored, shares

CANDIDATES = (" go", " höher")
"""Of three and seven bytes."""
ANSWER = np.array([[math.log(0.5), math.log(0.5), 1], [math.log(0.25), 0, 2]], np.float32)
CONTENT_FREE = np.array([[math.log(0.8), math.log(0.5), 1], [math.log(0.1), 0, 2]], np.float32)


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ("sum", [math.log(0.25), math.log(0.25)]),
        ("per_token", [math.log(0.5), math.log(0.5)]),
        ("per_byte", [math.log(0.5) / 3, math.log(0.25) / 7]),
    ],
)
def test_a_score_is_the_whole_turn_or_the_mean_over_tokens_or_bytes(scoring: Scoring, expected: list[float]) -> None:
    assert scored(ANSWER, CANDIDATES, scoring) == pytest.approx(expected, abs=1e-6)


def test_calibration_takes_away_what_is_said_anyway() -> None:
    """By hand: .25/.4 and .25/.1, whose shares are .2 and .8."""
    calibrated = scored(ANSWER, CANDIDATES, content_free=CONTENT_FREE)
    assert np.exp(calibrated) == pytest.approx([0.625, 2.5]) and shares(calibrated) == pytest.approx([0.2, 0.8])
    per_token = scored(ANSWER, CANDIDATES, "per_token", CONTENT_FREE)
    assert np.exp(per_token) == pytest.approx([0.5 / 0.8, 0.5 / math.sqrt(0.1)])


def test_answers_to_other_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 candidates have an answer \[2, 3\], and this is \[1, 3\]"):
        scored(ANSWER, CANDIDATES, content_free=CONTENT_FREE[:1])


def test_the_mass_is_the_probability_of_all_turns_and_entropy_that_of_the_shares() -> None:
    assert mass(ANSWER) == pytest.approx(0.5)
    assert entropy(shares(scored(ANSWER, CANDIDATES))) == pytest.approx(math.log(2))
    assert entropy(np.array([1.0, 0.0])) == 0


def test_scores_far_below_zero_have_shares() -> None:
    assert shares(np.array([-1e4, -1e4 + math.log(3)])) == pytest.approx([0.25, 0.75])


def counts(scores: list[float], acts: Acting) -> list[float]:
    """Return how often each candidate is chosen in 4,000 questions."""
    choices = [chosen(np.array(scores), acts, f"question {number}", "7") for number in range(4_000)]
    return [choices.count(number) / 4_000 for number in range(len(scores))]


def test_the_best_is_chosen_and_ties_are_broken_evenly() -> None:
    """Frequencies of 4,000 fair draws are within .03 of 1/2 (four standard errors)."""
    assert counts([-2, -1, -3], "argmax") == [0, 1, 0]
    assert counts([-1, -2, -1], "argmax") == pytest.approx([0.5, 0, 0.5], abs=0.03)


def test_draws_have_the_probabilities_of_the_scores() -> None:
    assert counts([*np.log([0.1, 0.6, 0.3])], "sample") == pytest.approx([0.1, 0.6, 0.3], abs=0.03)


def test_a_choice_follows_from_question_and_seed() -> None:
    tied = np.zeros(1_000)
    numbers = {chosen(tied, "argmax", question, seed) for question in ("a", "b") for seed in ("0", "1")}
    assert len(numbers) == 4
    assert chosen(tied, "argmax", "a", "0") == chosen(tied, "argmax", "a", "0")
