from __future__ import annotations

import csv
import json
import warnings
import zipfile
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.identity.provenance import packages
from guidebench.results import submissions
from guidebench.results.submissions.packing import pack
from guidebench.results.verification import record
from guidebench.results.verification.record import CellVerdict, Check, Tally, Verification
from tests.reports.conftest import Writer

pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be checked here")
SOLVED = {seed: {300: [1] * 10} for seed in range(4)}
UNSOLVED = {seed: {300: [0] * 10} for seed in range(4)}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "study")
    writer.cell("a", SOLVED)
    writer.cell("b", UNSOLVED, method="per")
    writer.cell("c", {0: {300: [1] * 10}}, method="sac")
    return writer.finish()


def leaderboard(*words: object) -> int:
    return cli.main(["leaderboard", *map(str, words)])


def rows(directory: Path) -> list[dict[str, str]]:
    with open(directory / "leaderboard.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_command_ranks_writes_page_csv_and_json_and_names_what_is_listed_apart_and_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "study.json").write_text("[")
    assert leaderboard(study, broken, "--output", tmp_path / "lb", "--title", "Ours") == 0
    out = capsys.readouterr().out
    assert "grid, quick: shortened budgets" in out and "1.00 [1.00, 1.00]" in out
    assert f"Listed apart\n- sac · quick ({study}), 1.00 on 8x8: 1 seed; 3 are needed" in out
    assert f"Refused:\n- {broken}: " in out
    assert [(row["method"], row["rank"]) for row in rows(tmp_path / "lb")] == [("uer", "1"), ("per", "2"), ("sac", "")]
    board = json.loads((tmp_path / "lb" / "leaderboard.json").read_text())
    assert board["title"] == "Ours" and set(board["details"]) == {entry["id"] for entry in board["entries"]}
    assert "<title>" in (tmp_path / "lb" / "index.html").read_text()
    assert all(str(tmp_path / "lb" / name) in out for name in ("index.html", "leaderboard.csv", "leaderboard.json"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            [],
            "there is nothing to show: name a study, as in `bench leaderboard runs/NAME measured`, or add submissions",
        ),
        (["nowhere"], "no study at nowhere"),
    ],
)
def test_a_board_without_rows_is_an_error(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leaderboard(*words, "--output", tmp_path / "lb") == 2
    assert says in capsys.readouterr().err and not (tmp_path / "lb").exists()


def test_what_this_project_has_measured_is_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leaderboard("measured", "--output", tmp_path / "lb") == 0 and "Refused" not in capsys.readouterr().out
    board_rows = rows(tmp_path / "lb")
    assert {row["source"] for row in board_rows} >= {f"measured/{path.parent.name}" for path in _measured()}
    assert {row["suite"] for row in board_rows if row["rank"]} >= {"minigrid_doorkey", "ogbench_scene"}


def _measured() -> list[Path]:
    home = Path(results.__file__).parent / "measured"
    return [path for path in home.glob("*/study.json") if "perturbed" not in path.parent.name]


# Submissions


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the measured study of DoorKey 5x5, whose cells this version knows, as a submission."""
    home = Path(results.__file__).parent / "measured" / "doorkey_5x5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pack(home, tmp_path_factory.mktemp("packed") / "handed-in.zip", checkpoints=False).file


def test_a_submission_is_added_and_stays_on_the_board(
    archive: Path, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "lb"
    assert leaderboard("--add", archive, "--output", board) == 0
    (added,) = (board / "submissions").iterdir()
    assert f"added {added}" in capsys.readouterr().out and leaderboard(study, "--output", board) == 0
    board_rows = rows(board)
    assert {row["source"] for row in board_rows} == {str(study), f"submissions/{added.name}"}
    assert {row["standing"] for row in board_rows} == {"self-reported"}


def test_an_archive_that_is_refused_is_named_and_the_rest_shown(
    archive: Path, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("../evil", "x")
    board = tmp_path / "lb"
    assert leaderboard(study, "--add", tmp_path / "bad.zip", archive, "--output", board) == 1
    streams = capsys.readouterr()
    assert f"refused {tmp_path / 'bad.zip'}: " in streams.err and "added" in streams.out
    assert len(list((board / "submissions").iterdir())) == 1 and not (tmp_path / "evil").exists()
    assert {row["suite"] for row in rows(board)} == {"grid", "minigrid_doorkey"}


def test_a_submission_that_was_changed_after_it_was_added_is_refused(
    archive: Path, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added = submissions.add(archive, tmp_path / "lb")
    next(added.glob("*/*/uer-*/seed-0/evaluations.parquet")).unlink()
    assert leaderboard(study, "--output", tmp_path / "lb") == 0
    assert f"Refused:\n- submissions/{added.name}: " in capsys.readouterr().out
    assert {row["suite"] for row in rows(tmp_path / "lb")} == {"grid"}


def _verdict(standing: record.Standing, reason: str = "") -> CellVerdict:
    checks = (Check("played anew", standing == "verified", "0.9"), Check("asked again", None, "no model is asked"))
    return CellVerdict(standing, reason, checks, Tally(9, 10), Tally(8, 10))


def test_a_row_stands_as_its_verification_found(archive: Path, tmp_path: Path) -> None:
    board = tmp_path / "lb"
    opened = submissions.opened(submissions.add(archive, board))
    uer, per, _ = opened.study.cells
    verdicts = {uer.id: _verdict("verified"), per.id: _verdict("disputed", "the scores differ")}
    verification = Verification(
        opened.digest, verdicts, 1, 20, 5, None, 0.0, "0" * 40, False, packages(), {"processor": "CPU"}
    )
    record.write(verification, board)
    assert leaderboard("--output", board) == 0
    rows_by_id = {row["id"]: row for row in rows(board)}
    assert {row["method"]: row["standing"] for row in rows_by_id.values()} == {
        "uer": "verified",
        "per": "disputed",
        "vlm_rb": "self-reported",
    }
    details = json.loads((board / "leaderboard.json").read_text())["details"]
    checks = {rows_by_id[id]["method"]: details[id]["checks"] for id in rows_by_id}
    assert [check["passed"] for check in checks["uer"]] == [True, None] and checks["vlm_rb"] == []
    assert checks["per"][0] == {"what": "verification", "passed": False, "detail": "the scores differ"}


def test_a_verification_that_is_none_is_a_remark_and_the_row_self_reported(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "lb"
    path = record.path_of(board, submissions.opened(submissions.add(archive, board)).digest)
    path.parent.mkdir()
    path.write_text('{"standing": "verified"}')
    assert leaderboard("--output", board) == 0 and "is no record of `bench verify`" in capsys.readouterr().out
    assert {row["standing"] for row in rows(board)} == {"self-reported"}
