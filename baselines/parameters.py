"""All parameters of S seeds in one buffer [S, P], so that optimising, clipping and copying are a few whole operations.

Row s belongs to seed s and to nobody else: nothing here mixes rows, so a NaN in one stays there. On a CPU networks
are evaluated seed by seed, elsewhere for all seeds at once (`Parameters.parts`): batched matrix products on a CPU
gain little, and their last bits depend on how many there are. So a seed alone and beside others is the same there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from harness.errors import UserError
from harness.interfaces import Array, State

ALIGNMENT = 16
"""Every parameter of every row starts at a multiple of 64 bytes: elsewhere products may sum in another order."""


class Spec(NamedTuple):
    """Shape of one seed's parameter and how it starts: uniform in ±scale, or normal with deviation `scale`."""

    shape: tuple[int, ...]
    distribution: Literal["uniform", "normal"]
    scale: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Part(NamedTuple):
    """Seeds whose networks are evaluated together: their rows, and their parameters, name -> [seeds, *shape]."""

    rows: slice
    views: dict[str, Tensor]


class Parameters:
    """Named float32 parameters of S seeds: `flat` [S, P] is the memory, the views in `parts` look into it.

    With `trainable` the views are leaves that autograd differentiates by; change them through `flat` only.
    `together` makes one part of all seeds, the default but on a CPU.
    """

    def __init__(
        self,
        specs: Mapping[str, Spec],
        rows: int,
        device: str = "cpu",
        *,
        trainable: bool = True,
        together: bool | None = None,
    ) -> None:
        self.specs = dict(specs)
        self.rows = rows
        ends = np.cumsum([-(-spec.size // ALIGNMENT) * ALIGNMENT for spec in self.specs.values()])
        starts = [0, *(int(end) for end in ends)]
        self._slices = {
            name: slice(start, start + spec.size)
            for (name, spec), start in zip(self.specs.items(), starts, strict=False)
        }
        self.flat = torch.zeros(rows, starts[-1], device=device)
        self.together = device != "cpu" if together is None else together
        taken = [slice(0, rows)] if self.together else [slice(row, row + 1) for row in range(rows)]
        self.parts = [Part(rows, self._look(self.flat[rows])) for rows in taken]
        for part in self.parts:
            for view in part.views.values():
                view.requires_grad_(trainable)

    def _look(self, flat: Tensor) -> dict[str, Tensor]:
        return {
            name: flat[:, piece].detach().view(len(flat), *self.specs[name].shape)
            for name, piece in self._slices.items()
        }

    def empty_like(self) -> Parameters:
        """Zeros with the same names, without gradients: a target network, a moment."""
        return Parameters(self.specs, self.rows, str(self.flat.device), trainable=False, together=self.together)

    def initialise(self, generators: Sequence[np.random.Generator]) -> None:
        """Draw each row from its own seed's generator, parameters in their order."""
        for row, generator in enumerate(generators):
            for name, spec in self.specs.items():
                if spec.distribution == "uniform":
                    values = generator.uniform(-spec.scale, spec.scale, spec.size)
                else:
                    values = generator.normal(0.0, spec.scale, spec.size)
                self.flat[row, self._slices[name]] = torch.from_numpy(values).to(self.flat)

    def gradient(self, losses: Sequence[Tensor], out: Parameters) -> Tensor:
        """Gradients of the sums of `losses`, one loss [seeds] per part, into `out`; returns `out.flat` [S, P].

        Row s is the gradient of seed s's loss, because no network mixes seeds."""
        for part, place, loss in zip(self.parts, out.parts, losses, strict=True):
            gradients = torch.autograd.grad(loss.sum(), list(part.views.values()))
            for view, gradient in zip(place.views.values(), gradients, strict=True):
                view.copy_(gradient)
        return out.flat

    def arrays(self, row: int) -> dict[str, Array]:
        """A copy of one seed's parameters as NumPy arrays by name."""
        values = self.flat[row].cpu().numpy()
        return {name: values[piece].reshape(self.specs[name].shape).copy() for name, piece in self._slices.items()}

    def load(self, row: int, arrays: Mapping[str, Array]) -> None:
        """Overwrite one seed's parameters; UserError if names or shapes are not those of this network."""
        given = {name: tuple(np.shape(array)) for name, array in arrays.items()}
        wanted = {name: spec.shape for name, spec in self.specs.items()}
        if given != wanted:
            wrong = sorted(name for name in given.keys() | wanted.keys() if given.get(name) != wanted.get(name))
            name = wrong[0]
            raise UserError(
                f"stored parameters do not fit this network: {name!r} has shape {given.get(name, 'none')}, expected "
                f"{wanted.get(name, 'none')} ({len(wrong)} differ); use the task and learner settings they came from"
            )
        for name, piece in self._slices.items():
            values = np.ascontiguousarray(arrays[name], dtype=np.float32).reshape(-1)
            self.flat[row, piece] = torch.from_numpy(values.copy()).to(self.flat.device)


def clip_by_norm(gradient: Tensor, maximum: float) -> Tensor:
    """Scale each row of [S, P] in place so that its Euclidean norm is at most `maximum`; the norms before it, [S].

    Per row what `torch.nn.utils.clip_grad_norm_` does for one network."""
    norm: Tensor = torch.linalg.vector_norm(gradient, dim=1)
    gradient.mul_((maximum / (norm + 1e-6)).clamp(max=1.0).unsqueeze(1))
    return norm


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) on the rows of a `Parameters`, each with its own step count.

    PyTorch's fused kernel: one pass over the memory of a row, where separate operations would need nine."""

    def __init__(
        self, parameters: Parameters, rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self.parameters = parameters
        self.rate, self.betas, self.epsilon = rate, betas, epsilon
        self.first, self.second = parameters.empty_like(), parameters.empty_like()
        self.steps = torch.zeros(parameters.rows, device=parameters.flat.device)
        self._rows = [list(buffer) for buffer in (parameters.flat, self.first.flat, self.second.flat, self.steps)]

    def step(self, gradient: Tensor, active: Array) -> None:
        """One step of the rows whose `active` [S] is True; the others keep parameters, moments and step count."""
        rows = np.flatnonzero(active).tolist()
        if not rows:
            return
        values, first, second, steps = ([views[row] for row in rows] for views in self._rows)
        gradients = [gradient[row] for row in rows]
        adam(
            values, gradients, first, second, [], steps, fused=True, amsgrad=False, maximize=False, weight_decay=0.0,
            lr=self.rate, beta1=self.betas[0], beta2=self.betas[1], eps=self.epsilon,
        )  # fmt: skip

    def state(self, row: int) -> State:
        return {"first": self.first.arrays(row), "second": self.second.arrays(row), "steps": int(self.steps[row])}

    def load_state(self, row: int, state: State) -> None:
        self.first.load(row, state["first"])
        self.second.load(row, state["second"])
        self.steps[row] = state["steps"]
