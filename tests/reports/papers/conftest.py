"""Studies of DoorKey with curves chosen by hand, and a shelf of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import results
from reports import summary
from reports.papers import catalogue
from reports.papers.matching import Shelf
from tests.reports.conftest import Writer

Curve = Mapping[int, float]
EPISODES = 10


@pytest.fixture
def add(writer: Writer) -> Callable[..., None]:
    """`add(name, {seed: {step: success rate in tenths}}, method=…)`: a cell of the paper profile."""

    def cell(name: str, curves: Mapping[int, Curve], **given: Any) -> None:
        tenths = {
            seed: {
                step: [1] * round(rate * EPISODES) + [0] * (EPISODES - round(rate * EPISODES))
                for step, rate in curve.items()
            }
            for seed, curve in curves.items()
        }
        names = {"suite": "minigrid_doorkey", "task": "8x8", "profile": "paper", "steps": 1_000_000, **given}
        writer.cell(name, tenths, **names)

    return cell


@pytest.fixture
def shelf(writer: Writer) -> Callable[..., Shelf]:
    """The rows of all cells written so far."""

    def made(**stand_ins: str) -> Shelf:
        study = results.study(writer.finish())
        rows = summary.summarise(study, results.load(study), reps=200).rows
        return Shelf(rows, catalogue.paper("vlm_rb"), {f"{key[1:]}": value for key, value in stand_ins.items()})

    return made
