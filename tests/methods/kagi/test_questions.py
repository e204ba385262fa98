"""A question's content is read as it was written, and refused where it cannot be drawn."""

import json
from typing import Any

import numpy as np
import pytest

from guidebench.methods.kagi import questions
from guidebench.methods.kagi.blocks import Grid
from tests.methods.kagi.scenes import GRASP, INSTRUCTION, QUESTION, TARGET


def test_content_has_instruction_and_points_and_what_differs_from_the_default() -> None:
    assert json.loads(QUESTION.content()) == {"instruction": INSTRUCTION, "grasp": GRASP, "target": TARGET}
    other = QUESTION._replace(grid=Grid(8, heights=False), start=np.float32([0.5, 0.25]))  # type: ignore[arg-type]
    fields = json.loads(other.content())
    assert (fields["grid"], fields["views"], fields["start"]) == (8, "single", [0.5, 0.25])


@pytest.mark.parametrize("grid", [Grid(), Grid(2), Grid(12, heights=False)])
@pytest.mark.parametrize("start", [None, [0.5, 0.75, 0.25]])
def test_it_is_read_as_it_was_written(grid: Grid, start: Any) -> None:
    question = QUESTION._replace(grid=grid, start=start)
    assert questions.read(json.loads(question.content())) == question


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"grasp": []}, r"grasp has the shape \[0\], expected \[1 to 9, 2\]"),
        ({"grasp": [[0.5, 0.5]] * 10}, r"grasp has the shape \[10, 2\]"),
        ({"target": [[0.5, 0.5, 0.5]]}, r"target has the shape \[1, 3\]"),
        ({"target": [[0.5, 1.5]]}, r"target holds \[\[0.5, 1.5\]\], expected fractions"),
        ({"target": [[0.5, float("nan")]]}, "target holds"),
        ({"grid": 1}, "a grid of 1 tiles cannot be labelled; choose 2 to 12"),
        ({"grid": 13}, "a grid of 13 tiles"),
        ({"views": "side"}, "views are 'side', expected 'both' or 'single'"),
        ({"start": [0.5, 0.5]}, r"the gripper is at \[0.5, 0.5\], expected \(u, v, h\)"),
        ({"start": [0.5, 0.5, float("inf")]}, "expected .* as finite numbers"),
    ],
)
def test_a_question_that_cannot_be_drawn_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        questions.read(json.loads(QUESTION.content()) | more)
