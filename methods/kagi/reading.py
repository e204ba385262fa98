"""Reading a model's selection and path: a reply is parsed and checked, never evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from guidebench.baselines.conversing import Misread, check_schema, first_object
from guidebench.methods.kagi import prompts, questions
from guidebench.methods.kagi.blocks import FEWEST, MOST, Block, Grid
from guidebench.methods.kagi.questions import Candidates


def selected(reply: str, grid: Grid, candidates: Candidates) -> dict[str, Any]:
    """Return the answer in a reply (`questions.answer`); text around its JSON object is ignored, and so are capitals.

    Raise Misread, whose message is for the model, for a reply without an object of the schema, for points that are none
    of the candidates, tiles outside the grid, heights that are no line, and fewer than `FEWEST` or more than `MOST`
    blocks. Repeated blocks in a row count once, since a path does not wait (the reward would hold the gripper there);
    `FEWEST` or more must remain.
    """
    answer = first_object(reply, ("block_sequence", "grasp", "target"))
    points = {
        name: _point(answer, name, letter, len(points_of_kind))
        for name, letter, points_of_kind in (("grasp", "P", candidates.grasp), ("target", "Q", candidates.target))
    }
    sequence = answer.get("block_sequence")
    if isinstance(sequence, list):
        if not FEWEST <= len(sequence) <= MOST:
            raise Misread("blocks", f"block_sequence has {len(sequence)} blocks; write {FEWEST} to {MOST}")
        answer = answer | {"block_sequence": [_block(step, grid) for step in sequence]}
    check_schema(answer, prompts.schema(grid, candidates))
    blocks: list[Block] = []
    for step in answer["block_sequence"]:
        block = (step[0], int(step[1])) if grid.heights else (step, None)
        if not blocks or block != blocks[-1]:
            blocks.append(block)
    if len(blocks) < FEWEST:
        raise Misread(
            "blocks", f"block_sequence repeats a single block; write a path of {FEWEST} or more different ones"
        )
    return questions.answer(points["grasp"], points["target"], blocks, grid)


def _point(answer: Mapping[str, Any], name: str, letter: str, count: int) -> int:
    """Return the number of the point that the field `name` selects, and normalise its label in `answer` to the schema's
    form; 0 where the field is no text. Misread for a label that is none of the `count` points."""
    label = answer.get(name)
    if isinstance(label, str):
        match = re.fullmatch(rf"{letter}([1-9])", label.strip().upper())
        if match is None or int(match[1]) > count:
            raise Misread("points", f"{name} is {label!r:.40}, which is not shown; choose {letter}1 to {letter}{count}")
        assert isinstance(answer, dict)
        answer[name] = match[0]
        return int(match[1])
    return 0  # the schema refuses it


def _block(written: Any, grid: Grid) -> Any:
    """Return a block of a reply in the schema's form, or unchanged where it is no block; Misread for a tile or a line
    outside the grid."""
    tile, line = (written[0], written[1]) if isinstance(written, list) and len(written) == 2 else (written, None)
    if not isinstance(tile, str):
        return written
    if grid.position(tile) is None:
        raise Misread("blocks", f"{tile!r:.40} is no tile; columns are a to {grid.last} and rows 1 to {grid.size}")
    if line is not None and not (_number(line) and line == int(line) and 0 <= line <= grid.size):
        raise Misread("blocks", f"the height {line!r:.40} is no line; lines are numbered 0 to {grid.size}")
    tile = tile.strip().lower()
    return tile if line is None else [tile, int(line)]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
