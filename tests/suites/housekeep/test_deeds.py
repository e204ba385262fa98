"""Deeds: their names, their captions, and which of them observations show to be possible."""

import math

import numpy as np
import pytest

from guidebench.harness.capabilities import HasCaptions, NamesDeeds, ShowsDeeds
from guidebench.suites.housekeep import Housekeep
from guidebench.suites.housekeep.items import OBJECTS, TASKS
from guidebench.suites.housekeep.task import GRAB_RELEASE, TURN_LEFT

SUITE = Housekeep()
MUG, PLATE = OBJECTS.index("mug"), OBJECTS.index("plate")


def observation_of(pitch=0.0, held=-1, **things):
    """Return an observation [1] in which objects and receptacles are visible: number -> (distance in m, direction to
    the side and elevation in degrees)."""
    observation = np.zeros(1, SUITE.spaces("adjustment_3")[0].numpy)
    observation["pose"][0, 2], observation["held"][0] = math.radians(pitch), held + 1
    for kind, places in things.items():
        for number, (distance, aside, above) in places.items():
            aside, above = math.radians(aside), math.radians(above)
            observation[kind][0, 5 * number : 5 * number + 5] = 1, distance, math.sin(aside), math.cos(aside), above
    return observation


def possible(**scene):
    (deeds,) = SUITE.doable("adjustment_3", observation_of(**scene))
    return deeds


def test_deeds_are_named_by_two_patterns():
    assert isinstance(SUITE, NamesDeeds) and isinstance(SUITE, ShowsDeeds)
    deeds, (patterns, stands) = SUITE.deeds("adjustment_1"), SUITE.deed_forms("adjustment_1")
    assert patterns == ("grab OBJECT", "put OBJECT on RECEPTACLE")
    assert [len(names) for names in stands.values()] == [24, 16]
    filled = {
        pattern.replace("OBJECT", thing).replace("RECEPTACLE", at)
        for pattern in patterns for thing in stands["OBJECT"] for at in stands["RECEPTACLE"]
    }  # fmt: skip
    assert set(deeds) == filled and len(deeds) == 24 + 24 * 16
    assert {"grab salt shaker", "put mug on coffee machine"} < filled


@pytest.mark.parametrize(
    ("place", "pitch", "grabs"),
    [
        ((1.0, 0, 0), 0, True),
        ((1.5, 0, 0), 0, True),
        ((1.51, 0, 0), 0, False),
        ((1.0, 14.9, 0), 0, True),
        ((1.0, 15.1, 0), 0, False),
        ((1.0, -14.9, -30), -30, True),
        ((1.0, 0, -30), -14, False),
        # cos² 60° · cos 29° + sin² 60° = .969, an angle of 14.4 degrees; with 31 degrees to the side 15.4
        ((1.0, 29, -60), -60, True),
        ((1.0, 31, -60), -60, False),
    ],
)
def test_what_is_within_reach_and_in_the_gaze_can_be_grabbed(place, pitch, grabs):
    assert possible(pitch=pitch, objects={MUG: place}) == ({"grab mug": GRAB_RELEASE} if grabs else {})


def test_the_thing_closest_to_the_gaze_counts_and_a_full_hand_puts():
    near = {MUG: (1.4, 5, 0), PLATE: (0.6, -8, 0)}
    receptacles = SUITE.deed_forms("adjustment_3").stands["RECEPTACLE"]
    at = {receptacles.index("table"): (1.2, 0, 10), receptacles.index("sink"): (1.0, 12, 0)}
    assert [*possible(objects=near, receptacles=at)] == ["grab mug"]
    assert [*possible(objects=near, receptacles=at, held=PLATE)] == ["put plate on table"]
    assert possible(objects=near, held=PLATE) == {}, "no receptacle is within reach"
    assert possible() == {}


@pytest.mark.parametrize(("name", "distractors"), [("adjustment_1", 4), ("adjustment_2", 4), ("adjustment_3", 17)])
def test_observations_show_what_grab_or_release_does(name, distractors):
    """The rule over observations and the task's own agree in every step of long random and expert play: no receptacle
    is full in these episodes, and what hides an object hides it from both."""
    suite = Housekeep(distractors=distractors, layouts=None)
    task, rng = suite.make(name), np.random.default_rng(1)
    assert isinstance(task, HasCaptions)
    observation, done, tried = task.reset(0), 0, 0
    for number in range(700):
        (deeds,) = suite.doable(name, observation[None])
        grabs = (deeds and rng.random() < 0.5) or rng.random() < 0.1
        step = task.step(GRAB_RELEASE if grabs else task.expert() if rng.random() < 0.6 else rng.integers(5))
        if grabs:
            assert [*deeds] == [task.caption()] * bool(task.caption())
            tried, done = tried + 1, done + bool(task.caption())
        observation = task.reset() if step.success or number % 400 == 399 else step.observation
    assert tried > 100 and 20 < done < tried - 20
    assert set(TASKS[name]) <= set(OBJECTS)


def test_a_full_receptacle_is_passed_over_by_the_task_alone():
    """This is the only difference, and needs twelve objects on one receptacle."""
    suite = Housekeep(distractors=17)
    task = suite.make("adjustment_1")
    task.reset(0)
    for _ in range(2_000):
        observation = task.step(task.expert()).observation
        (action_by_deed,) = suite.doable("adjustment_1", observation[None])
        if task.held >= 0 and action_by_deed:
            break
    (name,) = action_by_deed
    at = task.floor.names.index(name.split(" on ")[1])
    others = [thing for thing in range(len(OBJECTS)) if thing != task.held][:12]
    for slot, thing in enumerate(others):
        task.put(thing, at, slot)
    task._update_sight(), task._update_view()
    (action_by_deed,) = suite.doable("adjustment_1", task._observation()[None])
    task.step(GRAB_RELEASE)
    assert [*action_by_deed] == [name] and task.caption() != name


def test_captions_say_what_the_last_step_did():
    task = SUITE.make("adjustment_2")
    observation, captions = task.reset(3), []
    assert task.caption() == ""
    while len(captions) < 2:
        (deeds,) = SUITE.doable("adjustment_2", observation[None])
        action = task.expert()
        observation = task.step(action).observation
        if action == GRAB_RELEASE:
            assert [*deeds] == [task.caption()]
            captions.append(task.caption())
            state = task.state()
        else:
            assert task.caption() == ""
    thing = captions[0].removeprefix("grab ")
    assert captions[1].startswith(f"put {thing} on ")
    task.step(TURN_LEFT)
    assert task.caption() == ""
    task.load_state(state)
    assert task.caption() == ""
