"""What a task does: grabbing, releasing, sub-goals, sight, state, and the scripted agent."""

import itertools
import math

import numpy as np
import pytest

from guidebench.suites.housekeep import Housekeep
from guidebench.suites.housekeep.items import ALIASES, OBJECTS, TASKS
from guidebench.suites.housekeep.task import AIM, DOWN, FORWARD, GRAB_RELEASE, REACH, SIZE, TURN_LEFT, TURN_RIGHT, UP
from tests.refusals import check_refused

NUMBER = {name: number for number, name in enumerate(OBJECTS)}


def make_task(name="adjustment_2", seed=0, **settings):
    task = Housekeep(**settings).make(name)
    task.reset(seed)
    return task


def begin_layout(task, number):
    """Reset the task until its episode has the layout of this number."""
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
        task = make_task(name)
        for number in range(8):
            begin_layout(task, number)
            assert not task.placed().any() and task.score() == 0
            present = set(np.flatnonzero(task.place >= 0).tolist())
            distractors = present - {NUMBER[item] for item in items}
            assert len(distractors) == 4 and len(present) == len(items) + 4
            assert all(task.rules.correct[thing, task.place[thing]] for thing in distractors)
            slots = [(task.place[thing], task.slot[thing]) for thing in present]
            assert len(set(slots)) == len(slots)


def test_layouts_come_from_a_pool_that_training_and_evaluation_share():
    task = make_task(layouts=3)
    numbers = set()
    for _ in range(40):
        task.reset()
        numbers.add(task.number)
    assert numbers == {0, 1, 2}
    other_task = make_task("adjustment_1", seed=9, layouts=3)
    begin_layout(task, 1), begin_layout(other_task, 1)
    assert task.floor is other_task.floor  # tasks share floor plans
    endless = make_task(layouts=None)
    assert len({endless.reset() is None or endless.number for _ in range(20)}) == 20


def test_turns_and_tilts_are_twenty_and_ten_degrees_and_bounded():
    task = make_task()
    before = task.heading
    task.step(TURN_LEFT)
    assert (task.heading - before) % math.tau == pytest.approx(math.radians(20))
    task.step(TURN_RIGHT)
    assert task.heading == before
    assert math.degrees(task.pitch) == pytest.approx(-30)
    for action, bound in ((UP, 60), (DOWN, -60)):
        for _ in range(15):
            task.step(action)
        assert math.degrees(task.pitch) == pytest.approx(bound)
    for _ in range(18):
        task.step(TURN_LEFT)
    assert task.heading == before


def stand_before(task, thing, distance, aside=0.0, above=0.0):
    """Place the agent before an object, at a horizontal distance in m, with the object `aside` and `above` its gaze in
    radians."""
    x, y, z = task.points[thing].tolist()
    for degrees in range(0, 360, 5):
        heading = math.radians(degrees)
        task.x, task.y = x - distance * math.cos(heading), y - distance * math.sin(heading)
        if task.free_sight(task.x, task.y, np.array([thing])).all():
            task.start = task.start._replace(heading=heading + aside)
            task.turns, task.tilts = 0, (math.atan2(z - 1.5, distance) + above) / math.radians(10)
            task._update_sight(), task._update_view()
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
    task = make_task(distractors=0)
    thing = task.rules.items[0]
    for other in task.rules.items[1:]:  # nothing else to grab
        task.put(other, -1, -1)
    task.put(thing, task.floor.names.index("table"), 0)
    stand_before(task, thing, distance, aside, above)
    task.step(GRAB_RELEASE)
    assert (task.held == thing) == grabbed


def test_of_two_things_the_one_closer_to_the_gaze_is_grabbed():
    task = make_task(distractors=0)
    first, second = task.rules.items[:2]
    table = task.floor.names.index("table")
    task.put(first, table, 0), task.put(second, table, 1)
    for target in (first, second):
        begun_at = task.state()
        stand_before(task, target, 1.2)
        task.step(GRAB_RELEASE)
        assert task.held == target
        task.load_state(begun_at)


def test_an_empty_release_does_nothing_and_a_full_receptacle_takes_nothing():
    task = make_task(distractors=0)
    sink = task.floor.names.index("sink")
    thing = task.rules.items[0]
    task.put(thing, -1, -1)
    task.held = thing
    distractors = [number for number in range(SIZE) if number != thing][:12]
    for slot, other in enumerate(distractors):
        task.put(other, sink, slot)
    assert SIZE + sink not in task.reachable() and len(task.reachable()) == 15
    task.put(distractors[3], -1, -1)
    assert SIZE + sink in task.reachable()
    stand_before(task, SIZE + sink, 1.0)
    task.step(GRAB_RELEASE)
    assert task.held < 0 and (task.place[thing], task.slot[thing]) == (sink, 3)


def test_sub_goals_of_an_item_are_met_in_order_and_events_name_them():
    task = make_task(distractors=0)
    task._met[:] = False
    thing, name = task.rules.items[1], "sparkling_water"
    assert OBJECTS[thing] == name
    names = list(task.subgoals())[4:8]
    assert names == [f"2 {stage} sparkling water" for stage in ("find", "grab", "find receptacle of", "release")]
    progress, order = [], []
    for _ in range(600):
        step = task.step(task.expert())
        order += [at - 4 for at in np.flatnonzero(task.events()).tolist() if 4 <= at < 8]
        progress.append([task.subgoals()[name] for name in names])
        if step.success:
            break
    assert order == [0, 1, 2, 3] and progress[-1] == [True] * 4
    assert all(a <= b for earlier, later in itertools.pairwise(progress) for a, b in zip(earlier, later, strict=True))
    assert not task.events()[20:].any()  # five items: the rest of the 28 is left


def test_the_share_of_items_placed_is_the_score_and_may_fall_again():
    task = make_task(distractors=0, reward="placed")
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


def test_fewer_items_are_the_first_of_the_task_and_one_may_be_in_the_hand():
    task = make_task(items=2, start="holding", layouts=1, distractors=0, reward="placed")
    first, second = task.rules.items
    assert [OBJECTS[item] for item in task.rules.items] == list(TASKS["adjustment_2"][:2])
    assert task.held == first and task.place[first] == -1 and task.place[second] >= 0
    assert (task.place >= 0).sum() == 1 and task.score() == 0
    assert [name for name, met in task.subgoals().items() if met][:2] == ["1 find lamp", "1 grab lamp"]
    rewards = []
    while task.score() != 1:
        rewards.append(task.step(task.expert()).reward)
    assert [reward for reward in rewards if reward] == [0.5, 0.5]
    task.reset()
    assert task.held == first
    check_refused("task 'adjustment_2' has 5 items", Housekeep(items=6).make, "adjustment_2")


@pytest.mark.parametrize(("reward", "last"), [("success", 1.0), ("placed", 1 / 5)])
def test_success_ends_the_episode_and_pays(reward, last):
    task = make_task(reward=reward, seed=3)
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
    task = make_task(reward="placed", distractors=0)
    lamp, table = task.rules.items[0], task.floor.names.index("table")
    task.put(lamp, table, 0)
    task._share = task.score()
    stand_before(task, lamp, 1.0)
    assert task.step(GRAB_RELEASE).reward == pytest.approx(-1 / 5)


def test_an_episode_is_cut_after_its_length():
    task = make_task(length=7)
    steps = [task.step(TURN_LEFT) for _ in range(7)]
    assert [step.truncated for step in steps] == [False] * 6 + [True]


def test_what_is_in_closed_furniture_is_seen_from_its_front_within_reach():
    task = make_task(distractors=0)
    fridge = task.floor.names.index("fridge")
    thing = task.rules.items[0]
    task.put(thing, fridge, 0)
    face, front = task.floor.point[fridge, :2], task.floor.front[fridge]

    def is_seen(distance):
        x, y = (face + distance * front).tolist()
        return bool(task.free_sight(x, y, np.array([thing]))[0])

    assert is_seen(0.5) and is_seen(1.4) and not is_seen(1.6) and not is_seen(-0.5)


def test_observations_hold_what_is_in_view_by_its_number():
    task = make_task(distractors=0)
    thing, table = task.rules.items[2], task.floor.names.index("table")
    task.put(thing, table, 0)
    stand_before(task, thing, 1.0, aside=0.2)
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
    task._update_view()
    assert not task._observation()["objects"].reshape(SIZE, 5)[thing].any()


def test_the_text_says_what_is_in_view_and_held():
    task = make_task(observation="text", distractors=0)
    thing, table = task.rules.items[2], task.floor.names.index("table")
    task.put(thing, table, 0)
    stand_before(task, thing, 1.0)
    task.tilts = -4
    task._update_view()
    description = task.text()
    assert (
        "plant on table (1.0 m ahead)." in description and "you hold nothing. you look 40 degrees down." in description
    )
    record = task._observation()["text"]
    assert record.tobytes().rstrip(b"\0").decode() == description
    task.put(thing, -1, -1)
    task.held = thing
    task._update_view()
    assert "you hold plant." in task.text() and "plant on" not in task.text()


def test_the_longest_text_fits():
    task = make_task("adjustment_1", distractors=17, observation="text")
    task._visible[:] = task._present
    assert len(task.text().encode()) < 2048
    assert task._observation()["text"].any()


def test_a_position_repeats_with_everything_that_decides_the_future():
    task = make_task()
    first = task.position()
    task.step(TURN_LEFT)
    assert task.position() != first
    task.step(TURN_RIGHT)
    assert task.position() == first
    assert make_task(reward="placed").position() is None


@pytest.mark.parametrize("name", TASKS)
def test_the_scripted_agent_places_all_items_in_every_layout(name):
    task = make_task(name)
    for number in range(8):
        begin_layout(task, number)
        steps = 0
        while not (step := task.step(task.expert())).success:
            steps += 1
            assert not step.truncated, number
        assert task.score() == 1 and all(task.subgoals().values()) and steps < 400


def test_the_scripted_agent_puts_down_what_it_finds_in_its_hand():
    task = make_task("adjustment_1", seed=1)
    other = next(thing for thing in np.flatnonzero(task.place >= 0).tolist() if thing not in task.rules.items)
    task.put(other, -1, -1)
    task.held = other
    for _ in range(600):
        if task.step(task.expert()).success:
            break
    assert task.score() == 1 and task.rules.correct[other, task.place[other]]


def test_forward_moves_and_the_bounds_of_aim_and_reach_are_those_of_the_docs():
    task = make_task()
    before = task.x, task.y
    for _ in range(18):
        task.step(FORWARD)
        task.step(TURN_LEFT)
    assert (task.x, task.y) != before
    assert (math.degrees(AIM), REACH) == pytest.approx((15, 1.5))


def test_a_restored_solver_goes_on_with_its_plan_and_a_new_episode_drops_it():
    """In these layouts a path that is searched anew, from the middle of another, begins otherwise."""
    for seed, steps in ((0, 19), (5, 52)):
        task = make_task("adjustment_1", seed=seed)
        for _ in range(steps):
            task.step(task.expert())
        state = task.state()
        with_plan, without_plan = (make_task("adjustment_1", seed=99) for _ in range(2))
        with_plan.load_state(state)
        without_plan.load_state({**state, "solver": None})
        action = task.expert()
        assert with_plan.expert() == action != without_plan.expert()
        for _ in range(60):
            assert task.step(action)[1:] == with_plan.step(action)[1:]
            action = task.expert()
            assert action == with_plan.expert()
        task.reset(seed)
        assert task.state()["solver"] is None
