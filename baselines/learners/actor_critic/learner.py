"""Shared by SAC and TD3, whose algorithms are in `sac/learner.py` and `td3/learner.py`: values and target values, steps
of Adam, the schedule and random draws of updates, acting, checkpoints."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines import losses as adding
from guidebench.baselines.captured import Learn, UpdateStatistics, on_gpu
from guidebench.baselines.learners.actor_critic import ActorCritic
from guidebench.baselines.learners.actor_critic.sample import Kind, Sample
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.losses import ActorCriticNetworks, Added
from guidebench.baselines.networks import ensemble
from guidebench.baselines.parameters import Adam, Parameters, clip_by_norm, gradients_of
from guidebench.baselines.tensors import ObservationTensors, tensor, tensors
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array, Batch, Build, Difference, Loss, State, Update

OPTIMISERS = ("actor_optimiser", "critic_optimiser", "encoder_optimiser")
ACTOR, CRITICS = slice(0, 1), slice(1, 3)
"""Slices of the optimisers: those of the actor's loss and those of the critics' loss."""
REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "min": lambda values: values.amin(1),
    "mean": lambda values: values.mean(1),
    "first": lambda values: values[:, 0],
}
"""Reductions of the critics' values [S, N, B] to [S, B]."""

Penalty = Callable[[Tensor, Tensor], tuple[Tensor, Mapping[str, Tensor]]]
"""Features [S, B, D] of s and values [S, N, B] of (s, a) -> a term of the critics' loss [S], and metrics, name ->
[S]."""


class CriticUpdate(NamedTuple):
    """Results of an update of the critics, without gradient."""

    metrics: dict[str, Tensor]  # name -> [S]
    td_error: Tensor  # [S, B], mean_i Q_i(s, a) − y
    reducible: Tensor | None  # [S, B]


class ActorCriticLearner(BaseLearner, ABC):
    """An actor, N critics and their target networks, for S seeds at once.

    All of them read features [S, B, D], which are the observations themselves if no encoder learns. A subclass
    implements one gradient step in `learn`. Most methods compute for one block of seeds, given by its index.
    """

    draws_action = False
    """Whether the actor's loss uses noise."""
    delays_targets = False
    """Whether target networks are updated only together with the actor."""

    def __init__(self, config: ActorCritic, build: Build) -> None:
        self.config = config
        self.batch_size = config.batch_size
        self.seeds = build.seeds
        self.device = build.device
        self.actions = build.actions.shape[0]
        self.noise = [streams.noise for streams in build.streams]
        self.initial = [streams.initial for streams in build.streams]
        reading = config.reading(build.observations)
        self.encoder_network = reading.network()
        self.encodes = reading.learns
        """Whether there is an encoder to train."""
        self.actor_network = config.actor(build.observations, build.actions)
        self.critic_network = config.critic(build.observations, build.actions)
        self.actor = Parameters(self.actor_network.specs(), build.rows, build.device)
        self.critic = Parameters(self.critic_network.specs(), build.rows, build.device, members=config.ensemble)
        self.encoder = Parameters(self.encoder_network.specs(), build.rows, build.device)
        for parameters in (self.encoder, self.actor, self.critic):
            parameters.initialise(self.initial)
        self.target, self.target_encoder = self.critic.empty_like(), self.encoder.empty_like()
        self.target.flat.copy_(self.critic.flat)
        self.target_encoder.flat.copy_(self.encoder.flat)
        self.optimisers = [Adam(self.actor, config.actor_lr), Adam(self.critic, config.critic_lr)]
        if self.encodes:
            self.optimisers.append(Adam(self.encoder, config.critic_lr))
        self.gradients = [optimiser.parameters.empty_like() for optimiser in self.optimisers]
        self._step, self._updates = 0, 0
        self._asked: tuple[int, int | None] = (0, None)
        """The last step, and the number of updates that the run phase sets for it."""
        self._renewals = np.zeros(build.rows, np.int64)
        """[S], updates since each seed's target networks were last updated."""
        self._learn: Learn = on_gpu(self.learn, build.device)

    @abstractmethod
    def learn(self, sample: Sample, kind: Kind, added: Mapping[str, Added] = MappingProxyType({})) -> UpdateStatistics:
        """Take one gradient step: the part of an update after its batch and random numbers are drawn.

        It reads no value from the GPU, so that it can be captured. `added` holds the losses that others add, by group.
        """

    @abstractmethod
    def greedy(self, block: int, features: Tensor) -> Tensor:
        """Return actions [S, B, A] without noise."""

    @abstractmethod
    def explore(self, block: int, features: Tensor, noise: Tensor) -> Tensor:
        """Return exploring actions [S, B, A], given standard normal `noise` [S, B, A]."""

    def targets(self) -> list[tuple[Parameters, Parameters]]:
        """Return each target network with its online network."""
        encoders = [(self.target_encoder, self.encoder)] if self.encodes else []
        return [(self.target, self.critic), *encoders]

    def features(self, block: int, observation: ObservationTensors) -> Tensor:
        """Return the online features [S, B, D] of observations [S, B, …]."""
        return self.encoder_network(self.encoder.blocks[block].views, observation)

    def target_features(self, block: int, observation: ObservationTensors) -> Tensor:
        """Return the target encoder's features [S, B, D] of observations [S, B, …]."""
        return self.encoder_network(self.target_encoder.blocks[block].views, observation)

    def drawn(self, block: int, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions [S, B, A] of the policy, given standard normal `noise` [S, B, A], and their log-probabilities
        [S, B]."""
        raise self._deterministic()

    def log_probability(self, block: int, features: Tensor, action: Tensor) -> Tensor:
        """Return log π(a|s) of actions [S, B, A], [S, B]."""
        raise self._deterministic()

    def _deterministic(self) -> UserError:
        name = type(self.config).__name__.lower()
        return UserError(f"the policy of {name} is deterministic: a loss has its policy(observation), or learner=sac")

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions float32 [n, A] in [-1, 1] for observations [n, …] of the seed rows `rows` [n].

        With the generators `explore` [S], actions are uniformly random up to step `learning_starts` and then carry the
        learner's noise; without, they are greedy.
        """
        if explore is None:
            return self.actor.evaluate(self._greedy, observation, rows)
        generators = [explore[row] for row in rows.tolist()]
        if step <= self.config.learning_starts:
            return np.stack([generator.uniform(-1, 1, self.actions) for generator in generators]).astype(np.float32)
        noise = np.stack([generator.standard_normal(self.actions, np.float32) for generator in generators])

        def noisy(block: int, seen: ObservationTensors, noise: Tensor) -> Tensor:
            return self.explore(block, self.features(block, seen), noise)

        return self.actor.evaluate(noisy, observation, rows, noise)

    def _greedy(self, block: int, seen: ObservationTensors) -> Tensor:
        return self.greedy(block, self.features(block, seen))

    def value(self, observation: Array, rows: Array) -> Array:
        """Return mean_i Q_i(s, π(s)) under greedy actions for observations [n, …] of the seed rows `rows` [n], float32
        [n]."""

        def values(block: int, seen: ObservationTensors) -> Tensor:
            features = self.features(block, seen)
            return self.q(self.critic.blocks[block].views, features, self.greedy(block, features)).mean(1)

        return self.actor.evaluate(values, observation, rows)

    def q(self, critics: Mapping[str, Tensor], features: Tensor, action: Tensor) -> Tensor:
        """Return Q_i(s, a) of the critics [S·N, …]: features [S, B, D], actions [S, B, A] -> [S, N, B]."""
        return ensemble(self.critic_network, critics, torch.cat([features, action], 2))

    def target_q(self, block: int, sample: Sample, features: Tensor, action: Tensor) -> Tensor:
        """Return the target critics' value of actions [S, B, A] at target features of s′, reduced over the chosen
        critics, [S, B]."""
        critics = self.target_critics(block, sample)
        return REDUCTIONS[self.config.target_reduction](self.q(critics, features, action))

    def target_critics(self, block: int, sample: Sample) -> Mapping[str, Tensor]:
        """Return the parameters of the chosen target critics, name -> [S·M, …]."""
        own = self.target.blocks[block]
        return own.views if sample.chosen is None else self.target.subset(own, sample.chosen)

    def actor_q(self, block: int, features: Tensor, action: Tensor) -> Tensor:
        """Return the online critics' value of actions [S, B, A] at features of s, reduced over all critics, [S, B]."""
        critics: Mapping[str, Tensor] = self.critic.blocks[block].views
        if self.config.actor_reduction == "first":
            critics = {name: view[:: self.config.ensemble] for name, view in critics.items()}
        return REDUCTIONS[self.config.actor_reduction](self.q(critics, features, action))

    def fit_critics(
        self, sample: Sample, wanted: Tensor, kind: Kind, added: Added | None, penalty: Penalty | None = None
    ) -> CriticUpdate:
        """Take one step of Adam of the critics and the encoder on Σ_i mean of w·(Q_i(s, a) − y)² (VLM-RB, app. E.1).

        `wanted` is y, [S, B]. A `penalty` is added to the loss. The reducible error is |mean_i Q_i − y| −
        |mean_i Q̄_i − y| [choice], the reducible loss Σ_i (Q_i − y)² − Σ_i (Q̄_i − y)².
        """
        block = kind.block
        features = self.features(block, sample.observation)
        values = self.q(self.critic.blocks[block].views, features, sample.action)
        errors = values - wanted.unsqueeze(1)
        squares = errors.square()
        if sample.weight is not None:
            squares = squares * sample.weight.unsqueeze(1)
        loss = squares.sum(1).mean(1)
        told: Mapping[str, Tensor] = {}
        if penalty is not None:
            further, told = penalty(features, values)
            loss = loss + further
        errors = errors.detach()
        td_error = errors.mean(1)
        norms = self._descend(CRITICS, kind, loss, added)
        metrics = {"loss": loss.detach(), "q_mean": (td_error + wanted).mean(1), **told}
        metrics |= dict(zip(("grad_norm", "encoder_grad_norm"), norms, strict=False))
        less = None
        if kind.reducible is not None:
            with torch.no_grad():
                former_features = self.target_features(block, sample.observation)
                former = self.q(self.target.blocks[block].views, former_features, sample.action)
            if kind.reducible == "error":
                less = td_error.abs() - (former.mean(1) - wanted).abs()
            else:
                less = errors.square().sum(1) - (former - wanted.unsqueeze(1)).square().sum(1)
        return CriticUpdate(metrics, td_error, less)

    def fit_actor(self, loss: Tensor, kind: Kind, added: Added | None) -> dict[str, Tensor]:
        """Take one step of Adam of the actor on its loss [S]; return its metrics, name -> [S]."""
        (norm,) = self._descend(ACTOR, kind, loss, added)
        return {"actor_loss": loss.detach(), "actor_grad_norm": norm}

    def move_targets(self, kind: Kind) -> None:
        """Set θ̄ ← τθ + (1 − τ)θ̄ for the seeds whose target networks are due."""
        if any(kind.renews):
            for target, online in self.targets():
                self.move(target, online, np.array(kind.renews))

    @staticmethod
    def update_statistics(
        critics: CriticUpdate, metrics: Mapping[str, Tensor], added: Mapping[str, Added]
    ) -> UpdateStatistics:
        """Return a gradient step's statistics: those of its critics, `metrics` of its other updates, and the added
        losses."""
        numbers = {**critics.metrics, **metrics, **{f"{group}_added": more.value for group, more in added.items()}}
        errors = [error for error in (critics.td_error, critics.reducible) if error is not None]
        # one array, so that the GPU is synchronised once
        return UpdateStatistics(tuple(numbers), torch.cat([torch.stack(list(numbers.values()), 1), *errors], 1))

    def updates_due(self, step: int, phase_updates: int | None = None) -> int:
        self._asked = step, phase_updates
        if phase_updates is not None:
            return phase_updates
        return self.config.utd if step >= self.config.learning_starts else 0

    def actor_due(self, step: int) -> bool:
        """Return whether the update that begins now, at environment step `step`, includes the actor.

        On every `policy_frequency`-th step the actor is updated after the critic updates k = 1 … `utd` at which ⌊k ·
        actor_utd / utd⌋ increases, so that the last is one of them [choice]. If the run phase sets the number of
        updates per step, k continues across steps.
        """
        config = self.config
        if step != self._step:
            asked = self._asked[1] if self._asked[0] == step else None
            self._step, self._updates = step, (step - 1) * (asked or 0)
        before, self._updates = self._updates % config.utd, self._updates + 1
        rises = (before + 1) * config.actor_utd // config.utd > before * config.actor_utd // config.utd
        return rises and step % config.policy_frequency == 0

    def targets_due(self, acts: bool, active: Array) -> Array:
        """Return whether the update that begins now updates the target networks of each seed, bool [S], given the seeds
        `active` [S] and whether the actor is included: every `target_frequency`-th eligible update of a seed does."""
        if self.delays_targets and not acts:
            return np.zeros_like(active)
        self._renewals[active] = (self._renewals[active] + 1) % self.config.target_frequency
        return np.asarray(active & (self._renewals == 0))

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step, `learn`, of each block of seeds.

        Added `losses` (groups `critic` and `actor`) are computed from the networks before this step. An update with
        added losses is never captured as a CUDA graph.
        """
        acts = self.actor_due(step)
        renews = self.targets_due(acts, active)
        told = []
        # each block is finished before the next, so that on a CPU one seed's networks stay in the cache
        for block, (rows, _) in enumerate(self.actor.blocks):
            moving = np.zeros_like(active)
            moving[rows] = active[rows]
            moved = tuple((moving & renews).tolist())
            kind = Kind(block, acts, moved, reducible, batch.weight is not None, tuple(moving.tolist()))
            sample = self.sample(batch, rows, acts)
            if losses:
                told.append(self.learn(sample, kind, self._added(losses, batch, block, acts)))
            else:
                told.append(self._learn(sample, kind))
        names = told[0].names
        found = torch.cat([each.numbers for each in told]).cpu().numpy()
        size = batch.reward.shape[1]
        metrics = {name: found[:, position] for position, name in enumerate(names)}
        if losses:
            groups = [group for group in self.config.groups if f"{group}_added" in metrics]
            adding.warn_of_infinite({group: metrics[f"{group}_added"] for group in groups}, losses, self.seeds, active)
        per_transition = found[:, len(names) :]
        return Update(per_transition[:, :size], metrics, per_transition[:, size:] if reducible is not None else None)

    def _added(self, losses: Sequence[Loss], batch: Batch, block: int, acts: bool) -> dict[str, Added]:
        """Return what `losses` add for the seeds of one block, in an update with or without the actor."""
        adding.check_groups(losses, self.config.groups)
        rows, critics = self.critic.blocks[block]

        def of_actor(compute: Callable[..., Any]) -> Callable[..., Any]:
            """Wrap a function of the actor, which reads features without gradient."""

            def computed(observation: ObservationTensors, *given: Tensor) -> Any:
                with torch.no_grad():
                    features = self.features(block, observation)
                return compute(block, features, *given)

            return computed

        networks = ActorCriticNetworks(
            rows,
            of_actor(self.greedy),
            of_actor(self.drawn),
            of_actor(self.log_probability),
            lambda observation, action: self.q(critics, self.features(block, observation), action),
        )
        groups = {"critic": [*critics.values(), *self.encoder.blocks[block].views.values()]}
        if acts:
            groups["actor"] = [*self.actor.blocks[block].views.values()]
        return adding.added(losses, adding.of(batch, rows, self.device), networks, groups)

    def _descend(self, which: slice, kind: Kind, loss: Tensor, added: Added | None) -> list[Tensor]:
        """Take a step of Adam of a block's networks `which`, on their loss and its added gradients; return the
        gradients' norms before clipping, [seeds] each."""
        block, moving = kind.block, np.array(kind.active)
        optimisers, gradients = self.optimisers[which], self.gradients[which]
        networks = [optimiser.parameters for optimiser in optimisers]
        gradients_of(block, loss, *zip(networks, gradients, strict=True))
        further, norms = iter(added.gradients if added is not None else ()), []
        for optimiser, gradient in zip(optimisers, gradients, strict=True):
            if added is not None:
                gradient.add(block, [*itertools.islice(further, len(gradient.specs))])
            norms.append(clip_by_norm(gradient.flat[gradient.blocks[block].rows], self.config.max_grad_norm))
            optimiser.step(gradient.flat, moving)
        return norms

    def move(self, target: Parameters, online: Parameters, active: Array) -> None:
        """Set θ̄ ← τθ + (1 − τ)θ̄ for the active seeds (Lillicrap et al. 2016)."""
        if active.all():
            target.flat.lerp_(online.flat, self.config.target_rate)
            return
        for row in np.flatnonzero(active):
            target.flat[row].lerp_(online.flat[row], self.config.target_rate)

    def reset(self, part: str, active: Array) -> None:
        """Reinitialise the critics of the seeds selected by `active` [S] from each seed's own stream, with their target
        networks and optimiser (Lee et al. 2021, algorithm 2). An encoder is kept, since the actor reads its features
        too [choice]."""
        if part not in self.config.resets:
            raise unknown("part of this learner to be reset:", part, self.config.resets)
        self.critic.initialise(self.initial, active)
        for row in np.flatnonzero(active):
            self.target.flat[row].copy_(self.critic.flat[row])
        self.optimisers[1].reset(active)

    def sample(self, batch: Batch, rows: slice, acts: bool) -> Sample:
        """Return a block's share of the batch as tensors. Each seed's own generator draws the target critics, the noise
        in s′ and, if the actor is due and uses it, the noise in s."""
        config, noise = self.config, self.noise[rows]
        shape = (*batch.reward.shape[1:], self.actions)

        def drawn(draw: Callable[[np.random.Generator], Array]) -> Tensor:
            return self._tensor(np.stack([draw(generator) for generator in noise]))

        def normal(generator: np.random.Generator) -> Array:
            return generator.standard_normal(shape, np.float32)

        def members(generator: np.random.Generator) -> Array:
            return generator.permutation(config.ensemble)[: config.subset]

        return Sample(
            observation=tensors(batch.observation[rows], self.device),
            action=self._tensor(batch.action[rows]),
            reward=self._tensor(batch.reward[rows]),
            continues=self._tensor(np.float32(config.discount) * ~batch.terminated[rows]),
            next_observation=tensors(batch.next_observation[rows], self.device),
            weight=None if batch.weight is None else self._tensor(batch.weight[rows]),
            chosen=None if config.subset == config.ensemble else drawn(members),
            next_noise=drawn(normal),
            noise=drawn(normal) if acts and self.draws_action else None,
        )

    def _tensor(self, array: Array) -> Tensor:
        return tensor(array, self.device)

    def networks(self) -> dict[str, Parameters]:
        """Return the networks that a checkpoint holds, by name."""
        encoders = {"encoder": self.encoder, "target_encoder": self.target_encoder} if self.encodes else {}
        return {"actor": self.actor, "critic": self.critic, "target": self.target, **encoders}

    def state(self, row: int) -> State:
        return {
            **{name: parameters.arrays(row) for name, parameters in self.networks().items()},
            **{name: optimiser.state(row) for name, optimiser in zip(OPTIMISERS, self.optimisers, strict=False)},
            "renewals": int(self._renewals[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        for name, parameters in self.networks().items():
            parameters.load(row, state[name])
        for name, optimiser in zip(OPTIMISERS, self.optimisers, strict=False):
            optimiser.load_state(row, state[name])
        self._renewals[row] = state.get("renewals", 0)  # older checkpoints do not have this count

    def parameters(self, row: int) -> Mapping[str, Array]:
        """Return the parameters of the encoder, the actor and, for `value`, the critics."""
        return {**self.encoder.arrays(row), **self.actor.arrays(row), **self.critic.arrays(row)}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Set the networks of a seed, and each target network to its online network."""
        for own in (self.encoder, self.actor, self.critic):
            own.load(row, {name: array for name, array in parameters.items() if name in own.specs})
        for target, online in self.targets():
            target.load(row, online.arrays(row))
