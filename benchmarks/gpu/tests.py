"""Runs the tests marked `gpu`, and counts those that passed, failed and were skipped, with the names of failures."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Row
from benchmarks.gpu.steps import Ask, Tell, Unavailable

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^@pytest\.mark\.gpu\b", re.MULTILINE)
LENGTH = 300
"""Characters of a failure that are kept."""


class Collector:
    """A plug-in of pytest that collects outcomes and reports them after each test."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self.seconds = tell, 0.0
        self.outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.keep("failed", report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.keep(report.outcome, report)

    def keep(self, outcome: str, report: Any) -> None:
        error = f": {str(report.longreprtext).strip()[-LENGTH:]}" if outcome == "failed" else ""
        self.outcomes[outcome].append(f"{report.nodeid}{error}")
        self._tell(self.rows())

    def rows(self) -> list[Row]:
        counts = [
            Row(f"tests marked `gpu`, {outcome}", len(names), "tests", seconds=self.seconds, dtype="")
            for outcome, names in self.outcomes.items()
        ]
        return [*counts, *(Row(name, None, "", dtype="", note="failed") for name in self.outcomes["failed"])]


def files() -> list[str]:
    """Return the test files that have a test marked `gpu`: importing all others needs packages that these do not."""
    return [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if MARK.search(path.read_text())]


def measure(ask: Ask, tell: Tell) -> None:
    import pytest

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    collector = Collector(tell)
    options = ["-m", "gpu", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(ROOT)]
    code = pytest.main([*options, "-c", str(ROOT / "pyproject.toml"), *files()], plugins=[collector])
    if not any(collector.outcomes.values()):
        raise Unavailable(f"pytest ran no test (exit code {int(code)})")
    tell(collector.rows())
    if failed := collector.outcomes["failed"]:
        raise RuntimeError(f"{len(failed)} of the tests marked `gpu` failed: {', '.join(map(_name, failed))}")


def _name(text: str) -> str:
    return text.partition(": ")[0]
