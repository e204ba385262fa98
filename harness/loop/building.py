"""What the parts of a cell are built with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from guidebench.harness.interfaces import Build
from guidebench.harness.plan.config import Cell
from guidebench.harness.streams import Streams

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
        slots=ring_slots(cell),
        parts=cell.sections,
        task=cell.names.task,
    )


def most_stored(cell: Cell, given: int | None = None) -> int:
    """Most transitions that a run stores over its whole length: its steps, as long demonstrations as may be, and
    datasets of `given` transitions in all, or as large as may be."""
    training = cell.section("training")
    demonstrated = training.demonstrations * cell.section("suite").horizon(cell.names.task)
    return int(training.steps + demonstrated + (_fed(cell) if given is None else given))


def _fed(cell: Cell) -> int:
    """Most transitions of its datasets, each of which has to fit into the replay."""
    return int(len(cell.names.of("dataset")) * cell.section("training").capacity)


def ring_slots(cell: Cell) -> int:
    """Slots of the ring of stored transitions. A dataset is stored between two checkpoints, as a whole; the oldest
    stack of frames goes back beyond its transition."""
    observations, _ = cell.section("suite").spaces(cell.names.task)
    stack = max(part.stack for part in observations.parts.values() or (observations,))
    return int(min(cell.section("training").capacity, most_stored(cell)) + 2 * SPACING + stack + _fed(cell))


def checkpoint_spacing(cell: Cell, asked: int) -> int:
    """Steps between checkpoints: those asked for, but no more than the ring of a long run has room for."""
    return min(asked, SPACING) if most_stored(cell) > ring_slots(cell) else asked
