"""Pictures drawn from snapshots, plain and perturbed."""

import math

import numpy as np
import pytest

from guidebench.suites.housekeep import Housekeep, HousekeepDrawing
from guidebench.suites.housekeep.items import OBJECTS
from guidebench.suites.housekeep.looks import FLOOR, KIND, standard
from guidebench.suites.housekeep.perturbations import swapped
from guidebench.suites.housekeep.snapshots import KINDS, unpack


@pytest.fixture(scope="module")
def approach():
    """Return a task in which an item is about to be grabbed, and the snapshots on the way there."""
    task = Housekeep().make("adjustment_1")
    task.reset(3)
    snapshots = [task.snapshot()]
    while task.held < 0:
        task.step(task.expert())
        snapshots.append(task.snapshot())
    return task, np.stack(snapshots)


def draw(snapshots, **settings):
    return HousekeepDrawing(**settings).spawn("adjustment_1")(snapshots)


def test_a_snapshot_holds_boxes_objects_and_pose(approach):
    task, snapshots = approach
    assert snapshots.shape[1] == 738
    scene = unpack(snapshots[-1])
    assert [KINDS[kind] for kind in scene.kinds] == list(task.floor.names)
    assert np.array_equal(scene.low.T, task.floor.boxes[0]) and np.array_equal(scene.high.T, task.floor.boxes[1])
    assert scene.things.tolist() == np.flatnonzero(task.place >= 0).tolist() and scene.held == task.held
    assert np.array_equal(scene.points, task.points[scene.things])
    assert scene.pose == pytest.approx((task.x, task.y, task.heading, task.pitch), abs=1e-6)
    assert unpack(snapshots[0]).held == -1


@pytest.mark.parametrize("view", ["agent", "above"])
def test_equal_snapshots_give_equal_pictures_and_others_differ(approach, view):
    _, snapshots = approach
    pictures = draw(snapshots[[0, 1, 0]], view=view, size=64)
    assert pictures.shape == (3, 64, 64, 3) and pictures.dtype == np.uint8
    assert np.array_equal(pictures[0], pictures[2]) and not np.array_equal(pictures[0], pictures[1])


def test_the_middle_of_the_camera_shows_what_is_grabbed(approach):
    """The object that GRAB_RELEASE takes lies within 15 degrees of the gaze, which is the picture's middle."""
    task, snapshots = approach
    picture = draw(snapshots[-2:-1], size=200)[0]
    colour = standard().colours[KIND + task.held].astype(float)
    radius = round(100 * math.tan(math.radians(18)))
    middle = picture[100 - radius : 100 + radius, 100 - radius : 100 + radius].astype(float)
    shades = [np.abs(middle - colour * shade).max(-1) <= 1 for shade in (0.82, 0.92, 1.0)]
    assert np.any(shades)


def test_the_map_shows_floor_furniture_and_the_agent(approach):
    task, snapshots = approach
    picture = draw(snapshots[:1], view="above", size=200)[0]
    scale = 200 / max(task.floor.size)
    for number, name in enumerate(task.floor.names):
        if name in ("fridge", "shelf", "oven"):
            x, y, _ = (task.floor.boxes[:, :, number].mean(0) * scale).tolist()
            area = picture[200 - int(y) - 3 : 200 - int(y) + 3, int(x) - 3 : int(x) + 3].reshape(-1, 3)
            assert (area == standard().colours[KINDS.index(name)]).all(-1).any()
    assert (picture == (200, 30, 30)).all(-1).any() and (picture == FLOOR).all(-1).mean() > 0.2


def test_names_are_written_where_there_is_room(approach):
    _, snapshots = approach
    with_names, without = (draw(snapshots[:1], size=256, view="above", labels=labels)[0] for labels in (True, False))
    assert ((with_names == 255).all(-1) & (without != 255).any(-1)).sum() > 200
    assert np.array_equal(*(draw(snapshots[:1], size=255, labels=labels)[0] for labels in (True, False)))


def test_what_is_in_a_closed_fridge_is_drawn_only_when_looked_into():
    task = Housekeep(distractors=0).make("adjustment_2")
    task.reset(0)
    thing, fridge = task.rules.items[0], task.floor.names.index("fridge")
    for slot, other in enumerate(task.rules.items[1:]):
        task.put(other, task.floor.names.index("sink"), slot)
    task.put(thing, fridge, 0)
    face, front = task.floor.point[fridge, :2], task.floor.front[fridge]
    colour = standard().colours[KIND + thing]

    def is_drawn(distance):
        task.x, task.y = (face + distance * front).tolist()
        task.start = task.start._replace(heading=math.atan2(-front[1], -front[0]))
        task.turns, task.tilts = 0, -2
        task._update_sight(), task._update_view()
        picture = draw(task.snapshot()[None], size=128)[0].astype(float)
        return any((np.abs(picture - colour * shade).max(-1) <= 1).any() for shade in (0.82, 0.92, 1.0))

    assert is_drawn(1.0) and not is_drawn(1.7)


def test_swapped_looks_are_those_of_other_things(approach):
    looks, other = standard(), swapped()
    assert other.names[KINDS.index("fridge")] == "loudspeaker" and other.names[KIND] == OBJECTS[1].replace("_", " ")
    for number in range(len(looks.names)):
        assert other.names[number] != looks.names[number]
        assert np.array_equal(other.colours[number], looks.colours[looks.names.index(other.names[number])])
    assert (other.names.index("washer") < KIND) and sorted(other.names) == sorted(looks.names)


@pytest.mark.parametrize("view", ["agent", "above"])
@pytest.mark.parametrize("perturbation", ["sprite_swap", "texture"])
def test_a_perturbation_changes_things_and_neither_room_nor_shape(approach, view, perturbation):
    _, snapshots = approach
    plain, other = (draw(snapshots[:1], view=view, perturbation=name, size=96)[0] for name in ("none", perturbation))
    assert (plain != other).any()
    floor = (plain == FLOOR).all(-1)
    assert floor.any() and np.array_equal(plain[floor], other[floor])
