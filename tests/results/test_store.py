from __future__ import annotations

from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from tests.reports.conftest import Writer, edit

CURVES = {0: {100: [1, 0]}, 1: {100: [1, 1]}}


def test_runs_has_a_row_per_run_with_its_state(writer: Writer) -> None:
    writer.cell(
        "a", CURVES, planned=[0, 1, 2], status={1: "failed"}, error="no", method="vlm_rb",
        backend="scripted", model="sprite", variant="replay.alpha=0.5",
    )  # fmt: skip
    table = results.runs(writer.finish())
    assert table["status"].tolist() == ["finished", "failed", "waiting"]
    assert table["step"].tolist() == [100, 100, 0] and table["steps"].tolist() == [300, 300, 300]
    assert table["error"].tolist() == ["", "no", ""]
    assert set(table["label"]) == {"vlm_rb (replay.alpha=0.5) · sprite · quick"}
    assert table["directory"][2] == "grid/8x8/vlm_rb-a/seed-2"


def test_a_run_that_failed_before_it_began_has_step_zero_and_a_seed_that_study_json_no_longer_lists_counts(
    writer: Writer,
) -> None:
    root = writer.cell("a", {0: {}, 1: {100: [1, 1]}}, planned=[0])
    (root / "seed-0" / "run.json").write_text('{"schema": 2, "status": "failed", "error": "no"}')
    run, other = results.study(writer.finish()).runs
    assert (run.seed, run.step, run.steps, run.status, other.seed) == (0, 0, 300, "failed", 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "does not exist"),
        (lambda p: p.mkdir(), "is empty"),
        (lambda p: (p / "x").mkdir(parents=True), "has no study.json"),
        (lambda p: p.touch(), "is a file"),
    ],
)
def test_what_is_not_a_study_is_named_with_what_to_give(tmp_path: Path, make, words: str) -> None:
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(UserError, match=words) as caught:
        results.load(path)
    assert str(path) in str(caught.value) and "study.json" in str(caught.value)


@pytest.mark.parametrize("directory", ["../outside", "/tmp", ".", "a/../../b"])
def test_a_cell_outside_the_study_is_refused(writer: Writer, directory: str) -> None:
    writer.cell("a", CURVES)
    writer.cells["a"]["directory"] = directory
    with pytest.raises(UserError, match="outside the study"):
        results.study(writer.finish())


@pytest.mark.parametrize(
    ("file", "values", "words"),
    [
        ("cell.json", {"schema": 3}, "schema 3"),
        ("cell.json", {"cell": "z"}, "expects 'a'"),
        ("cell.json", {"method": 3}, "method is 3"),
        ("cell.json", {"task": "a\x1b[2J"}, "printable"),
        ("cell.json", {"steps": -1}, "steps is -1"),
        ("seed-0/run.json", {"status": "done"}, "status is 'done'"),
        ("seed-0/run.json", {"seed": 4}, "the directory says 0"),
        ("seed-0/run.json", {"step": True}, "step is True"),
    ],
)
def test_a_file_that_does_not_fit_the_schema_is_named(writer: Writer, file: str, values: dict, words: str) -> None:
    edit(writer.cell("a", CURVES) / file, **values)
    with pytest.raises(UserError, match=words) as caught:
        results.study(writer.finish())
    assert file.split("/")[-1] in str(caught.value)


def test_a_cell_that_study_json_does_not_list_is_named_in_a_warning(writer: Writer) -> None:
    writer.cell("a", CURVES)
    writer.cell("b", CURVES, method="per")
    del writer.cells["b"]
    with pytest.warns(UserWarning, match=r"grid/8x8/per-b"):
        assert len(results.study(writer.finish()).cells) == 1


def test_one_run_is_read_whatever_state_the_others_are_in(writer: Writer) -> None:
    root = writer.cell("a", CURVES, matrix={"kind": "ablation", "name": "without", "reference": "b"}, variant="alpha=1")
    study = writer.finish()
    (root / "seed-1" / "run.json").write_text("{")
    record = results.run(root / "seed-0")
    assert (record.name, record.directory, len(record.cells)) == ("study-of-tests", study, 1)
    (run,) = record.runs
    assert (run.seed, run.status, run.directory) == (0, "finished", "grid/8x8/uer-a/seed-0")
    assert run.cell.matrix is not None and run.cell.matrix.name == "without" and run.cell.variant == "alpha=1"
    assert len(results.load(record)) == 2
    (study / "study.json").unlink()
    with pytest.warns(UserWarning, match="what the study says of this run is left out"):
        assert results.run(root / "seed-0").runs[0].status == "finished"


@pytest.mark.parametrize(
    ("place", "words"), [(".", "is not a run"), ("seed-x", "is not a run"), ("seed-9", "has not begun")]
)
def test_what_is_not_a_run_is_named_with_what_to_give(writer: Writer, place: str, words: str) -> None:
    root = writer.cell("a", CURVES)
    writer.finish()
    with pytest.raises(UserError, match=words):
        results.run(root / place)
