"""The scripted chat on MetaWorld's real frames, on frames painted here, and the forms of its replies."""

import json
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.lagea.feedback import prompts, reading
from guidebench.methods.lagea.feedback.scripted import FrameReader, impressed, measure_frames
from guidebench.methods.lagea.feedback.taxonomy import ERRORS, SUCCESSES


def painted(gripper: list[tuple[int, int]], size: int = 128, goal: Any = (60, 60), block: Any = None) -> Array:
    """Grey frames with a cyan gripper of 2 x 2 pixels at each place, a blue mark, and a brown block of 5 x 5 pixels."""
    frames = np.full((len(gripper), size, size, 3), 128, np.uint8)
    for number, (row, column) in enumerate(gripper):
        if goal is not None:
            frames[number, goal[0] : goal[0] + 2, goal[1] : goal[1] + 2] = (0, 0, 255)
        if block is not None:
            down, across = block[number]
            frames[number, down : down + 5, across : across + 5] = (110, 80, 50)
        frames[number, row : row + 2, column : column + 2] = (0, 255, 255)
    return frames


BLOCK = [(20, 100), (20, 100), (30, 100)]


@pytest.mark.parametrize(
    ("frames", "code", "cited"),
    [
        (painted([(20, 20), (40, 40), (60, 57)]), "reached_goal", (2,)),
        (painted([(20, 20), (60, 57), (40, 40)]), "drift_from_goal", (1, 2)),
        (painted([(20, 20), (40, 40), (30, 30)]), "bad_approach_direction", (1, 2)),
        (painted([(20, 20), (21, 20), (20, 22)]), "insufficient_force", (0, 2)),
        (painted([(20, 20), (40, 40), (41, 41)], goal=None), "bad_approach_direction", (2,)),
        (painted([(20, 20), (40, 40), (41, 41)], block=BLOCK), "good_contact", (2,)),
        (painted([(20, 20), (40, 40), (41, 41)], block=[BLOCK[0], BLOCK[2], BLOCK[0]]), "drift_from_goal", (1, 2)),
    ],
)
def test_painted_attempts_are_told_apart(frames: Array, code: str, cited: tuple[int, ...]) -> None:
    found = impressed(measure_frames(frames))
    assert (found.code, found.frames) == (code, cited)


def test_what_it_sees_is_where_it_was_painted_at_any_size() -> None:
    found = measure_frames(painted([(20, 20), (60, 56)], block=BLOCK[1:]))
    assert np.allclose(found.gripper, [[20.5, 20.5], [60.5, 56.5]]) and found.changed.tolist() == [0.0, 50.0]
    assert np.allclose(found.distance, [np.hypot(39.5, 39.5), np.hypot(0.5, 3.5)])
    double = measure_frames(painted([(20, 20), (60, 56)], block=BLOCK[1:]).repeat(2, 1).repeat(2, 2))
    assert np.allclose(double.gripper, found.gripper, atol=0.3) and np.allclose(double.changed, found.changed)
    hidden = painted([(20, 20), (60, 56)])
    hidden[:, 20:22, 20:22] = 128
    assert np.isnan(measure_frames(hidden).distance[0]) and impressed(measure_frames(hidden)).code == "reached_goal"


def test_a_stated_outcome_decides_between_success_and_failure() -> None:
    near, far = (measure_frames(painted([(20, 20), place])) for place in ((60, 57), (90, 90)))
    assert (
        impressed(near, stated_outcome=True).code == "reached_goal"
        and impressed(near, stated_outcome=False).code in ERRORS
    )
    assert (
        impressed(far, stated_outcome=False).code == "bad_approach_direction"
        and impressed(far, stated_outcome=True).code in SUCCESSES
    )


def prompt(frames: Array, structured: bool = True, succeeded: bool | None = None) -> Message:
    return prompts.message("push the puck", frames, [*range(len(frames))], len(frames), [], structured, succeeded)


ATTEMPTS = [painted([(20, 20), (40, 40 + step), (60, 57)]) for step in range(60)]


def test_its_replies_are_valid_and_the_same_each_time() -> None:
    reader = FrameReader(0.0)
    for told in (None, True, False):
        replies = [reader((prompt(frames, succeeded=told),)) for frames in ATTEMPTS[:3]]
        assert replies == [FrameReader(0.0)((prompt(frames, succeeded=told),)) for frames in ATTEMPTS[:3]]
        found = reading.structured(replies[0], 3, told)
        assert found["task"] == "push the puck" and found["outcome"] == ("failure" if told is False else "success")
    free = reader((prompt(ATTEMPTS[0], structured=False),))
    assert reading.free(free) == free and "mark" in free and "{" not in free
    assert reader((Message("user", ("Hello",)),)) == "I see no frames in what you write."


def test_it_is_malformed_as_often_as_stated_and_in_every_way() -> None:
    def fault(frames: Array, malformed: float) -> str:
        try:
            reading.structured(FrameReader(malformed)((prompt(frames),)), 3)
        except Misread as misread:
            return str(misread)[:20]
        return ""

    faults = [fault(frames, 0.5) for frames in ATTEMPTS]
    assert 18 <= sum(map(bool, faults)) <= 42, "3 standard deviations of 60 draws at 0.5 are 11.6"
    assert len({*faults}) >= 5 and all(fault(frames, 1.0) for frames in ATTEMPTS[:5])


@pytest.mark.parametrize("task", ("button-press-topdown", "drawer-open"))
def test_real_successes_and_failures_look_different(task: str) -> None:
    pytest.importorskip("metaworld")
    from tests.methods.lagea.feedback.attempts import attempt

    for expert, codes in ((True, SUCCESSES), (False, ERRORS)):
        shown = attempt(task, expert)
        message = prompts.message("do it", shown.frames, shown.steps, 200, [], True, None)
        assert json.loads(FrameReader(0.0)((message,)))["primary_error"]["code"] in codes
