"""Paths of imagined segments: which query is shown, along which axes, and in words."""

from typing import Any

from guidebench import results
from guidebench.reports.sections import imagined
from guidebench.reports.sections.imagined import Sketch
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}


def path(query: int, segment: str, *heights: float) -> list[dict[str, Any]]:
    """Return rows of a segment in which the object `tcp` rises along z by `heights`, a tenth as far along y, beside a
    target at (0, 0, 1)."""
    target = {"step": 100 + query, "query": query, "segment": segment, "t": 0, "name": "target"}
    moving = [
        {**target, "name": "tcp", "t": t, "x": 0.0, "y": height / 10, "z": height} for t, height in enumerate(heights)
    ]
    return [*moving, {**target, "x": 0.0, "y": 0.0, "z": 1.0}]


def write_cell(writer: Writer, **names: str) -> None:
    writer.cell(
        "imagined",
        CURVES,
        steps=200,
        method="rl_sallm_f",
        **names,
        rows={
            "imagined": {
                0: [*path(0, "imagined", 9, 9), *path(4, "imagined", 0.0, 0.5, 1.0)],
                1: path(7, "imagined", 5, 5),
            }
        },
    )
    writer.cell("alone", CURVES, steps=200, method="sac", **names)


def only_sketch(writer: Writer) -> Sketch:
    study = results.study(writer.finish())
    (only,) = imagined.sketches(study.cells, results.noted(study, "imagined"), {})
    return only


def test_the_last_query_of_the_first_seed_is_drawn_along_the_axes_on_which_most_happens(writer: Writer) -> None:
    write_cell(writer)
    sketch = only_sketch(writer)
    assert (sketch.seed, sketch.step, imagined._axes(sketch)) == (0, 104, (1, 2))
    assert sketch.paths["imagined", "tcp"].tolist() == [[0, 0, 0], [0, 0.05, 0.5], [0, 0.1, 1.0]]
    assert sketch.paths["imagined", "target"].tolist() == [[0, 0, 1]]
    drawing = imagined.draw(sketch, "imagined-a")
    assert drawing.png.startswith(b"\x89PNG") and "tcp of the imagined one ends 0.100 from target" in drawing.alt
    assert drawing == imagined.draw(sketch, "imagined-a")


def test_places_in_a_plane_need_no_third_axis(writer: Writer) -> None:
    root = writer.cell("a", CURVES, steps=200, method="rl_sallm_f")
    flat = [{key: value for key, value in row.items() if key != "z"} for row in path(0, "imagined", 1, 2)]
    write_rows(root / "seed-0", "imagined", flat)
    sketch = only_sketch(writer)
    assert imagined._axes(sketch) == (0, 1) and imagined.draw(sketch, "imagined").png
