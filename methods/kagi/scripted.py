"""A hand-written substitute for a vision-language model, which looks in the annotated views for the colour that the
instruction names.

It is given only the messages, neither suite nor task. It replaces annotated pixels by the colours beside them
(`marks.cleaned`), and then looks for blocks, tray and bins as the hand-written segmenter does (`colours`):

- the *thing* is the largest area of the first colour that the instruction names, in both views;
- the *place* is the one that it names last: a bin, the tray or a side of it, in the view from above. Its height in the
  view from the side follows from the tray, whose upper and lower edges in the two views tell which row of one belongs
  to which row of the other; the thing is to be as high over its place as it is over the table where it lies. Where no
  known place is named or seen, it is the middle of the target points, and where the view from the side shows no tray,
  the place is as high as the thing.

It selects the points nearest to thing and place, and the path is that of `blocks.path`. It reads no letters: it tells
the points apart by their exact colours. It answers in prose, which is no valid reply, where the instruction names no
colour that it knows, or the view from above shows none of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.kagi import colours, marks, prompts
from guidebench.methods.kagi.blocks import Grid, path

SPOILS = ("prose", "tile", "height", "point", "short", "cut")
"""Ways in which a reply is made invalid."""


class Scene(NamedTuple):
    """Where the thing and its place are in the views of one prompt."""

    thing: tuple[float, ...]
    """(u, v), and h if the view from the side is shown."""
    place: tuple[float, ...]


class ViewReader:
    """Answers the last prompt of a conversation, again after each reminder; equal conversations get equal answers."""

    def __init__(self, malformed: float, error: float) -> None:
        """`malformed`: probability of an invalid reply, by a hash of the whole conversation; `error`: probability that
        it takes another colour's thing or, where there is none, shifts the path by a tile, by a hash of the views and
        the instruction."""
        self._malformed, self._error = malformed, error

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return a selection and a path for the views in the first message: a JSON object, or prose if it does not see
        what the instruction names."""
        question = next((m for m in messages if any(not isinstance(part, str) for part in m.content)), None)
        if question is None:
            return "I see no pictures in what you write."
        images = [part for part in question.content if not isinstance(part, str)]
        prompt = "".join(part for part in question.content if isinstance(part, str))
        instruction, grid = task_of(prompt, len(images) > 1)
        digest = hashlib.blake2b(b"".join(np.ascontiguousarray(image).data for image in images), digest_size=16)
        errs = chance("error", digest.hexdigest(), instruction) < self._error
        try:
            colour = colours.colour_in(instruction)
        except UserError:
            return "The task names no colour that I know."
        others = sorted({*colours.blocks(view_of(images[0]))} - {colour}) if errs else []
        draw = chance("which", digest.hexdigest(), instruction)
        scene = looked(images, instruction, others[int(draw * len(others))] if others else colour)
        if scene is None:
            return f"I see nothing {colour} in the view from above."
        shift = (1 if draw < 0.5 else -1) / grid.size if errs and not others else 0.0
        thing, place = (_shifted(point, shift) for point in scene)
        blocks = path(grid, thing, place, stated_start(prompt, grid))
        reply = prompts.reply(
            f"P{nearest(images[0], marks.TEAL, scene.thing)}", f"Q{nearest(images[0], marks.BLUE, scene.place)}", blocks
        )
        texts = ["".join(part for part in message.content if isinstance(part, str)) for message in messages]
        conversation = [digest.hexdigest(), *texts]
        if chance("form", *conversation) < self._malformed:
            return spoilt(reply, SPOILS[int(len(SPOILS) * chance("fault", *conversation))], grid)
        return json.dumps(reply)


def task_of(prompt: str, heights: bool) -> tuple[str, Grid]:
    """Return the instruction and the grid that a prompt states; `heights`: whether it has the view from the side."""
    instruction = re.search(r"^The task: (.+)$", prompt, re.MULTILINE)
    size = re.search(r"divided into (\d+) columns", prompt)
    return instruction[1] if instruction else "", Grid(int(size[1]) if size else Grid().size, heights)


def stated_start(prompt: str, grid: Grid) -> tuple[float, ...] | None:
    """Return the centre (u, v, h) of the block in which, as a prompt states, the gripper is; None without such a
    statement."""
    match = re.search(r"where the gripper is now, (\[[^\]]*\]|\"[^\"]*\"),", prompt)
    if match is None:
        return None
    block = json.loads(match[1])
    tile, line = block if isinstance(block, list) else (block, None)
    return tuple(grid.waypoint((tile, line)))


def looked(images: Sequence[Array], instruction: str, colour: str) -> Scene | None:
    """Return where the thing of a colour is, and the place that the instruction names, in annotated views uint8 [side,
    side, 3], the view from above first; None if that view does not show the colour."""
    views = [view_of(image) for image in images]
    things = [colours.block(view, colour) for view in views]
    if things[0] is None:
        return None
    thing, place = middle(things[0]), aimed(views[0], instruction)
    if place is None:
        points = [*marks.found_points(images[0], marks.BLUE).values()]
        u, v = np.mean(points, axis=0).tolist() if points else (0.5, 0.5)
        place = u, v
    if len(images) == 1:
        return Scene(thing, place)
    trays = [colours.places(view).get("tray") for view in views]
    table, below = (on_table(v, *trays) for v in (thing[1], place[1]))
    height = table if things[1] is None else middle(things[1])[1]
    return Scene((*thing, height), (*place, below + height - table))


def view_of(image: Array) -> colours.Pixels:
    """Return the colours of an annotated view uint8 [side, side, 3], without its annotations."""
    return colours.look(marks.cleaned(image))


def aimed(view: colours.Pixels, instruction: str) -> tuple[float, float] | None:
    """Return the middle (u, v) of the place that an instruction names; None where it names none, or none is seen."""
    try:
        place = colours.places(view).get(colours.place_in(instruction))
    except UserError:
        return None
    return None if place is None else middle(place)


def middle(mask: Array) -> tuple[float, float]:
    """Return the middle (column, row) of the edges of a mask [side, side], in fractions of its side."""
    row, column = (float(indices.min() + indices.max() + 1) / 2 / len(mask) for indices in np.nonzero(mask))
    return column, row


def on_table(v: float, above: Array | None, beside: Array | None) -> float:
    """Return the row h, in the view from the side, of a thing on the table at row v of the view from above, by the
    edges of the tray's masks [side, side] in both; the middle of the view where one shows no tray. The side camera
    faces the arm, so what is lower in one view is higher in the other."""
    if above is None or beside is None:
        return 0.5
    (top, bottom), (upper, lower) = (np.nonzero(mask.any(1))[0][[0, -1]] / len(mask) for mask in (above, beside))
    return float(np.clip(lower - (v - top) / (bottom - top) * (lower - upper), 0, 1))


def nearest(image: Array, base: marks.Colour, place: Sequence[float]) -> int:
    """Return the number of the point of a kind that is nearest to a place (u, v); 1 if none is seen."""
    points = marks.found_points(image, base)
    return min(points, key=lambda number: np.hypot(*np.subtract(points[number], place[:2])), default=1)


def spoilt(reply: dict[str, Any], way: str, grid: Grid) -> str:
    """Return a reply that is invalid in one of the ways `SPOILS`."""
    blocks = reply["block_sequence"]

    def first(tile: str, line: int) -> list[Any]:
        return [[tile, line] if grid.heights else tile, *blocks[1:]]

    match way:
        case "prose":
            return "The gripper should go over the thing, take it and bring it to its place."
        case "tile":
            return json.dumps(reply | {"block_sequence": first(f"{chr(ord(grid.last) + 1)}{grid.size + 1}", 0)})
        case "height" if grid.heights:
            return json.dumps(reply | {"block_sequence": first("a1", grid.size + 1)})
        case "point":
            return json.dumps(reply | {"grasp": "P0"})
        case "short":
            return json.dumps(reply | {"block_sequence": blocks[:1]})
    return json.dumps(reply)[:-20]


def _shifted(place: Sequence[float], by: float) -> list[float]:
    return [place[0] + by, *place[1:]]
