"""Tasks that tests share, since each holds a world of its own."""

from collections.abc import Callable

import pytest

pytest.importorskip("ogbench")

from guidebench.suites.bin_sorting import BinSorting
from guidebench.suites.bin_sorting.task import BinTask

STATE = BinSorting(observation="state")


@pytest.fixture(scope="package")
def tasks() -> Callable[[str], BinTask]:
    """Returns the shared task of a name, observed as `state`; tests reset it."""
    made: dict[str, BinTask] = {}

    def task(name: str) -> BinTask:
        if name not in made:
            made[name] = BinTask(name, STATE)
        return made[name]

    return task
