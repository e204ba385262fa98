"""Small faults in the text of a module: where they can be made, which of them are drawn, and how one is applied.

A fault is known by its file, its function and the text that it replaces, so the same one can be applied to a later
version of the file.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

KINDS = ("comparison", "constant", "sign", "axis", "dropped line")
SEED = "aea30fd7f6c2cb814906f07375d8b5789ab9846f"
"""The first parent commit of the work that introduced these faults."""
_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_AXES = ("axis", "dim")
_WITH_AXIS = (
    "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cat", "concatenate", "cumprod", "cumsum",
    "expand_dims", "flatten", "gather", "index_select", "log_softmax", "logsumexp", "max", "mean", "min", "norm",
    "prod", "repeat_interleave", "softmax", "sort", "squeeze", "stack", "std", "sum", "take", "unsqueeze", "var",
)  # fmt: skip
"""Methods whose first integer is an axis."""
_MESSAGES = ("debug", "error", "info", "print", "warn", "warning")
_TECHNICAL = (
    "check", "encoding", "ensure_ascii", "exist_ok", "frozen", "indent", "kw_only", "missing_ok", "parents", "slots",
    "stacklevel", "strict", "text",
)  # fmt: skip
"""Keywords whose arguments do not affect what is computed."""


class Fault(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    meaning: str
    scope: str = ""
    """Qualified name of the function or class in which `old` is searched; "" for the whole file."""
    occurrence: int = 0
    """Number of occurrences of `old` that precede it in its scope."""


class Place(NamedTuple):
    """Lines of a fault, from 1, both ends included."""

    first: int
    last: int


def locate(source: str, fault: Fault) -> tuple[int, int] | None:
    """Return the start and end offset of the text that a fault replaces; None if this version of the file has no such
    text."""
    start, skipped = 0, fault.occurrence
    for begin, end in _spans(source, fault.scope):
        start = max(begin, start)
        while (offset := source.find(fault.old, start, end)) >= 0:
            if not skipped:
                return offset, offset + len(fault.old)
            skipped -= 1
            start = offset + 1
    return None


def place(source: str, fault: Fault) -> Place:
    """Return the lines of a file that a fault changes. Raise LookupError if its text is not in `source`."""
    if (offsets := locate(source, fault)) is None:
        raise LookupError(f"{fault.file} has no {fault.old!r} in {fault.scope or 'it'}")
    start, end = offsets
    start += len(fault.old) - len(fault.old.lstrip("\n"))
    return Place(source.count("\n", 0, start) + 1, source.count("\n", 0, end) + 1)


def apply(source: str, fault: Fault) -> str:
    """Return the text of a file with a fault in it. Raise LookupError if the text it replaces is not in `source`."""
    if (offsets := locate(source, fault)) is None:
        raise LookupError(f"{fault.file} has no {fault.old!r} in {fault.scope or 'it'}")
    return source[: offsets[0]] + fault.new + source[offsets[1] :]


def _spans(source: str, scope: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each definition with this qualified name; of the whole source if `scope` is
    ""."""
    if not scope:
        yield 0, len(source)
        return
    starts = _line_starts(source)
    for name, node in _definitions(ast.parse(source)):
        if name == scope:
            yield starts[node.lineno - 1], starts[node.end_lineno or node.lineno]


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, Definition):
            name = f"{within}.{node.name}".lstrip(".")
            yield name, node
        yield from _definitions(node, name)


def draw(
    sources: Mapping[str, str], is_reached: Callable[[str, str, Place], bool], count: int = 100, seed: str = SEED
) -> list[Fault]:
    """Return `count` faults of different functions, equally many of each kind. `sources`: file -> text; `is_reached`:
    given a file, its text and the lines of a fault, says whether a test executes them.

    Faults are taken in the order of a hash of each fault and the seed, so a change elsewhere in the package draws no
    other ones."""
    ranked: dict[str, list[tuple[str, Fault]]] = {kind: [] for kind in KINDS}
    for file, source in sources.items():
        for kind, fault in candidates(file, source):
            digest = hashlib.sha256("\0".join(map(str, (seed, kind, *fault[1:]))).encode()).hexdigest()
            ranked[kind].append((digest, fault._replace(name=f"{kind.replace(' ', '-')}-{digest[:8]}")))
    queues = [iter(sorted(ranked[kind])) for kind in KINDS]
    faults: list[Fault] = []
    functions: set[tuple[str, str]] = set()
    while len(faults) < count and queues:
        for queue in [*queues]:
            for _, fault in queue:
                source = sources[fault.file]
                if (fault.file, fault.scope) in functions or not _is_valid(apply(source, fault)):
                    continue
                if is_reached(fault.file, source, place(source, fault)):
                    faults.append(fault)
                    functions.add((fault.file, fault.scope))
                    break
            else:
                queues.remove(queue)
            if len(faults) == count:
                break
    return faults


def candidates(file: str, source: str) -> Iterator[tuple[str, Fault]]:
    """Yield (kind, fault) for each fault that can be made in a module. Names are empty, and syntax is not checked."""
    lines = source.splitlines(keepends=True)
    starts = _line_starts(source)
    tree = ast.parse(source)
    spans = {"": [(0, len(source))]}
    for name, node in _definitions(tree):
        spans.setdefault(name, []).append((starts[node.lineno - 1], starts[node.end_lineno or node.lineno]))

    def offset(number: int, column: int) -> int:
        return starts[number - 1] + len(lines[number - 1].encode()[:column].decode())

    for kind, scope, node, text in _mutants(tree):
        start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
        first, last = starts[node.lineno - 1], starts[node.end_lineno] - 1
        first += len(lines[node.lineno - 1]) - len(lines[node.lineno - 1].lstrip())
        old, new = source[first:last], source[first:start] + text + source[end:last]
        before = sum(_count(source, old, begin, min(stop, first)) for begin, stop in spans[scope])
        meaning = f"{kind}: {_short(source[start:end])} becomes {_short(text)}"
        fault = Fault("", file, old, new, meaning, scope, before)
        if old != new:
            yield kind, fault


def _count(source: str, text: str, start: int, end: int) -> int:
    """Return how often `text` starts in source[start:end], overlapping occurrences included."""
    count = 0
    while 0 <= (start := source.find(text, start)) < end:
        count, start = count + 1, start + 1
    return count


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:57]}…"


def _is_valid(source: str) -> bool:
    try:
        compile(source, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _mutants(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, str, ast.AST, str]]:
    """Yield kind, scope, node, and the text that replaces the node, for each possible fault below `tree`."""
    for node in _parts(tree):
        name = f"{scope}.{node.name}".lstrip(".") if isinstance(node, Definition) else scope
        for kind, text in _changes(node, tree):
            yield kind, name, node, text
        yield from _mutants(node, name)


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    """Return the children of a node that may be mutated: no annotations, messages, type names or decorators."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return node.orelse
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.arg | ast.Import | ast.ImportFrom):
        return ()
    if isinstance(node, ast.AnnAssign):
        return () if node.value is None else (node.value,)
    if isinstance(node, ast.Assert):
        return (node.test,)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.startswith("__"):
        return ()
    if isinstance(node, ast.Call) and _callee(node) in (*_MESSAGES, "Literal", "TypeVar", "Log", "Column"):
        return ()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body)
    if isinstance(node, ast.ClassDef):
        return node.body
    return [
        child
        for child in ast.iter_child_nodes(node)
        if not (isinstance(child, ast.keyword) and child.arg in (*_TECHNICAL, *_AXES))
    ]


def _callee(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield kind and replacement text of each fault of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        yield "comparison", ast.unparse(ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        if not (isinstance(parent, ast.Call) and _callee(parent) in _WITH_AXIS and node in parent.args):
            yield "constant", repr(_other(node.value))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if not any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(side) for side in _sides(node)):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", ast.unparse(ast.BinOp(node.left, other, node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", ast.unparse(node.operand)
    elif isinstance(node, ast.Call):
        yield from _axis_changes(node)
    if _may_be_dropped(node):
        yield "dropped line", "pass"


def _sides(node: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    return node.left, node.right


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _other(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 0.5 if value == 1.0 else 2 * value or 1.0


def _axis_changes(node: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield the call with another axis: 0 becomes 1, and any other axis becomes 0."""
    changed = copy.deepcopy(node)
    for keyword in changed.keywords:
        if keyword.arg in _AXES and (axis := _integer(keyword.value)) is not None:
            keyword.value = ast.Constant(int(axis == 0))
            yield "axis", ast.unparse(changed)
            return
    if _callee(node) in _WITH_AXIS and isinstance(node.func, ast.Attribute):
        for place, argument in enumerate(changed.args[:2]):
            if (axis := _integer(argument)) is not None and (place or not _is_module(node.func.value)):
                changed.args[place] = ast.Constant(int(axis == 0))
                yield "axis", ast.unparse(changed)
                return


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "torch")


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _may_be_dropped(node: ast.AST) -> bool:
    """Return whether the code still runs without this statement: a call, an assignment to an attribute or item, or a
    check that raises."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _callee(node.value) not in _MESSAGES
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.If):
        return not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
    return isinstance(node, ast.AugAssign)
