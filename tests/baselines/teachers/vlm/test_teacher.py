"""Questions of pairs of frames, and verdicts on what dialogues end with, whatever else may be in them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guidebench.baselines.guides.preference import Preference
from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.vlm import TOKENS, Vlm
from guidebench.baselines.teachers.vlm.teacher import VlmTeacher
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import CellView

SNAPSHOTS = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5)
PAIR = Pair(1, 7, np.zeros((2, 3, 4), np.float32), np.zeros((2, 3)), SNAPSHOTS)
LABELLED = {"first": 2, "second": None, "outcome": "labelled", "retries": 1}


def verdict(value: Any, double_check: bool = False) -> Verdict:
    return VlmTeacher(double_check).verdict(PAIR, value)


def test_a_question_shows_the_last_state_of_either_segment_and_nothing_else() -> None:
    teacher = VlmTeacher(False)
    ask = teacher.question(PAIR)
    assert teacher.to == "chat" == Vlm.needs["chat"] and teacher.wants_snapshots and Vlm.shows_frames
    assert (ask.row, ask.key.tolist(), ask.to, ask.content, ask.events.size) == (1, [7], "chat", "", 0)
    assert ask.snapshots is not None and np.array_equal(ask.snapshots, SNAPSHOTS[:, 2])
    assert not np.shares_memory(ask.snapshots, SNAPSHOTS), "what is in flight holds no more than it needs"


def test_the_label_is_the_index_of_the_preferred_image() -> None:
    assert verdict(LABELLED) == Verdict("labelled", 1.0, True, notes={"first": 2, "retries": 1})
    assert verdict(LABELLED | {"first": 1}).label == 0.0
    checked = verdict(LABELLED | {"first": 1, "second": 2}, double_check=True)
    assert checked == Verdict("labelled", 0.0, True, notes={"first": 1, "second": 2, "retries": 1})


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, "failed"),
        ({"first": 0, "second": None, "outcome": "equal", "retries": 0}, "equal"),
        ({"first": 1, "second": 1, "outcome": "inconsistent", "retries": 0}, "inconsistent"),
        ({"first": 1, "second": None, "outcome": "failed", "retries": 0}, "failed"),
        ({"first": None, "second": None, "outcome": "unreadable", "retries": 1}, "unreadable"),
    ],
)
def test_without_a_preference_nothing_is_learnt_from(value: Any, outcome: str) -> None:
    found = verdict(value, double_check=True)
    assert (found.outcome, found.label, found.is_used) == (outcome, None, False)


@pytest.mark.parametrize(
    "value",
    [
        {}, [], 1.0, "labelled", LABELLED | {"first": "1"}, LABELLED | {"first": 0}, LABELLED | {"first": True},
        LABELLED | {"first": 3}, LABELLED | {"second": 1}, LABELLED | {"outcome": "skipped"},
        LABELLED | {"outcome": ["labelled"]}, LABELLED | {"retries": -1}, LABELLED | {"retries": 1.5},
        {"first": 1, "second": None, "outcome": "equal", "retries": 0},
    ],
)  # fmt: skip
def test_a_value_that_no_dialogue_ends_with_is_unreadable(value: Any) -> None:
    assert verdict(value) == Verdict("unreadable")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(tuple(LABELLED)), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries({name: st.just(value) | JSON for name, value in LABELLED.items()}) | JSON, st.booleans())
def test_no_value_does_more_than_be_unreadable(value: Any, double_check: bool) -> None:
    found = verdict(value, double_check)
    assert found.label in (None, 0.0, 1.0) and found.is_used == (found.outcome == "labelled") and found.imagined is None


@pytest.mark.parametrize("pretraining", [100, None])
def test_what_a_run_asks_is_told_before(pretraining: int | None) -> None:
    guide = Preference(pretraining=pretraining, every=50, queries=4, budget=10)
    parts = {"guide": guide, "training": SimpleNamespace(steps=160), "learner": SimpleNamespace(learning_starts=100)}
    # sessions at 100 and 150: 8 queries of two calls and two images
    nothing = Observations((1,), "float32")
    there = CellView(parts, "", nothing, Actions(2))
    once, twice = Vlm().expected_usage(there, "chat"), Vlm(double_check=True).expected_usage(there, "chat")
    assert (once.calls, once.images, once.tokens_in, once.tokens_out) == (16, 16, 8 * TOKENS[0], 8 * TOKENS[1])
    assert (twice.calls, twice.images) == (32, 32)
