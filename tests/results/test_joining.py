from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from tests.reports.conftest import Writer, edit

CURVE = {100: [1, 0], 200: [1, 1]}


@pytest.fixture
def two(tmp_path: Path) -> Callable[..., dict[str, results.StudyRecord]]:
    """Two studies of the same cell, each with its own curves by seed."""

    def make(first: dict, second: dict, **options: dict) -> dict[str, results.StudyRecord]:
        for name, curves in (("one", first), ("two", second)):
            writer = Writer(tmp_path / name)
            writer.cell("a", curves, **options.get(name, {}))
            writer.finish()
        return {name: results.study(tmp_path / name) for name in ("one", "two")}

    return make


def test_a_run_that_two_studies_have_is_counted_once_and_their_seeds_are_pooled(two: Callable) -> None:
    joined = results.join(two({0: CURVE, 1: CURVE}, {1: CURVE, 2: CURVE}))
    assert [run.seed for run in joined.study.runs] == [0, 1, 2] and len(joined.evaluations) == 3 * 4
    assert joined.origins == {"a": ("one", "two")}
    # the directories lead to the runs from wherever the program stands
    assert all((joined.study.directory / run.directory / "run.json").is_file() for run in joined.study.runs)


def test_two_accounts_of_one_run_that_differ_are_refused_by_name(two: Callable) -> None:
    other = {100: [1, 0], 200: [1, 0]}
    with pytest.raises(UserError) as error:
        results.join(two({0: CURVE, 1: CURVE}, {1: other}))
    told = str(error.value)
    assert "grid/8x8" in told and "seed 1" in told and "one/grid/8x8/uer-a/seed-1" in told and "two/grid" in told
    assert "step 200, episode 1, return is 0.5 and 0.0" in told


@pytest.mark.parametrize(
    ("first", "second", "how", "seeds", "rows"),
    [
        ({0: {100: [1, 0]}}, {0: CURVE}, {"status": {0: "running"}}, [0], 4),
        ({0: CURVE}, {1: CURVE}, {"planned": [0, 1]}, [0, 1], 8),
    ],
    ids=["goes further", "waits in the other"],
)
def test_of_two_accounts_that_agree_the_one_that_goes_further_counts(
    two: Callable, first: dict, second: dict, how: dict, seeds: list[int], rows: int
) -> None:
    joined = results.join(two(first, second, one=how))
    assert {run.seed: run.status for run in joined.study.runs} == dict.fromkeys(seeds, "finished")
    assert len(joined.evaluations) == rows


def test_cells_of_one_id_that_are_not_the_same_are_refused(two: Callable, tmp_path: Path) -> None:
    studies = two({0: CURVE}, {1: CURVE})
    edit(tmp_path / "two" / "grid/8x8/uer-a/cell.json", steps=999)
    with pytest.raises(UserError, match="cell a has steps 300 in one and 999 in two"):
        results.join({**studies, "two": results.study(tmp_path / "two")})


def test_a_selection_has_the_runs_of_its_cells_only(writer: Writer) -> None:
    writer.cell("a", {0: CURVE})
    writer.cell("b", {0: CURVE, 1: CURVE}, method="per")
    chosen = results.select(results.study(writer.finish()), lambda cell: cell.method == "per")
    assert [(run.cell.id, run.seed) for run in chosen.runs] == [("b", 0), ("b", 1)]


def test_what_is_measured_opens_by_name() -> None:
    found = results.opened("measured")
    assert "measured/doorkey_8x8" in found
    assert all(run.status == "finished" for study in found.values() for run in study.runs)
