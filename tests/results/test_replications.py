from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from guidebench.results import replications
from guidebench.results.replications import Contradiction, Record, decide, is_further

RUN = {
    "commit": "abc",
    "sources": {"learner": "1"},
    "packages": {"torch": "2.0"},
    "hardware": {"processor": "P", "cores": 2, "device": "cpu"},
}
NO_SOURCES = {name: value for name, value in RUN.items() if name != "sources"}


@pytest.mark.parametrize(
    ("first", "second", "equal"),
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
    first: dict[str, Any], second: dict[str, Any], equal: bool
) -> None:
    assert replications.is_equal(first, second) == equal == replications.is_equal(second, first)


def record(*values: float, provenance: dict[str, Any] = RUN, finished: bool = True, column: str = "return") -> Record:
    return Record({"step": np.arange(len(values)), column: np.array(values)}, provenance, finished)


ELSEWHERE = {**RUN, "hardware": {"processor": "Q"}}


@pytest.mark.parametrize("column", ["return", "account"], ids=["of episodes", "of evaluations"])
def test_one_decision_serves_records_of_episodes_and_of_evaluations(column: str) -> None:
    def make_record(*values: float, provenance: dict[str, Any] = RUN) -> Record:
        return record(*values, provenance=provenance, column=column)

    first, second = {0: make_record(1, 2), 1: make_record(3)}, {0: make_record(1, 9, provenance=ELSEWHERE)}
    assert decide([], {0: make_record(1)}) == (None, None), "the first row of a cell"
    assert decide([first], {0: make_record(1, 2, 5), 2: make_record(7)}) == (0, None), "as far as both go"
    assert decide([first], {0: make_record(1, 9, provenance=ELSEWHERE)}) == (None, None), "a replication"
    assert decide([first, second], {0: make_record(1, 9, 4, provenance=ELSEWHERE)}) == (1, None)
    assert decide([first], {0: make_record(1, 8)}) == (None, Contradiction(0, 0, 1, column))
    third = {0: make_record(1), 5: make_record(4, provenance=ELSEWHERE)}
    decision = decide([first, second], {0: make_record(1), 5: make_record(4)})
    assert decision == (0, None)
    decision = decide([first, third], {1: make_record(3), 5: make_record(6, provenance=ELSEWHERE)})
    assert decision == (None, Contradiction(1, 5, 0, column)), "though an earlier row agrees"


def test_of_two_records_that_agree_the_longer_or_the_finished_one_counts() -> None:
    assert is_further(record(1), record(1, 2)) and not is_further(record(1, 2), record(1))
    assert is_further(record(1, finished=False), record(1)) and not is_further(record(1), record(1, finished=False))
    assert not is_further(record(1), record(1))
