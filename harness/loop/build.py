"""The information that the parts of a cell are built with, and the size of the ring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from guidebench.harness.interfaces import Build
from guidebench.harness.plan.config import Cell
from guidebench.harness.streams import Streams

SPACING = 5_000
"""Maximum steps between two checkpoints of a run that is longer than its ring (see `make_build`)."""


def make_build(cell: Cell, seeds: Sequence[int], device: str, directories: Sequence[Path]) -> Build:
    """Return the Build for the parts of a cell.

    The ring has room for two checkpoint intervals beyond its capacity, since a resume may use the second newest
    checkpoint, whose transitions must still be stored. Its size depends on the cell alone, since slots decide the order
    of a sum tree's leaves.
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


def most_stored(cell: Cell, dataset_transitions: int | None = None) -> int:
    """Return the maximum number of transitions that a run stores: its steps, demonstrations of maximum length, and
    datasets of `dataset_transitions` transitions in total, or of maximum size if None."""
    training = cell.section("training")
    demonstrated = training.demonstrations * cell.section("suite").horizon(cell.names.task)
    return int(training.steps + demonstrated + (_fed(cell) if dataset_transitions is None else dataset_transitions))


def _fed(cell: Cell) -> int:
    """Return the maximum number of transitions of the datasets, each of which must fit into the replay."""
    return int(len(cell.names.of("dataset")) * cell.section("training").capacity)


def ring_slots(cell: Cell) -> int:
    """Return the slots of the ring. They leave room for datasets, each stored completely between two checkpoints, and
    for the frame stack of the oldest transition, whose frames precede it."""
    observations, _ = cell.section("suite").spaces(cell.names.task)
    stack = max(part.stack for part in observations.parts.values() or (observations,))
    return int(min(cell.section("training").capacity, most_stored(cell)) + 2 * SPACING + stack + _fed(cell))


def checkpoint_spacing(cell: Cell, every: int) -> int:
    """Return the steps between checkpoints: `every`, limited by the ring of a long run."""
    return min(every, SPACING) if most_stored(cell) > ring_slots(cell) else every
