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

            return [str(item) for item in np.frombuffer(self.content, self.dtype.order + self.dtype.name)]
        raise UserError(f"a list of names is an array of {self.dtype.name}; expected texts")


class Annotations(NamedTuple):
    """What the published file holds."""

    ranks: Any
    """int64 [receptacles, objects, raters]."""
    objects: list[str]
    room_receptacles: list[str]


class Reader:
    """Interprets the instructions of one pickle."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def read(self) -> Any:
        """Return the value that the pickle describes; UserError for an instruction or a name that is not known."""
        for opcode, argument, _ in pickletools.genops(self._content):
            name = opcode.name
            if name in PUSHED:
                self._stack.append(argument)
            elif name == "STOP":
                return self._pop()
            else:
                step = getattr(self, f"_on_{name.lower()}", None)
                if step is None:
                    raise UserError(
                        f"its pickle uses the instruction {name}, which Housekeep's annotations do not need"
                    )
                step(argument)
        raise UserError("its pickle has no end")

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise UserError("its pickle takes more values than it has")
        return self._stack.pop()

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise UserError("its pickle takes values back to a mark that it never set")
        start = self._marks.pop()
        taken = self._stack[start:]
        del self._stack[start:]
        return taken

    # Instructions: `_on_` and the name that `pickletools` gives them, in lower case

    def _on_proto(self, argument: Any) -> None:
        pass

    _on_frame = _on_proto

    def _on_mark(self, argument: Any) -> None:
        self._marks.append(len(self._stack))

    def _on_none(self, argument: Any) -> None:
        self._stack.append(None)

    def _on_newtrue(self, argument: Any) -> None:
        self._stack.append(True)

    def _on_newfalse(self, argument: Any) -> None:
        self._stack.append(False)

    def _on_empty_list(self, argument: Any) -> None:
        self._stack.append([])

    def _on_empty_dict(self, argument: Any) -> None:
        self._stack.append({})

    def _on_empty_tuple(self, argument: Any) -> None:
        self._stack.append(())

    def _on_tuple(self, argument: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _on_tuple1(self, argument: Any) -> None:
        self._stack.append((self._pop(),))

    def _on_tuple2(self, argument: Any) -> None:
        last = self._pop()
        self._stack.append((self._pop(), last))

    def _on_tuple3(self, argument: Any) -> None:
        last, middle = self._pop(), self._pop()
        self._stack.append((self._pop(), middle, last))

    def _on_append(self, argument: Any) -> None:
        item = self._pop()
        self._top(list).append(item)

    def _on_appends(self, argument: Any) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _on_setitem(self, argument: Any) -> None:
        value = self._pop()
        self._put([self._pop(), value])

    def _on_setitems(self, argument: Any) -> None:
        self._put(self._since_mark())

    def _put(self, items: list[Any]) -> None:
        own = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise UserError(
                    f"its pickle has a dictionary whose key is of type {type(key).__name__}; expected texts"
                )
            own[key] = value

    def _top(self, kind: type) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise UserError(f"its pickle puts something into what is no {kind.__name__}")
        return self._stack[-1]

    def _on_memoize(self, argument: Any) -> None:
        self._memo[len(self._memo)] = self._top(object)

    def _on_binput(self, argument: int) -> None:
        self._memo[argument] = self._top(object)

    _on_long_binput = _on_binput

    def _on_binget(self, argument: int) -> None:
        if argument not in self._memo:
            raise UserError("its pickle recalls a value that it never kept")
        self._stack.append(self._memo[argument])

    _on_long_binget = _on_binget

    def _on_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def _on_stack_global(self, argument: Any) -> None:
        name = self._pop()
        self._name(self._pop(), name)

    def _name(self, module: Any, name: Any) -> None:
        if (module, name) not in GLOBALS:
            raise UserError(
                f"its pickle names {str(module)[:80]}.{str(name)[:80]}, which Housekeep's annotations do not need; "
                f"opening it could run code of its author's"
            )
        self._stack.append(Name(GLOBALS[module, name]))

    def _on_reduce(self, argument: Any) -> None:
        given, name = self._pop(), self._pop()
        match name, given:
            case Name("blank"), (Name("array"), *_):
                self._stack.append(Array())
            case Name("dtype"), (str(text), *_):
                self._stack.append(Dtype("O" if text == "O8" else text))
            case Name("encode"), (str(text), "latin1"):
                self._stack.append(text.encode("latin1"))
            case Name("scalar"), (Dtype() as dtype, bytes(content)):
                self._stack.append(_numbers(dtype, content, ()).item())
            case _:
                raise UserError("its pickle calls something other than the parts of an array")

    def _on_build(self, argument: Any) -> None:
        given, made = self._pop(), self._stack[-1] if self._stack else None
        match made, given:
            case Dtype(), (_, str(order), *_):
                made.order = "<" if order in ("|", "=") else order
            case Array(), (_, tuple(shape), Dtype() as dtype, False, list() | bytes() as content):
                if not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape):
                    raise UserError(f"its pickle has an array of the shape {str(shape)[:80]}")
                if isinstance(content, list) and len(content) != math.prod(shape):
                    raise UserError(f"its pickle has an array of the shape {shape} with {len(content)} items")
                made.shape, made.dtype, made.content = shape, dtype, content
            case _:
                raise UserError("its pickle fills something other than an array in C order")


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
        outer = Reader(content).read()
        if not isinstance(outer, Array) or outer.shape != () or not isinstance(outer.content, list):
            raise UserError("it holds no array with one dictionary")
        return _annotations(outer.content[0])
    except UserError as error:
        raise UserError(f"{path}: {error}; expected Housekeep's amt_data/data.npy") from None


def _annotations(found: Any) -> Annotations:
    if not isinstance(found, dict) or not {"ranks", "objects", "room_receptacles"} <= found.keys():
        keys = ", ".join(map(str, found))[:200] if isinstance(found, dict) else type(found).__name__
        raise UserError(f"it holds {keys}; expected a dictionary of ranks, objects and room_receptacles")
    lists = []
    for name in ("objects", "room_receptacles"):
        names = found[name].texts() if isinstance(found[name], Array) else found[name]
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise UserError(f"its {name} are no list of texts")
        lists.append(list(names))
    ranks = found["ranks"]
    if not isinstance(ranks, Array) or not isinstance(ranks.content, bytes):
        raise UserError("its ranks are no array of numbers")
    numbers = _numbers(ranks.dtype, ranks.content, ranks.shape)
    if numbers.ndim != 3 or numbers.shape[:2] != (len(lists[1]), len(lists[0])) or not numbers.shape[2]:
        raise UserError(
            f"its ranks have the shape {list(numbers.shape)}; expected [{len(lists[1])} receptacles, {len(lists[0])} "
            f"objects, raters]"
        )
    if unnamed := next((each for each in lists[1] if each.count("|") != 1), None):
        raise UserError(f"its receptacle {unnamed[:80]!r} is not of the form room|receptacle")
    return Annotations(numbers, *lists)


def rows(found: Annotations) -> list[tuple[str, str, str, int, int]]:
    """Return the rows of the table: of each receptacle and object, the raters with a rank above 0, and all raters."""
    positive = (found.ranks > 0).sum(-1).tolist()
    raters = found.ranks.shape[-1]
    return [
        (*place.split("|"), thing, positive[number][at], raters)
        for number, place in enumerate(found.room_receptacles)
        for at, thing in enumerate(found.objects)
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
    found = reader_process.call(f"{source}: reading its annotations", SECONDS, _rows, source)
    columns = dict(zip(COLUMNS, zip(*found, strict=True), strict=True))
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
    given = parser.parse_args()
    from guidebench.suites.housekeep import convert as module  # the process that reads cannot import `__main__`

    try:
        name = module.convert(given.source, given.target)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{given.target}: use it by suite.preferences={given.target} suite.table={name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
