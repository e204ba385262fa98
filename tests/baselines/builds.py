"""Builds of a few seeds for parts under test."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Actions, Build, Observations
from guidebench.harness.streams import Streams

SCALAR = Observations((1,), "float32")


def build(path: Path = Path(), seeds: tuple[int, ...] = (0, 1), space: Observations = SCALAR, **more: Any) -> Build:
    """Return a build of two discrete actions, whose other fields may be given."""
    usual = {
        "seeds": seeds, "observations": space, "actions": Actions(count=2), "steps": 100, "horizon": 100, "events": (),
        "device": "cpu", "streams": [Streams(seed) for seed in seeds], "capacity": 60, "slots": 80,
        "directories": tuple(path / f"seed-{seed}" for seed in seeds),
    }  # fmt: skip
    return Build(**(usual | more))


def initialised(network: Any, rows: int, **settings: Any) -> Parameters:
    """Return parameters of a network in which row r is drawn by the generator of seed r."""
    parameters = Parameters(network.specs(), rows, **settings)
    parameters.initialise([np.random.default_rng(seed) for seed in range(rows)])
    return parameters


def codes(space: Observations, *shape: int) -> torch.Tensor:
    """Return random codes [*shape, …] of a grid."""
    drawn = np.random.default_rng(0).integers(0, space.categories, (*shape, *space.shape))
    return torch.from_numpy(drawn.astype(np.uint8))
