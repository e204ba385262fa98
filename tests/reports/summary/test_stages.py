"""What reports say of rows whose runs begin from a pre-training stage."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports.leaderboard import costs
from guidebench.reports.papers import catalogue, matching
from guidebench.reports.summary import comparability, judges, ledger, matrices
from guidebench.reports.summary.rows import ReportRow
from tests.reports.conftest import Writer, edit, write_rows
from tests.reports.summary.test_ledger import bill_row

CURVES = {0: {100: [0], 300: [1]}, 1: {100: [0], 300: [1]}}
SERVED = {"goals": {"kind": "chat", "name": "openai", "backend": "openai", "model": "large"}}
PRIVILEGED = {"goals": {"kind": "chat", "name": "oracle_goals", "backend": "oracle", "model": "oracle_goals"}}


def write_stage(writer: Writer, parts: dict[str, Any], **changes: Any) -> tuple[Path, Path]:
    """Write a stage of 200 steps and a cell of 300 that starts from it; return their directories."""
    stage = writer.cell(
        "a", {0: {200: [0]}, 1: {200: [0]}}, steps=200, method="explores", record={"parts": parts, **changes}
    )
    stage_record = json.loads((stage / "cell.json").read_text())
    names = {name: next(iter(parts.values()))[name] for name in ("backend", "model")}
    record = {"parts": {"learner": {"kind": "learner", "name": "dqn"}}, "stage": stage_record}
    return stage, writer.cell("b", CURVES, method="tuned", **names, record=record)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[results.StudyRecord, dict[str, ReportRow]]:
    """Write a stage that asked a served model, a cell with all of its steps, and one with the last steps alone; return
    the study and cell id -> row."""
    writer = Writer(tmp_path_factory.mktemp("stages") / "study")
    write_stage(
        writer, SERVED, settings={"training.demonstrations": {"value": 2, "source": "", "layer": "command line"}}
    )
    writer.cell("c", CURVES, method="long", steps=500)
    writer.cell("d", CURVES, method="tuned")
    study, summary = writer.summarised()
    return study, {row.cell.id: row for row in summary.rows}


def test_steps_and_conditions_of_stages_count_and_curves_begin_after_them(
    served: tuple[results.StudyRecord, dict[str, ReportRow]],
) -> None:
    study, rows = served
    cells = {cell.id: cell for cell in study.cells}
    assert [stage.method for stage in cells["b"].stages] == ["explores"] and cells["b"].total == 500
    place, other = (comparability.place(cells[name])._replace(method="") for name in "bc")
    demonstrations = ("pretraining.training.demonstrations", "2")
    assert demonstrations in place.conditions and place == other._replace(conditions=place.conditions)
    assert rows["b"].steps.tolist() == [300, 500] and rows["c"].steps.tolist() == [100, 300]
    (stage, plain) = matrices.lines(rows["b"], [rows["d"]])
    assert stage.name.endswith("(500 steps)") and plain.name.endswith("(300 steps)"), "a matrix tells steps that differ"


def test_questions_and_cost_of_a_stage_count_for_what_begins_from_it_and_a_privileged_model_is_remarked_on(
    writer: Writer,
) -> None:
    stage, _ = write_stage(writer, SERVED)
    for seed in (0, 1):
        write_rows(stage / f"seed-{seed}", "ledger", [bill_row(200, 7, 7, 0.5) | {"questions": 10, "failures": 4}])
    study = results.study(writer.finish())
    cells = {cell.id: cell for cell in study.cells}
    assert not ledger.is_billed(cells["b"])
    assert costs.costs(study) == {"a": costs.CellCost(14, 1.0), "b": costs.CellCost(14, 1.0)}
    mine = [run for run in study.runs if run.cell.id == "b"]
    assert costs.answered(study, mine) == ledger.answered(study)["b"] == ledger.Answered(20, 8)
    (stage / "seed-0" / "ledger.jsonl").unlink()
    assert costs.costs(study) == {}
    write_stage(writer, PRIVILEGED)
    cells = {cell.id: cell for cell in results.study(writer.finish()).cells}
    assert judges.answering(cells["b"]) == "chat" and judges.remark(cells["b"]) == judges.remark(cells["a"]) != ""


def test_a_row_with_a_stage_does_not_stand_for_a_method_without_one(
    served: tuple[results.StudyRecord, dict[str, ReportRow]],
) -> None:
    _, rows = served
    shelf = matching.Shelf([*rows.values()], catalogue.paper("vlm_rb"), {})
    assert shelf._strays(rows["b"], {}, ("command line",)) == ["pretraining=explores"]
    assert shelf._strays(rows["b"], {"pretraining": "explores"}, ("command line",)) == []
    assert shelf._has(rows["b"], "pretraining", "explores") and not shelf._has(rows["a"], "pretraining", "explores")


def test_a_record_with_too_many_stages_is_refused(writer: Writer) -> None:
    _, last = write_stage(writer, SERVED)
    content = json.loads((last / "cell.json").read_text())
    for _ in range(5):
        content = {**content, "stage": json.loads(json.dumps(content))}
    edit(last / "cell.json", **content)
    with pytest.raises(UserError, match="more than 4 pre-training stages"):
        results.study(writer.finish())


def test_a_task_that_serves_pre_training_alone_is_no_task_of_aggregates(writer: Writer) -> None:
    stage = writer.cell("a", {0: {200: [0]}, 1: {200: [0]}}, steps=200, method="explores", task="free")
    stage_record = json.loads((stage / "cell.json").read_text())
    for name, task in (("b", "8x8"), ("c", "16x16")):
        writer.cell(name, CURVES, method="tuned", task=task, record={"stage": stage_record})
    summary = writer.summary()
    assert {aggregate.label for aggregate in summary.aggregates} == {
        row.label for row in summary.rows if row.cell.id != "a"
    }
    assert not any("left out of the aggregates" in note for note in summary.notes)
