"""The prompt for waypoints, in our words: one text for all tasks (KAGI, appendix: the metaprompt, which is not printed,
is the same across tasks), and the JSON schema of the reply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from guidebench.baselines.conversing import FAULT, INSTRUCTION, Misread
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.kagi import marks
from guidebench.methods.kagi.blocks import FEWEST, MOST, Block, Grid
from guidebench.methods.kagi.questions import POINTS, Candidates, WaypointQuestion
from guidebench.methods.kagi.sight import views

OPENING = """\
You plan the path of a robot arm's gripper for one attempt at a task.

The task: {instruction}

You are shown the scene as it is before the attempt. The view from above is divided into {size} columns, a to {last} \
from left to right, and {size} rows, 1 to {size} from top to bottom. A tile is named by its column and its row: {tile} \
is the lower right one. The teal points P1 to P{grasp} are places where the thing that the task names may be grasped; \
the blue points Q1 to Q{target} are places where it may be brought.

View from above:"""
ASIDE = """\
The view from the side shows the same scene, with lines at equal distances. They are numbered upwards, from 0 at the \
lower edge to {size} at the upper edge. A height is the line that is nearest to the gripper in this view. Things that \
are farther from this camera appear higher, so compare heights with where the thing itself appears.

View from the side:"""
REQUEST = """\
Select the grasp point and the target point that suit the task best. Then write the path that the gripper should take \
as a sequence of {fewest} to {most} blocks, in the order in which it passes them. {block} The path {beginning} over \
the thing that is to be moved, down to it, up until it is clear of everything in the way, over the target, and down to \
the target. If the thing is to be pushed, swept or turned, stay at its height instead of lifting it. Let each block be \
next to the one before it, with the blocks between distant ones in the list, and pass no block twice."""
BLOCK = "A block is [tile, line]: the tile of the view from above and the line of the view from the side, as {example}."
TILE_ALONE = "A block is a tile, such as {example}; heights do not matter."
BEGINNINGS = ("goes", "begins where the gripper is now, {start}, and goes")
"""How the path begins where the gripper's place is unknown, and where it is known."""
FORM = """\
Reply with a single JSON object and no other text, valid under this JSON schema:
{schema}
Example of a reply, about another scene: {example}"""
REMINDER = (
    "I cannot use this reply: {fault}. Reply again with the whole JSON object, corrected, and no other text; it has to "
    "be valid under the schema above."
)
WALKED = (("a1", 1), ("a2", 1), ("b2", 0))
"""The path of the prompt's example."""
LONGEST_PLAN = 600
"""Most characters of the field `plan`, in which a model may think before it selects (choice)."""


def schema(grid: Grid, candidates: Candidates, listed: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a reply about these candidates and this grid. `listed`: whether it lists the names of
    the tiles, as a schema under which a model writes does, in place of their pattern, which allows rows below the
    grid."""
    tile: dict[str, Any] = {"type": "string", "pattern": f"^[a-{grid.last}][1-9][0-9]?$"}
    if listed:
        tile = {"enum": [grid.name(column, row) for row in range(grid.size) for column in range(grid.size)]}
    line = {"type": "integer", "minimum": 0, "maximum": grid.size}
    block = {"type": "array", "prefixItems": [tile, line], "minItems": 2, "maxItems": 2} if grid.heights else tile
    return {
        "type": "object",
        "properties": {
            "plan": {"type": "string", "maxLength": LONGEST_PLAN},
            "grasp": {"enum": [f"P{number + 1}" for number in range(len(candidates.grasp))]},
            "target": {"enum": [f"Q{number + 1}" for number in range(len(candidates.target))]},
            "block_sequence": {"type": "array", "items": block, "minItems": FEWEST, "maxItems": MOST},
        },
        "required": ["grasp", "target", "block_sequence"],
        "additionalProperties": False,
    }


def texts(question: WaypointQuestion) -> tuple[str, str, str]:
    """Return the texts of the message that asks for waypoints: before the view from above, before the view from the
    side, and after both."""
    instruction, candidates, grid, start = question
    opening = OPENING.format(
        instruction=" ".join(instruction.split()), size=grid.size, last=grid.last, tile=f"{grid.last}{grid.size}",
        grasp=len(candidates.grasp), target=len(candidates.target),
    )  # fmt: skip
    beginning = BEGINNINGS[0]
    if start is not None:
        beginning = BEGINNINGS[1].format(start=json.dumps(_written(grid.block(*grid.nearest(start)))))
    walked: list[Block] = [(tile, line if grid.heights else None) for tile, line in WALKED]
    block = (BLOCK if grid.heights else TILE_ALONE).format(example=json.dumps(_written(walked[0])))
    request = REQUEST.format(fewest=FEWEST, most=MOST, block=block, beginning=beginning)
    example = reply("P1", "Q1", walked, "The cup stands in a1. It is pushed down a row and then lowered to the right.")
    form = FORM.format(schema=json.dumps(schema(grid, candidates)), example=json.dumps(example))
    return opening, ASIDE.format(size=grid.size), f"{request}\n\n{form}"


def message(question: WaypointQuestion, frame: Array) -> Message:
    """Return the message that asks for waypoints. `frame`: uint8 [size, 2 * size, 3], the view from above at the left
    and the view from the side at the right, which is shown only for heights. UserError for another frame."""
    (above, aside), (opening, beside, request), grid = views(frame), texts(question), question.grid
    parts: list[str | Array] = [opening, marks.from_above(above, grid, question.candidates)]
    if grid.heights:
        parts += [beside, marks.from_the_side(aside, grid)]
    return Message("user", (*parts, request))


def most_bytes() -> tuple[int, int]:
    """Return the sizes in bytes of the texts of the longest message, and of the longest reminder."""
    points = [[0.5, 0.5]] * POINTS
    question = WaypointQuestion("x" * INSTRUCTION, Candidates(points, points), Grid(), (0.5, 0.5, 0.5))
    return sum(len(text.encode()) for text in texts(question)), len(REMINDER.encode()) + FAULT


def reply(grasp: str, target: str, blocks: Sequence[Block], plan: str = "") -> dict[str, Any]:
    """Return the reply, an object of the schema, with this selection, path and `plan` (left out if empty)."""
    selection = {"grasp": grasp, "target": target, "block_sequence": [_written(block) for block in blocks]}
    return {"plan": plan, **selection} if plan else selection


def reminder(fault: Misread) -> str:
    """Return the reminder that follows an invalid reply."""
    return REMINDER.format(fault=fault)


def _written(block: Block) -> Any:
    tile, line = block
    return tile if line is None else [tile, line]
