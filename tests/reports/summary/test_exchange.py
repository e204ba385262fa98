from __future__ import annotations

import json
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.reports.summary import exchange
from tests.reports.conftest import Writer


def write_study(writer: Writer) -> results.StudyRecord:
    """Write a study of two methods on two tasks: two seeds, two evaluations of two episodes; a return is half the
    success."""
    for task in ("A", "b"):
        for method, last in (("uer", [0, 1]), ("per", [1, 1])):
            curves = {seed: {100: [0, 0], 200: last} for seed in (0, 3)}
            writer.cell(f"{method}{task}", curves, steps=200, task=task, method=method, suite="Grid")
    return results.study(writer.finish())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> results.StudyRecord:
    return write_study(Writer(tmp_path_factory.mktemp("exchange") / "study"))


def labels(study: results.StudyRecord) -> dict[str, str]:
    return {cell.id: cell.label for cell in study.cells}


def test_marl_eval_gets_environment_task_row_seed_and_evaluations(study: results.StudyRecord) -> None:
    exported = exchange.marl_eval(results.load(study), labels(study))
    document = json.loads(exported.text)
    assert list(document) == ["grid"] and list(document["grid"]) == ["a", "b"]
    assert list(document["grid"]["a"]) == ["uer · quick", "per · quick"]
    assert document["grid"]["b"]["uer · quick"]["seed_3"] == {
        "step_0": {"step_count": 100, "success": [0.0, 0.0], "return": [0.0, 0.0], "score": [0.0, 0.0]},
        "step_1": {"step_count": 200, "success": [0.0, 1.0], "return": [0.0, 0.5], "score": [0.0, 1.0]},
        "absolute_metrics": {"success": [0.0, 1.0], "return": [0.0, 0.5], "score": [0.0, 1.0]},
    }
    assert list(document["grid"]["a"]["uer · quick"]["seed_0"])[-1] == "absolute_metrics", "marl-eval takes the last"
    assert len(exported.notes) == 1 and "last evaluation" in exported.notes[0]


def test_what_marl_eval_would_refuse_is_told(writer: Writer) -> None:
    writer.cell("a", {0: {100: [1]}, 1: {100: [1], 200: [1]}}, steps=200)
    writer.cell("b", {0: {100: [1]}}, steps=200, task="5x5", method="per")
    study = results.study(writer.finish())
    (_, uneven) = exchange.marl_eval(results.load(study), labels(study)).notes
    assert uneven.startswith("grid: its tasks and rows differ in rows, seeds, numbers of evaluations")


def test_the_csv_has_a_row_for_each_episode_and_an_export_is_printed_with_its_notes_apart(
    study: results.StudyRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = exchange.plain_csv(results.load(study), {}).text.splitlines()
    assert (
        lines[0]
        == "suite,task,method,variant,learner,backend,model,profile,cell,seed,step,episode,success,return,length,score"
    )
    assert len(lines) == 1 + 2 * 2 * 2 * 2 * 2
    assert cli.main(["export", str(study.directory), "--format", "marl-eval"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and "bench export: absolute_metrics hold" in err
    assert lines[4] == "Grid,A,uer,,dqn,,,quick,uerA,0,200,1,1,0.5,10,1.0"


def test_what_is_exported_as_csv_can_be_imported(
    study: results.StudyRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = str(tmp_path / "out.csv"), str(tmp_path / "again")
    assert cli.main(["export", str(study.directory), "--format", "csv", "--output", file]) == 0
    assert cli.main(["import", file, *["--suite", "Grid", "--profile", "quick", "--output", output]]) == 0
    assert "columns left out: suite, variant, learner" in capsys.readouterr().out
    columns = ["task", "method", "seed", "step", "episode", "success", "return", "length"]
    original, imported = (
        results.load(source)[columns].sort_values(columns).reset_index(drop=True) for source in (study, output)
    )
    assert original.equals(imported)


def test_a_study_without_evaluations_or_still_running_is_told(
    writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.cell("a", {}, planned=[0])
    assert cli.main(["export", str(writer.finish()), "--format", "csv"]) == 2
    assert "nothing to export" in capsys.readouterr().err
    writer.cell("b", {0: {100: [1]}}, status={0: "running"})
    assert cli.main(["export", str(writer.finish()), "--format", "csv"]) == 0
    assert "partial: 2 of 2 runs are not finished: " in capsys.readouterr().err
