"""Behaviour cloning: its two losses, the update, and its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.learners.bc import Bc
from guidebench.baselines.learners.sac.learner import clamped, log_probability_of, tanh_gaussian
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.networks import MLP
from guidebench.baselines.parameters import Adam, Parameters, clip_by_norm, gradients_of
from guidebench.baselines.tensors import ObservationTensors, tensor, tensors
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Difference,
    Loss,
    State,
    Store,
    TransitionColumn,
    Update,
)

SUCCEEDED = TransitionColumn("succeeded", "mutable", dtype="float32")
"""Whether the transition's episode had a success: 1 or 0, and 0 until the episode has ended."""


class BcLearner(BaseLearner):
    """A policy fitted to stored actions, for S seeds at once; observations are encoded as by SAC."""

    columns: tuple[TransitionColumn, ...] = (SUCCEEDED,)

    def __init__(self, config: Bc, build: Build) -> None:
        self.config, self.device = config, build.device
        self.batch_size = config.batch_size
        self.actions = build.actions.shape[0]
        reading = config.reading(build.observations)
        self.encoder_network = reading.network()
        outputs = self.actions * (2 if config.loss == "nll" else 1)
        self.actor_network = MLP(reading.width, config.hidden, outputs, "actor")
        self.encoder = Parameters(self.encoder_network.specs(), build.rows, build.device)
        self.actor = Parameters(self.actor_network.specs(), build.rows, build.device)
        for parameters in (self.encoder, self.actor):
            parameters.initialise([streams.initial for streams in build.streams])
        self.trained = {"actor": self.actor, **({"encoder": self.encoder} if reading.learns else {})}
        self.optimisers = {name: Adam(parameters, config.lr) for name, parameters in self.trained.items()}
        self.gradients = {name: parameters.empty_like() for name, parameters in self.trained.items()}

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Note whether the episode had a success."""
        store.write(
            SUCCEEDED.name, row, slots, np.full(len(slots), store.read("success", row, slots).any(), np.float32)
        )

    def imitation(self, block: int, observation: ObservationTensors, action: Tensor) -> Tensor:
        """Return the loss of each transition, [S, B]: the mean over an action's dimensions of (tanh μ(s) − a)² (`mse`;
        the term that Fujimoto and Gu 2021 add to TD3), or −log π(a|s) of a tanh Gaussian (`nll`)."""
        output = self._output(block, observation)
        if self.config.loss == "mse":
            return (output.tanh() - action).square().mean(2)
        return -log_probability_of(*self._gaussian(output), action)

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step on the mean of w·`imitation`. w are the replay's weights and, with `successes_only`,
        whether the episode had a success; then the mean is over these transitions. The errors for the replay are
        `imitation`, [S, B]."""
        if losses or reducible:
            raise UserError("the learner bc has one loss and no target network: choose learner=cal_ql, or replay=uer")
        found, norms = [], []
        for block, (rows, _) in enumerate(self.actor.blocks):
            observation = tensors(batch.observation[rows], self.device)
            each = self.imitation(block, observation, tensor(batch.action[rows], self.device))
            weight = tensor(self._weight(batch)[rows], self.device)
            norms.append(self._descend(block, (each * weight).mean(1), active))
            found.append(torch.cat([(each * weight).mean(1, keepdim=True), each], 1).detach())
        told = torch.cat(found).cpu().numpy()
        return Update(told[:, 1:], {"loss": told[:, 0], "grad_norm": torch.cat(norms).cpu().numpy()})

    def _weight(self, batch: Batch) -> Array:
        """Return the weight of each transition in the mean over the batch, float32 [S, B]."""
        weight = np.ones(batch.reward.shape, np.float32) if batch.weight is None else batch.weight
        if not self.config.successes_only:
            return weight
        counts = batch.columns[SUCCEEDED.name]
        return np.asarray(weight * counts / np.maximum(counts.mean(1, keepdims=True), 1 / counts.shape[1]))

    def _descend(self, block: int, loss: Tensor, active: Array) -> Tensor:
        """Take a step of Adam on the loss of a block, [seeds]; return the gradient's norm before clipping, [seeds]."""
        pairs = [(parameters, self.gradients[name]) for name, parameters in self.trained.items()]
        gradients_of(block, loss, *pairs)
        rows = self.actor.blocks[block].rows
        moving = np.zeros_like(active)
        moving[rows] = active[rows]
        norms = []
        for name, gradient in self.gradients.items():
            norms.append(clip_by_norm(gradient.flat[rows], self.config.max_grad_norm))
            self.optimisers[name].step(gradient.flat, moving)
        return torch.stack(norms).square().sum(0).sqrt()

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions float32 [n, A] in [-1, 1] for observations [n, …] of the seed rows `rows` [n]: tanh μ(s), or
        with the generators `explore` and `nll` an action drawn from the policy."""
        if explore is None or self.config.loss == "mse":
            return self.actor.evaluate(self._greedy, observation, rows)
        noise = np.stack([explore[row].standard_normal(self.actions, np.float32) for row in rows.tolist()])
        return self.actor.evaluate(self._drawn, observation, rows, noise)

    def _output(self, block: int, observation: ObservationTensors) -> Tensor:
        """Return the policy's output for observations [S, B, …], [S, B, A] or with `nll` [S, B, 2A]."""
        features = self.encoder_network(self.encoder.blocks[block].views, observation)
        return self.actor_network(self.actor.blocks[block].views, features)

    def _gaussian(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Return μ and log σ [S, B, A] of actions before their tanh."""
        mean, log_std = output.chunk(2, 2)
        return mean, clamped(log_std, self.config.log_std_min)

    def _greedy(self, block: int, observation: ObservationTensors) -> Tensor:
        return self._output(block, observation)[:, :, : self.actions].tanh()

    def _drawn(self, block: int, observation: ObservationTensors, noise: Tensor) -> Tensor:
        return tanh_gaussian(*self._gaussian(self._output(block, observation)), noise)[0]

    def updates_due(self, step: int, phase_updates: int | None = None) -> int:
        """Return what the run phase sets, else 1 from `learning_starts` on."""
        return int(step >= self.config.learning_starts) if phase_updates is None else phase_updates

    def value(self, observation: Array, rows: Array) -> Array:
        """Return NaN [n]: it estimates no value."""
        return np.full(len(rows), np.nan, np.float32)

    def reset(self, part: str, active: Array) -> None:
        raise ValueError(f"the learner bc has no part {part!r} that can be reset")

    def state(self, row: int) -> State:
        networks = {"encoder": self.encoder, "actor": self.actor}
        return {
            **{name: parameters.arrays(row) for name, parameters in networks.items()},
            **{f"{name}_optimiser": optimiser.state(row) for name, optimiser in self.optimisers.items()},
        }

    def load_state(self, row: int, state: State) -> None:
        self.encoder.load(row, state["encoder"])
        self.actor.load(row, state["actor"])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state(row, state[f"{name}_optimiser"])

    def parameters(self, row: int) -> Mapping[str, Array]:
        """Return the parameters of the encoder and the policy."""
        return {**self.encoder.arrays(row), **self.actor.arrays(row)}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Set the parameters of a seed."""
        for own in (self.encoder, self.actor):
            own.load(row, {name: array for name, array in parameters.items() if name in own.specs})
