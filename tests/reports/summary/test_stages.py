"""What reports say of rows whose runs begin from a pre-training stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports.leaderboard import costs
from guidebench.reports.papers import catalogue, matching
from guidebench.reports.summary import comparability, judges, ledger, matrices, summaries
from tests.reports.conftest import Writer, write_rows
from tests.reports.summary.test_ledger import entry

CURVES = {0: {100: [0], 300: [1]}, 1: {100: [0], 300: [1]}}
SERVED = {"goals": {"kind": "chat", "name": "openai", "backend": "openai", "model": "large"}}
PRIVILEGED = {"goals": {"kind": "chat", "name": "oracle_goals", "backend": "oracle", "model": "oracle_goals"}}


def begun(writer: Writer, parts: dict[str, Any], **changes: Any) -> tuple[Path, Path]:
    """A stage of 200 steps, and a cell of 300 that begins from it; return their directories."""
    stage = writer.cell("a", {0: {200: [0]}, 1: {200: [0]}}, steps=200, method="explores")
    own = {**json.loads((stage / "cell.json").read_text()), "parts": parts, **changes}
    (stage / "cell.json").write_text(json.dumps(own))
    names = {"backend": next(iter(parts.values()))["backend"], "model": next(iter(parts.values()))["model"]}
    last = writer.cell("b", CURVES, method="tuned", **names)
    content = {
        **json.loads((last / "cell.json").read_text()),
        "parts": {"learner": {"kind": "learner", "name": "dqn"}},
        "stage": own,
    }
    (last / "cell.json").write_text(json.dumps(content))
    return stage, last


def summarised(writer: Writer) -> summaries.Summary:
    study = results.study(writer.finish())
    return summaries.summarise(study, results.load(study), reps=200)


def test_steps_of_stages_count_and_curves_begin_after_them(writer: Writer) -> None:
    begun(writer, SERVED)
    writer.cell("c", CURVES, method="long", steps=500)
    study = results.study(writer.finish())
    cells = {cell.id: cell for cell in study.cells}
    assert [stage.method for stage in cells["b"].stages] == ["explores"] and cells["b"].total == 500
    assert comparability.place(cells["b"])._replace(method="") == comparability.place(cells["c"])._replace(method="")
    rows = {row.cell.id: row for row in summaries.summarise(study, results.load(study), reps=200).rows}
    assert rows["b"].steps.tolist() == [300, 500] and rows["c"].steps.tolist() == [100, 300]


def test_a_privileged_model_of_a_stage_is_remarked_on(writer: Writer) -> None:
    begun(writer, PRIVILEGED)
    cells = {cell.id: cell for cell in results.study(writer.finish()).cells}
    assert judges.answering(cells["b"]) == "chat"
    assert judges.remark(cells["b"]) == judges.remark(cells["a"]) != ""


def test_questions_and_cost_of_a_stage_count_for_what_begins_from_it(writer: Writer) -> None:
    stage, _ = begun(writer, SERVED)
    for seed in (0, 1):
        write_rows(stage / f"seed-{seed}", "ledger", [entry(200, 7, 7, 0.5) | {"questions": 10, "failures": 4}])
    study = results.study(writer.finish())
    cells = {cell.id: cell for cell in study.cells}
    assert not ledger.is_billed(cells["b"])
    assert costs.costs(study) == {"a": costs.CellCost(14, 1.0), "b": costs.CellCost(14, 1.0)}
    mine = [run for run in study.runs if run.cell.id == "b"]
    assert costs.answered(study, mine) == ledger.answered(study)["b"] == ledger.Answered(20, 8)
    (stage / "seed-0" / "ledger.jsonl").unlink()
    assert costs.costs(study) == {}


def test_demonstrations_of_a_stage_are_a_condition(writer: Writer) -> None:
    given = {"training.demonstrations": {"value": 2, "source": "", "layer": "command line"}}
    begun(writer, SERVED, settings=given)
    cells = {cell.id: cell for cell in results.study(writer.finish()).cells}
    assert ("pretraining.training.demonstrations", "2") in comparability.place(cells["b"]).conditions


def test_a_row_with_a_stage_does_not_stand_for_a_method_without_one(writer: Writer) -> None:
    begun(writer, SERVED)
    rows = {row.cell.id: row for row in summarised(writer).rows}
    shelf = matching.Shelf([*rows.values()], catalogue.paper("vlm_rb"), {})
    assert shelf._strays(rows["b"], {}, ("command line",)) == ["pretraining=explores"]
    assert shelf._strays(rows["b"], {"pretraining": "explores"}, ("command line",)) == []
    assert shelf._has(rows["b"], {"pretraining": "explores"})
    assert not shelf._has(rows["a"], {"pretraining": "explores"})


def test_a_matrix_tells_steps_that_differ(writer: Writer) -> None:
    begun(writer, SERVED)
    writer.cell("c", CURVES, method="tuned")
    rows = {row.cell.id: row for row in summarised(writer).rows}
    found = matrices.lines(rows["b"], [rows["c"]])
    assert [line.name.endswith(told) for line, told in zip(found, ("(500 steps)", "(300 steps)"), strict=True)] == [
        True,
        True,
    ]


def test_a_record_with_too_many_stages_is_refused(writer: Writer) -> None:
    _, last = begun(writer, SERVED)
    content = json.loads((last / "cell.json").read_text())
    for _ in range(5):
        content = {**content, "stage": json.loads(json.dumps(content))}
    (last / "cell.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="more than 4 pre-training stages"):
        results.study(writer.finish())


def test_a_task_that_serves_pre_training_alone_is_no_task_of_aggregates(writer: Writer) -> None:
    stage = writer.cell("a", {0: {200: [0]}, 1: {200: [0]}}, steps=200, method="explores", task="free")
    own = json.loads((stage / "cell.json").read_text())
    for name, task in (("b", "8x8"), ("c", "16x16")):
        last = writer.cell(name, CURVES, method="tuned", task=task)
        content = {**json.loads((last / "cell.json").read_text()), "stage": own}
        (last / "cell.json").write_text(json.dumps(content))
    found = summarised(writer)
    assert {each.label for each in found.aggregates} == {row.label for row in found.rows if row.cell.id != "a"}
    assert not any("left out of the aggregates" in note for note in found.notes)
