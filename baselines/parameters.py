"""All parameters of S seeds in one buffer [S, P], so that optimising, clipping and copying are a few whole operations.

Row s belongs to seed s and to nobody else: nothing here mixes rows, so a NaN in one stays there. A row may hold an
ensemble of N networks, one after the other; to a network they look like N more seeds. On a CPU networks
are evaluated seed by seed, elsewhere for all seeds at once (`Parameters.parts`): batched matrix products on a CPU
gain little, and their last bits depend on how many there are. So a seed alone and beside others is the same there.
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
"""Every parameter of every row starts at a multiple of 64 bytes: elsewhere products may sum in another order."""


class Spec(NamedTuple):
    """Shape of one network's parameter and how it starts: uniform in ±scale, normal of deviation `scale`, at it, or, of
    a matrix, `scale` times a random one with orthonormal rows or columns, whichever are fewer."""

    shape: tuple[int, ...]
    distribution: Literal["uniform", "normal", "constant", "orthogonal"]
    scale: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def orthogonal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A random matrix of this shape with orthonormal columns, or rows where these are fewer, float64 (Saxe et al. 2014;
    drawn uniformly by the QR decomposition of a normal one)."""
    high, low = max(shape), min(shape)
    found, upper = np.linalg.qr(generator.standard_normal((high, low)))
    found = found * np.sign(np.diag(upper))
    return np.asarray(found if shape == (high, low) else found.T)


class SeedBlock(NamedTuple):
    """Seeds whose networks are evaluated together: their rows, and their parameters, name -> [seeds, *shape], of an
    ensemble [seeds·N, *shape] with the members of a seed side by side."""

    rows: slice
    views: dict[str, Tensor]


class Parameters:
    """Named float32 parameters of S seeds: `flat` [S, P] is the memory, the views in `parts` look into it.

    With `members` every seed has an ensemble of so many networks of these `specs`, and P is that much larger.
    With `trainable` the views are leaves that autograd differentiates by; change them through `flat` only.
    `together` makes one part of all seeds, the default but on a CPU.
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
        """The same memory with a row per network, [S·N, P/N]."""
        self.flat = self.networks.view(rows, count * starts[-1])
        self.together = device != "cpu" if together is None else together
        taken = [slice(0, rows)] if self.together else [slice(row, row + 1) for row in range(rows)]
        self.parts = [
            SeedBlock(rows, self._look(self.networks[rows.start * count : rows.stop * count])) for rows in taken
        ]
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
        return Parameters(
            self.specs, self.rows, self.device, members=self.members, trainable=False, together=self.together
        )

    def initialise(self, generators: Sequence[np.random.Generator], chosen: Array | None = None) -> None:
        """Draw each row, or those that `chosen` [S] names, from its own seed's generator, member by member, parameters
        in their order."""
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
                    values = generator.uniform(-spec.scale, spec.scale, spec.size)
                elif spec.distribution == "orthogonal":
                    values = spec.scale * orthogonal(generator, spec.shape).ravel()
                else:
                    values = generator.normal(0.0, spec.scale, spec.size)
                network[self._slices[name]] = torch.from_numpy(values).to(self.flat)

    def subset(self, part: SeedBlock, chosen: Tensor) -> dict[str, Tensor]:
        """A copy of some members of each seed of `part`: their numbers [seeds, M] -> name -> [seeds·M, *shape]."""
        assert self.members is not None
        rows = torch.arange(part.rows.start, part.rows.stop, device=chosen.device)
        return self._look(self.networks.index_select(0, (self.members * rows.unsqueeze(1) + chosen).flatten()))

    def evaluate(self, function: Callable[..., Tensor], inputs: Array, rows: Array, *more: Array) -> Array:
        """What `function(a part's number, [seeds, b, …], …) -> [seeds, b, …]` gives for inputs [n, …], and for `more`
        of them, of seeds `rows` [n]; records as `tensors` has them.

        Part by part, without gradients; in a part of several seeds, each is padded to the most inputs of one."""
        places: list[list[int]] = [[] for _ in range(self.rows)]
        for position, row in enumerate(rows.tolist()):
            places[row].append(position)
        results: Array | None = None
        for number, part in enumerate(self.parts):
            own = places[part.rows]
            longest = max(map(len, own))
            if longest == 0:
                continue
            # what pads is any input; its results are not read
            chosen = np.array([index + [0] * (longest - len(index)) for index in own])
            padded = [tensors(each[chosen], self.device) for each in (inputs, *more)]
            with torch.no_grad():
                found = function(number, *padded).cpu().numpy()
            if results is None:
                results = np.empty((len(rows), *found.shape[2:]), found.dtype)
            for index, each in zip(own, found, strict=True):
                results[index] = each[: len(index)]
        assert results is not None, "no inputs"
        return results

    def gradient(self, losses: Sequence[Tensor], out: Parameters) -> Tensor:
        """Gradients of the sums of `losses`, one loss [seeds] per part, into `out`; returns `out.flat` [S, P].

        Row s is the gradient of seed s's loss, because no network mixes seeds."""
        for part, loss in enumerate(losses):
            self.part_gradient(part, loss, out)
        return out.flat

    def part_gradient(self, part: int, loss: Tensor, out: Parameters) -> Tensor:
        """As `gradient`, of one part alone; returns its rows of `out.flat`."""
        gradients_of(part, loss, (self, out))
        return out.flat[self.parts[part].rows]

    def add(self, part: int, values: Sequence[Tensor | None]) -> None:
        """Add to a part's parameters, in their order, such as a further gradient; None adds nothing."""
        for view, value in zip(self.parts[part].views.values(), values, strict=True):
            if value is not None:
                view.add_(value)

    def arrays(self, row: int) -> dict[str, Array]:
        """A copy of one seed's parameters as NumPy arrays by name, of an ensemble [N, *shape]."""
        values = self.flat[row].view(self.members or 1, -1).cpu().numpy()
        return {name: values[:, piece].reshape(self._shape(name)).copy() for name, piece in self._slices.items()}

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self.specs[name].shape
        return shape if self.members is None else (self.members, *shape)

    def load(self, row: int, arrays: Mapping[str, Array]) -> None:
        """Overwrite one seed's parameters; UserError if names or shapes are not those of this network."""
        given = {name: tuple(np.shape(array)) for name, array in arrays.items()}
        wanted = {name: self._shape(name) for name in self.specs}
        if given != wanted:
            wrong = sorted(name for name in given.keys() | wanted.keys() if given.get(name) != wanted.get(name))
            name = wrong[0]
            raise UserError(
                f"stored parameters do not fit this network: {name!r} has shape {given.get(name, 'none')}, expected "
                f"{wanted.get(name, 'none')} ({len(wrong)} differ); use the task and learner settings they came from"
            )
        networks = self.flat[row].view(self.members or 1, -1)
        for name, piece in self._slices.items():
            values = np.array(arrays[name], np.float32).reshape(len(networks), -1)
            networks[:, piece] = torch.from_numpy(values).to(self.flat.device)


def gradients_of(part: int, loss: Tensor, *networks: tuple[Parameters, Parameters]) -> None:
    """The gradients of a part's loss [seeds] by the parameters of several networks, each into those beside it."""
    leaves = [view for parameters, _ in networks for view in parameters.parts[part].views.values()]
    wanted = [view for _, out in networks for view in out.parts[part].views.values()]
    for view, gradient in zip(wanted, torch.autograd.grad(loss.sum(), leaves), strict=True):
        view.copy_(gradient)


def clip_by_norm(gradient: Tensor, maximum: float | None) -> Tensor:
    """Scale each row of [S, P] in place so that its Euclidean norm is at most `maximum`; the norms before it, [S].

    Per row what `torch.nn.utils.clip_grad_norm_` does for one network; None leaves gradients as they are."""
    norm: Tensor = torch.linalg.vector_norm(gradient, dim=1)
    if maximum is None or (not gradient.is_cuda and bool((norm + 1e-6 <= maximum).all())):
        return norm  # on a GPU looking would cost more than a product with ones
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
        for count in steps:
            count.add_(1)
        # what torch.optim.Adam(fused=True) comes to, which takes several times as long to arrive there
        torch._fused_adam_(
            values, [gradient[row] for row in rows], first, second, [], steps, amsgrad=False, maximize=False,
            weight_decay=0.0, lr=self.rate, beta1=self.betas[0], beta2=self.betas[1], eps=self.epsilon,
        )  # fmt: skip

    def reset(self, chosen: Array) -> None:
        """Forget the moments and the step count of the rows that `chosen` [S] names."""
        for row in np.flatnonzero(chosen).tolist():
            for buffer in (self.first.flat, self.second.flat, self.steps):
                buffer[row] = 0

    def state(self, row: int) -> State:
        return {"first": self.first.arrays(row), "second": self.second.arrays(row), "steps": int(self.steps[row])}

    def load_state(self, row: int, state: State) -> None:
        self.first.load(row, state["first"])
        self.second.load(row, state["second"])
        self.steps[row] = state["steps"]
