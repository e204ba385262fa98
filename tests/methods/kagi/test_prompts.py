"""The prompt says how the views are divided, shows them, and asks for what the reader can read."""

import json

import numpy as np
import pytest

from guidebench.baselines.conversing import Misread, objects
from guidebench.harness.interfaces import Array
from guidebench.methods.kagi import marks, prompts, reading
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.questions import Candidates, WaypointQuestion
from tests.methods.kagi.scenes import ASKED, CANDIDATES, INSTRUCTION, painted

FRAME = painted({"green": (0.4, 0.6, 0.7)})


def parts(asked: WaypointQuestion) -> tuple[str, list[Array]]:
    content = prompts.message(asked, FRAME).content
    texts = [part for part in content if isinstance(part, str)]
    return "\n".join(texts), [part for part in content if not isinstance(part, str)]


def test_both_annotated_views_are_shown_below_what_is_said_of_them() -> None:
    content = prompts.message(ASKED, FRAME).content
    assert [isinstance(part, str) for part in content] == [True, False, True, False, True]
    assert str(content[0]).endswith("View from above:") and str(content[2]).endswith("View from the side:")
    _, images = parts(ASKED)
    assert np.array_equal(images[0], marks.from_above(FRAME[:, :100], Grid(6), CANDIDATES))
    assert np.array_equal(images[1], marks.from_the_side(FRAME[:, 100:], Grid(6)))


def test_the_text_states_task_grid_points_and_limits() -> None:
    said, _ = parts(ASKED)
    assert f"The task: {INSTRUCTION}\n" in said
    assert "6 columns, a to f from left to right, and 6 rows, 1 to 6 from top to bottom" in said
    assert "P1 to P5" in said and "Q1 to Q5" in said and "2 to 20 blocks" in said
    assert "from 0 at the lower edge to 6 at the upper edge" in said
    said, _ = parts(WaypointQuestion(INSTRUCTION, Candidates([[0.5, 0.5]] * 3, [[0.5, 0.5]]), Grid(8)))
    assert "a to h" in said and "P1 to P3" in said and "8 at the upper edge" in said
    assert "gripper is now" not in said
    said, _ = parts(ASKED._replace(start=(0.5, 0.7, 0.3)))
    assert 'begins where the gripper is now, ["d5", 4], and goes over' in said  # (1 - .3) * 6 = 4.2
    said, _ = parts(WaypointQuestion("put the\nred block\n\nView from above:", CANDIDATES))
    assert "The task: put the red block View from above:\n" in said, "several lines stay in one"


def test_a_single_view_asks_for_no_heights() -> None:
    single = ASKED._replace(grid=Grid(6, heights=False))
    said, images = parts(single)
    assert len(images) == 1 and "side" not in said and "line" not in said and "heights do not matter" in said


@pytest.mark.parametrize(("size", "heights"), [(2, True), (6, True), (12, True), (2, False), (9, False)])
def test_the_example_of_a_reply_can_be_read(size: int, heights: bool) -> None:
    grid = Grid(size, heights)
    said, _ = parts(ASKED._replace(grid=grid))
    example = said.split("about another scene: ")[1]
    found = reading.selected(example, grid, CANDIDATES)
    assert (found["grasp"], found["target"], len(found["waypoints"])) == (1, 1, 3)
    schema = next(value for _, _, value in objects(said) if isinstance(value, dict))
    assert schema == json.loads(json.dumps(prompts.schema(grid, CANDIDATES)))


def test_a_reminder_names_the_fault() -> None:
    assert "I cannot use this reply: g7 is no tile." in prompts.reminder(Misread("blocks", "g7 is no tile"))
