"""All parameters of S seeds in one buffer [S, P], so that optimising, clipping and copying take a few whole-array
operations.

Row s belongs to seed s alone: no operation here mixes rows, so a NaN in one row stays there. A row may hold an ensemble
of N networks, one after the other; to a network they look like N more seeds. On a CPU, networks are evaluated seed by
seed; elsewhere, for all seeds at once (`Parameters.blocks`). Batched matrix products on a CPU gain little, and their
last bits depend on the batch size. Evaluated seed by seed, a seed gives the same bits alone and beside others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.tensors import tensors
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State

ALIGNMENT = 16
"""Every parameter of every row starts at a multiple of 64 bytes (16 floats), because products of unaligned memory may
sum in another order."""


TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal distribution that is truncated at ±2."""


class Spec(NamedTuple):
    """Shape and initialisation of one network's parameter: uniform in ±scale; normal with standard deviation `scale`;
    constant at `scale`; `scale` times a random matrix with orthonormal rows or columns, whichever are fewer; or normal,
    truncated at two deviations, with standard deviation `scale` after that."""

    shape: tuple[int, ...]
    distribution: Literal["uniform", "normal", "constant", "orthogonal", "truncated"]
    scale: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def orthogonal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return a random matrix of this shape with orthonormal columns, or rows if these are fewer, float64 (Saxe et al.
    2014; uniform, by the QR decomposition of a normal matrix)."""
    high, low = max(shape), min(shape)
    basis, upper = np.linalg.qr(generator.standard_normal((high, low)))
    basis = basis * np.sign(np.diag(upper))
    return np.asarray(basis if shape == (high, low) else basis.T)


def truncated(generator: np.random.Generator, size: int) -> Array:
    """Return draws of a normal distribution that is truncated at ±2 and scaled to variance 1, float64 [size], by the
    inverse of its distribution function (Flax, lecun_normal)."""
    from scipy.special import ndtr, ndtri

    low, high = ndtr(-2.0), ndtr(2.0)
    return np.asarray(ndtri(generator.uniform(low, high, size)) / TRUNCATED)


class SeedBlock(NamedTuple):
    """Seeds whose networks are evaluated together: their seed rows, and their parameters, name -> [seeds, *shape]. For
    an ensemble these are [seeds·N, *shape], with the members of a seed side by side."""

    rows: slice
    views: dict[str, Tensor]


class Parameters:
    """Named float32 parameters of S seeds: `flat` [S, P] is the memory, and `blocks` hold views of it.

    With `members`, every seed has an ensemble of that many networks of these `specs`, and P is that much larger. With
    `trainable`, the views are leaves that autograd differentiates by; change them through `flat` only. `together` makes
    one block of all seeds, the default except on a CPU.
    """

    def __init__(
        self,
        specs: Mapping[str, Spec],
        rows: int,
        device: str = "cpu",
        *,
        members: int | None = None,
        trainable: bool = True,
        together: bool | None = None,
    ) -> None:
        self.specs = dict(specs)
        self.rows, self.members, self.device = rows, members, device
        ends = np.cumsum([-(-spec.size // ALIGNMENT) * ALIGNMENT for spec in self.specs.values()])
        starts = [0, *(int(end) for end in ends)]
        self._slices = {
            name: slice(start, start + spec.size)
            for (name, spec), start in zip(self.specs.items(), starts, strict=False)
        }
        count = members or 1
        self.networks = torch.zeros(rows * count, starts[-1], device=device)
        """The same memory with one row per network, [S·N, P/N]."""
        self.flat = self.networks.view(rows, count * starts[-1])
        self.together = device != "cpu" if together is None else together
        row_slices = [slice(0, rows)] if self.together else [slice(row, row + 1) for row in range(rows)]
        self.blocks = [
            SeedBlock(rows, self._look(self.networks[rows.start * count : rows.stop * count])) for rows in row_slices
        ]
        for block in self.blocks:
            for view in block.views.values():
                view.requires_grad_(trainable)

    def _look(self, flat: Tensor) -> dict[str, Tensor]:
        return {
            name: flat[:, piece].detach().view(len(flat), *self.specs[name].shape)
            for name, piece in self._slices.items()
        }

    def empty_like(self) -> Parameters:
        """Return zeros with the same names, without gradients, such as a target network or a moment of Adam."""
        return Parameters(
            self.specs, self.rows, self.device, members=self.members, trainable=False, together=self.together
        )

    def initialise(self, generators: Sequence[np.random.Generator], chosen: Array | None = None) -> None:
        """Draw each seed's row, or those selected by `chosen`, bool [S], from its own generator: member by member,
        parameters in their order."""
        for number, network in enumerate(self.networks):
            row = number // (self.members or 1)
            if chosen is not None and not chosen[row]:
                continue
            generator = generators[row]
            for name, spec in self.specs.items():
                if spec.distribution == "constant":
                    network[self._slices[name]] = spec.scale
                    continue
                if spec.distribution == "uniform":
                    weights = generator.uniform(-spec.scale, spec.scale, spec.size)
                elif spec.distribution == "orthogonal":
                    weights = spec.scale * orthogonal(generator, spec.shape).ravel()
                elif spec.distribution == "truncated":
                    weights = spec.scale * truncated(generator, spec.size)
                else:
                    weights = generator.normal(0.0, spec.scale, spec.size)
                network[self._slices[name]] = torch.from_numpy(weights).to(self.flat)

    def subset(self, block: SeedBlock, chosen: Tensor) -> dict[str, Tensor]:
        """Return a copy of some members of each seed of `block`: their indices [seeds, M] -> name -> [seeds·M,
        *shape]."""
        assert self.members is not None
        rows = torch.arange(block.rows.start, block.rows.stop, device=chosen.device)
        return self._look(self.networks.index_select(0, (self.members * rows.unsqueeze(1) + chosen).flatten()))

    def evaluate(self, function: Callable[..., Tensor], inputs: Array, rows: Array, *more: Array) -> Array:
        """Return the results of `function(block index, [seeds, b, …], …) -> [seeds, b, …]` for `inputs` [n, …], and for
        each array of `more`, of the seed rows `rows` [n]; records are converted as by `tensors`.

        Blocks are evaluated one by one, without gradients. In a block of several seeds, each seed is padded to the
        largest number of inputs of one seed.
        """
        places: list[list[int]] = [[] for _ in range(self.rows)]
        for position, row in enumerate(rows.tolist()):
            places[row].append(position)
        by_input: Array | None = None
        for number, block in enumerate(self.blocks):
            positions = places[block.rows]
            longest = max(map(len, positions))
            if longest == 0:
                continue
            # padding repeats an arbitrary input; its results are not read
            chosen = np.array([index + [0] * (longest - len(index)) for index in positions])
            padded = [tensors(array[chosen], self.device) for array in (inputs, *more)]
            with torch.no_grad():
                outputs = function(number, *padded).cpu().numpy()
            if by_input is None:
                by_input = np.empty((len(rows), *outputs.shape[2:]), outputs.dtype)
            for index, output in zip(positions, outputs, strict=True):
                by_input[index] = output[: len(index)]
        assert by_input is not None, "no inputs"
        return by_input

    def gradient(self, losses: Sequence[Tensor], out: Parameters) -> Tensor:
        """Write the gradients of `losses`, one loss [seeds] per block, into `out`; return `out.flat` [S, P].

        Row s is the gradient of seed s's loss, because no network mixes seeds.
        """
        for block, loss in enumerate(losses):
            self.block_gradient(block, loss, out)
        return out.flat

    def block_gradient(self, block: int, loss: Tensor, out: Parameters, partial: bool = False) -> Tensor:
        """Write the gradient of one block into `out`, as `gradient` does; return the block's rows of `out.flat`. With
        `partial`, parameters on which the loss does not depend get the gradient 0; otherwise they are an error."""
        gradients_of(block, loss, (self, out), partial=partial)
        return out.flat[self.blocks[block].rows]

    def add(self, block: int, values: Sequence[Tensor | None]) -> None:
        """Add `values` to a block's parameters, in their order; None adds nothing."""
        for view, value in zip(self.blocks[block].views.values(), values, strict=True):
            if value is not None:
                view.add_(value)

    def arrays(self, row: int) -> dict[str, Array]:
        """Return a copy of one seed's parameters as NumPy arrays by name; for an ensemble, [N, *shape]."""
        values = self.flat[row].view(self.members or 1, -1).cpu().numpy()
        return {name: values[:, piece].reshape(self._shape(name)).copy() for name, piece in self._slices.items()}

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self.specs[name].shape
        return shape if self.members is None else (self.members, *shape)

    def load(self, row: int, arrays: Mapping[str, Array]) -> None:
        """Overwrite one seed's parameters; UserError if names or shapes differ from this network's."""
        shapes = {name: tuple(np.shape(array)) for name, array in arrays.items()}
        expected = {name: self._shape(name) for name in self.specs}
        if shapes != expected:
            wrong = sorted(name for name in shapes.keys() | expected.keys() if shapes.get(name) != expected.get(name))
            name = wrong[0]
            raise UserError(
                f"stored parameters do not fit this network: {name!r} has shape {shapes.get(name, 'none')}, expected "
                f"{expected.get(name, 'none')} ({len(wrong)} differ); use the task and learner settings they came from"
            )
        networks = self.flat[row].view(self.members or 1, -1)
        for name, piece in self._slices.items():
            values = np.array(arrays[name], np.float32).reshape(len(networks), -1)
            networks[:, piece] = torch.from_numpy(values).to(self.flat.device)


def gradients_of(block: int, loss: Tensor, *networks: tuple[Parameters, Parameters], partial: bool = False) -> None:
    """Write the gradients of a block's loss [seeds] for several networks: pairs of a network and the `Parameters` for
    its gradient. `partial` is that of `Parameters.block_gradient`."""
    leaves = [view for parameters, _ in networks for view in parameters.blocks[block].views.values()]
    targets = [view for _, out in networks for view in out.blocks[block].views.values()]
    gradients = torch.autograd.grad(loss.sum(), leaves, allow_unused=partial, materialize_grads=partial)
    for view, gradient in zip(targets, gradients, strict=True):
        view.copy_(gradient)


def clip_by_norm(gradient: Tensor, maximum: float | None) -> Tensor:
    """Scale each row of [S, P] in place so that its Euclidean norm is at most `maximum`; return the norms before
    scaling, [S].

    This is `torch.nn.utils.clip_grad_norm_` for each row; None leaves gradients unchanged.
    """
    norm: Tensor = torch.linalg.vector_norm(gradient, dim=1)
    if maximum is None or (gradient.device.type == "cpu" and bool((norm + 1e-6 <= maximum).all())):
        return norm  # on a GPU this test would cost more than multiplying by ones
    gradient.mul_((maximum / (norm + 1e-6)).clamp(max=1.0).unsqueeze(1))
    return norm


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) on the rows of a `Parameters`, each with its own step count.

    It uses PyTorch's fused kernel: one pass over the memory of a row, where separate operations would need nine.
    """

    def __init__(
        self, parameters: Parameters, rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self.parameters = parameters
        self.rate, self.betas, self.epsilon = rate, betas, epsilon
        self.first, self.second = parameters.empty_like(), parameters.empty_like()
        self.steps = torch.zeros(parameters.rows, device=parameters.flat.device)
        self._rows = [list(buffer) for buffer in (parameters.flat, self.first.flat, self.second.flat, self.steps)]

    def step(self, gradient: Tensor, active: Array) -> None:
        """Take one step of the rows whose `active` [S] is True; the others keep parameters, moments and step count."""
        rows = np.flatnonzero(active).tolist()
        if not rows:
            return
        values, first, second, steps = ([views[row] for row in rows] for views in self._rows)
        for count in steps:
            count.add_(1)
        # the kernel that torch.optim.Adam(fused=True) calls, without its overhead of several times the run time
        torch._fused_adam_(
            values, [gradient[row] for row in rows], first, second, [], steps, amsgrad=False, maximize=False,
            weight_decay=0.0, lr=self.rate, beta1=self.betas[0], beta2=self.betas[1], eps=self.epsilon,
        )  # fmt: skip

    def reset(self, chosen: Array) -> None:
        """Zero the moments and the step count of the rows selected by `chosen`, bool [S]."""
        for row in np.flatnonzero(chosen).tolist():
            for buffer in (self.first.flat, self.second.flat, self.steps):
                buffer[row] = 0

    def state(self, row: int) -> State:
        return {"first": self.first.arrays(row), "second": self.second.arrays(row), "steps": int(self.steps[row])}

    def load_state(self, row: int, state: State) -> None:
        self.first.load(row, state["first"])
        self.second.load(row, state["second"])
        self.steps[row] = state["steps"]
