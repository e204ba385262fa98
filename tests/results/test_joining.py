from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.claims import CLAIMS
from guidebench.harness.errors import UserError
from guidebench.results import joining
from tests.reports.conftest import Writer, edit

CURVE = {100: [1, 0], 200: [1, 1]}


@pytest.fixture
def two(tmp_path: Path) -> Callable[..., dict[str, results.StudyRecord]]:
    """Return a function that writes two studies of the same cell, each with its own curves by seed."""

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
    message = str(error.value)
    assert "grid/8x8" in message and "seed 1" in message
    assert "one/grid/8x8/uer-a/seed-1" in message and "two/grid" in message
    assert "step 200, episode 1, return is 0.5 and 0.0" in message


MACHINE = {"commit": "abc123", "packages": {"torch": "2.0"}, "hardware": {"processor": "another CPU", "device": "cpu"}}
"""A provenance that differs from the writer's in its processor."""


def test_a_cell_with_other_rows_from_another_machine_is_a_replication(two: Callable, tmp_path: Path) -> None:
    other = {100: [1, 0], 200: [1, 0]}
    joined = results.join(two({0: CURVE, 1: CURVE}, {1: other, 2: CURVE}, two={"provenance": MACHINE}))
    first, second = joined.study.cells
    assert (first.id, second.id, second.label) == ("a", "a-replication-1", f"{first.label}, replication")
    assert joined.replications == {"a-replication-1": "a"} and joined.recorded(second.id) == "a"
    assert joined.members == {"one": ("a",), "two": ("a-replication-1",)}
    assert joined.origins == {"a": ("one",), "a-replication-1": ("two",)}
    # the second row has all seeds of its study, also the one that the first lacks
    assert [(run.cell.id, run.seed) for run in joined.study.runs] == [
        ("a", 0), ("a", 1), ("a-replication-1", 1), ("a-replication-1", 2),
    ]  # fmt: skip
    counts = joined.evaluations.groupby("cell").size()
    assert dict(counts) == {"a": 8, "a-replication-1": 8}


def test_equal_rows_of_two_machines_are_one_run_that_was_reproduced(two: Callable) -> None:
    joined = results.join(two({0: CURVE, 1: CURVE}, {1: CURVE, 2: CURVE}, two={"provenance": MACHINE}))
    assert [cell.id for cell in joined.study.cells] == ["a"] and joined.machines == {"a": {1: 2}}


def test_a_replication_of_a_matrix_is_compared_with_the_reference_of_its_own_study(tmp_path: Path) -> None:
    studies = {}
    for name, success, provenance in (("one", 1, None), ("two", 0, MACHINE)):
        writer = Writer(tmp_path / name)
        for cell in ("reference", "ablation"):
            place = {"kind": "ablation", "name": cell, "reference": "reference"}
            writer.cell(cell, {0: {100: [success]}}, provenance=provenance, matrix=place)
        studies[name] = results.study(writer.finish())
    places = {cell.id: cell.matrix.reference for cell in results.join(studies).study.cells if cell.matrix}
    assert places == {
        "reference": "reference",
        "ablation": "reference",
        "reference-replication-1": "reference-replication-1",
        "ablation-replication-1": "reference-replication-1",
    }


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


def test_measured_studies_with_claims_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").touch()
    (tmp_path / "b" / CLAIMS).touch()
    monkeypatch.setattr(joining, "_HOME", tmp_path)
    assert [*joining.directories("measured")] == ["measured/b", "measured/a", "measured/c"]


def test_what_is_measured_opens_by_name() -> None:
    studies = results.opened("measured")
    assert "measured/doorkey_8x8" in studies
    assert all(run.status == "finished" for study in studies.values() for run in study.runs)
