"""Means of what tasks count in evaluation episodes, against numbers worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.sections import episodes
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [0, 0], 200: [1, 0]}, 1: {100: [0, 0], 200: [1, 1]}}


def outcome_rows(step: int, *completions: float, died: int = 0) -> list[dict[str, object]]:
    """Return rows of `outcomes` for episodes with these completion rates; in the first `died` of them the player
    died."""
    return [
        {"step": step, "episode": number, "outcome": name, "value": value}
        for number, completion in enumerate(completions)
        for name, value in (("completion", completion), ("alive", float(number >= died)))
    ]


def write_timings(root: Path, seed: int, *seconds: float, seeds: int = 2) -> None:
    """Write the timings of a worker of `seeds` seeds: the seconds of its evaluations at steps 100, 200, …"""
    rows = [
        {"step": 100 * number, "seconds": 1.0, "evaluation_seconds": evaluation_seconds, "seeds": seeds}
        for number, evaluation_seconds in enumerate(seconds, 1)
    ]
    write_rows(root / f"seed-{seed}", "timings", rows)


def episodes_of(study: results.StudyRecord, notes: list[str] | None = None) -> list[episodes.Episodes]:
    logs = (results.noted(study, "outcomes"), results.load(study), results.noted(study, "timings"))
    return episodes.episodes(study.cells, *logs, {}, 1_000, [] if notes is None else notes)


def write_cell(writer: Writer, **names: str) -> None:
    root = writer.cell("episodes", CURVES, steps=200, **names)
    write_rows(root / "seed-0", "outcomes", outcome_rows(100, 1.0, 1.0) + outcome_rows(200, 0.5, 0.25, died=1))
    write_rows(root / "seed-1", "outcomes", outcome_rows(100, 1.0, 1.0) + outcome_rows(200, 1.0, 0.75))
    for seed in (0, 1):
        write_timings(root, seed, 1.5, 4.0)


def test_means_are_of_the_last_evaluation_and_intervals_are_over_seeds(writer: Writer) -> None:
    """Success is 1/2 and 1, completion 3/8 and 7/8, alive 1/2 and 1. Two seeds with two evaluations of two episodes
    each take 4 s together, so half a second an episode."""
    notes: list[str] = []
    write_cell(writer)
    (task,) = episodes_of(results.study(writer.finish()), notes)
    assert task.task_id == "grid/8x8" and not notes
    assert task.names == ("success", "completion", "alive", "steps", "wall seconds")
    (means,) = task.means.values()
    assert np.array(means) == pytest.approx(
        np.array([[0.75, 0.5, 1.0], [0.625, 0.375, 0.875], [0.75, 0.5, 1.0], [10.0] * 3, [0.5] * 3])
    )


def test_an_evaluation_that_only_some_seeds_have_does_not_count(writer: Writer) -> None:
    writer.cell(
        "a",
        {0: CURVES[0], 1: {100: [0, 0]}},
        steps=200,
        rows={
            "outcomes": {0: outcome_rows(100, 0.5, 0.5) + outcome_rows(200, 1.0, 1.0), 1: outcome_rows(100, 0.0, 0.5)}
        },
    )
    (task,) = episodes_of(results.study(writer.finish()))
    assert float(next(iter(task.means.values()))[1].estimate) == pytest.approx(0.375)


def test_runs_without_a_clock_have_steps_alone_and_a_note(writer: Writer) -> None:
    write_rows(writer.cell("a", {0: CURVES[0]}, steps=200) / "seed-0", "outcomes", outcome_rows(200, 1.0, 1.0))
    notes: list[str] = []
    (task,) = episodes_of(results.study(writer.finish()), notes)
    assert task.names == ("success", "completion", "alive", "steps")
    (note,) = notes
    assert note.startswith("grid/8x8, uer · quick: its records do not say how long evaluations took")


def test_a_number_that_one_row_lacks_is_a_dash_and_reserved_names_are_not_taken(writer: Writer) -> None:
    write_rows(writer.cell("a", {0: CURVES[0]}, steps=200) / "seed-0", "outcomes", outcome_rows(200, 1.0, 1.0))
    second = writer.cell("b", {0: CURVES[0]}, steps=200, method="per")
    rows = [{"step": 200, "episode": 0, "outcome": name, "value": 7.0} for name in ("impossible actions", "success")]
    write_rows(second / "seed-0", "outcomes", rows)
    writer.cell("c", {0: CURVES[0]}, steps=200, task="6x6")
    (task,) = episodes_of(results.study(writer.finish()))
    assert task.names == ("success", "completion", "alive", "impossible actions", "steps")
    table = {label: [float(mean.estimate) for mean in means] for label, means in task.means.items()}
    assert table["uer · quick"] == pytest.approx([0.5, 1.0, 1.0, float("nan"), 10.0], nan_ok=True)
    assert table["per · quick"] == pytest.approx([0.5, float("nan"), float("nan"), 7.0, 10.0], nan_ok=True)


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ([(100, 3.0, 1)], 1.5),  # a worker of one seed has told 3 s after one evaluation of two episodes, not of four
        # four seeds spend 8 s on the first evaluation, the one that continues alone 1 s on the second: 3 s of its own
        ([(100, 8.0, 4), (200, 9.0, 1)], 0.75),
    ],
)
def test_seconds_are_shared_by_the_seeds_and_the_episodes_of_the_clock_s_records(
    writer: Writer, clock: list[tuple[int, float, int]], expected: float
) -> None:
    root = writer.cell("a", {0: CURVES[0]}, steps=200)
    write_rows(root / "seed-0", "outcomes", outcome_rows(200, 1.0, 1.0))
    rows = [
        dict(zip(("step", "seconds", "evaluation_seconds", "seeds"), (at, 1.0, *readings), strict=True))
        for at, *readings in clock
    ]
    write_rows(root / "seed-0", "timings", rows)
    (task,) = episodes_of(results.study(writer.finish()))
    assert float(next(iter(task.means.values()))[-1].estimate) == pytest.approx(expected)
