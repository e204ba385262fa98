"""Replies that models write, good and bad: a verdict is read right, or the reply is named for what is wrong with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guidebench.baselines.conversing import Misread
from guidebench.baselines.preference.conversing import verdict


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("2", 2),
        ("1. Both stay 0.45 away.\n2. Which Trajectory is Better?\n\n1", 1),
        ("1. A.\n2. Result\n\nTherefore:\n**2**", 2),
        ("The answer is 0.", 0),
        ("0\n\nI hope that this helps.", 0),
        ("2. 1", 1),
        ("2. Trajectory 2 is better.", 2),
        ("2 is better, so: 2", 2),
        ("Trajectory 1 ends at [0.1, -0.2, 0.3].\nTrajectory-1\n", 1),
        ("> 2.", 2),
        ("I prefer Trajectory 1.", 1),
        ("My answer: 1", 1),
        ("Image 1 has more of it achieved.", 1),
        ("Verdict = 0", 0),
    ],
)
def test_the_verdict_is_the_last_integer(answer: str, says: int) -> None:
    assert verdict(answer) == says


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "holds no 0, 1 or 2"),
        ("Both look alike to me.", "holds no 0, 1 or 2"),
        ("It ends 0.25 away, and 12cm is much.", "holds no 0, 1 or 2"),
        ("2. Which one is better? I cannot say.", "holds no 0, 1 or 2"),
        ("1 or 2", "not the only one in its line"),
        ("Trajectory 2 is better than Trajectory 1.", "not the only one in its line"),
        ("I give it 3", "ends with 3, which is none of"),
        ("-1", "ends with -1"),
        ("12", "ends with 12"),
        ("9" * 10_000, "ends with 99999"),
        ("²", "holds no 0, 1 or 2"),
        ("Both fail at step 1", "part of a sentence"),
        ("Both fail at step 1.\nAnswer: neither", "part of a sentence"),
        ("In Trajectory 2 the arm stays where it is.", "part of a sentence"),
        ("Trajectory 1 is not better.", "part of a sentence"),
    ],
)
def test_an_answer_without_a_verdict_or_with_two_is_unreadable(answer: str, why: str) -> None:
    with pytest.raises(Misread, match=why) as caught:
        verdict(answer)
    assert caught.value.fault == "unreadable"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("-+.)> 0129\nImage*"), max_size=200) | st.text(max_size=100))
def test_no_reply_does_more_than_be_misread(answer: str) -> None:
    try:
        assert verdict(answer) in (0, 1, 2)
    except Misread as misread:
        assert misread.fault == "unreadable" and str(misread)
