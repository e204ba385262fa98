from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from guidebench import results
from guidebench.reports.sections import probes
from guidebench.reports.sections.probes import Probed
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}
EXPERT = (0, 0, 1, 1, 0, 1)


def rows(critic: Mapping[int, Sequence[float]], judge: Mapping[int, float] | None = None) -> list[dict[str, Any]]:
    """Return probe rows of an episode of six moves, of which the first two and the fifth are random, with a key at 2
    and a door at 3 and 5. `critic`: step -> value at each move; `judge`: move -> score."""

    def row(t: int, quantity: str, value: float, step: int = 0) -> dict[str, Any]:
        return {"step": step, "t": t, "quantity": quantity, "value": value}

    return [
        row(0, "window", 2),
        *(row(t, "expert", value) for t, value in enumerate(EXPERT)),
        *(row(t, f"event/{name}", 1.0) for t, name in ((2, "key"), (3, "door"), (5, "door"))),
        *(row(t, "judge", score) for t, score in (judge or {}).items()),
        *(row(t, "critic", value, step) for step, values in critic.items() for t, value in enumerate(values)),
    ]


def probed_cells(writer: Writer) -> list[Probed]:
    study = results.study(writer.finish())
    return probes.probed(study.cells, results.noted(study, "probes"), {})


def test_the_difference_is_half_a_window_ahead_less_half_a_window_behind() -> None:
    value = pd.Series([0.0, 1.0, 3.0, 6.0, 10.0])
    assert probes.difference(value, 2).to_dict() == {1: 3.0, 2: 5.0, 3: 7.0}
    assert probes.difference(value, 4).to_dict() == {2: 10.0} and probes.difference(value, 5).to_dict() == {2: 10.0}
    assert probes.difference(value, 1).to_dict() == {1: 3.0, 2: 5.0, 3: 7.0}, "never a value less itself"
    assert probes.difference(value, 6).empty
    assert probes.difference(value.drop(2), 2).to_dict() == {2: 5.0}, "where one of the two is missing there is none"


def test_curves_are_means_over_the_seeds_at_steps_that_all_of_them_have(writer: Writer) -> None:
    writer.cell(
        "a",
        CURVES,
        rows={
            "probes": {
                0: rows({100: [0, 0, 1, 1, 1, 1], 200: [9] * 6}, {1: 1.0, 3: 0.0}),
                1: rows({100: [0, 0, 3, 1, 1, 3]}, {1: 0.0, 3: 0.0}),
            }
        },
    )
    (probed,) = probed_cells(writer)
    assert list(probed.change) == [100] and probed.change[100].to_dict() == {1: 2.0, 2: 1.0, 3: -1.0, 4: 1.0}
    assert probed.score.to_dict() == {1: 0.5, 3: 0.0} and probed.events == ((2, "key"), (3, "door"), (5, "door"))
    assert probed.expert.tolist() == [bool(value) for value in EXPERT]
    assert (probed.window, probed.seeds, probed.task_id) == (2, 2, "grid/8x8")


def test_a_cell_without_a_judge_has_no_scores_and_one_without_probes_no_entry(writer: Writer) -> None:
    writer.cell("a", CURVES, rows={"probes": {0: rows({100: [0, 1, 2, 3, 4, 5]})}})
    writer.cell("b", CURVES, method="per", rows={"probes": {0: []}})
    root = writer.cell("c", CURVES, method="vlm_rb")
    write_rows(root / "seed-0", "probes", rows({}))  # its first look at the critic is still to come
    (probed,) = probed_cells(writer)
    assert probed.score.empty and probed.seeds == 1 and probed.change[100].tolist() == [2.0] * 4


def test_the_timeline_shows_events_and_random_moves_and_curves_darken_over_training_to_black(writer: Writer) -> None:
    writer.cell("a", CURVES, rows={"probes": {0: rows({step: [0, step, 0, 0, 0, 0] for step in (100, 200, 300)})}})
    (probed,) = probed_cells(writer)
    axes = Figure().add_subplot()
    probes._timeline(axes, probed, ["key", "door"])
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [[2], [3, 5]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["key", "door", "random"]
    spans = [path.get_extents() for collection in axes.collections for path in collection.get_paths()]
    assert [(span.x0, span.x1) for span in spans] == [(0, 2), (4, 5)]
    handles = probes._changes(Figure().add_subplot(), probed, (-1.0, 1.0))
    assert [line.get_color()[0] for line in handles] == [0.75, 0.375, 0.0]
    assert [line.get_ydata()[1] for line in handles] == [-100, -200, -300]
    assert probes.drawings([probed]) == probes.drawings([probed]), "the same rows give the same bytes"
