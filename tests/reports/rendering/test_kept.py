from __future__ import annotations

from pathlib import Path

import pytest

from guidebench.reports.rendering.kept import kept


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pages"


def counting(calls: list[int]):
    @kept("pytest")
    def double(number: int) -> dict[str, int]:
        """Twice."""
        calls.append(number)
        return {"twice": 2 * number}

    return double


def test_what_one_process_made_the_next_one_reads_unless_it_is_damaged(folder: Path) -> None:
    calls: list[int] = []
    assert [counting(calls)(4) for _ in range(2)] == [{"twice": 8}] * 2
    assert calls == [4], "the second function, as another process, found the first one's file"
    next(folder.iterdir()).write_text('{"twi')
    assert counting(calls)(4) == {"twice": 8} and calls == [4, 4], "a damaged file is made anew"
    assert counting(calls)(5) == {"twice": 10} and calls == [4, 4, 5] and len(list(folder.iterdir())) == 2


def test_where_nothing_can_be_kept_it_is_made_all_the_same(folder: Path) -> None:
    folder.parent.write_text("a file")
    calls: list[int] = []
    assert counting(calls)(4) == {"twice": 8} and calls == [4]
