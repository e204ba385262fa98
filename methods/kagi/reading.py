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

    Raise Misread, whose message is for the model, for a reply without an object of the schema, for points that were not
    shown, tiles outside the grid, heights that are no line, and fewer than `FEWEST` or more than `MOST` blocks. Of
    equal blocks in a row one counts, since a path does not wait (the reward would hold the gripper there); those left
    must be `FEWEST` or more.
    """
    found = first_object(reply, ("block_sequence", "grasp", "target"))
    points = {
        name: _point(found, name, letter, len(shown))
        for name, letter, shown in (("grasp", "P", candidates.grasp), ("target", "Q", candidates.target))
    }
    sequence = found.get("block_sequence")
    if isinstance(sequence, list):
        if not FEWEST <= len(sequence) <= MOST:
            raise Misread("blocks", f"block_sequence has {len(sequence)} blocks; write {FEWEST} to {MOST}")
        found = found | {"block_sequence": [_block(each, grid) for each in sequence]}
    check_schema(found, prompts.schema(grid, candidates))
    blocks: list[Block] = []
    for each in found["block_sequence"]:
        block = (each[0], int(each[1])) if grid.heights else (each, None)
        if not blocks or block != blocks[-1]:
            blocks.append(block)
    if len(blocks) < FEWEST:
        raise Misread(
            "blocks", f"block_sequence repeats a single block; write a path of {FEWEST} or more different ones"
        )
    return questions.answer(points["grasp"], points["target"], blocks, grid)


def _point(found: Mapping[str, Any], name: str, letter: str, count: int) -> int:
    """Return the number of a selected point, and write its label as the schema has it."""
    given = found.get(name)
    if isinstance(given, str):
        match = re.fullmatch(rf"{letter}([1-9])", given.strip().upper())
        if match is None or int(match[1]) > count:
            raise Misread("points", f"{name} is {given!r:.40}, which is not shown; choose {letter}1 to {letter}{count}")
        assert isinstance(found, dict)
        found[name] = match[0]
        return int(match[1])
    return 0  # the schema refuses it


def _block(given: Any, grid: Grid) -> Any:
    """Return a block as the schema has it, or as given where it has another form; Misread for one that is not there."""
    tile, line = (given[0], given[1]) if isinstance(given, list) and len(given) == 2 else (given, None)
    if not isinstance(tile, str):
        return given
    if grid.position(tile) is None:
        raise Misread("blocks", f"{tile!r:.40} is no tile; columns are a to {grid.last} and rows 1 to {grid.size}")
    if line is not None and not (_number(line) and line == int(line) and 0 <= line <= grid.size):
        raise Misread("blocks", f"the height {line!r:.40} is no line; lines are numbered 0 to {grid.size}")
    tile = tile.strip().lower()
    return tile if line is None else [tile, int(line)]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
