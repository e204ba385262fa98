"""Fixtures of the tests of benchmarks."""

from collections.abc import Iterator

import pytest

from guidebench.harness import registry


@pytest.fixture(autouse=True)
def registrations() -> Iterator[None]:
    """Undo what a benchmark registers as a test imports it, such as a suite of its own."""
    with registry.fresh():
        yield
