"""A plug-in of pytest that keeps the tests named in a file, in its order, and then whole files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.coverage_map import TESTS


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = json.loads(Path(os.environ[TESTS]).read_text())
    places = {name: place for place, name in enumerate(wanted["tests"])}
    files = tuple(f"{name}{'::' if name.endswith('.py') else '/'}" for name in wanted["files"])
    kept = [item for item in items if item.nodeid in places or item.nodeid.startswith(files)]
    kept.sort(key=lambda item: places.get(item.nodeid, len(places)))
    config.hook.pytest_deselected(items=[item for item in items if item not in {*kept}])
    items[:] = kept
