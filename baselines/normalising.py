"""Normalisation of observations by the mean and the deviation of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Observations

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
        """Return a seed's numbers by name, for a checkpoint or a stored policy; NaN while they are not known."""
        unknown = np.float32(np.nan)
        return {
            name: numbers[row].copy() if self.fitted[row] else np.full_like(numbers[row], unknown)
            for name, numbers in self._by_name().items()
        }

    def load(self, row: int, arrays: Mapping[str, Array]) -> None:
        """Set a seed's numbers by what `arrays` returned; UserError if names or shapes differ."""
        numbers = self._by_name()
        shapes = {name: np.shape(array) for name, array in arrays.items()}
        expected = {name: by_row[row].shape for name, by_row in numbers.items()}
        if shapes != expected:
            raise UserError(
                f"the numbers that normalise observations are {shapes or 'missing'}, expected {expected}; use a policy "
                f"that was trained with agent.normalise=true on these observations"
            )
        self.fitted[row] = all(np.isfinite(array).all() for array in arrays.values())
        if self.fitted[row]:
            for name, array in arrays.items():
                numbers[name][row] = array

    def _by_name(self) -> dict[str, Array]:
        """Return the numbers of all seeds by name, [S, width]."""
        return {
            f"normalisation.{kind}{f'.{part}' if part else ''}": by_row
            for kind, by_part in (("mean", self.mean), ("deviation", self.deviation))
            for part, by_row in by_part.items()
        }
