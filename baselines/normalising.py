"""Normalisation of observations by the mean and the deviation of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from guidebench.harness.interfaces import Array, Observations, State

LEAST = 1e-3
"""Smallest deviation by which an entry is divided, so that one which hardly varies in the dataset is not magnified."""


class Normalisation:
    """Subtracts the mean of continuous entries of S seeds' observations and divides them by their deviation.

    Continuous are the entries of vectors of floats that have another value than 0 and 1 in the dataset; one-hot and
    other binary entries, codes and images stay as they are.
    """

    def __init__(self, rows: int, observations: Observations) -> None:
        parts = observations.parts or {"": observations}
        widths = {
            name: part.shape[0]
            for name, part in parts.items()
            if len(part.shape) == 1 and np.issubdtype(np.dtype(part.dtype), np.floating) and not part.mask
        }
        self.mean = {name: np.zeros((rows, width), np.float32) for name, width in widths.items()}
        self.deviation = {name: np.ones((rows, width), np.float32) for name, width in widths.items()}
        """Part ("" for a plain vector) -> float32 [S, width]; 0 and 1 for what is not normalised."""
        self.fitted = np.zeros(rows, bool)
        """Whether a seed's numbers are known, [S]."""

    def fit(self, row: int, observations: Sequence[Array]) -> None:
        """Set a seed's numbers by the observations of a dataset's episodes, [T, …] each."""
        for name in self.mean:
            vectors = np.concatenate([episode[name] if name else episode for episode in observations]).astype(float)
            is_continuous = ((vectors != 0) & (vectors != 1)).any(0)
            self.mean[name][row] = np.where(is_continuous, vectors.mean(0), 0)
            self.deviation[name][row] = np.where(is_continuous, np.maximum(vectors.std(0), LEAST), 1)
        self.fitted[row] = True

    def of_batch(self, observations: Array) -> Array:
        """Return observations [S, B, …] of all seeds, normalised."""
        return self.of_rows(observations, np.arange(len(self.fitted))[:, None])

    def of_rows(self, observations: Array, rows: Array) -> Array:
        """Return observations [n, …] of the seed rows `rows` [n], normalised; `rows` may be any that broadcasts."""
        if "" in self.mean:
            return self._scaled(observations, "", rows)
        normalised = observations.copy()
        for name in self.mean:
            normalised[name] = self._scaled(observations[name], name, rows)
        return normalised

    def _scaled(self, vectors: Array, name: str, rows: Array) -> Array:
        scaled = (vectors - self.mean[name][rows]) / self.deviation[name][rows]
        return np.asarray(scaled, vectors.dtype)

    def arrays(self, row: int) -> dict[str, Array]:
        """Return a seed's numbers by name, for a stored policy."""
        numbers = {"mean": self.mean, "deviation": self.deviation}
        return {
            f"normalisation.{kind}{f'.{part}' if part else ''}": arrays[row].copy()
            for kind, by_part in numbers.items()
            for part, arrays in by_part.items()
        }

    def load(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Set a seed's numbers by what `arrays` returned."""
        for kind, by_part in (("mean", self.mean), ("deviation", self.deviation)):
            for part, arrays in by_part.items():
                arrays[row] = parameters[f"normalisation.{kind}{f'.{part}' if part else ''}"]
        self.fitted[row] = True

    def state(self, row: int) -> State:
        return {**self.arrays(row), "fitted": bool(self.fitted[row])}

    def load_state(self, row: int, state: State) -> None:
        self.load(row, state)
        self.fitted[row] = state["fitted"]
