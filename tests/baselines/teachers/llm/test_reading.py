"""Answers that models write, good and bad: each is read right or named for what is wrong with it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guidebench.baselines.conversing import Misread
from guidebench.baselines.teachers.llm import reading
from tests.baselines.teachers.llm.conversations import PUSH

TRAJECTORY = {"tcp": [[0, 0, 0], [1, 1, 1.5], [2, 2, 2]], "obj": [[3, 3, 3]] * 3, "target": [4, 4, 4]}
BEGINNING = {"tcp": np.zeros((1, 3)), "obj": np.full((1, 3), 3.0), "target": np.full(3, 4.0)}


REACHED = tuple(thing._replace(reach=((-1.0, 4.0),) * 3) for thing in PUSH)


def test_a_point_that_the_task_cannot_reach_is_refused_by_name() -> None:
    def bounded(**points: object) -> dict[str, np.ndarray]:
        return reading.trajectory(changed(**points), REACHED, BEGINNING, 3, 1e-3)

    assert bounded(tcp=[[0, 0, 0], [4, 4, -1], [2, 2, 2]])["tcp"][1].tolist() == [4, 4, -1]
    with pytest.raises(Misread, match=r"'tcp' has 1e\+30 as coordinate 3 of step 2, .* between -1 and 4") as caught:
        bounded(tcp=[[0, 0, 0], [1, 1, 1e30], [2, 2, 2]])
    assert caught.value.fault == "reach"
    with pytest.raises(Misread, match=r"'obj' has 4\.1 as coordinate 1 of step 3"):
        bounded(obj=[[3, 3, 3], [3, 3, 3], [4.1, 3, 3]])


def test_what_begins_outside_its_reach_may_stay_there() -> None:
    low = (REACHED[0], REACHED[1]._replace(reach=((-1.0, 2.0),) * 3), REACHED[2])
    trajectory = reading.trajectory(changed(), low, BEGINNING, 3, 1e-3)
    assert np.array_equal(trajectory["obj"], np.full((3, 3), 3.0))


def read(answer: str) -> dict[str, np.ndarray]:
    return reading.trajectory(answer, PUSH, BEGINNING, 3, 1e-3)


def changed(**points: object) -> str:
    return json.dumps(TRAJECTORY | points)


@pytest.mark.parametrize(
    "answer",
    [
        changed(),
        f"Of course! Here it is:\n```json\n{changed()}\n```\nIt moves straight to obj {{as asked}}.",
        changed().replace("]],", "],];").replace("]}", "];\n};"),
        f"It begins with {json.dumps({'tcp': [[0, 0, 0]], 'obj': [[3, 3, 3]], 'target': [4, 4, 4]})}: {changed()}",
        json.dumps({"trajectory": TRAJECTORY, "steps": 3}),
        changed(target=[[4, 4, 4]]),
        changed(target=[[4, 4, 4]] * 3),
        changed(gripper=[1, 1, 1]),
        changed(tcp=[[0.0009, 0, 0], [1, 1, 1.5], [2, 2, 2]]),
    ],
)
def test_a_trajectory_is_found_whatever_stands_around_it(answer: str) -> None:
    positions_by_object = read(answer)
    assert np.allclose(positions_by_object["tcp"], TRAJECTORY["tcp"], atol=1e-3) and positions_by_object[
        "tcp"
    ].shape == (3, 3)
    assert np.array_equal(positions_by_object["obj"], np.full((3, 3), 3.0)) and np.array_equal(
        positions_by_object["target"], np.full(3, 4.0)
    )


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
        ("length", changed(tcp=TRAJECTORY["tcp"][:2])),
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
        read('{"note": 1} ' + changed(tcp=TRAJECTORY["tcp"][:2]) + ' {"tcp": "as above"}')


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet=st.sampled_from('{}[]",:;.- 0129eE\ntcpobjargNI'), max_size=200) | st.text(max_size=100))
def test_no_text_does_more_than_be_misread(answer: str) -> None:
    try:
        read(answer)
    except Misread as misread:
        assert misread.fault in reading.ORDER and str(misread)
