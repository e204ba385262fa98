"""What this project has measured stays small enough to be cloned, and reads as any study does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guidebench import results
from guidebench.harness.identity import cells
from guidebench.harness.records.files import read_json
from tests.refusals import check_refused

HOME = Path(results.__file__).parent / "measured"
MOST = 24_000_000
"""Largest total size of the measured studies in bytes."""


def test_what_is_measured_is_small_and_its_logs_are_compact() -> None:
    files = [path for path in HOME.rglob("*") if path.is_file() and not _made_anew(path)]
    assert sum(path.stat().st_size for path in files) < MOST
    assert {path.name for path in files if path.suffix == ".jsonl"} <= {"ledger.jsonl"}


def _made_anew(path: Path) -> bool:
    """Return whether a file comes from a report and is not committed: pages and figures."""
    return path.suffix in (".html", ".pdf") or (path.suffix == ".png" and path.with_suffix(".pdf").exists())


def test_a_measured_study_has_its_logs() -> None:
    judged = results.load(HOME / "doorkey_8x8", log="judgements")
    assert len(judged) == 17_503 and judged["score"].between(0, 1).all()


def test_every_measured_cell_still_has_the_id_that_its_record_makes() -> None:
    """This includes cells with local models, four of whose records are older than the digests of these models."""
    local = []
    for file in sorted(HOME.glob("*/*/*/*/cell.json")):
        cell_record = read_json(file)
        if cell_record.get("parts"):
            assert cells.rehashed(cell_record) == cell_record["cell"], file
        if any(name.startswith("transformers") for name in _parts(cell_record)):
            local.append(cell_record["cell"])
            if file.relative_to(HOME).parts[0] == "crafter_real":  # of version 2 of its suite
                check_refused("recorded by another version of its parts", cells.recorded, cell_record)
            else:
                assert cells.recorded(cell_record).id == cell_record["cell"]
    assert sorted(local) == [
        "09b6736204", "30e6b11ac5", "39af6a4b9c", "6f36c050fa", "7319e2dc3e", "77bce8dc82", "8b05652287",
        "aad733a5f2", "ae0707daf0", "b7165f570f", "cb1005a83c", "e2e72fe133", "f62a89b145", "fb27e76c28",
    ]  # fmt: skip


def _parts(cell_record: Mapping[str, Any]) -> list[str]:
    return [part["name"] for part in cell_record.get("parts", {}).values()]
