"""Calls that choose among candidates: what is refused, what the key holds, and which answers count."""

import math
from typing import Any

import numpy as np
import pytest

from guidebench.harness.models.calls import ChoiceCall, Message

QUESTION = (Message("user", ("Where to?",)),)
CALL = ChoiceCall(QUESTION, "Move:", (" left", " right"))
ANSWER = np.array([[-1, -0.5, 1], [-3, 0, 2]], np.float32)


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ((), "1 to 512 candidates, and this one has 0"),
        (tuple(map(str, range(513))), "1 to 512 candidates, and this one has 513"),
        ((" left", ""), "candidate 2 of 2 is empty"),
        ((" left", " a\ud800"), r"' a\\ud800' holds half"),
        ((" left", " right", " left"), "' left' is there 2 times"),
    ],
)
def test_candidates_that_are_no_choice_are_refused(candidates: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ChoiceCall(QUESTION, "Move:", candidates)


def test_the_key_holds_the_prefix_and_the_candidates_in_order() -> None:
    other_calls = [
        ChoiceCall(QUESTION, "Move:", (" right", " left")),
        ChoiceCall(QUESTION, "", (" left", " right")),
        ChoiceCall((), "Move:", (" left", " right")),
    ]
    keys = {call.request({}, None).key for call in (CALL, *other_calls)}
    assert len(keys) == 4 and CALL.request({}, None).key in keys and not CALL.sampled
    assert ChoiceCall(QUESTION, "Move:", (" left", " right"), aim="step").request({}, None).key in keys


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (ANSWER, ""),
        (ANSWER[:1], "expected float32 [2, 3], got (1, 3)"),
        (ANSWER.astype(np.float64), "expected float32"),
        ([0.5, 0.5], "got list"),
        (ANSWER * [[1, 1, 1], [math.nan, 1, 1]], "expected float32"),
        (np.where(ANSWER == -3, -np.inf, ANSWER), "not finite"),
        (np.abs(ANSWER), "above 0"),
        (ANSWER - np.float32([0, 0, 1]), "no count"),
        (ANSWER + np.float32([0, 0, 0.5]), "no count"),
    ],
)
def test_an_answer_is_two_log_probabilities_and_a_count_for_each_candidate(answer: Any, fault: str) -> None:
    assert CALL.fault(answer) == "" if not fault else fault in CALL.fault(answer)


def test_the_distance_is_the_share_of_probability_that_differs() -> None:
    """By hand: turns of log p log .2 and log .6 have the shares 1/4 and 3/4, equal ones 1/2 each."""
    first = np.array([[math.log(0.4), math.log(0.5), 1], [math.log(0.6), 0, 2]], np.float32)
    second = np.array([[math.log(0.1), 0, 1], [math.log(0.2), math.log(0.5), 2]], np.float32)
    assert CALL.distance(first, second) == pytest.approx(0.25) and CALL.distance(first, first) == 0
    assert CALL.distance(first, first + np.float32([0, 0, 1])) == math.inf
    assert ChoiceCall.words(first) == "candidate 2 of 2, with log p -0.51"
