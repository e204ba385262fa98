from __future__ import annotations

from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.results import importing

HEADER = "method,task,seed,step,episode,success,return"
ROWS = ("mine,8x8,0,0,0,0,0.0", "mine,8x8,0,500,0,1,0.75", "mine,8x8,0,500,1,false,-1", "mine,8x8,4,500,0,TRUE,1e-1")


def file(directory: Path, *lines: str) -> Path:
    path = directory / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_runs_are_imported_as_external_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "theirs"
    words = ["--suite", "minigrid_doorkey", "--output", str(output), "--steps", "1000"]
    assert cli.main(["import", str(file(tmp_path, HEADER, *ROWS)), *words]) == 0
    assert "2 runs, marked external" in capsys.readouterr().out
    study = results.study(output)
    assert [(run.seed, run.status, run.steps) for run in study.runs] == [(0, "finished", 1000), (4, "finished", 1000)]
    (cell,) = study.cells
    assert (cell.suite, cell.task, cell.method, cell.backend, cell.profile) == (
        "minigrid_doorkey", "8x8", "mine", "external", "paper",
    )  # fmt: skip
    assert results.load(study)[["seed", "step", "episode", "success", "return", "length"]].values.tolist() == [
        [0, 0, 0, False, 0.0, 0], [0, 500, 0, True, 0.75, 0], [0, 500, 1, False, -1.0, 0], [4, 500, 0, True, 0.1, 0],
    ]  # fmt: skip


def test_rows_may_come_in_any_order_with_columns_of_no_use(tmp_path: Path) -> None:
    lines = [f"{row},7,x" for row in ROWS]
    log = importing.read(file(tmp_path, f"{HEADER},length,extra", *reversed(lines)))
    assert log.unused == ("extra",)
    episodes = log.runs["mine", "8x8", 0]
    assert [(entry.step, entry.episode) for entry in episodes] == [(0, 0), (500, 0), (500, 1)]
    assert {entry.length for entry in episodes} == {7}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((HEADER.replace("success", "succes"), ROWS[0]), "lacks the column 'success'"),
        ((HEADER + ",seed", ROWS[0] + ",1"), "has the column 'seed' twice"),
        ((HEADER,), "holds no rows"),
        (("",), "lacks the column 'method'"),
        ((HEADER, *ROWS, "mine,8x8,0,500,1,1,nan"), "row 6, column 'return': 'nan'; expected a finite number"),
        ((HEADER, "mine,8x8,0,500,1,1,1e999"), "row 2, column 'return': '1e999'; expected a finite number"),
        ((HEADER, "mine,8x8,-1,500,1,1,1"), "row 2, column 'seed': '-1'; expected a whole number of at least 0"),
        ((HEADER, "mine,8x8,0,5e2,1,1,1"), "row 2, column 'step': '5e2'"),
        ((HEADER, "mine,8x8,0,500,1,2,1"), "row 2, column 'success': '2'; expected 0 or 1, false or true"),
        ((HEADER, "../mine,8x8,0,500,1,1,1"), "row 2, column 'method': '../mine'; expected a plain name"),
        ((HEADER, f"{'m' * 101},8x8,0,500,1,1,1"), "expected a plain name of at most 100 bytes"),
        ((HEADER, "mine,8x8,0,500,1,1"), "row 2: it has more or fewer values"),
        ((HEADER, "mine,8x8,0,500,1,1,1,1"), "row 2: it has more or fewer values"),
        ((HEADER, ROWS[1], ROWS[1]), "row 3: method mine, task 8x8, seed 0 has episode 0 of step 500 twice"),
    ],
)
def test_what_does_not_fit_is_refused_by_row_and_column_and_nothing_is_written(
    tmp_path: Path, lines: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert cli.main(["import", str(file(tmp_path, *lines)), "--suite", "s", "--output", str(output)]) == 2
    assert says in capsys.readouterr().err and not output.exists()


def test_no_file_no_text_and_a_length_that_an_evaluation_exceeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        importing.read(tmp_path / "nowhere.csv")
    log = importing.read(file(tmp_path, HEADER, *ROWS))
    with pytest.raises(UserError, match="--steps 400: method mine on 8x8 has an evaluation at step 500"):
        importing.record(log, tmp_path / "out", "s", "paper", 400)
    (tmp_path / "log.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not a CSV in UTF-8"):
        importing.read(tmp_path / "log.csv")
