"""Two pictures drawn from the code: the folders with their imports, and the calls in one step of a run.

`python -m docs.generated.pictures` rewrites docs/folders.svg and docs/transition.svg.
"""

from __future__ import annotations

import ast
import inspect
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WIDTH = 1000
STYLE = """\
<style>
text { font: 13px sans-serif; fill: #222 } .name { font-weight: bold; font-size: 15px }
.code { font-family: monospace } .small { font-size: 11px }
.box { fill: #f4f6fb; stroke: #4a5a8a } .line { stroke: #4a5a8a; fill: none } .life { stroke: #bbb }
</style>
<defs><marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
<path d="M0,0 L9,4 L0,8 z" fill="#4a5a8a"/></marker></defs>
"""


def _svg(height: float, parts: Iterable[str], title: str) -> str:
    """Return an SVG picture of these elements with a white background, readable on a dark page."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">\n'
        f"<title>{escape(title)}</title>\n{STYLE}"
        f'<rect width="{WIDTH}" height="{height:g}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _words(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="line" marker-end="url(#head)" d="M{x1:g},{y1:g} L{x2:g},{y2:g}"/>'


class Folder(NamedTuple):
    """A package of the tree: its purpose, subpackages and imports."""

    name: str
    purpose: str
    """First sentence of its docstring."""
    within: tuple[str, ...]
    """Direct subpackages."""
    imports: frozenset[str]
    """Other packages of the tree that its modules import."""


def read_folders() -> dict[str, Folder]:
    """Return name -> description of each package that `guidebench` links to."""
    names = sorted(path.name for path in (ROOT / "guidebench").iterdir() if path.is_symlink())
    return {name: _folder(ROOT / name, names) for name in names}


def _folder(path: Path, names: Iterable[str]) -> Folder:
    about = ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))) or ""
    purpose = " ".join(about.replace("`", "").split()).split(". ")[0].rstrip(".")
    within = tuple(sorted(package.parent.name for package in path.glob("*/__init__.py")))
    imported = {name for module in path.rglob("*.py") for name in _imports(module)}
    return Folder(path.name, purpose, within, frozenset(imported & {*names} - {path.name}))


def _imports(module: Path) -> set[str]:
    """Return the subpackages of `guidebench` that a module imports, at its top or within functions."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        else:
            continue
        packages |= {path.split(".")[1] for path in paths if path.startswith("guidebench.")}
    return packages


def nearest(imports: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """Return package -> its direct imports that no other of its imports reaches."""

    def reach(name: str) -> set[str]:
        return set(imports[name]).union(*map(reach, imports[name]))

    return {
        name: {name for name in direct if not any(name in reach(other) for other in direct)}
        for name, direct in imports.items()
    }


def levels(imports: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return package -> length of the longest chain of imports below it."""

    def level(name: str) -> int:
        return max((level(other) + 1 for other in imports[name]), default=0)

    return {name: level(name) for name in imports}


def draw_folders(folders_by_name: Mapping[str, Folder]) -> str:
    """Return an SVG with a box for each package above those that it imports, and arrows to the nearest of them."""
    imports = {name: folder.imports for name, folder in folders_by_name.items()}
    level, arrows = levels(imports), nearest(imports)
    columns, place = 3, dict[str, int]()
    for name in sorted(folders_by_name, key=lambda name: (level[name], name)):
        below = [place[other] for other in sorted(arrows[name]) if level[other]]
        occupied = {place[other] for other in place if level[other] == level[name]}
        place[name] = next(column for column in [*below, *range(len(folders_by_name))] if column not in occupied)
    wide, margin, gap = (WIDTH - 40) / columns - 20, 20.0, 46.0
    boxes, top = dict[str, tuple[float, float, float, float]](), 20.0
    texts: dict[str, list[str]] = {}
    for step in range(max(level.values()), -1, -1):
        names = [name for name in folders_by_name if level[name] == step]
        for name in names:
            alone = len(names) == 1 and step == 0
            width = WIDTH - 2 * margin if alone else wide
            inside = ", ".join(folders_by_name[name].within)
            texts[name] = [
                *textwrap.wrap(folders_by_name[name].purpose, int((width - 24) / 7)),
                "",
                *textwrap.wrap(inside, int((width - 24) / 8)),
            ]
            x_left = margin if alone else margin + place[name] * (wide + 30)
            boxes[name] = x_left, top, width, 34 + 18 * len(texts[name])
        height = max(boxes[name][3] for name in names)
        boxes |= {name: (*boxes[name][:3], height) for name in names}
        top += height + gap
    parts = []
    for name, others in arrows.items():
        x_left, y, width, height = boxes[name]
        for other in sorted(others):
            x_other, below, width_other, _ = boxes[other]
            x = min(max(x_left + width / 2, x_other + 20), x_other + width_other - 20)
            parts.append(_arrow(x_left + width / 2, y + height, x, below))
    for name, (x_left, y, width, height) in boxes.items():
        parts.append(f'<rect class="box" x="{x_left:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>')
        parts.append(_words(x_left + 12, y + 22, f"{name}/", "name code"))
        blank = texts[name].index("")
        for number, line in enumerate(texts[name]):
            parts.append(_words(x_left + 12, y + 42 + 18 * number, line, "code" if number > blank else ""))
    return _svg(top - gap + 20, parts, "The folders: each imports those that its arrows lead to, and what they import")


RUN = (
    "suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "judge=oracle", "judge.delay=0", "profile=smoke",
    "learner.learning_starts=100", "learner.train_every=1",
)  # fmt: skip
"""The run whose step is drawn. Its judge has no delay, so that one step contains every kind of call."""


class Call(NamedTuple):
    """A method call from one object of a run to another."""

    caller: str
    called: str
    method: str


def trace_step() -> tuple[list[Call], dict[str, str]]:
    """Return the calls between the objects of a run in one step of its loop, without duplicates and in order, and
    object -> class name.

    The step is the one of a short run with the most calls: a clip ends, is judged, and a batch is learnt from."""
    from guidebench.harness.identity.cells import record
    from guidebench.harness.loop.job import Job
    from guidebench.harness.loop.training import Loop
    from guidebench.harness.plan import matrix
    from guidebench.harness.run.worker import work

    most: list[Call] = []
    classes: dict[str, str] = {}
    advance = Loop.advance

    def watched(loop: Any, phase: Any) -> None:
        objects, calls = _objects(loop), dict[Call, None]()
        names = {id(object_): name for name, object_ in objects.items()}
        classes.update({name: type(object_).__name__ for name, object_ in objects.items()})

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and (call := _call(frame, names)) is not None:
                calls[call] = None

        sys.setprofile(profile)
        try:
            advance(loop, phase)
        finally:
            sys.setprofile(None)
        if len(calls) > len(most):
            most[:] = calls

    (cell,) = matrix.plan(RUN).cells
    with tempfile.TemporaryDirectory() as directory:
        Loop.advance = watched  # type: ignore[method-assign]
        try:
            work(Job("trace", directory, record(cell), (0,)), lambda event: None, lambda: False)
        finally:
            Loop.advance = advance  # type: ignore[method-assign]
    return most, classes


def _objects(loop: Any) -> dict[str, Any]:
    """Return name -> object of a run's loop, task, agent and parts, named as in the contracts."""
    agent = loop.agent
    return {
        "Loop": loop, "Task": loop.tasks[0], "Asks": loop._asks["judge"], "Agent": agent,
        "Experience": agent.experience, "Store": agent.experience.store, "Sampler": agent.experience.sampler,
        "Guide": agent.guide, "Learner": agent.learner,
    }  # fmt: skip


def _call(frame: FrameType, names: Mapping[int, str]) -> Call | None:
    """Return the call that a frame begins, if it is a public method of an object in `names` (id -> name) called by
    another one; else None."""
    called, method = _owner(frame, names), frame.f_code.co_name
    if not called or method.startswith(("_", "<")):
        return None
    if isinstance(inspect.getattr_static(type(frame.f_locals["self"]), method, None), property):
        return None
    back = frame.f_back
    while back is not None and not _owner(back, names):
        back = back.f_back
    caller = _owner(back, names) if back is not None else ""
    return Call(caller, called, method) if caller and caller != called else None


def _owner(frame: FrameType, names: Mapping[int, str]) -> str:
    """Return the name of the object whose method a frame runs, from `names` (id -> name); "" for other frames."""
    return names.get(id(frame.f_locals.get("self")), "")


def draw_transition(calls: Iterable[Call], classes: Mapping[str, str]) -> str:
    """Return an SVG with a column for each object, in the order of its first call, and an arrow for each call,
    downwards in time. `classes`: object -> class name, shown below it."""
    drawn_calls = [*calls]
    names = list(dict.fromkeys(name for call in drawn_calls for name in (call.caller, call.called)))
    apart, row, head = WIDTH / len(names), 24, 64
    x = {name: apart * (index + 0.5) for index, name in enumerate(names)}
    height = head + row * (len(drawn_calls) + 1)
    parts = [_words(x[name], 28, name, "name", "middle") for name in names]
    parts += [_words(x[name], 46, classes[name], "small", "middle") for name in names]
    parts += [f'<path class="life" d="M{x[name]:g},52 V{height - 10:g}"/>' for name in names]
    for number, call in enumerate(drawn_calls, 1):
        y, begin, end = head + row * number - 6, x[call.caller], x[call.called]
        forward = end > begin
        parts.append(_arrow(begin, y, end, y))
        parts.append(_words(end + (-12 if forward else 12), y - 4, call.method, "code", "end" if forward else "start"))
    return _svg(height, parts, "A step of the training loop: which object calls which, downwards in time")


def pictures() -> dict[str, str]:
    """Return file name in `docs` -> SVG text."""
    return {"folders.svg": draw_folders(read_folders()), "transition.svg": draw_transition(*trace_step())}


if __name__ == "__main__":
    for file, picture in pictures().items():
        (DOCS / file).write_text(picture, encoding="utf-8")
        print(f"docs/{file}")
