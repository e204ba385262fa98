"""Questions of pairs, and verdicts on what dialogues end with: worked by hand, and whatever else may be in them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.llm import Llm, trajectories
from guidebench.baselines.teachers.llm.teacher import LlmTeacher
from guidebench.harness.interfaces import Array, Coordinates

THINGS = (
    Coordinates("tcp", "", (0, 1), (4, 5)),
    Coordinates("obj", "", (3,)),
    Coordinates("target", "", (6,), constant=True),
)
"""Of seven numbers: tcp x and y, the gripper's opening, obj, tcp of the step before, target."""
PREFERRED = np.array(
    [[0, 1, 9, 2, 7, 8, 5], [10, 11, 19, 12, 0, 1, 5], [20, 21, 29, 22, 10, 11, 5]], np.float32
)  # fmt: skip
PAIR = Pair(row=1, number=7, observations=np.stack([PREFERRED, PREFERRED + 1]), rewards=np.zeros((2, 3)))
BUILD: Any = None
"""What it is built with is needed for a Decision Transformer alone."""
LABELLED = {"first": 1, "second": 2, "outcome": "labelled", "retries": 0, "imagined": "kept"}


def verdict(value: Any, **settings: Any) -> Verdict:
    return LlmTeacher(Llm(**settings), BUILD).verdict(PAIR, value)


def test_the_states_of_an_imagined_trajectory() -> None:
    """Step 0 as preferred; then tcp and obj as told, tcp before as it was a step ago, gripper as in the preferred."""
    told = {
        "tcp": np.array([[0.001, 1], [3, 4], [5, 6]]),
        "obj": np.array([[2.0], [2.5], [3]]),
        "target": np.array([5.0]),
    }
    expected = [[0, 1, 9, 2, 7, 8, 5], [3, 4, 19, 2.5, 0, 1, 5], [5, 6, 29, 3, 3, 4, 5]]
    found = trajectories.states(THINGS, PREFERRED, told)
    assert found.dtype == np.float32 and found.tolist() == expected
    assert PREFERRED[1, 0] == 10, "what was preferred stays as it is"


def test_what_is_told_of_a_segment_and_its_text() -> None:
    told = trajectories.named_points(THINGS, PREFERRED)
    assert {name: points.tolist() for name, points in told.items()} == {
        "tcp": [[0, 1], [10, 11], [20, 21]],
        "obj": [[2], [12], [22]],
        "target": [5],
    }
    text = trajectories.text(trajectories.beginning(told), 2)
    assert text == '{\n  "tcp": [[0.00, 1.00]],\n  "obj": [[2.00]],\n  "target": [5.00]\n}'
    assert trajectories.text({"target": np.array([-0.001])}, 2) == '{\n  "target": [0.00]\n}'


def test_a_question_holds_the_states_and_nothing_else() -> None:
    teacher = LlmTeacher(Llm(), BUILD)
    ask = teacher.question(PAIR)
    assert teacher.to == "chat" == Llm.needs["chat"] and not teacher.wants_snapshots
    assert (ask.row, ask.key.tolist(), ask.to, ask.snapshots) == (1, [7], "chat", None)
    content = json.loads(ask.content)
    assert content == {"segments": PAIR.observations.tolist()} and ask.events.size == 0


@pytest.mark.parametrize(("first", "label"), [(1, 0.0), (2, 1.0)])
def test_the_label_is_the_index_of_the_preferred_segment(first: int, label: float) -> None:
    found = verdict(LABELLED | {"first": first, "second": 3 - first, "states": PREFERRED.tolist()})
    assert (found.outcome, found.label, found.is_used) == ("labelled", label, True)
    assert found.imagined is not None and found.imagined.dtype == np.float32
    assert np.array_equal(found.imagined, PREFERRED)
    assert found.notes == {"first": first, "second": 3 - first, "retries": 0, "imagined": "kept"}


def test_without_llm_labels_only_the_imagined_segment_is_learnt_from() -> None:
    value = LABELLED | {"second": None, "states": PREFERRED.tolist()}
    found = verdict(value, keep_sampled=False, double_check=False)
    assert (found.label, found.is_used) == (0.0, False) and found.imagined is not None


def test_an_imagined_segment_that_was_not_usable_leaves_the_label() -> None:
    found = verdict(LABELLED | {"imagined": "length"})
    assert (found.outcome, found.label, found.imagined) == ("labelled", 0.0, None)
    assert found.notes["imagined"] == "length"


@pytest.mark.parametrize(
    "value",
    [
        {"first": 0, "second": None, "outcome": "equal", "retries": 1},
        {"first": 1, "second": 1, "outcome": "inconsistent", "retries": 0},
        {"first": 2, "second": 0, "outcome": "inconsistent", "retries": 0},
    ],
)
def test_a_pair_without_a_preference_is_discarded_or_softly_labelled(value: dict[str, Any]) -> None:
    hard, soft = verdict(value), verdict(value, undecided="soft")
    assert (hard.outcome, hard.label, hard.kept) == (value["outcome"], None, False)
    assert (soft.outcome, soft.label, soft.kept, soft.imagined) == (value["outcome"], 0.5, True, None)


def test_what_got_no_answer_or_none_that_can_be_read_is_never_learnt_from() -> None:
    assert verdict(None, undecided="soft") == Verdict("failed")
    for outcome in ("failed", "unreadable"):
        found = verdict({"first": 1, "second": None, "outcome": outcome, "retries": 1}, undecided="soft")
        assert (found.outcome, found.label, found.is_used) == (outcome, None, False)
        assert found.notes == {"first": 1, "retries": 1}


GOOD = LABELLED | {"states": PREFERRED.tolist()}


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "labelled",
        1.0,
        GOOD | {"first": "1"},
        GOOD | {"first": True},
        GOOD | {"first": 3},
        GOOD | {"first": 0},
        GOOD | {"first": None},
        GOOD | {"second": 1},
        GOOD | {"second": None},
        GOOD | {"outcome": "skipped"},
        GOOD | {"outcome": "equal"},
        GOOD | {"outcome": ["labelled"]},
        GOOD | {"retries": -1},
        GOOD | {"retries": 1.5},
        GOOD | {"retries": 10**30},
        GOOD | {"imagined": "lost"},
        GOOD | {"imagined": ["kept"]},
        GOOD | {"imagined": None},
        LABELLED,
        GOOD | {"states": None},
        GOOD | {"states": "x"},
        GOOD | {"states": PREFERRED[:2].tolist()},
        GOOD | {"states": PREFERRED[:, :3].tolist()},
        GOOD | {"states": [PREFERRED[0].tolist(), [1], []]},
        GOOD | {"states": [["1"] * 7] * 3},
        GOOD | {"states": [[True] * 7] * 3},
        GOOD | {"states": [[None] * 7] * 3},
        GOOD | {"states": [[float("nan")] * 7] * 3},
        GOOD | {"states": [[1e300] * 7] * 3},
        GOOD | {"states": [[10**400] * 7] * 3},
        {"first": 1, "outcome": "equal", "retries": 0, "second": None},
        {"first": 0, "outcome": "inconsistent", "retries": 0, "second": None},
    ],
)
def test_a_value_that_no_dialogue_ends_with_is_unreadable(value: Any) -> None:
    assert verdict(value) == Verdict("unreadable")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(tuple(GOOD)), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries({name: st.just(value) | JSON for name, value in GOOD.items()}) | JSON)
def test_no_value_does_more_than_be_unreadable(value: Any) -> None:
    found = verdict(value)
    assert found.label in (None, 0.0, 1.0) and found.is_used == (found.outcome == "labelled")
    if found.imagined is not None:
        imagined: Array = found.imagined
        assert imagined.shape == PREFERRED.shape and np.isfinite(imagined).all()
