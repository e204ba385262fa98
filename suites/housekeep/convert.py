"""Convert Housekeep's published annotations (`amt_data/data.npy`) to a table of preferences.

    python -m guidebench.suites.housekeep.convert data.npy preferences.parquet

The published file is a pickled dictionary of `ranks`, int64 [receptacles, objects, raters] (> 0: the rater would put
the object there), `objects` and `room_receptacles` (`room|receptacle`). It is never unpickled: the instructions of the
pickle are interpreted here, in a separate process, and only those that build numbers, texts, lists, dictionaries and
NumPy arrays of them are known; any other is refused by its name.
"""

from __future__ import annotations

import argparse
import math
import pickletools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError

MOST_BYTES = 100_000_000
SECONDS = 120.0
MAGIC = b"\x93NUMPY"
ARRAY, DTYPE, ENCODE, SCALAR, BLANK = "array", "dtype", "encode", "scalar", "blank"
GLOBALS = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): BLANK for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): SCALAR for core in ("core", "_core")},
    ("numpy", "ndarray"): ARRAY,
    ("numpy", "dtype"): DTYPE,
    ("_codecs", "encode"): ENCODE,
}
"""Names that the pickle of an array mentions -> what they mean here. None of them is imported or called."""
NUMBERS = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)) | {"b1", "f4", "f8"}
PUSHED = frozenset(
    {
        "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
        "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "SHORT_BINSTRING", "BINSTRING",
    }
)  # fmt: skip
"""Instructions that push their argument."""


class Name(NamedTuple):
    """A name that the pickle mentions, by its meaning in `GLOBALS`."""

    meaning: str


class Dtype:
    def __init__(self, name: str) -> None:
        self.name, self.order = name, "<"


class Array:
    """An array under construction: a list of its items, in C order, or the bytes of numbers."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.dtype = Dtype("O")
        self.content: Any = []

    def texts(self) -> list[Any]:
        """Return the items of a vector of objects or texts."""
        if self.dtype.name == "O":
            return list(self.content)
        if self.dtype.name.startswith("U") and len(self.shape) == 1:
            import numpy as np

            return [str(element) for element in np.frombuffer(self.content, self.dtype.order + self.dtype.name)]
        raise UserError(f"a list of names is an array of {self.dtype.name}; expected texts")


class Annotations(NamedTuple):
    """What the published file holds."""

    ranks: Any
    """int64 [receptacles, objects, raters]."""
    objects: list[str]
    room_receptacles: list[str]


def interpret(pickled: bytes) -> Any:
    """Return the value that a pickle describes; UserError for an instruction or a name that is not known."""
    stack: list[Any] = []
    below_marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            continue
        if name == "MARK":
            below_marks.append(stack)
            stack = []
            continue
        if name in RECALLED:
            if argument not in memo:
                raise UserError("its pickle recalls a value that it never kept")
            stack.append(memo[argument])
            continue
        if name not in OPCODES and name not in KEPT_IN_MEMO and name != "STOP":
            raise UserError(f"its pickle uses the instruction {name}, which Housekeep's annotations do not need")
        takes, to_mark, step = OPCODES.get(name, (1, False, _same))
        marked = stack
        if to_mark:
            if not below_marks:
                raise UserError("its pickle takes values back to a mark that it never set")
            stack = below_marks.pop()
        if len(stack) < takes:
            raise UserError("its pickle takes more values than it has")
        taken = stack[len(stack) - takes :]
        del stack[len(stack) - takes :]
        stack.append(step(argument, *taken, *((marked,) if to_mark else ())))
        if name == "STOP":
            return stack[-1]
        if name in KEPT_IN_MEMO:
            memo[len(memo) if argument is None else argument] = stack[-1]
    raise UserError("its pickle has no end")


def _same(argument: Any, value: Any) -> Any:
    return value


def _extended(argument: Any, target: Any, elements: list[Any]) -> Any:
    if not isinstance(target, list):
        raise UserError("its pickle puts something into what is no list")
    target.extend(elements)
    return target


def _filled(argument: Any, target: Any, pairs: list[Any]) -> Any:
    """Put keys and values, one after the other, into a dictionary."""
    if not isinstance(target, dict):
        raise UserError("its pickle puts something into what is no dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not isinstance(key, str):
            raise UserError(f"its pickle has a dictionary whose key is of type {type(key).__name__}; expected texts")
        target[key] = value
    return target


def _named(argument: Any, module: Any, name: Any) -> Name:
    if (module, name) not in GLOBALS:
        raise UserError(
            f"its pickle names {str(module)[:80]}.{str(name)[:80]}, which Housekeep's annotations do not need; "
            f"opening it could run code of its author's"
        )
    return Name(GLOBALS[module, name])


def _called(argument: Any, name: Any, arguments: Any) -> Any:
    match name, arguments:
        case Name("blank"), (Name("array"), *_):
            return Array()
        case Name("dtype"), (str(text), *_):
            return Dtype("O" if text == "O8" else text)
        case Name("encode"), (str(text), "latin1"):
            return text.encode("latin1")
        case Name("scalar"), (Dtype() as dtype, bytes(content)):
            return _numbers(dtype, content, ()).item()
    raise UserError("its pickle calls something other than the parts of an array")


def _built(argument: Any, target: Any, state: Any) -> Any:
    match target, state:
        case Dtype(), (_, str(order), *_):
            target.order = "<" if order in ("|", "=") else order
        case Array(), (_, tuple(shape), Dtype() as dtype, False, list() | bytes() as content):
            if not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape):
                raise UserError(f"its pickle has an array of the shape {str(shape)[:80]}")
            if isinstance(content, list) and len(content) != math.prod(shape):
                raise UserError(f"its pickle has an array of the shape {shape} with {len(content)} items")
            target.shape, target.dtype, target.content = shape, dtype, content
        case _:
            raise UserError("its pickle fills something other than an array in C order")
    return target


OPCODES: dict[str, tuple[int, bool, Callable[..., Any]]] = {
    **{name: (0, False, lambda argument: argument) for name in PUSHED},
    "NONE": (0, False, lambda argument: None),
    "NEWTRUE": (0, False, lambda argument: True),
    "NEWFALSE": (0, False, lambda argument: False),
    "EMPTY_LIST": (0, False, lambda argument: []),
    "EMPTY_DICT": (0, False, lambda argument: {}),
    "EMPTY_TUPLE": (0, False, lambda argument: ()),
    **{f"TUPLE{number}": (number, False, lambda argument, *values: values) for number in (1, 2, 3)},
    "TUPLE": (0, True, lambda argument, marked: tuple(marked)),
    "APPEND": (2, False, lambda argument, target, element: _extended(argument, target, [element])),
    "APPENDS": (1, True, _extended),
    "SETITEM": (3, False, lambda argument, target, *pair: _filled(argument, target, [*pair])),
    "SETITEMS": (1, True, _filled),
    "GLOBAL": (0, False, lambda argument: _named(argument, *argument.partition(" ")[::2])),
    "STACK_GLOBAL": (2, False, _named),
    "REDUCE": (2, False, _called),
    "BUILD": (2, False, _built),
}
"""Instruction -> how many values it takes from the stack, whether it also takes those since the last mark, as a list,
and the function of its argument and of these values that returns what it pushes."""
KEPT_IN_MEMO = ("MEMOIZE", "BINPUT", "LONG_BINPUT")
"""Instructions that keep the value on top of the stack."""
RECALLED = ("BINGET", "LONG_BINGET")
"""Instructions that push a value that was kept."""


def _numbers(dtype: Dtype, content: bytes, shape: tuple[int, ...]) -> Any:
    """Return an array of numbers from its bytes; UserError for another type or size."""
    import numpy as np

    if dtype.name not in NUMBERS or dtype.order not in "<>":
        raise UserError(f"its pickle has an array of {dtype.order}{dtype.name}; expected numbers")
    kind = np.dtype(dtype.order + dtype.name)
    if len(content) != kind.itemsize * math.prod(shape):
        raise UserError(f"its pickle has {len(content):,} bytes for an array of the shape {shape} of {kind}")
    return np.frombuffer(content, kind).reshape(shape)


def opened(path: Path) -> Annotations:
    """Return what a file holds; call it in a separate process. UserError for any other file."""
    import numpy as np

    if path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: {path.stat().st_size:,} bytes are more than Housekeep's annotations have")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise UserError(f"{path} is no file of NumPy's; expected Housekeep's amt_data/data.npy")
        file.seek(0)
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise UserError(f"{path} is written in version {version} of NumPy's format; expected 1 or 2")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(file)
        content = file.read()
    if shape != () or kind != np.dtype(object):
        raise UserError(f"{path} is an array of {kind} of shape {shape}; expected one pickled dictionary")
    try:
        outer = interpret(content)
        if not isinstance(outer, Array) or outer.shape != () or not isinstance(outer.content, list):
            raise UserError("it holds no array with one dictionary")
        return _annotations(outer.content[0])
    except UserError as error:
        raise UserError(f"{path}: {error}; expected Housekeep's amt_data/data.npy") from None


def _annotations(content: Any) -> Annotations:
    if not isinstance(content, dict) or not {"ranks", "objects", "room_receptacles"} <= content.keys():
        keys = ", ".join(map(str, content))[:200] if isinstance(content, dict) else type(content).__name__
        raise UserError(f"it holds {keys}; expected a dictionary of ranks, objects and room_receptacles")
    lists = []
    for name in ("objects", "room_receptacles"):
        names = content[name].texts() if isinstance(content[name], Array) else content[name]
        if not isinstance(names, (list, tuple)) or not all(isinstance(text, str) for text in names):
            raise UserError(f"its {name} are no list of texts")
        lists.append(list(names))
    ranks = content["ranks"]
    if not isinstance(ranks, Array) or not isinstance(ranks.content, bytes):
        raise UserError("its ranks are no array of numbers")
    numbers = _numbers(ranks.dtype, ranks.content, ranks.shape)
    if numbers.ndim != 3 or numbers.shape[:2] != (len(lists[1]), len(lists[0])) or not numbers.shape[2]:
        raise UserError(
            f"its ranks have the shape {list(numbers.shape)}; expected [{len(lists[1])} receptacles, {len(lists[0])} "
            f"objects, raters]"
        )
    if unnamed := next((text for text in lists[1] if text.count("|") != 1), None):
        raise UserError(f"its receptacle {unnamed[:80]!r} is not of the form room|receptacle")
    return Annotations(numbers, *lists)


def rows(annotations: Annotations) -> list[tuple[str, str, str, int, int]]:
    """Return the rows of the table: of each receptacle and object, the raters with a rank above 0, and all raters."""
    positive = (annotations.ranks > 0).sum(-1).tolist()
    raters = annotations.ranks.shape[-1]
    return [
        (*place.split("|"), thing, positive[number][at], raters)
        for number, place in enumerate(annotations.room_receptacles)
        for at, thing in enumerate(annotations.objects)
    ]


def _rows(path: Path) -> list[tuple[str, str, str, int, int]]:
    return rows(opened(path))


def convert(source: Path, target: Path) -> str:
    """Write the table of a published file to the new file `target`, CSV or Parquet; return the table's name, which
    `suite.table` takes. UserError for another source, and for a target that exists."""
    from guidebench.suites.housekeep.preferences import COLUMNS, read

    if not source.is_file():
        raise UserError(f"{source} is no file; expected Housekeep's amt_data/data.npy")
    if target.suffix not in (".csv", ".parquet"):
        raise UserError(f"{target} ends in {target.suffix!r}; name a file that ends in .parquet or .csv")
    if target.exists():
        raise UserError(f"{target} exists; name a file that does not, or remove it")
    table_rows = reader_process.call(f"{source}: reading its annotations", SECONDS, _rows, source)
    columns = dict(zip(COLUMNS, zip(*table_rows, strict=True), strict=True))
    import pandas as pd

    table = pd.DataFrame(columns)
    if target.suffix == ".csv":
        table.to_csv(target, index=False, lineterminator="\n")
    else:
        table.to_parquet(target, index=False)
    try:
        return read(target).name
    except UserError:
        target.unlink()
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="DATA", help="Housekeep's amt_data/data.npy")
    parser.add_argument("target", type=Path, metavar="FILE", help="Parquet or CSV file to write; must not exist")
    arguments = parser.parse_args()
    from guidebench.suites.housekeep import convert as module  # the process that reads cannot import `__main__`

    try:
        name = module.convert(arguments.source, arguments.target)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{arguments.target}: use it by suite.preferences={arguments.target} suite.table={name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
