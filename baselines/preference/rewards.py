"""The learnt reward: an ensemble of networks per seed, trained on preferences between segments.

All networks of a block of seeds (`guidebench.baselines.parameters`) are one batched product, for training and for
relabelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.networks import Network, ensemble
from guidebench.baselines.parameters import Adam, Parameters
from guidebench.harness.interfaces import Array, Build, State


class Preferences:
    """The training set of a seed's reward: pairs of segments, and the probability that the second is preferred.

    It is the set D of the paper, which only grows (RL-SaLLM-F, §3.2).
    """

    def __init__(self, length: int, *shape: int, dtype: str = "float32") -> None:
        """`length` is the number of steps of a segment, `shape` that of the reward's input per step."""
        self.pairs = np.zeros((0, 2, length, *shape), dtype)
        """[n, 2, H, …]."""
        self.labels = np.zeros(0, np.float32)
        """[n], in [0, 1]."""

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, pairs: Sequence[Array], labels: Sequence[float]) -> None:
        """Add pairs [2, H, …] and their labels."""
        if labels:
            self.pairs = np.concatenate([self.pairs, np.asarray(pairs, self.pairs.dtype)])
            self.labels = np.concatenate([self.labels, np.asarray(labels, np.float32)])

    def state(self) -> State:
        return {"seen": self.pairs.copy(), "labels": self.labels.copy()}

    def load_state(self, state: State) -> None:
        self.pairs, self.labels = state["seen"].copy(), state["labels"].copy()


class Fit(NamedTuple):
    """Training results per seed; NaN for a seed that was not trained."""

    accuracy: Array  # [S], of the last epoch, mean over members; pairs labelled ½ do not count
    loss: Array  # [S], of the last epoch, mean over members
    epochs: Array  # [S]


class RewardEnsemble:
    """r̂(s) in (-1, 1): the mean output of N networks, for S seeds at once.

    The networks end in tanh and are trained by Adam (RL-SaLLM-F, app. A.2).
    """

    def __init__(
        self, build: Build, network: Network, members: int, rate: float, batch_size: int, smoothing: float
    ) -> None:
        """`network` maps the reward's input, [S, B, …], to a number, [S, B, 1]
        (`guidebench.baselines.preference.reward_inputs`)."""
        self.network = network
        self.parameters = Parameters(self.network.specs(), build.rows, build.device, members=members)
        self.parameters.initialise([streams.initial for streams in build.streams])
        self.optimiser = Adam(self.parameters, rate)
        self.gradient = self.parameters.empty_like()
        self.members, self.batch_size, self.smoothing = members, batch_size, smoothing
        self.device = build.device

    def reward(self, states: Array) -> Array:
        """Return r̂ of states [S, B, …], [S, B]."""
        with torch.no_grad():
            found = [
                self._reward(n, self._tensor(states[block.rows])) for n, block in enumerate(self.parameters.blocks)
            ]
            return torch.cat(found).cpu().numpy()

    def reward_of(self, states: Array, rows: Array) -> Array:
        """Return r̂ of states [n, …] of the seed rows `rows` [n], [n]."""
        return self.parameters.evaluate(self._reward, np.asarray(states, np.float32), rows)

    def returns(self, row: int, pairs: Array) -> Array:
        """Return each member's Σ_t r̂(s_t) for pairs of segments [n, 2, H, …] of one seed, [N, n, 2]."""
        states = self._tensor(pairs).flatten(0, 2)
        with torch.no_grad():
            found = self.network(self._members(row), states.expand(self.members, *states.shape)).tanh()
            return found.view(self.members, *pairs.shape[:3]).sum(3).cpu().numpy()

    def train(
        self, sets: Sequence[Preferences], chosen: Array, generators: Sequence[np.random.Generator], epochs: int,
        enough: float,
    ) -> Fit:  # fmt: skip
        """Train up to `epochs` epochs on the sets of the seeds `chosen` [S], in orders that each member draws from its
        seed's generator. A seed stops once the accuracy of its last epoch exceeds `enough`; a seed without pairs is
        unchanged."""
        active = chosen & (np.array([len(each) for each in sets]) > 0)
        fit = Fit(np.full(len(sets), np.nan), np.full(len(sets), np.nan), np.zeros(len(sets), np.int64))
        for _ in range(epochs):
            for number, block in enumerate(self.parameters.blocks):
                if active[block.rows].any():
                    self._epoch(number, sets, active, generators, fit)
            active = active & ~(fit.accuracy > enough)
        return fit

    def _epoch(
        self, number: int, sets: Sequence[Preferences], active: Array, generators: Sequence[np.random.Generator],
        fit: Fit,
    ) -> None:  # fmt: skip
        """Train the active seeds of a block for one pass over their sets; write the results into `fit`."""
        rows = self.parameters.blocks[number].rows
        training = [row for row in range(rows.start, rows.stop) if active[row]]
        orders = {
            row: np.stack([generators[row].permutation(len(sets[row])) for _ in range(self.members)])
            for row in training
        }
        counts = torch.zeros(3, rows.stop - rows.start, self.members, device=self.device)
        for start in range(0, max(len(sets[row]) for row in training), self.batch_size):
            taken = {row: orders[row][:, start : start + self.batch_size] for row in training}
            # padded to the largest number of pairs of a seed in this block; on a CPU a block holds one seed
            width = max(order.shape[1] for order in taken.values())
            seen = sets[0].pairs
            pairs = np.zeros((len(counts[0]), self.members, width, *seen.shape[1:]), seen.dtype)
            labels, weights = np.zeros((2, *pairs.shape[:3]), np.float32)
            for row, order in taken.items():
                held = row - rows.start, slice(None), slice(order.shape[1])
                pairs[held], labels[held], weights[held] = sets[row].pairs[order], sets[row].labels[order], 1
            loss, told = self.terms(number, *map(self._tensor, (pairs, labels, weights)))
            self.parameters.block_gradient(number, loss, self.gradient)
            moving = np.zeros_like(active)
            moving[[row for row, order in taken.items() if order.size]] = True
            self.optimiser.step(self.gradient.flat, moving)
            counts += told
        losses, right, judged = counts.cpu().numpy()
        for row in training:
            mine = row - rows.start
            fit.loss[row] = losses[mine].mean() / len(sets[row])
            fit.accuracy[row] = right[mine].mean() / judged[mine].mean() if judged[mine].any() else np.nan
            fit.epochs[row] += 1

    def terms(self, number: int, pairs: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross entropy of the labels under the Bradley–Terry model (RL-SaLLM-F, eq. 1 and 2), for the seeds
        of a block.

        Pairs [S, N, B, 2, H, …], labels and weights (0 for padding) [S, N, B] -> the loss [S], a sum over members of
        means over their batches; and, [3, S, N], the sum of losses, the number of pairs ordered as labelled, and the
        number of pairs whose label states an order. Labels are smoothed by ε to ε + (1 − 2ε)·y.
        """
        returns = self.network(self.parameters.blocks[number].views, pairs.flatten(0, 1).flatten(1, 3)).tanh()
        returns = returns.view(pairs.shape[:5]).sum(4)
        more = returns[..., 1] - returns[..., 0]  # log odds that the second is preferred
        smoothed = self.smoothing + (1 - 2 * self.smoothing) * labels
        losses = F.binary_cross_entropy_with_logits(more, smoothed, weights, reduction="none").sum(2)
        judged = weights * (labels != 0.5)
        right = ((more > 0) == (labels > 0.5)) * judged
        loss = (losses / weights.sum(2).clamp(min=1)).sum(1)
        return loss, torch.stack([losses.detach(), right.sum(2), judged.sum(2)])

    def _reward(self, number: int, states: Tensor) -> Tensor:
        """Return r̂ for one block: [S, B, …] -> [S, B]."""
        return ensemble(self.network, self.parameters.blocks[number].views, states).tanh().mean(1)

    def _members(self, row: int) -> Mapping[str, Tensor]:
        """Return the parameters of one seed's networks, name -> [N, *shape]."""
        block = next(block for block in self.parameters.blocks if block.rows.start <= row < block.rows.stop)
        first = (row - block.rows.start) * self.members
        return {name: view[first : first + self.members] for name, view in block.views.items()}

    def _tensor(self, array: Array) -> Tensor:
        # copied even on a CPU: NumPy's memory alignment varies, and the last bits of a product may depend on it
        return torch.tensor(array, dtype=torch.float32, device=self.device)

    def state(self, row: int) -> State:
        return {"parameters": self.parameters.arrays(row), "optimiser": self.optimiser.state(row)}

    def load_state(self, row: int, state: State) -> None:
        self.parameters.load(row, state["parameters"])
        self.optimiser.load_state(row, state["optimiser"])
