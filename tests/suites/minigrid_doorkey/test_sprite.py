"""The judge `sprite`: its answers on real episodes compared with what happened, and on edited pixels."""

from typing import Any

import numpy as np
import pytest

from guidebench.suites.classic import Classic
from guidebench.suites.minigrid_doorkey import DoorKeyDrawing, MiniGridDoorKey, Sprite
from guidebench.suites.minigrid_doorkey.task import TURN_LEFT, DoorKey
from tests.cell_views import cell_view
from tests.refusals import check_refused

SUITE = MiniGridDoorKey()
DRAWER = DoorKeyDrawing(tile_size=8).spawn("8x8")
CLIP = 32


@pytest.fixture(scope="module")
def judge() -> Any:
    return Sprite().spawn(SUITE, "8x8")


def clip_of(snapshots: list) -> np.ndarray:
    """Return a clip of 32 frames that ends with the last snapshot; its first frame is repeated if there are fewer."""
    padded = [snapshots[0]] * (CLIP - len(snapshots)) + snapshots
    return DRAWER(np.stack(padded))


def episode(task: DoorKey, draw: np.random.Generator, skill: float) -> tuple[list, list]:
    """Return the snapshot after each transition, and the event of each transition as the states show it."""
    snapshots, events = [], []
    task.reset()
    carrying, door = False, 2
    while True:
        step = task.step(task.expert() if draw.random() < skill else int(draw.integers(5)))
        state = task.state()
        codes = state["codes"]
        now_carrying, now_door = state["carrying"] is not None, int(codes[codes[:, :, 0] == 4][0][2])
        has_taken_key, has_opened = now_carrying and not carrying, now_door == 0 and door != 0
        events.append("key" if has_taken_key else "door" if has_opened else "goal" if step.success else "")
        carrying, door = now_carrying, now_door
        snapshots.append(task.snapshot())
        if step.terminated or step.truncated:
            return snapshots, events


def test_answers_match_what_is_visible_in_the_clips_of_real_episodes(judge):
    task, draw = DoorKey(8), np.random.default_rng(0)
    task.reset(0)
    alone = {"key": 0, "door": 0, "goal": 0, "": 0}
    for skill in [0.3] * 6 + [0.6] * 20 + [0.0]:
        snapshots, events = episode(task, draw, skill)
        for end in range(len(events), 0, -8):
            start = max(end - int(draw.choice([4, 12, CLIP])), 0)
            # the first frame shows the state after the first transition: what that changed is seen in no frame
            visible = {event for i, event in enumerate(events[start:end]) if event and (i > 0 or event == "goal")}
            if len(visible) < 2:
                alone["".join(visible)] += 1
            assert judge([clip_of(snapshots[start:end])]) == [1.0 if visible else 0.0]
    assert min(alone.values()) >= 3, alone


def scene(key: bool, door: int, agent: tuple[int, int, int], colour: int = 4) -> np.ndarray:
    """Return a snapshot of a room of 8 x 8 with a key at (2, 3), a door at (4, 4) and a goal at (6, 6)."""
    cells = np.zeros((8, 8, 3), np.uint8)
    cells[:, :] = (1, 0, 0)
    cells[[0, 7, 4], :] = cells[:, [0, 7]] = (2, 5, 0)
    cells[4, 4], cells[6, 6] = (4, colour, door), (8, 1, 0)
    if key:
        cells[2, 3] = (5, colour, 0)
    return np.concatenate([cells.reshape(-1), np.array(agent, np.uint8)])


OUTSIDE = (2, 2, 1)


@pytest.mark.parametrize("colour", range(6))
def test_each_event_alone_is_a_yes_in_any_colour(judge, colour):
    key_taken = [scene(True, 2, OUTSIDE, colour), scene(False, 2, OUTSIDE, colour)]
    unlocked = [scene(False, 2, (3, 4, 0), colour), scene(False, 0, (3, 4, 0), colour)]
    reopened = [scene(False, 1, (3, 4, 0), colour), scene(False, 0, (4, 4, 0), colour)]
    assert judge([clip_of(key_taken), clip_of(unlocked), clip_of(reopened)]) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("direction", range(4))
def test_the_agent_is_seen_on_the_goal_and_on_the_open_door(judge, direction):
    on_goal = [scene(False, 0, (6, 6, direction))]
    through = [scene(False, 2, (3, 4, 0)), scene(False, 0, (4, 4, direction))]
    assert judge([clip_of(on_goal), clip_of(through)]) == [1.0, 1.0]


def test_what_is_no_progress_is_a_no(judge):
    waiting = [scene(True, 2, OUTSIDE)]
    reversed_key = [scene(False, 2, OUTSIDE), scene(True, 2, OUTSIDE)]
    closed = [scene(False, 0, (3, 4, 0)), scene(False, 1, (3, 4, 0))]
    leaving_the_door = [scene(False, 0, (4, 4, 0)), scene(False, 0, (5, 4, 0))]
    beside_the_goal = [scene(False, 0, (5, 6, 0)), scene(False, 0, (6, 5, 1))]
    clips = [clip_of(s) for s in (waiting, reversed_key, closed, leaving_the_door, beside_the_goal)]
    assert judge(clips) == [0.0] * 5


def test_another_cells_door_is_not_the_same_door(judge):
    moved = scene(False, 0, OUTSIDE)
    cells = moved[:-3].reshape(8, 8, 3)
    cells[4, 4], cells[4, 2] = (2, 5, 0), (4, 4, 0)
    assert judge([clip_of([scene(False, 2, OUTSIDE), moved])]) == [0.0]


@pytest.mark.parametrize(
    ("before", "after", "column", "row"),
    [
        (scene(True, 2, OUTSIDE), scene(False, 2, OUTSIDE), 2, 3),
        (scene(False, 2, (3, 4, 0)), scene(False, 0, (3, 4, 0)), 4, 4),
        (scene(False, 0, (6, 5, 1)), scene(False, 0, (6, 6, 1)), 6, 6),
    ],
)
def test_one_changed_pixel_in_its_sprite_hides_an_event(judge, before, after, column, row):
    clip = clip_of([before, after])
    assert judge([clip]) == [1.0]
    clip[:, 8 * row + 4, 8 * column + 4, 2] ^= 1
    assert judge([clip]) == [0.0]


def test_answers_do_not_depend_on_earlier_clips_or_on_the_batch():
    yes = clip_of([scene(True, 2, OUTSIDE), scene(False, 2, OUTSIDE)])
    purple = clip_of([scene(True, 2, OUTSIDE, 3), scene(False, 2, OUTSIDE, 3)])
    no = clip_of([scene(True, 2, OUTSIDE)])
    first_judge, second_judge = Sprite().spawn(SUITE, "8x8"), Sprite().spawn(SUITE, "8x8")
    assert first_judge([yes, no, purple, no]) == [1.0, 0.0, 1.0, 0.0]
    assert second_judge([purple]) + second_judge([no]) + second_judge([yes]) == [1.0, 0.0, 1.0]


def test_tiles_may_be_of_any_size_but_must_be_as_many_as_the_grid_has_cells(judge):
    snapshots = np.stack([scene(True, 2, OUTSIDE), scene(False, 2, OUTSIDE)])
    clips = [DoorKeyDrawing(tile_size=pixels).spawn("8x8")(snapshots) for pixels in (6, 12, 6)]
    assert judge(clips) == [1.0] * 3 and judge([clip[:1] for clip in clips]) == [0.0] * 3
    for misshapen in (clips[0][:, :-1, :-1], clips[0][:, :-6], np.zeros((1, 0, 0, 3), np.uint8)):
        height, width = misshapen.shape[1:3]
        check_refused(f"{height}x{width} pixels given; expected a square of 8x8 tiles", judge, [misshapen])


@pytest.mark.parametrize("frames", [np.zeros((2, 64, 64, 3)), np.zeros((2, 64, 64), np.uint8)])
def test_what_is_not_frames_is_refused(judge, frames):
    check_refused("expected", judge, [frames])


def test_clips_of_one_frame_or_none_have_an_answer(judge):
    task = DoorKey(8)
    task.reset(0)
    task.step(TURN_LEFT)
    frame = DRAWER(task.snapshot()[None])
    assert judge([frame, frame[:0]]) == [0.0, 0.0]


def test_other_suites_are_refused_by_name():
    assert Sprite().fits(cell_view({"suite": SUITE})) == "" and "minigrid_doorkey" in Sprite().fits(
        cell_view({"suite": Classic()})
    )
    check_refused("Classic control", Sprite().spawn, Classic(), "CartPole-v1")
