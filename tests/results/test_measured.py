"""What this project has measured stays small enough to be cloned, and reads as any study does."""

from pathlib import Path

from guidebench import results

HOME = Path(results.__file__).parent / "measured"
MOST = 24_000_000
"""Bytes of all files together."""


def test_what_is_measured_is_small_and_its_logs_are_compact() -> None:
    files = [path for path in HOME.rglob("*") if path.is_file() and not _made_anew(path)]
    assert sum(path.stat().st_size for path in files) < MOST
    assert {path.name for path in files if path.suffix == ".jsonl"} <= {"ledger.jsonl"}


def _made_anew(path: Path) -> bool:
    """Whether a report left a file that is not kept: pages, and pictures of figures that are there as PDF."""
    return path.suffix == ".html" or (path.suffix == ".png" and path.with_suffix(".pdf").exists())


def test_a_measured_study_has_its_logs() -> None:
    judged = results.load(HOME / "doorkey_8x8", what="judgements")
    assert len(judged) == 17_503 and judged["score"].between(0, 1).all()
