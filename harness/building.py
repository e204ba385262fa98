"""What the parts of a cell are built with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import config
from harness.config import Cell
from harness.interfaces import Build
from harness.recipes import Training
from harness.streams import Streams

SPACING = 5_000
"""Most steps between two checkpoints of a run that is longer than its ring (see `make_build`)."""


def make_build(cell: Cell, seeds: Sequence[int], device: str, directories: Sequence[Path]) -> Build:
    """What the cell's parts are built with.

    The ring has room for two checkpoint intervals beyond its capacity: a resume may start two back, from transitions
    that must still be there. Its size follows from the cell alone, since slots decide the order of a sum tree's leaves.
    """
    suite = cell.section("suite")
    observations, actions = suite.spaces(cell.names.task)
    training = cell.section("training")
    return Build(
        seeds=tuple(seeds),
        observations=observations,
        actions=actions,
        steps=training.steps,
        horizon=suite.horizon(cell.names.task),
        events=tuple(suite.events),
        device=device,
        streams=[Streams(seed) for seed in seeds],
        directories=tuple(directories),
        capacity=training.capacity,
        slots=ring_slots(training),
        parts={section: cell.section(section) for section in config.SECTIONS if cell.section(section) is not None},
    )


def ring_slots(training: Training) -> int:
    """Slots of the ring of stored transitions."""
    return min(training.capacity, training.steps) + 2 * SPACING + 1


def checkpoint_spacing(cell: Cell, asked: int) -> int:
    """Steps between checkpoints: those asked for, but no more than the ring of a long run has room for."""
    training = cell.section("training")
    return min(asked, SPACING) if training.steps > ring_slots(training) else asked
