from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from guidebench import results
from guidebench.reports.commands import report as command
from guidebench.reports.sections import probes
from guidebench.reports.sections.probes import Probed
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}
EXPERT = (0, 0, 1, 1, 0, 1)


def rows(critic: Mapping[int, Sequence[float]], judge: Mapping[int, float] | None = None) -> list[dict[str, Any]]:
    """An episode of six moves, the first two and the fifth of them random; a key at 2, a door at 3 and at 5."""

    def row(t: int, quantity: str, value: float, step: int = 0) -> dict[str, Any]:
        return {"step": step, "t": t, "quantity": quantity, "value": value}

    return [
        row(0, "window", 2),
        *(row(t, "expert", value) for t, value in enumerate(EXPERT)),
        *(row(t, f"event/{name}", 1.0) for t, name in ((2, "key"), (3, "door"), (5, "door"))),
        *(row(t, "judge", score) for t, score in (judge or {}).items()),
        *(row(t, "critic", value, step) for step, values in critic.items() for t, value in enumerate(values)),
    ]


def seen(writer: Writer) -> list[Probed]:
    study = results.study(writer.finish())
    return probes.probed(study.cells, results.noted(study, "probes"), {})


def test_the_difference_is_half_a_window_ahead_less_half_a_window_behind() -> None:
    value = pd.Series([0.0, 1.0, 3.0, 6.0, 10.0])
    assert probes.difference(value, 2).to_dict() == {1: 3.0, 2: 5.0, 3: 7.0}
    assert probes.difference(value, 4).to_dict() == {2: 10.0}
    assert probes.difference(value, 5).to_dict() == {2: 10.0}
    assert probes.difference(value, 1).to_dict() == {1: 3.0, 2: 5.0, 3: 7.0}, "never a value less itself"
    assert probes.difference(value, 6).empty
    assert probes.difference(value.drop(2), 2).to_dict() == {2: 5.0}, "where one of the two is missing there is none"


def test_curves_are_means_over_the_seeds_at_steps_that_all_of_them_have(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({100: [0, 0, 1, 1, 1, 1], 200: [9] * 6}, {1: 1.0, 3: 0.0}))
    write_rows(root / "seed-1", "probes", rows({100: [0, 0, 3, 1, 1, 3]}, {1: 0.0, 3: 0.0}))
    (found,) = seen(writer)
    assert list(found.change) == [100]
    assert found.change[100].to_dict() == {1: 2.0, 2: 1.0, 3: -1.0, 4: 1.0}
    assert found.score.to_dict() == {1: 0.5, 3: 0.0}
    assert found.events == ((2, "key"), (3, "door"), (5, "door"))
    assert found.expert.tolist() == [bool(value) for value in EXPERT]
    assert (found.window, found.seeds, found.where) == (2, 2, "grid/8x8")


def test_a_cell_without_a_judge_has_no_scores_and_one_without_probes_no_entry(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({100: [0, 1, 2, 3, 4, 5]}))
    root = writer.cell("b", CURVES, method="per")
    write_rows(root / "seed-0", "probes", [])
    root = writer.cell("c", CURVES, method="vlm_rb")
    write_rows(root / "seed-0", "probes", rows({}))  # its first look at the critic is still to come
    (found,) = seen(writer)
    assert found.score.empty and found.seeds == 1
    assert found.change[100].tolist() == [2.0] * 4


def test_the_timeline_shows_when_each_event_happened_and_where_moves_are_random(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({100: [0] * 6}))
    (found,) = seen(writer)
    axes = Figure().add_subplot()
    probes._timeline(axes, found, ["key", "door"])
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[2], [3, 5]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["key", "door", "random"]
    spans = [path.get_extents() for collection in axes.collections for path in collection.get_paths()]
    assert [(span.x0, span.x1) for span in spans] == [(0, 2), (4, 5)]


def test_curves_darken_over_training_to_black(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({step: [0, step, 0, 0, 0, 0] for step in (100, 200, 300)}))
    (found,) = seen(writer)
    handles = probes._changes(Figure().add_subplot(), found, (-1.0, 1.0))
    greys = [line.get_color()[0] for line in handles]
    assert greys == [0.75, 0.375, 0.0]
    assert [line.get_ydata()[1] for line in handles] == [-100, -200, -300]


def test_the_report_has_a_drawing_per_label_and_task_the_same_bytes_for_the_same_rows(
    writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, method in (("a", "uer"), ("b", "vlm_rb")):
        root = writer.cell(name, CURVES, steps=200, method=method)
        write_rows(root / "seed-0", "probes", rows({100: [0, 1, 2, 3, 4, 5]}, {1: 1.0, 3: 0.0}))
    root = writer.finish()
    contents = []
    for _ in range(2):
        assert command.main([str(root), "--resamples", "200"]) == 0
        files = [root / "report" / f"probes-grid-8x8-{m}-quick.{s}" for m in ("uer", "vlm_rb") for s in ("png", "pdf")]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]
    assert contents[0][0].startswith(b"\x89PNG") and contents[0][1].startswith(b"%PDF")
    printed = capsys.readouterr().out
    assert all(str(file) in printed for file in files)
    page = (root / "report" / "report.html").read_text()
    assert page.count('alt="Reference episode of grid/8x8, 6 moves, 3 of them random. Events: key at 2, door at 3') == 2


def test_a_study_without_probes_is_reported_without_them(writer: Writer) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    assert command.main([str(root), "--resamples", "200"]) == 0
    assert "Reference episode" not in (root / "report" / "report.html").read_text()
    assert not list((root / "report").glob("probes*"))


def test_names_become_neither_markup_nor_mathematics_nor_paths(writer: Writer) -> None:
    evil = "../<script>$\\frac{1}$" + "long " * 80
    root = writer.cell("a", CURVES, steps=200, variant=evil)
    named = [{"step": 0, "t": 1, "quantity": f"event/{evil}", "value": 1.0}]
    write_rows(root / "seed-0", "probes", rows({100: [0, 1, 2, 3, 4, 5]}) + named)
    study: Path = writer.finish()
    assert command.main([str(study), "--resamples", "200"]) == 0
    assert "<script>$" not in (study / "report" / "report.html").read_text()
    names = [path.name for path in (study / "report").glob("probes*")]
    assert len(names) == 2 and all(len(name) < 255 for name in names)
