"""Floor plans, lines of sight worked by hand, and steps."""

import math

import numpy as np
import pytest

from guidebench.suites.housekeep.floors import EYE, NEAR, RADIUS, SLOTS, clear, faced, floor, moved, standable
from guidebench.suites.housekeep.furniture import FURNITURE
from guidebench.suites.housekeep.preferences import ours
from tests.refusals import check_refused

KITCHEN = ours().receptacles("kitchen")
OTHERS = (
    ("bathtub", "bottom cabinet", "carpet", "counter", "shelf", "sink", "table", "toilet", "top cabinet"),
    ("basket", "bed", "bottom cabinet", "carpet", "chair", "chest", "coffee table", "console table", "counter",
     "office chair", "shelf", "sofa chair", "table"),
    ("bottom cabinet", "carpet", "chair", "chest", "coffee table", "console table", "loudspeaker", "office chair",
     "shelf", "sofa", "sofa chair", "speaker system", "stool", "table"),
)  # fmt: skip


@pytest.mark.parametrize("names", [KITCHEN, *OTHERS])
@pytest.mark.parametrize("number", range(2))
def test_furniture_lies_in_the_room_and_apart_and_can_be_reached(names, number):
    plan = floor(tuple(names), number)
    low, high = plan.boxes
    assert (low >= -1e-5).all() and (high[0] <= plan.size[0] + 1e-5).all() and (high[1] <= plan.size[1] + 1e-5).all()
    count = len(names)
    for first in range(count):
        for second in range(first):
            overlap = (
                np.minimum(high[:, first], high[:, second]) - np.maximum(low[:, first], low[:, second]) > 1e-4
            ).all()
            assert not overlap, (names[first], names[second])
    every, counted = np.arange(count), ~np.eye(count, dtype=bool) & plan.blocks
    reached = np.zeros(count, bool)
    for x, y in plan.free:
        assert standable(plan, x, y)
        near = np.hypot(*(plan.point[:, :2] - (x, y)).T) <= NEAR
        reached |= near & clear(plan, x, y, plan.point, counted) & (faced(plan, x, y, every) | ~plan.inside)
    assert reached.all() and len(plan.free) > 50


def test_plans_differ_by_number_and_repeat():
    plan, repeated, other_plan = floor(KITCHEN, 3), floor.__wrapped__(KITCHEN, 3), floor(KITCHEN, 4)
    assert np.array_equal(plan.boxes, repeated.boxes) and np.array_equal(plan.slots, repeated.slots)
    assert not np.array_equal(plan.boxes, other_plan.boxes)


def test_a_receptacle_holds_twelve_objects_at_different_places():
    plan = floor(KITCHEN, 0)
    for number, name in enumerate(KITCHEN):
        places = plan.slots[number]
        assert len(np.unique(places.round(3), axis=0)) == SLOTS
        low, high = plan.boxes[..., number]
        assert (places[:, :2] >= low[:2]).all() and (places[:, :2] <= high[:2]).all()
        if FURNITURE[name].holds == "top":
            assert (places[:, 2] > high[2]).all()
        else:
            assert ((places[:, 2] > low[2]) & (places[:, 2] < high[2])).all()


def box_plan(box, **changed):
    """Return a plan with one box in a room of 5 x 5 m; its front faces along y, and its floor cannot be walked on."""
    plan = floor(KITCHEN, 0)
    (x0, y0, _), (x1, y1, _) = box
    walls = ((x0 - RADIUS, y0 - RADIUS, x1 + RADIUS, y1 + RADIUS),)
    return plan._replace(
        names=("counter",), size=(5.0, 5.0), boxes=np.array(box, np.float32)[:, :, None], walls=walls,
        front=np.array([[0.0, 1.0]]), point=np.array([[2.5, y1 + 0.01, 0.5]]), blocks=np.array([True]), **changed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("top", "height", "free"),
    [
        (
            1.0,
            0.4,
            True,
        ),  # the line from 1.5 m to .4 m is at .95 - .05 over the middle, just above .8375 at the far edge
        (1.8, 0.4, False),  # higher than the eye: nothing behind it is seen
        (1.1, 0.1, False),  # from (0, 1.5) to (4, .1): at x = 2.25 the line is at .71
        (0.5, 0.1, True),  # at x = 2.25 it is at .71, above .5
    ],
)
def test_a_box_hides_what_the_line_of_sight_crosses(top, height, free):
    """The eye is at x = 0, the point at x = 4, the box from x = 1.75 to 2.25: the line falls by (1.5 - height) / 4 a
    metre, so at the box's far edge it is at 1.5 - 2.25 / 4 (1.5 - height)."""
    lowest = EYE - 2.25 / 4 * (EYE - height)
    plan = box_plan(((1.75, 2.0, 0.0), (2.25, 3.0, min(top, 0.85) if free and top == 1.0 else top)))
    point = np.array([[4.0, 2.5, height]], np.float32)
    assert free == (lowest > plan.boxes[1, 2, 0])
    assert clear(plan, 0.0, 2.5, point, np.array([[True]])).tolist() == [free]
    assert clear(plan, 0.0, 2.5, point, np.array([[False]])).tolist() == [True]  # one's own box hides nothing
    assert clear(plan, 0.0, 0.5, np.array([[4.0, 0.5, height]], np.float32), np.array([[True]])).all()  # beside it


def test_the_front_is_where_one_looks_in():
    plan = box_plan(((2.0, 0.0, 0.0), (3.0, 0.6, 1.8)))
    at = np.array([0])
    assert faced(plan, 2.5, 2.0, at).all() and faced(plan, 0.2, 0.7, at).all()
    assert not faced(plan, 1.0, 0.5, at).any()


@pytest.mark.parametrize(
    ("start", "degrees", "end"),
    [
        ((1.0, 1.0), 0, (1.25, 1.0)),
        ((1.0, 1.0), 90, (1.0, 1.25)),
        ((1.0, 1.0), 60, (1.125, 1.0 + 0.25 * math.sqrt(0.75))),
        ((1.5, 2.5), 0, (1.5, 2.5)),  # into the box's face at 1.75 - .18
        ((1.5, 2.2), 60, (1.5, 2.2 + 0.25 * math.sqrt(0.75))),  # along that face
        ((0.2, 1.0), 180, (0.2, 1.0)),  # into the wall
        ((4.7, 4.75), 45, (4.7, 4.75)),  # into the corner, where x ends at 4.82
    ],
)
def test_a_step_goes_a_quarter_of_a_metre_or_slides_or_stays(start, degrees, end):
    plan = box_plan(((1.75, 2.0, 0.0), (2.25, 3.0, 1.0)))
    assert moved(plan, *start, math.radians(degrees)) == pytest.approx(end)


def test_unknown_and_too_many_receptacles_are_refused():
    check_refused(
        "receptacle 'throne' of the table of preferences is none of Housekeep's", floor, ("table", "throne"), 0
    )
    check_refused("no floor plan holds the 2 receptacles microwave, table", floor, ("microwave", "table"), 0)
