"""The logs that a submission's cells declare are bounded before anything else reads them."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import logs
from guidebench.harness.errors import UserError
from guidebench.harness.records.schema import ASKING
from guidebench.results.submissions.schemas import OF_CELL
from guidebench.results.submissions.strict import fits

MEASURED = Path(__file__).parents[3] / "results" / "measured"


@pytest.fixture
def cell() -> dict[str, Any]:
    """Return a cell record that declares the log of judgements."""
    (file,) = MEASURED.glob("doorkey_5x5/*/*/vlm_rb-*/cell.json")
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_a_record_with_declared_logs_fits(cell: dict[str, Any]) -> None:
    assert cell["logs"] == logs.plain(ASKING["judge"])
    fits(cell, OF_CELL, "cell.json")


def test_a_record_that_declares_more_or_other_things_does_not_fit(cell: dict[str, Any]) -> None:
    log = cell["logs"]["judgements"]
    column = log["columns"]["asked"]
    for declared in (
        {f"log_{n}": log for n in range(33)},
        {"a": {**log, "columns": {f"c{n}": column for n in range(65)}}},
        {"a": {**log, "meaning": "x" * 301}},
        {"a": {**log, "code": "x"}},
        {"a": {**log, "columns": {"c": {**column, "kind": "object"}}}},
    ):
        with pytest.raises(UserError, match=r"^cell\.json, logs.* does not fit the schema"):
            fits({**cell, "logs": declared}, OF_CELL, "cell.json")
