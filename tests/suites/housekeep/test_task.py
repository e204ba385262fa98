"""What a task does: grabbing, releasing, sub-goals, sight, state, and the scripted agent."""

import itertools
import math

import numpy as np
import pytest

from guidebench.suites.housekeep import Housekeep
from guidebench.suites.housekeep.items import ALIASES, OBJECTS, TASKS
from guidebench.suites.housekeep.task import AIM, DOWN, FORWARD, GRAB_RELEASE, LEFT, REACH, RIGHT, SIZE, UP

NUMBER = {name: number for number, name in enumerate(OBJECTS)}


def made(name="adjustment_2", seed=0, **settings):
    task = Housekeep(**settings).make(name)
    task.reset(seed)
    return task


def begun(task, number):
    """Begin an episode in a layout."""
    task.reset(0)
    while task.number != number:
        task.reset()


def test_the_papers_items_have_housekeeps_names():
    assert [len(items) for items in TASKS.values()] == [7, 5, 7]
    assert ALIASES == {"task11": "adjustment_1", "task12": "adjustment_2", "task13": "adjustment_3"}
    assert TASKS["adjustment_1"] == (
        "spatula", "pressure_cooker", "peppermint", "plate", "fork", "blender_jar", "salt_shaker",
    )  # fmt: skip
    assert TASKS["adjustment_3"] == (
        "salt_shaker", "mug", "chopping_board", "dietary_supplement", "soap_dispenser", "butter_dish", "dishtowel",
    )  # fmt: skip


def test_items_start_misplaced_and_distractors_where_they_belong():
    for name, items in TASKS.items():
        task = made(name)
        for number in range(8):
            begun(task, number)
            assert not task.placed().any() and task.score() == 0
            there = set(np.flatnonzero(task.place >= 0).tolist())
            others = there - {NUMBER[item] for item in items}
            assert len(others) == 4 and len(there) == len(items) + 4
            assert all(task.rules.correct[thing, task.place[thing]] for thing in others)
            taken = [(task.place[thing], task.slot[thing]) for thing in there]
            assert len(set(taken)) == len(taken)


def test_layouts_come_from_a_pool_that_training_and_evaluation_share():
    one = made(layouts=3)
    numbers = set()
    for _ in range(40):
        one.reset()
        numbers.add(one.number)
    assert numbers == {0, 1, 2}
    other = made("adjustment_1", seed=9, layouts=3)
    begun(one, 1), begun(other, 1)
    assert one.floor is other.floor  # tasks share floor plans
    endless = made(layouts=None)
    assert len({endless.reset() is None or endless.number for _ in range(20)}) == 20


def test_turns_and_tilts_are_twenty_and_ten_degrees_and_bounded():
    task = made()
    before = task.heading
    task.step(LEFT)
    assert (task.heading - before) % math.tau == pytest.approx(math.radians(20))
    task.step(RIGHT)
    assert task.heading == before
    assert math.degrees(task.pitch) == pytest.approx(-30)
    for action, bound in ((UP, 60), (DOWN, -60)):
        for _ in range(15):
            task.step(action)
        assert math.degrees(task.pitch) == pytest.approx(bound)
    for _ in range(18):
        task.step(LEFT)
    assert task.heading == before


def stood(task, thing, distance, aside=0.0, above=0.0):
    """Stand before a thing, at a horizontal distance, with the gaze to its side and above it by so many radians."""
    x, y, z = task.points[thing].tolist()
    for degrees in range(0, 360, 5):
        heading = math.radians(degrees)
        task.x, task.y = x - distance * math.cos(heading), y - distance * math.sin(heading)
        if task.free_sight(task.x, task.y, np.array([thing])).all():
            task.start = task.start._replace(heading=heading + aside)
            task.turns, task.tilts = 0, (math.atan2(z - 1.5, distance) + above) / math.radians(10)
            task._went(), task._turned()
            return
    pytest.fail("nothing is seen from there")


@pytest.mark.parametrize(
    ("distance", "aside", "above", "grabbed"),
    [
        (1.0, 0.0, 0.0, True),
        (1.49, 0.0, 0.0, True),
        (1.51, 0.0, 0.0, False),  # out of reach
        (1.0, 0.0, 0.25, True),  # 14.3 degrees
        (1.0, 0.0, -0.25, True),
        (1.0, 0.0, 0.27, False),  # 15.5 degrees
        (1.0, 0.6, 0.0, False),
    ],
)
def test_what_is_near_and_close_to_the_gaze_is_grabbed(distance, aside, above, grabbed):
    task = made(distractors=0)
    thing = task.rules.items[0]
    for other in task.rules.items[1:]:  # nothing else to grab
        task.put(other, -1, -1)
    task.put(thing, task.floor.names.index("table"), 0)
    stood(task, thing, distance, aside, above)
    task.step(GRAB_RELEASE)
    assert (task.held == thing) == grabbed


def test_of_two_things_the_one_closer_to_the_gaze_is_grabbed():
    task = made(distractors=0)
    one, other = task.rules.items[:2]
    table = task.floor.names.index("table")
    task.put(one, table, 0), task.put(other, table, 1)
    for wanted in (one, other):
        begun_at = task.state()
        stood(task, wanted, 1.2)
        task.step(GRAB_RELEASE)
        assert task.held == wanted
        task.load_state(begun_at)


def test_an_empty_release_does_nothing_and_a_full_receptacle_takes_nothing():
    task = made(distractors=0)
    sink = task.floor.names.index("sink")
    thing = task.rules.items[0]
    task.put(thing, -1, -1)
    task.held = thing
    others = [number for number in range(SIZE) if number != thing][:12]
    for slot, other in enumerate(others):
        task.put(other, sink, slot)
    assert SIZE + sink not in task.reachable() and len(task.reachable()) == 15
    task.put(others[3], -1, -1)
    assert SIZE + sink in task.reachable()
    stood(task, SIZE + sink, 1.0)
    task.step(GRAB_RELEASE)
    assert task.held < 0 and (task.place[thing], task.slot[thing]) == (sink, 3)


def test_sub_goals_of_an_item_are_met_in_order_and_events_name_them():
    task = made(distractors=0)
    task._met[:] = False
    thing, name = task.rules.items[1], "sparkling_water"
    assert OBJECTS[thing] == name
    names = list(task.subgoals())[4:8]
    assert names == [f"2 {stage} sparkling water" for stage in ("find", "grab", "find receptacle of", "release")]
    seen, order = [], []
    for _ in range(600):
        step = task.step(task.expert())
        order += [at - 4 for at in np.flatnonzero(task.events()).tolist() if 4 <= at < 8]
        seen.append([task.subgoals()[each] for each in names])
        if step.success:
            break
    assert order == [0, 1, 2, 3] and seen[-1] == [True] * 4
    assert all(a <= b for one, other in itertools.pairwise(seen) for a, b in zip(one, other, strict=True))
    assert not task.events()[20:].any()  # five items: the rest of the 28 is left


def test_the_share_of_items_placed_is_the_score_and_may_fall_again():
    task = made(distractors=0, reward="placed")
    table, stove = task.floor.names.index("table"), task.floor.names.index("stove")
    items = task.rules.items
    assert [OBJECTS[item] for item in items] == list(TASKS["adjustment_2"])
    for thing in items[:3]:  # lamp, sparkling water and plant belong on a table
        task.put(thing, table, thing % 12)
    assert task.score() == 3 / 5 == task.completion()
    task.put(items[0], stove, 0)
    assert task.score() == 2 / 5
    task.put(items[1], -1, -1)
    task.held = items[1]
    assert task.score() == 1 / 5  # what is held is not placed


@pytest.mark.parametrize(("reward", "last"), [("success", 1.0), ("placed", 1 / 5)])
def test_success_ends_the_episode_and_pays(reward, last):
    task = made(reward=reward, seed=3)
    rewards = []
    for _ in range(1000):
        step = task.step(task.expert())
        rewards.append(step.reward)
        if step.terminated:
            break
    assert step.success and step.reward == pytest.approx(last) and sum(rewards) == pytest.approx(1)
    assert task.score() == 1
    if reward == "success":
        assert set(rewards) == {0.0, 1.0} and rewards.count(1.0) == 1


def test_an_item_taken_from_its_place_costs_what_it_paid():
    task = made(reward="placed", distractors=0)
    lamp, table = task.rules.items[0], task.floor.names.index("table")
    task.put(lamp, table, 0)
    task._share = task.score()
    stood(task, lamp, 1.0)
    assert task.step(GRAB_RELEASE).reward == pytest.approx(-1 / 5)


def test_an_episode_is_cut_after_its_length():
    task = made(length=7)
    steps = [task.step(LEFT) for _ in range(7)]
    assert [step.truncated for step in steps] == [False] * 6 + [True]


def test_what_is_in_closed_furniture_is_seen_from_its_front_within_reach():
    task = made(distractors=0)
    fridge = task.floor.names.index("fridge")
    thing = task.rules.items[0]
    task.put(thing, fridge, 0)
    face, front = task.floor.point[fridge, :2], task.floor.front[fridge]

    def seen(distance):
        x, y = (face + distance * front).tolist()
        return bool(task.free_sight(x, y, np.array([thing]))[0])

    assert seen(0.5) and seen(1.4) and not seen(1.6) and not seen(-0.5)


def test_observations_hold_what_is_in_view_by_its_number():
    task = made(distractors=0)
    thing, table = task.rules.items[2], task.floor.names.index("table")
    task.put(thing, table, 0)
    stood(task, thing, 1.0, aside=0.2)
    record = task._observation()
    numbers = record["objects"].reshape(SIZE, 5)
    height = task.points[thing, 2] - 1.5
    assert numbers[thing] == pytest.approx([1, 1, math.sin(-0.2), math.cos(0.2), math.atan2(height, 1)], abs=1e-5)
    assert record["places"][thing] == 1 + table
    hidden = [other for other in range(SIZE) if not task._visible[other]]
    assert hidden and not numbers[hidden].any() and not record["places"][hidden].any()
    assert record["held"] == 0 and record["pose"] == pytest.approx(
        [math.sin(task.heading), math.cos(task.heading), task.pitch]
    )
    task.turns = 9  # the other way
    task._turned()
    assert not task._observation()["objects"].reshape(SIZE, 5)[thing].any()


def test_the_text_says_what_is_in_view_and_held():
    task = made(observation="text", distractors=0)
    thing, table = task.rules.items[2], task.floor.names.index("table")
    task.put(thing, table, 0)
    stood(task, thing, 1.0)
    task.tilts = -4
    task._turned()
    told = task.text()
    assert "plant on table (1.0 m ahead)." in told and "you hold nothing. you look 40 degrees down." in told
    record = task._observation()["text"]
    assert record.tobytes().rstrip(b"\0").decode() == told
    task.put(thing, -1, -1)
    task.held = thing
    task._turned()
    assert "you hold plant." in task.text() and "plant on" not in task.text()


def test_the_longest_text_fits():
    task = made("adjustment_1", distractors=17, observation="text")
    task._visible[:] = task._present
    assert len(task.text().encode()) < 2048
    assert task._observation()["text"].any()


def test_a_position_repeats_with_everything_that_decides_the_future():
    task = made()
    first = task.position()
    task.step(LEFT)
    assert task.position() != first
    task.step(RIGHT)
    assert task.position() == first
    assert made(reward="placed").position() is None


@pytest.mark.parametrize("name", TASKS)
def test_the_scripted_agent_places_all_items_in_every_layout(name):
    task = made(name)
    for number in range(8):
        begun(task, number)
        steps = 0
        while not (step := task.step(task.expert())).success:
            steps += 1
            assert not step.truncated, number
        assert task.score() == 1 and all(task.subgoals().values()) and steps < 400


def test_the_scripted_agent_puts_down_what_it_finds_in_its_hand():
    task = made("adjustment_1", seed=1)
    other = next(thing for thing in np.flatnonzero(task.place >= 0).tolist() if thing not in task.rules.items)
    task.put(other, -1, -1)
    task.held = other
    for _ in range(600):
        if task.step(task.expert()).success:
            break
    assert task.score() == 1 and task.rules.correct[other, task.place[other]]


def test_forward_moves_and_the_bounds_of_aim_and_reach_are_those_of_the_docs():
    task = made()
    before = task.x, task.y
    for _ in range(18):
        task.step(FORWARD)
        task.step(LEFT)
    assert (task.x, task.y) != before
    assert (math.degrees(AIM), REACH) == pytest.approx((15, 1.5))


def test_a_restored_solver_goes_on_with_its_plan_and_a_new_episode_drops_it():
    """In these layouts a way that is searched anew, from the middle of another, begins otherwise."""
    for seed, steps in ((0, 19), (5, 52)):
        task = made("adjustment_1", seed=seed)
        for _ in range(steps):
            task.step(task.expert())
        state = task.state()
        kept, lost = (made("adjustment_1", seed=99) for _ in range(2))
        kept.load_state(state)
        lost.load_state({**state, "solver": None})
        action = task.expert()
        assert kept.expert() == action != lost.expert()
        for _ in range(60):
            assert task.step(action)[1:] == kept.step(action)[1:]
            action = task.expert()
            assert action == kept.expert()
        task.reset(seed)
        assert task.state()["solver"] is None
