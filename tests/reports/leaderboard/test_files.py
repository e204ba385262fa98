from __future__ import annotations

import csv
import io
import json

import pytest

from guidebench.reports.leaderboard import files
from guidebench.reports.leaderboard.board import Estimate, plain
from tests.reports.leaderboard.boards import board, entry, example


def _lines(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_the_json_is_the_board() -> None:
    board_ = example()
    assert json.loads(files.as_json(board_)) == json.loads(json.dumps(plain(board_)))
    assert files.as_json(board_) == files.as_json(example())


def test_what_is_no_number_never_reaches_the_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        files.as_json(board(entry("a", score=Estimate(float("nan")))))


def test_the_csv_has_a_line_for_each_row_in_their_order_and_empty_cells_for_what_is_not_defined() -> None:
    board_ = board(
        entry("a", rank=(1, 1, 2), seeds=3, tasks=("5x5", "8x8"), score=Estimate(0.5, 0.25, 0.75)), entry("b")
    )
    first, second = _lines(files.as_csv(board_))
    assert (first["id"], first["rank"], first["rank_low"], first["rank_high"]) == ("a", "1", "1", "2")
    assert (first["score"], first["score_low"], first["score_high"]) == ("0.5", "0.25", "0.75")
    assert (first["measure"], first["measure_direction"], first["measure_high"]) == ("success", "higher", "1.0")
    assert (first["seeds"], first["tasks"]) == ("0; 1; 2", "5x5; 8x8")
    assert (second["id"], second["rank"], second["apart"]) == ("b", "", "2 seeds on 8x8; 3 are needed")


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "＝1+1", "＋1", "－1", "＠A1", " =1", "\u3000=1", "\u200b=1", "﹣1"],
)
def test_text_that_a_spreadsheet_would_compute_is_data(text: str) -> None:
    (line,) = _lines(files.as_csv(board(entry("a", model=text, source=f"{text}, b", hardware=(text, "c")))))
    assert line["model"] == f"'{text}" and line["source"].startswith("'") and line["hardware"].startswith("'")


def test_numbers_below_nought_stay_numbers_and_a_board_without_rows_has_a_header_only() -> None:
    (line,) = _lines(files.as_csv(board(entry("a", mean=Estimate(-0.5)))))
    assert line["mean"] == "-0.5" and files.as_csv(board()) == b"id\r\n"
