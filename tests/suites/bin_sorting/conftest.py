"""Tasks that tests share, since each holds a simulated world."""

from collections.abc import Callable

import pytest

pytest.importorskip("ogbench")

from guidebench.suites.bin_sorting import BinSorting
from guidebench.suites.bin_sorting.task import BinTask

STATE = BinSorting(observation="state")


@pytest.fixture(scope="package")
def tasks() -> Callable[[str], BinTask]:
    """Return a function: it returns the shared task of a name, observed as `state`; tests have to reset it."""
    cache: dict[str, BinTask] = {}

    def task(name: str) -> BinTask:
        if name not in cache:
            cache[name] = BinTask(name, STATE)
        return cache[name]

    return task
