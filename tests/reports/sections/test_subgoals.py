"""Shares of episodes that met each part of a task's success, against numbers worked by hand."""

import io

import matplotlib
import numpy as np
import pytest
from PIL import Image

from guidebench import results
from guidebench.harness.interfaces import Score
from guidebench.reports.rendering import figures
from guidebench.reports.sections import subgoals
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [0, 0], 200: [1, 0]}, 1: {100: [0, 0], 200: [0, 0]}}


def subgoal_rows(step: int, *episodes: tuple[bool, bool]) -> list[dict[str, object]]:
    """Return the rows of `subgoals` at a step; `episodes`: whether each closed the drawer, and the window."""
    return [
        {"step": step, "episode": number, "subgoal": name, "met": is_met}
        for number, both in enumerate(episodes)
        for name, is_met in zip(("drawer", "window"), both, strict=True)
    ]


def write_cell(writer: Writer, **names: str) -> None:
    root = writer.cell("subgoals", CURVES, steps=200, **names)
    for seed, last in ((0, ((True, True), (True, False))), (1, ((False, True), (True, False)))):
        write_rows(
            root / f"seed-{seed}", "subgoals", subgoal_rows(100, (True, True), (True, True)) + subgoal_rows(200, *last)
        )


def met_in(study: results.StudyRecord, reps: int) -> list[subgoals.Subgoals]:
    return subgoals.subgoals(study.cells, results.noted(study, "subgoals"), {}, reps)


def test_rates_are_means_over_seeds_at_the_last_evaluation_and_the_history_has_every_one(writer: Writer) -> None:
    write_cell(writer)
    (task,) = met_in(results.study(writer.finish()), 1_000)
    assert task.task_id == "grid/8x8" and task.names == ("drawer", "window"), "in the order of the task"
    ((drawer, window),) = task.rates.values()
    assert [float(end) for end in drawer] == pytest.approx([0.75, 0.5, 1.0])
    assert [float(end) for end in window] == pytest.approx([0.5, 0.5, 0.5])
    ((label, history),) = task.history.items()
    assert label == "uer · quick" and history.index.tolist() == [100, 200]
    assert list(history) == ["drawer", "window"] and history.to_numpy().tolist() == [[1.0, 1.0], [0.75, 0.5]]
    (content,) = subgoals.plain([task])
    assert content["task"] == "grid/8x8" and content["rows"][0]["drawer"]["estimate"] == pytest.approx(0.75)


def test_a_subgoal_that_episodes_of_one_seed_lack_is_averaged_over_the_others(writer: Writer) -> None:
    """If tasks take turns, the episodes of one seed may lack a subgoal that those of another have."""
    both, drawer = (
        subgoal_rows(200, (True, True)),
        [row for row in subgoal_rows(200, (False, True)) if row["subgoal"] == "drawer"],
    )
    writer.cell("a", CURVES, steps=200, rows={"subgoals": {0: both, 1: drawer}})
    (task,) = met_in(results.study(writer.finish()), 100)
    ((drawer_rate, window_rate),) = task.rates.values()
    assert (float(drawer_rate.estimate), float(window_rate.estimate)) == (0.5, 1.0)


def test_an_evaluation_that_only_some_seeds_have_does_not_count(writer: Writer) -> None:
    writer.cell(
        "a",
        CURVES,
        steps=200,
        rows={
            "subgoals": {
                0: subgoal_rows(100, (True, False)) + subgoal_rows(200, (True, True)),
                1: subgoal_rows(100, (True, False)),
            }
        },
    )
    (task,) = met_in(results.study(writer.finish()), 200)
    ((drawer, window),) = task.rates.values()
    assert [float(drawer.estimate), float(window.estimate)] == [1.0, 0.0]


def test_achievements_have_crafter_s_score_of_each_seed_s_rates(writer: Writer) -> None:
    """Rates of 1 and 0 give sqrt(101) - 1 = 9.0499 %, rates of 1/2 and 1 give sqrt(51 * 101) - 1 = 70.7705 %."""
    writer.cell(
        "a",
        CURVES,
        steps=200,
        score=Score("achievements", low=0.0, high=22.0),
        rows={
            "subgoals": {
                0: subgoal_rows(200, (True, False), (True, False)),
                1: subgoal_rows(200, (True, True), (False, True)),
            }
        },
    )
    (task,) = met_in(results.study(writer.finish()), 200)
    assert task.names == ("drawer", "window", "Crafter's score")
    ((_, _, score),) = task.rates.values()
    assert float(score.estimate) == pytest.approx((0.090499 + 0.707705) / 2, abs=1e-6)
    assert [float(score.low), float(score.high)] == pytest.approx([0.090499, 0.707705], abs=1e-6)


def test_a_heat_map_has_a_panel_for_each_row_and_says_in_words_what_was_met(writer: Writer) -> None:
    """Lines are subgoals, the first at the top; columns are evaluations. Long names are wrapped, never cut."""
    long = "put the second of the two red cubes into the drawer " * 2
    for name, method in (("a", "uer"), ("b", "per"), ("c", "relo")):
        root = writer.cell(name, CURVES, steps=200, method=method, score=Score("achievements", low=0.0, high=22.0))
        rows = subgoal_rows(100, (True, False), (True, True)) + subgoal_rows(200, (True, False), (False, False))
        rows = [{**row, "subgoal": long.strip() if row["subgoal"] == "window" else "drawer"} for row in rows]
        for seed in (0, 1):
            write_rows(root / f"seed-{seed}", "subgoals", rows)
    tasks = met_in(results.study(writer.finish()), 200)
    (drawing,) = subgoals.drawings(tasks)
    assert drawing.name == "subgoals-grid-8x8" and drawing.pdf.startswith(b"%PDF") and drawing.chart is None
    assert "uer · quick after 200 steps: drawer 0.50; per · quick" in drawing.alt and "Crafter's" not in drawing.alt
    picture = np.asarray(Image.open(io.BytesIO(drawing.png)))
    assert picture.shape[1] == round(figures.WIDTH_INCHES * figures.DPI)
    map_ = matplotlib.colormaps[figures.SEQUENTIAL]
    for rate in (0.0, 0.5, 1.0):  # each panel: drawer 1 then 1/2, the other 1/2 then 0
        colour = np.array(map_(rate)[:3]) * 255
        assert (np.abs(picture[..., :3] - colour).max(-1) < 2).sum() > 1_000, rate
    assert [repeated.png for repeated in subgoals.drawings(tasks)] == [drawing.png]
