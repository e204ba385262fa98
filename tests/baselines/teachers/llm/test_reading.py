"""Answers that models write, good and bad: each is read right or named for what is wrong with it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.preference.conversing import Misread
from baselines.teachers.llm import reading
from tests.baselines.teachers.llm.talking import PUSH

TOLD = {"tcp": [[0, 0, 0], [1, 1, 1.5], [2, 2, 2]], "obj": [[3, 3, 3]] * 3, "target": [4, 4, 4]}
BEGINNING = {"tcp": np.zeros((1, 3)), "obj": np.full((1, 3), 3.0), "target": np.full(3, 4.0)}


def read(answer: str) -> dict[str, np.ndarray]:
    return reading.trajectory(answer, PUSH, BEGINNING, 3, 1e-3)


def changed(**points: object) -> str:
    return json.dumps(TOLD | points)


@pytest.mark.parametrize(
    "answer",
    [
        changed(),
        f"Of course! Here it is:\n```json\n{changed()}\n```\nIt moves straight to obj {{as asked}}.",
        changed().replace("]],", "],];").replace("]}", "];\n};"),
        f"It begins with {json.dumps({'tcp': [[0, 0, 0]], 'obj': [[3, 3, 3]], 'target': [4, 4, 4]})}: {changed()}",
        json.dumps({"trajectory": TOLD, "steps": 3}),
        changed(target=[[4, 4, 4]]),
        changed(target=[[4, 4, 4]] * 3),
        changed(gripper=[1, 1, 1]),
        changed(tcp=[[0.0009, 0, 0], [1, 1, 1.5], [2, 2, 2]]),
    ],
)
def test_a_trajectory_is_found_whatever_stands_around_it(answer: str) -> None:
    found = read(answer)
    assert np.allclose(found["tcp"], TOLD["tcp"], atol=1e-3) and found["tcp"].shape == (3, 3)
    assert np.array_equal(found["obj"], np.full((3, 3), 3.0)) and np.array_equal(found["target"], np.full(3, 4.0))


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("unreadable", "I cannot do that."),
        ("unreadable", ""),
        ("unreadable", changed()[:-30]),
        ("unreadable", changed().replace("3]", "3], ...", 1)),
        ("unreadable", "{" * 2_000),
        ("unreadable", '{"tcp":' * 2_000 + "1" + "}" * 2_000),
        ("shape", "{}"),
        ("shape", '{"tcp": [[0, 0, 0], [1, 1, 1.5], [2, 2, 2]], "target": [4, 4, 4]}'),
        ("shape", changed(tcp=[[0, 0, 0], [1, 1], [2, 2, 2]])),
        ("shape", changed(tcp=[[0, 0, 0], [1, 1, "1.5"], [2, 2, 2]])),
        ("shape", changed(tcp=[[0, 0, 0], [1, 1, None], [2, 2, 2]])),
        ("shape", changed(tcp=[[0, 0, 0], [1, 1, True], [2, 2, 2]])),
        ("shape", changed(tcp=[0, 0, 0])),
        ("shape", changed(tcp="straight")),
        ("shape", changed(target=[])),
        ("shape", changed().replace("1.5", "NaN")),
        ("shape", changed().replace("1.5", "-Infinity")),
        ("shape", changed().replace("1.5", "1e999")),
        ("shape", changed().replace("1.5", "1" + "0" * 400)),
        ("shape", changed().replace("1.5", "1e100")),
        ("length", changed(tcp=TOLD["tcp"][:2])),
        ("length", changed(obj=[[3, 3, 3]] * 4)),
        ("length", changed(tcp=[])),
        ("length", changed(target=[[4, 4, 4]] * 2)),
        ("start", changed(tcp=[[0.002, 0, 0], [1, 1, 1.5], [2, 2, 2]])),
        ("start", changed(target=[4, 4, 5])),
        ("start", changed(target=[[4, 4, 4], [4, 4, 4], [4, 4, 5]])),
    ],
)
def test_a_trajectory_that_does_not_fit_is_named_for_what_is_wrong_with_it(fault: str, answer: str) -> None:
    with pytest.raises(Misread) as caught:
        read(answer)
    assert caught.value.fault == fault


def test_of_several_objects_the_one_that_came_furthest_says_what_is_wrong() -> None:
    with pytest.raises(Misread, match="'tcp' has 2 points instead of 3"):
        read('{"note": 1} ' + changed(tcp=TOLD["tcp"][:2]) + ' {"tcp": "as above"}')


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from('{}[]",:;.- 0129eE\ntcpobjargNI'), max_size=200) | st.text(max_size=100))
def test_no_text_does_more_than_be_misread(answer: str) -> None:
    try:
        read(answer)
    except Misread as misread:
        assert misread.fault in reading.ORDER and str(misread)
