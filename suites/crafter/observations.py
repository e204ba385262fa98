"""The kinds of observation of Crafter: their spaces, and how a game's state becomes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args

import numpy as np

from guidebench.harness.interfaces import Array, Observations, State

Kind = Literal["symbols", "semantic", "text", "pixels", "grey", "grey_text"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MATERIALS, THINGS, ITEMS = 12, 15, 16
"""Number of materials, of pictures of objects and of items in the package."""
STATUS = 4
"""Items that are health, food, drink and energy; the others are carried."""
AMOUNTS = 10
"""Amounts that an item can have, 0 to 9."""
OBJECTS = 6
"""Classes of objects in the semantic view."""
LONGEST_TEXT = 384
"""Bytes of the longest text, rounded up."""
FRAMES = 4
"""Grey pictures in a stack (ELLM)."""


def rows(view: int) -> int:
    """Return the height in cells of the part of the world that is seen; the inventory takes the other rows."""
    return view - -(-ITEMS // view)


def space(kind: Kind, area: int, view: int, size: int, longest: int = LONGEST_TEXT) -> Observations:
    """Return the observation space of a kind, for a world of `area` cells, a view of `view` cells, a picture of `size`
    pixels a side, and texts of at most `longest` bytes.

    `pixels`: uint8 [size, size, 3]; `grey`: a record of `picture` uint8 [size, size, 4], the four newest pictures;
    `grey_text`: a record of these and of `text`. The other kinds are records of `inventory` uint8 [12] and `status`
    uint8 [4], amounts from 0 to 9; `daylight` float32 [1] in [0, 1]; and `local` uint8 [view, rows, 2], by column and
    row the codes of material and object, 0 being none; or, for `semantic`, `world` uint8 [area, area, 1], the package's
    semantic codes of the whole world. The kind `text` adds `text` uint8 [longest] to the parts of `symbols`: UTF-8,
    filled up with zeros.
    """
    if kind == "pixels":
        return Observations((size, size, 3), "uint8")
    stack, text = Observations((size, size, FRAMES), "uint8", stack=FRAMES), Observations((longest,), "uint8")
    if kind in ("grey", "grey_text"):
        return Observations(parts={"picture": stack, **({"text": text} if kind == "grey_text" else {})})
    if kind == "semantic":
        view_part = {"world": Observations((area, area, 1), "uint8", categories=(1 + MATERIALS + OBJECTS,))}
    else:
        view_part = {"local": Observations((view, rows(view), 2), "uint8", categories=(1 + MATERIALS, 1 + THINGS))}
    return Observations(
        parts={
            **view_part,
            "inventory": Observations((ITEMS - STATUS,), "uint8", categories=(AMOUNTS,) * (ITEMS - STATUS)),
            "status": Observations((STATUS,), "uint8", categories=(AMOUNTS,) * STATUS),
            "daylight": Observations((1,), "float32"),
            **({"text": text} if kind == "text" else {}),
        }
    )


class Observed(Protocol):
    """Makes the observations of one game."""

    def first(self, game: Any) -> Array:
        """Return the first observation of an episode."""

    def next(self, game: Any) -> Array:
        """Return the observation after a step."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Records:
    """Records of named parts: `symbols`, `semantic` or `text`."""

    def __init__(self, kind: Kind, dtype: np.dtype[Any], text: Callable[[], str]) -> None:
        self._kind, self._dtype, self._text = kind, dtype, text

    def next(self, game: Any) -> Array:
        record = np.zeros((), self._dtype)
        if self._kind == "semantic":
            record["world"] = game.semantic()[..., None]
        else:
            local = record["local"]
            local[..., 0], local[..., 1] = game.visible_cells()
        levels = np.frombuffer(game.levels(), np.uint8)
        record["status"], record["inventory"] = levels[:STATUS], levels[STATUS:]
        record["daylight"] = game.daylight
        if self._kind == "text":
            _write(record, self._text())
        return record

    first = next

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        pass


class Pictures:
    """The package's picture in colours."""

    def __init__(self, size: int) -> None:
        from guidebench.suites.crafter.drawing import CrafterDrawer

        self._drawer = CrafterDrawer(size)

    def next(self, game: Any) -> Array:
        return self._drawer.draw(game.scene())

    first = next

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        pass


class GreyPictures:
    """Records of the four newest of the package's pictures in grey (ITU-R 601), the oldest first, and for `grey_text`
    of sentences; an episode begins with four equal pictures."""

    def __init__(self, size: int, dtype: np.dtype[Any], text: Callable[[], str]) -> None:
        from guidebench.suites.crafter.drawing import CrafterDrawer

        self._drawer, self._dtype, self._text = CrafterDrawer(size), dtype, text
        self._stack = np.zeros((size, size, FRAMES), np.uint8)

    def first(self, game: Any) -> Array:
        self._stack = np.repeat(self._grey(game)[..., None], FRAMES, axis=-1)
        return self._record()

    def next(self, game: Any) -> Array:
        self._stack = np.concatenate([self._stack[..., 1:], self._grey(game)[..., None]], axis=-1)
        return self._record()

    def _grey(self, game: Any) -> Array:
        from PIL import Image

        return np.asarray(Image.fromarray(self._drawer.draw(game.scene())).convert("L"))

    def _record(self) -> Array:
        record = np.zeros((), self._dtype)
        record["picture"] = self._stack
        if "text" in (self._dtype.names or ()):
            _write(record, self._text())
        return record

    def state(self) -> State:
        return {"stack": self._stack.copy()}

    def load_state(self, state: State) -> None:
        self._stack = np.array(state["stack"], np.uint8)


def _write(record: Array, text: str) -> None:
    """Write sentences into the part `text` of a record."""
    sentences = text.encode()
    record["text"][: len(sentences)] = np.frombuffer(sentences, np.uint8)


def observed(
    kind: Kind, area: int, view: int, size: int, text: Callable[[], str], longest: int = LONGEST_TEXT
) -> Observed:
    """Return an object that makes observations of this kind from a game's state. `text` returns its present sentences,
    of at most `longest` bytes."""
    if kind == "pixels":
        return Pictures(size)
    dtype = space(kind, area, view, size, longest).numpy
    return GreyPictures(size, dtype, text) if kind in ("grey", "grey_text") else Records(kind, dtype, text)
