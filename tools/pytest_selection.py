"""A pytest plug-in that keeps the tests named in a file, in its order, and then whole files; it writes which tests
failed.

`coverage_map` copies this file to a folder of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_DIRECTORY = Path(os.environ["GUIDEBENCH_SELECTION"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection = json.loads((_DIRECTORY / "selection.json").read_text())
    places = {name: place for place, name in enumerate(selection["tests"])}
    files = tuple(f"{name}{'::' if name.endswith('.py') else '/'}" for name in selection["files"])
    selected = [item for item in items if item.nodeid in places or item.nodeid.startswith(files)]
    selected.sort(key=lambda item: places.get(item.nodeid, len(places)))
    config.hook.pytest_deselected(items=[item for item in items if item not in {*selected}])
    items[:] = selected


def _note(name: str) -> None:
    with open(_DIRECTORY / "failed", "a") as file:
        file.write(f"{name}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _note(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(report.nodeid)
