"""Figures are read back as they were written; what is not theirs is refused, and nothing breaks the table."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import figures
from benchmarks.gpu.figures import Result, Row
from guidebench.harness.errors import UserError

COMMAND = {"device": "cuda", "rehearsal": False}
ROW = Row("a | b\nc", 12.5, "steps/s", 10.0, 15.0, 3, 2.0, seeds=5, batch=128, beside="a loop", ratio=2.0)
RESULT = Result("done", rows=(ROW, Row("d", None, "steps/s", note="no GPU")), seconds=3.0, limit=9.0)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    assert figures.read(file, "cuda") == {}
    figures.write(file, COMMAND, {"machine": RESULT})
    assert figures.read(file, "cuda") == {"machine": RESULT}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda figures_: figures_.update(schema=2),
        lambda figures_: figures_["steps"]["machine"].update(state="fine"),
        lambda figures_: figures_["steps"]["machine"].update(seconds="long"),
        lambda figures_: figures_["steps"]["machine"]["rows"][0].update(figure="12"),
        lambda figures_: figures_["steps"]["machine"]["rows"][0].update(more=1),
        lambda figures_: figures_.update(steps=[]),
        lambda figures_: figures_.pop("command"),
    ],
)
def test_another_content_is_refused(spoil: Any, tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    figures.write(file, COMMAND, {"machine": RESULT})
    content = json.loads(file.read_text())
    spoil(content)
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is not what"):
        figures.read(file, "cuda")


def test_a_cell_of_the_table_keeps_its_place() -> None:
    lines = [line for line in figures.table(COMMAND, {"machine": RESULT}).splitlines() if line.startswith("| machine")]
    assert lines[0] == ("| machine | a \\| b c | 12.5 steps/s (10 to 15; 3, 2.0 s) | 5 | 128 | float32 | a loop | 2 |")
    assert lines[1] == "| machine | d [no GPU] | not measured |  |  | float32 |  |  |"


def test_ratios_are_those_of_rounds() -> None:
    """Speeds of 4, 6 and 9 beside 2, 2 and 3 give ratios of 2, 3 and 3."""
    row = figures.compared(ROW, "peer", [4, 6, 9], [2, 2, 3])
    assert (row.ratio_lowest, row.ratio, row.ratio_highest, row.beside) == (2, 3, 3, "peer")
