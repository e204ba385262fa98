"""A plug-in of pytest for `make test-quick`: only units, which start no process and train nothing.

A test that begins to do either is skipped there, also by way of a fixture. What takes long is left out beforehand:
tests with the markers below, and the files and functions named in tests/not_quick.txt, which `python -m
tools.coverage_map quick` writes from the recorded times.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LIST = Path("tests/not_quick.txt")
MARKERS = ("slow", "waits", "gpu", "release")
_listed: set[str] = set()
_tried: list[str] = []
"""Forbidden actions that the running test has tried."""


def pytest_configure(config: pytest.Config) -> None:
    path = config.rootpath / LIST
    _listed.update(path.read_text().split("\n") if path.exists() else ())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.relative_to(config.rootpath).as_posix() in _listed else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = [
        item
        for item in items
        if item.nodeid.partition("[")[0] not in _listed and not any(map(item.get_closest_marker, MARKERS))
    ]
    config.hook.pytest_deselected(items=[*{*items} - {*quick}])
    items[:] = quick


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[Any]:
    from guidebench.harness import fork_server
    from guidebench.harness.run import worker

    _tried.clear()
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in ((fork_server, "start"), (subprocess.Popen, "__init__"), (os, "fork")):
            patched.setattr(owner, name, _skip_because("starts a process"))
        patched.setattr(worker, "work", _skip_because("trains"))
        return (yield)  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Report a test as skipped if its code caught the skip or waited in vain for a process."""
    report = yield
    if report.failed and _tried:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: not quick: it {_tried[0]}")
    return report


def _skip_because(reason: str) -> Callable[..., None]:
    def skip(*arguments: object, **named: object) -> None:
        _tried.append(reason)
        pytest.skip(f"not quick: it {reason}")

    return skip
