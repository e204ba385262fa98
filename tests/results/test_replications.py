from __future__ import annotations

from typing import Any

import pytest

from guidebench.results import replications

RUN = {
    "commit": "abc",
    "sources": {"learner": "1"},
    "packages": {"torch": "2.0"},
    "hardware": {"processor": "P", "cores": 2, "device": "cpu"},
}
NO_SOURCES = {name: value for name, value in RUN.items() if name != "sources"}


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (RUN, {**RUN, "commit": "def"}, True),
        (RUN, {**RUN, "sources": {"learner": "2"}}, False),
        (RUN, {**RUN, "packages": {"torch": "2.1"}}, False),
        (RUN, {**RUN, "hardware": {**RUN["hardware"], "cores": 64}}, True),
        (RUN, {**RUN, "hardware": {**RUN["hardware"], "processor": "Q"}}, False),
        (RUN, {**RUN, "hardware": {**RUN["hardware"], "device": "cuda:0"}}, False),
        (RUN, {**RUN, "hardware": {**RUN["hardware"], "opengl": "egl"}}, False),
        (NO_SOURCES, {**NO_SOURCES, "commit": "def"}, False),
        (NO_SOURCES, NO_SOURCES, True),
        ({}, {}, True),
    ],
    ids=["commit", "sources", "package", "cores", "processor", "device", "opengl", "no sources", "equal", "unknown"],
)
def test_the_conditions_of_a_run_are_its_code_its_packages_and_its_machine(
    one: dict[str, Any], other: dict[str, Any], equal: bool
) -> None:
    assert replications.is_equal(one, other) == equal == replications.is_equal(other, one)
