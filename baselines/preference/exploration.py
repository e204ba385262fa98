"""Exploration reward for novel states, with which a run collects its first segments without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from guidebench.harness.interfaces import Array, State

FLOOR = 1e-6
"""Smallest distance whose logarithm is taken, for a state seen before (choice: below single precision)."""
GROUP, ROWS = 64, 64
"""Group size of stored states, of which at first only the nearest is compared, and number of states looked up at once,
so that the compared data stay in a CPU's cache."""


def neighbour_distance(states: Tensor, stored: Tensor, k: int) -> Tensor:
    """Return the distance of each of `states` [B, D], which are among `stored` [n, D], to its k-th nearest neighbour
    there, [B].

    A state counts as its own 0-th neighbour; with fewer than k others, the farthest is taken. Neighbours are found by
    ½|y|² − x·y around the mean of `stored`; their distances are then recomputed without that cancellation. The k + 1
    nearest lie in the k + 1 groups whose nearest members are nearest.
    """
    k, centre = min(k + 1, len(stored)), stored.mean(0)
    groups = -(-len(stored) // GROUP)
    padded = stored.new_zeros(groups * GROUP, stored.shape[1])
    padded[: len(stored)] = stored - centre
    half = 0.5 * padded.square().sum(1)
    half[len(stored) :] = torch.inf
    distances = []
    for first in range(0, len(states), ROWS):
        centred = states[first : first + ROWS] - centre
        far = torch.addmm(half, centred, padded.T, alpha=-1).view(len(centred), groups, GROUP)
        near = far.amin(2).topk(min(k, groups), 1, largest=False, sorted=False).indices
        members = far.gather(1, near.unsqueeze(2).expand(-1, -1, GROUP)).flatten(1)
        places = members.topk(k, 1, largest=False, sorted=False).indices
        index = near.gather(1, places // GROUP) * GROUP + places % GROUP
        distances.append((centred.unsqueeze(1) - padded[index]).square().sum(2).amax(1).sqrt())
    return torch.cat(distances)


class Intrinsic(Protocol):
    """The exploration reward of one seed."""

    def __call__(self, states: Tensor, stored: Tensor) -> Array:
        """Return rewards float32 [B] for `states` [B, D], which are among `stored` [n, D]."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class LogDistance:
    """log ‖s − s_k‖, s_k the k-th nearest neighbour of s among all states stored (RL-SaLLM-F, §5.1)."""

    def __init__(self, neighbours: int) -> None:
        self.neighbours = neighbours

    def __call__(self, states: Tensor, stored: Tensor) -> Array:
        return neighbour_distance(states, stored, self.neighbours).clamp(min=FLOOR).log().cpu().numpy()

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        """Do nothing."""


class NormalisedDistance:
    """‖s − s_k‖ over the standard deviation of all such distances so far (as the code of PEBBLE and of RL-SaLLM-F)."""

    def __init__(self, neighbours: int) -> None:
        self.neighbours = neighbours
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        """Number, mean and sum of squared deviations of the distances so far."""

    def __call__(self, states: Tensor, stored: Tensor) -> Array:
        distance = neighbour_distance(states, stored, self.neighbours).cpu().numpy()
        self._add(distance.astype(np.float64))
        return distance / np.float32(max(np.sqrt(self.squares / self.count), FLOOR))

    def _add(self, values: Array) -> None:
        """Merge the moments of two samples (Chan et al. 1983)."""
        count, shift = self.count + len(values), values.mean() - self.mean
        self.squares += float(((values - values.mean()) ** 2).sum() + shift**2 * self.count * len(values) / count)
        self.mean += float(shift) * len(values) / count
        self.count = count

    def state(self) -> State:
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state(self, state: State) -> None:
        self.count, self.mean, self.squares = int(state["count"]), float(state["mean"]), float(state["squares"])


INTRINSIC: Mapping[str, Callable[[int], Intrinsic]] = {"log": LogDistance, "distance": NormalisedDistance}
"""Exploration rewards by name, from the number of neighbours."""
