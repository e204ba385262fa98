"""Projection heads of S seeds: one network per kind of vector, all into one space, with an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from guidebench.baselines.networks import MLP
from guidebench.baselines.parameters import Adam, Parameters
from guidebench.harness.interfaces import Array, Build, State

STREAM = "heads"
"""The random stream of each seed from which its heads are initialised."""


class Heads:
    """E_k: vectors of kind k, [S, B, widths[k]] -> [S, B, out], for each kind (FuRL, released code: text and image).

    Each head is a perceptron with ReLU between its layers. On a CPU the seeds of a worker are computed one by one, so a
    seed has the same heads alone or beside others.
    """

    def __init__(self, build: Build, widths: Mapping[str, int], hidden: Sequence[int], out: int, rate: float) -> None:
        """`widths`: kind -> numbers in a vector of that kind; `rate`: Adam's learning rate."""
        self.networks = {kind: MLP(width, hidden, out, kind) for kind, width in widths.items()}
        specs = {name: spec for network in self.networks.values() for name, spec in network.specs().items()}
        self.parameters = Parameters(specs, build.rows, build.device)
        self.parameters.initialise([streams.named(STREAM) for streams in build.streams])
        self.optimiser = Adam(self.parameters, rate)
        self._gradient = self.parameters.empty_like()

    @property
    def blocks(self) -> list[slice]:
        """The seed rows that are computed together."""
        return [block.rows for block in self.parameters.blocks]

    def project(self, block: int, kind: str, vectors: Tensor) -> Tensor:
        """Return E_kind of vectors [seeds of the block, B, width], [seeds of the block, B, out], with gradients."""
        return self.networks[kind](self.parameters.blocks[block].views, vectors)

    def of_row(self, row: int, kind: str, vectors: Tensor) -> Tensor:
        """Return E_kind of vectors [n, width] of one seed row, [n, out], without gradients."""
        block, rows = next((block, rows) for block, rows in enumerate(self.blocks) if rows.start <= row < rows.stop)
        parameters = {
            name: view[row - rows.start : row - rows.start + 1]
            for name, view in self.parameters.blocks[block].views.items()
        }
        with torch.no_grad():
            return self.networks[kind](parameters, vectors.unsqueeze(0))[0]

    def evaluate(self, function: Callable[[int, slice], Tensor]) -> Tensor:
        """Return `function(block, its seed rows)` of all blocks side by side, [S, …], without gradients."""
        with torch.no_grad():
            return torch.cat([function(block, rows) for block, rows in enumerate(self.blocks)])

    def step(self, loss: Callable[[int, slice], Tensor], active: Array) -> None:
        """Take one step of Adam on `loss(block, its seed rows)` [seeds of the block] for the seeds `active` [S]; the
        gradient of heads that the loss does not use is 0."""
        for block, rows in enumerate(self.blocks):
            if active[rows].any():
                self.parameters.block_gradient(block, loss(block, rows), self._gradient, partial=True)
        self.optimiser.step(self._gradient.flat, active)

    def state(self, row: int) -> State:
        return {"parameters": self.parameters.arrays(row), "optimiser": self.optimiser.state(row)}

    def load_state(self, row: int, state: State) -> None:
        self.parameters.load(row, state["parameters"])
        self.optimiser.load_state(row, state["optimiser"])
