"""Shared by DQN and IQN, whose algorithms are in `dqn/learner.py` and `iqn/learner.py`: steps of Adam, target network
updates, ε-greedy acting, checkpoints."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines import losses as adding
from guidebench.baselines.captured import Learn, UpdateStatistics, on_gpu
from guidebench.baselines.learners.q_learning import QLearning
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.losses import Added, QNetworks
from guidebench.baselines.masks import admitted
from guidebench.baselines.parameters import Adam, Parameters, SeedBlock, clip_by_norm
from guidebench.baselines.tensors import ObservationTensors, tensor, tensors
from guidebench.harness.errors import unknown
from guidebench.harness.interfaces import Array, Batch, Build, Difference, Loss, Metrics, State, Update


class Sample(NamedTuple):
    """A batch for the seeds of one block as tensors, and every random number that its update uses."""

    observation: ObservationTensors  # [S, B, …]
    action: Tensor  # [S, B, 1] int64
    reward: Tensor  # [S, B]
    continues: Tensor  # [S, B], γ(1 − terminated), or γ^m(1 − terminated) after m steps
    next_observation: ObservationTensors  # [S, B, …]
    weight: Tensor | None  # [S, B]
    more: Mapping[str, Tensor] = MappingProxyType({})  # what else the update of a subclass reads, by name


class Kind(NamedTuple):
    """All that determines which kernels an update launches, except the batch size; the key of its CUDA graph."""

    reducible: Difference | None
    """Kind of reducible loss that the replay requests, if any."""
    weighted: bool
    """Whether its batches have importance weights."""
    active: tuple[bool, ...]
    """Seeds whose networks are updated."""


class Terms(NamedTuple):
    """Results per transition of a batch, [S, B]; only `loss` has a gradient."""

    loss: Tensor
    value: Tensor
    """Q(s, a) of the online network."""
    td_error: Tensor
    """Q(s, a) − y."""
    reducible: Tensor | None
    """|Q(s, a) − y| − |Q̄(s, a) − y|, or the same difference of losses, where y uses the maximum of the target network
    Q̄(s′, ·), with or without `double` (VLM-RB, app. E: ReLo); None if not requested."""
    measures: Mapping[str, Tensor] = MappingProxyType({})
    """Further metrics, name -> [S], such as the entropy of a stochastic policy; finite wherever the loss is."""


class QLearner(BaseLearner, ABC):
    """Q-learning with a target network Q̄ and ε-greedy exploration (Mnih et al. 2015), for S seeds at once."""

    def __init__(self, config: QLearning, build: Build) -> None:
        assert build.actions.count is not None
        self.config = config
        self.batch_size = config.batch_size
        self.seeds = build.seeds
        self.actions = build.actions.count
        self.mask = build.observations.masking
        """Name of the observation part that says which actions may be taken; "" if all always may."""
        self.annealing = max(1.0, config.exploration_share * build.steps)
        self.device = build.device
        self.network = config.network(build.observations, build.actions)
        self.online = Parameters(self.network.specs(), build.rows, build.device)
        self.online.initialise([streams.initial for streams in build.streams])
        self.target = self.online.empty_like()
        self.target.flat.copy_(self.online.flat)
        self.gradient = self.online.empty_like()
        self.optimiser = Adam(self.online, config.lr)
        self.renewed = np.zeros(build.rows, np.int64)
        """Environment step of each seed's last target network update, [S]."""
        self._learn: Learn = on_gpu(self.learn_together, build.device)

    @abstractmethod
    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step of the seeds selected by `active` [S], including the added `losses` (group `q`)."""

    @abstractmethod
    def td_loss(
        self, online: SeedBlock, target: SeedBlock, sample: Sample, reducible: Difference | None = None
    ) -> Terms:
        """Return losses and TD errors of a block's transitions under its online and target parameters."""

    def epsilon(self, step: int) -> float:
        """Return the probability of a random action at environment step `step`."""
        start, end = self.config.epsilon_start, self.config.epsilon_end
        return start + (end - start) * min(1.0, step / self.annealing)

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions int64 [n] for observations [n, …] of the seed rows `rows`: ε-greedy with the generators
        `explore` [S], or greedy if None.

        For each observation, one uniform number and one action are drawn from its seed's generator, whether used or
        not. Where observations have a mask of the actions, both choose among those that it admits.
        """
        if explore is None:
            return self._greedy(observation, rows)
        epsilon = self.epsilon(step)
        random, actions = np.empty(len(rows), bool), np.empty(len(rows), np.int64)
        choices = admitted(observation[self.mask]) if self.mask else None
        for position, row in enumerate(rows.tolist()):
            random[position] = explore[row].random() < epsilon
            if choices is None:
                actions[position] = explore[row].integers(self.actions)
            else:
                actions[position] = explore[row].choice(choices[position])
        if random.all():
            return actions
        if not random.any():
            return self._greedy(observation, rows)
        actions[~random] = self._greedy(observation[~random], rows[~random])
        return actions

    def _greedy(self, observation: Array, rows: Array) -> Array:
        actions: Array = self._values(observation, rows).argmax(1)
        return actions

    def value(self, observation: Array, rows: Array) -> Array:
        """Return max_a Q(s, a), over the actions that may be taken, of observations [n, …] of the seed rows `rows` [n],
        float32 [n]."""
        values: Array = self._values(observation, rows).max(1)
        return values

    def _values(self, observation: Array, rows: Array) -> Array:
        """Return Q-values [n, A]; −∞ for actions that may not be taken."""

        def values(block: int, inputs: ObservationTensors) -> Tensor:
            return self.admitted(self.network(self.online.blocks[block].views, inputs), inputs)

        return self.online.evaluate(values, observation, rows)

    def admitted(self, values: Tensor, observation: ObservationTensors) -> Tensor:
        """Return Q-values [S, B, A] at observations [S, B, …], from which to take a maximum: −∞ for actions that the
        observations' mask does not admit. A mask that admits none (the zeros of a batch that is not drawn yet), or no
        mask, changes nothing."""
        if not self.mask:
            return values
        assert not isinstance(observation, Tensor)
        may = observation[self.mask] != 0
        return values.masked_fill(~may & may.any(-1, keepdim=True), -torch.inf)

    def updates_due(self, step: int, phase_updates: int | None = None) -> int:
        if phase_updates is not None:
            return phase_updates
        due = step >= self.config.learning_starts and step % self.config.train_every == 0
        return self.config.gradient_steps if due else 0

    def renew_target(self, active: Array, step: int) -> None:
        """Set θ̄ ← τθ + (1 − τ)θ̄ for the seeds whose step count has passed a multiple of `target_every` since the last
        update."""
        every = self.config.target_every
        due = active & (step // every > self.renewed // every)
        for row in np.flatnonzero(due):
            self.target.flat[row].lerp_(self.online.flat[row], self.config.target_rate)
        self.renewed[due] = step

    def descend(self, batch: Batch, active: Array, reducible: Difference | None, losses: Sequence[Loss]) -> Update:
        """Take one gradient step, `learn`. With added `losses` it is never captured as a CUDA graph."""
        adding.check_groups(losses, self.config.groups)
        blocks = self.online.blocks
        kind = Kind(reducible, batch.weight is not None, tuple(active.tolist()))
        samples = (self.sample(batch, rows) for rows, _ in blocks)
        if losses:
            statistics = self.learn(samples, kind, [self._added(losses, batch, block) for block in range(len(blocks))])
        else:
            statistics = self._learn(next(samples), kind) if len(blocks) == 1 else self.learn(samples, kind)
        numbers, columns = statistics.numbers.cpu().numpy(), len(statistics.names) * len(active)
        metrics = dict(zip(statistics.names, numbers[:columns].reshape(-1, len(active)), strict=True))
        if losses:
            adding.warn_of_infinite({"q": metrics["q_added"]}, losses, self.seeds, active)
        per_transition = numbers[columns:].reshape(-1, *batch.reward.shape)
        return Update(per_transition[0], metrics, per_transition[1] if reducible is not None else None)

    def learn_together(self, sample: Sample, kind: Kind) -> UpdateStatistics:
        """Take one gradient step of seeds that form a single block, as on a GPU, without reading a value from the GPU,
        so that the step can be captured as a CUDA graph."""
        return self.learn((sample,), kind)

    def learn(self, samples: Iterable[Sample], kind: Kind, added: Sequence[Added] = ()) -> UpdateStatistics:
        """Take one step of Adam on the mean over the batch of w·`td_loss`, plus what others have `added`; both
        arguments are given by block. Return S numbers for each name, then S·B TD errors, and then S·B reducible ones if
        they are asked for."""
        losses, means, errors, less = [], [], [], []
        measures: dict[str, list[Tensor]] = {}
        # a block's gradient is computed before the next block's loss, so that on a CPU its networks stay in the cache
        for block, sample in enumerate(samples):
            terms = self.td_loss(self.online.blocks[block], self.target.blocks[block], sample, kind.reducible)
            loss = (terms.loss if sample.weight is None else terms.loss * sample.weight).mean(1)
            self.online.block_gradient(block, loss, self.gradient)
            losses.append(loss.detach())
            means.append(terms.value.mean(1))
            errors.append(terms.td_error.flatten())
            if terms.reducible is not None:
                less.append(terms.reducible.flatten())
            for name, measure in terms.measures.items():
                measures.setdefault(name, []).append(measure)
        for block, more in enumerate(added):
            self.gradient.add(block, more.gradients)
        norm = clip_by_norm(self.gradient.flat, self.config.max_grad_norm)
        self.optimiser.step(self.gradient.flat, np.array(kind.active))
        names = ("loss", "q_mean", "grad_norm", *(["q_added"] if added else []), *measures)
        measured = [measure for of_blocks in measures.values() for measure in of_blocks]
        # one array, so that the GPU is synchronised once
        numbers = torch.cat([*losses, *means, norm, *(more.value for more in added), *measured, *errors, *less])
        return UpdateStatistics(names, numbers)

    def update_added(self, batch: Batch, active: Array, losses: Sequence[Loss]) -> Metrics:
        """Take one step of Adam on the added `losses` (group `q`) alone, clipped like any other; return `q_added`,
        their sum, and `grad_norm`, [S] each. The target network's schedule is not affected."""
        adding.check_groups(losses, self.config.groups)
        self.gradient.flat.zero_()
        added = [self._added(losses, batch, block) for block in range(len(self.online.blocks))]
        for block, more in enumerate(added):
            self.gradient.add(block, more.gradients)
        norm = clip_by_norm(self.gradient.flat, self.config.max_grad_norm)
        self.optimiser.step(self.gradient.flat, active)
        numbers = torch.cat([*(more.value for more in added), norm]).cpu().numpy()
        metrics = dict(zip(("q_added", "grad_norm"), numbers.reshape(2, -1), strict=True))
        adding.warn_of_infinite({"q": metrics["q_added"]}, losses, self.seeds, active)
        return metrics

    def _added(self, losses: Sequence[Loss], batch: Batch, block: int) -> Added:
        """Return what `losses` add for the seeds of one block."""
        rows, views = self.online.blocks[block]
        transitions, networks = (
            adding.of(batch, rows, self.device),
            QNetworks(rows, functools.partial(self.network, views)),
        )
        return adding.added(losses, transitions, networks, {"q": [*views.values()]})["q"]

    def sample(self, batch: Batch, rows: slice) -> Sample:
        """Return a block's share of the batch as tensors."""
        return Sample(
            observation=tensors(batch.observation[rows], self.device),
            action=self._tensor(batch.action[rows].astype(np.int64)).unsqueeze(2),
            reward=self._tensor(batch.reward[rows]).float(),
            continues=self._tensor(self._discount(batch, rows) * ~batch.terminated[rows]),
            next_observation=tensors(batch.next_observation[rows], self.device),
            weight=None if batch.weight is None else self._tensor(batch.weight[rows]).float(),
        )

    def _discount(self, batch: Batch, rows: slice) -> Array:
        """Return the discount of the next observation's value, float32: γ, or γ^m [S, B] after m steps."""
        discount = self.config.discount
        factor = np.asarray(discount) if batch.steps is None else discount ** batch.steps[rows]
        return np.asarray(factor, np.float32)

    def _tensor(self, array: Array) -> Tensor:
        return tensor(array, self.device)

    def reset(self, part: str, active: Array) -> None:
        """Raise UserError: no part of this learner can be reinitialised."""
        raise unknown("part of this learner to be reset:", part, self.config.resets)

    def state(self, row: int) -> State:
        return {
            "parameters": self.online.arrays(row),
            "target": self.target.arrays(row),
            "optimiser": self.optimiser.state(row),
            "renewed": int(self.renewed[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        self.online.load(row, state["parameters"])
        self.target.load(row, state["target"])
        self.optimiser.load_state(row, state["optimiser"])
        self.renewed[row] = state["renewed"]

    def parameters(self, row: int) -> Mapping[str, Array]:
        return self.online.arrays(row)

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Set the network and, to the same, the target network of a seed."""
        self.online.load(row, parameters)
        self.target.load(row, parameters)
