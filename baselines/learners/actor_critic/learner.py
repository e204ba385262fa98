"""What SAC and TD3 do for S seeds: acting, the update around their targets and actor losses, and checkpoints."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines import losses as adding
from guidebench.baselines.learners.actor_critic import ActorCritic
from guidebench.baselines.learners.actor_critic.captured import Captured, Kind, Learn, Told
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.losses import ActorCriticNetworks, Added
from guidebench.baselines.networks import ensemble
from guidebench.baselines.parameters import Adam, Parameters, clip_by_norm
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array, Batch, Build, Difference, Loss, State, Update

REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "min": lambda values: values.amin(1),
    "mean": lambda values: values.mean(1),
    "first": lambda values: values[:, 0],
}
"""How the critics' values [S, N, B] become one, [S, B]."""


class Sample(NamedTuple):
    """A batch of the seeds of one part as tensors, and every random number that its update takes."""

    observation: Tensor  # [S, B, D]
    action: Tensor  # [S, B, A]
    reward: Tensor  # [S, B]
    continues: Tensor  # [S, B], γ(1 − terminated)
    next_observation: Tensor  # [S, B, D]
    weight: Tensor | None  # [S, B]
    chosen: Tensor | None  # int64 [S, M], the target's critics; None for all
    next_noise: Tensor  # [S, B, A], standard normal, of the action in s′
    noise: Tensor | None  # [S, B, A], of the action in s, where the actor is due and draws one


class CriticTerms(NamedTuple):
    """What a batch tells of the critics; only `loss` has a gradient."""

    loss: Tensor  # [S]
    value: Tensor  # [S], mean over members and batch of Q_i(s, a)
    td_error: Tensor  # [S, B]
    reducible: Tensor | None  # [S, B]


class ActorTerms(NamedTuple):
    """What a batch tells of the actor; only `loss` has a gradient."""

    loss: Tensor  # [S]
    log_probability: Tensor | None  # [S], of the actions it drew


class ActorCriticLearner(BaseLearner, ABC):
    """An actor, N critics and their target networks, for S seeds at once."""

    draws_action = False
    """Whether the actor's loss takes noise."""
    delays_targets = False
    """Whether target networks move only after updates that are also the actor's."""

    def __init__(self, config: ActorCritic, build: Build) -> None:
        self.config = config
        self.batch_size = config.batch_size
        self.seeds = build.seeds
        self.device = build.device
        self.observed, self.actions = build.observations.shape[0], build.actions.shape[0]
        self.noise = [streams.noise for streams in build.streams]
        self.initial = [streams.initial for streams in build.streams]
        self.actor_network = config.actor(build.observations, build.actions)
        self.critic_network = config.critic(build.observations, build.actions)
        self.actor = Parameters(self.actor_network.specs(), build.rows, build.device)
        self.critic = Parameters(self.critic_network.specs(), build.rows, build.device, members=config.ensemble)
        for parameters in (self.actor, self.critic):
            parameters.initialise(self.initial)
        self.target = self.critic.empty_like()
        self.target.flat.copy_(self.critic.flat)
        self.gradients = self.actor.empty_like(), self.critic.empty_like()
        self.optimisers = Adam(self.actor, config.actor_lr), Adam(self.critic, config.critic_lr)
        self._step, self._updates = 0, 0
        self._renewals = np.zeros(build.rows, np.int64)
        """[S], updates since each seed's target networks last moved."""
        self._learn: Learn = Captured(self.learn) if build.device.startswith("cuda") else self.learn

    @abstractmethod
    def greedy(self, part: int, observation: Tensor) -> Tensor:
        """Actions [S, B, A] without noise."""

    @abstractmethod
    def explore(self, part: int, observation: Tensor, noise: Tensor) -> Tensor:
        """Actions [S, B, A] that explore by standard normal `noise` [S, B, A]."""

    @abstractmethod
    def next_value(self, part: int, sample: Sample) -> Tensor:
        """What the next observations are worth in the target, [S, B]."""

    @abstractmethod
    def actor_terms(self, part: int, sample: Sample) -> ActorTerms:
        """The actor's loss."""

    @abstractmethod
    def renew_targets(self, active: Array) -> None:
        """Move the active seeds' target networks."""

    def acted(self, part: int, terms: ActorTerms, active: Array) -> dict[str, Tensor]:
        """What follows an update of a part's actor, for its active seeds; what to tell of it, name -> [seeds]."""
        return {}

    def drawn(self, part: int, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [S, B, A] of the policy by standard normal `noise` [S, B, A], and their log-probabilities [S, B]."""
        raise self._deterministic()

    def log_probability(self, part: int, observation: Tensor, action: Tensor) -> Tensor:
        """log π(a|s) of actions [S, B, A], [S, B]."""
        raise self._deterministic()

    def _deterministic(self) -> UserError:
        name = type(self.config).__name__.lower()
        return UserError(f"the policy of {name} is deterministic: a loss has its policy(observation), or learner=sac")

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """float32 [n, A] in [-1, 1] for observations [n, D] of seeds `rows` [n]; by the generators `explore` [S]
        uniformly random up to step `learning_starts` and then by the learner's noise, greedy without."""
        if explore is None:
            return self.actor.evaluate(self.greedy, observation, rows)
        generators = [explore[row] for row in rows.tolist()]
        if step <= self.config.learning_starts:
            return np.stack([generator.uniform(-1, 1, self.actions) for generator in generators]).astype(np.float32)
        noise = np.stack([generator.standard_normal(self.actions, np.float32) for generator in generators])

        def noisy(part: int, seen: Tensor) -> Tensor:
            return self.explore(part, seen[:, :, : self.observed], seen[:, :, self.observed :])

        return self.actor.evaluate(noisy, np.concatenate([observation, noise], 1), rows)

    def value(self, observation: Array, rows: Array) -> Array:
        """mean_i Q_i(s, π(s)) of observations [n, D] of seeds `rows` [n] under greedy actions, float32 [n]."""

        def values(part: int, seen: Tensor) -> Tensor:
            return self.q(self.critic.parts[part].views, seen, self.greedy(part, seen)).mean(1)

        return self.actor.evaluate(values, observation, rows)

    def q(self, critics: Mapping[str, Tensor], observation: Tensor, action: Tensor) -> Tensor:
        """Q_i(s, a) of the critics [S·N, …]: observations [S, B, D], actions [S, B, A] -> [S, N, B]."""
        return ensemble(self.critic_network, critics, torch.cat([observation, action], 2))

    def target_q(self, part: int, sample: Sample, action: Tensor) -> Tensor:
        """The target critics' value of actions [S, B, A] in s′, reduced over the chosen ones, [S, B]."""
        own = self.target.parts[part]
        critics = own.views if sample.chosen is None else self.target.subset(own, sample.chosen)
        return REDUCTIONS[self.config.target_reduction](self.q(critics, sample.next_observation, action))

    def actor_q(self, part: int, sample: Sample, action: Tensor) -> Tensor:
        """The online critics' value of actions [S, B, A] in s, reduced over all, [S, B]."""
        critics: Mapping[str, Tensor] = self.critic.parts[part].views
        if self.config.actor_reduction == "first":
            critics = {name: view[:: self.config.ensemble] for name, view in critics.items()}
        return REDUCTIONS[self.config.actor_reduction](self.q(critics, sample.observation, action))

    def critic_terms(self, part: int, sample: Sample, reducible: Difference | None = None) -> CriticTerms:
        """Σ_i mean of weight · (Q_i(s, a) − y)², y = r + γ(1 − terminated)·`next_value` (VLM-RB, app. E.1).

        The TD error is mean_i Q_i(s, a) − y. The reducible error is |mean_i Q_i − y| − |mean_i Q̄_i − y| [choice], the
        reducible loss Σ_i (Q_i − y)² − Σ_i (Q̄_i − y)².
        """
        with torch.no_grad():
            wanted = sample.reward + sample.continues * self.next_value(part, sample)
        errors = self.q(self.critic.parts[part].views, sample.observation, sample.action) - wanted.unsqueeze(1)
        squares = errors.square()
        if sample.weight is not None:
            squares = squares * sample.weight.unsqueeze(1)
        loss = squares.sum(1).mean(1)
        td_error = errors.detach().mean(1)
        less = None
        if reducible is not None:
            with torch.no_grad():
                former = self.q(self.target.parts[part].views, sample.observation, sample.action)
            if reducible == "error":
                less = td_error.abs() - (former.mean(1) - wanted).abs()
            else:
                less = errors.detach().square().sum(1) - (former - wanted.unsqueeze(1)).square().sum(1)
        return CriticTerms(loss, (td_error + wanted).mean(1), td_error, less)

    def updates_due(self, step: int) -> int:
        return self.config.utd if step >= self.config.learning_starts else 0

    def actor_due(self, step: int) -> bool:
        """Whether the update that begins now, at environment step `step`, is also the actor's.

        On every `policy_frequency`-th step the actor follows the critics' updates k = 1 … `utd` at which
        ⌊k · actor_utd / utd⌋ rises, so that the last is one of them [choice]."""
        config = self.config
        if step != self._step:
            self._step, self._updates = step, 0
        before, self._updates = self._updates % config.utd, self._updates + 1
        rises = (before + 1) * config.actor_utd // config.utd > before * config.actor_utd // config.utd
        return rises and step % config.policy_frequency == 0

    def targets_due(self, acts: bool, active: Array) -> Array:
        """Whether the update of the seeds `active` [S] that begins now, also the actor's or not, moves their target
        networks, bool [S]: every `target_frequency`-th of a seed's updates that may."""
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
        """One step of Adam for the critics, then one for the actor and a move of the target networks where due.

        What `losses` add to (groups `critic` and `actor`) is of the networks before any of this. An update with added
        losses is never captured as a CUDA graph."""
        acts = self.actor_due(step)
        renews = self.targets_due(acts, active)
        told = []
        # part by part from batch to targets, so that on a CPU one seed's networks stay in its cache
        for part, (rows, _) in enumerate(self.actor.parts):
            moving = np.zeros_like(active)
            moving[rows] = active[rows]
            moved = tuple((moving & renews).tolist())
            kind = Kind(part, acts, moved, reducible, batch.weight is not None, tuple(moving.tolist()))
            sample = self.sample(batch, rows, acts)
            if losses:
                told.append(self.learn(sample, kind, self._added(losses, batch, part, acts)))
            else:
                told.append(self._learn(sample, kind))
        names = told[0].names
        found = torch.cat([each.numbers for each in told]).cpu().numpy()
        size = batch.reward.shape[1]
        metrics = {name: found[:, position] for position, name in enumerate(names)}
        if losses:
            groups = [group for group in self.config.groups if f"{group}_added" in metrics]
            adding.told({group: metrics[f"{group}_added"] for group in groups}, losses, self.seeds, active)
        per_transition = found[:, len(names) :]
        return Update(per_transition[:, :size], metrics, per_transition[:, size:] if reducible is not None else None)

    def _added(self, losses: Sequence[Loss], batch: Batch, part: int, acts: bool) -> dict[str, Added]:
        """What `losses` add for the seeds of one part, in an update that is also the actor's or not."""
        rows, critics = self.critic.parts[part]
        networks = ActorCriticNetworks(
            rows,
            functools.partial(self.greedy, part),
            functools.partial(self.drawn, part),
            functools.partial(self.log_probability, part),
            functools.partial(self.q, critics),
        )
        groups = {"critic": [*critics.values()]} | ({"actor": [*self.actor.parts[part].views.values()]} if acts else {})
        return adding.added(losses, adding.tensors(batch, rows, self._tensor), networks, groups)

    def learn(self, sample: Sample, kind: Kind, added: Mapping[str, Added] = MappingProxyType({})) -> Told:
        """All of an update that follows its batch and its random numbers; it waits for no result of a GPU's. `added`:
        what others add to its losses, by group."""
        part, moving = kind.part, np.array(kind.active)
        critics = self.critic_terms(part, sample, kind.reducible)
        norm = self._descend(1, part, critics.loss, moving, added.get("critic"))
        numbers = {"loss": critics.loss.detach(), "q_mean": critics.value, "grad_norm": norm}
        if kind.acts:
            actor = self.actor_terms(part, sample)
            norm = self._descend(0, part, actor.loss, moving, added.get("actor"))
            numbers |= {"actor_loss": actor.loss.detach(), "actor_grad_norm": norm}
            numbers |= self.acted(part, actor, moving)
        numbers |= {f"{group}_added": more.value for group, more in added.items()}
        if any(kind.renews):
            self.renew_targets(np.array(kind.renews))
        errors = [error for error in (critics.td_error, critics.reducible) if error is not None]
        # one array, so that a GPU is waited for once
        return Told(tuple(numbers), torch.cat([torch.stack(list(numbers.values()), 1), *errors], 1))

    def _descend(self, which: int, part: int, loss: Tensor, moving: Array, added: Added | None) -> Tensor:
        """A step of Adam of a part's actor (0) or critics (1), on its loss and what is added to it; its gradients'
        norms before clipping, [seeds]."""
        optimiser, gradient = self.optimisers[which], self.gradients[which]
        rows = optimiser.parameters.part_gradient(part, loss, gradient)
        if added is not None:
            gradient.add(part, added.gradients)
        norm = clip_by_norm(rows, self.config.max_grad_norm)
        optimiser.step(gradient.flat, moving)
        return norm

    def move(self, target: Parameters, online: Parameters, active: Array) -> None:
        """θ̄ ← τθ + (1 − τ)θ̄ of the active seeds (Lillicrap et al. 2016)."""
        if active.all():
            target.flat.lerp_(online.flat, self.config.target_rate)
            return
        for row in np.flatnonzero(active):
            target.flat[row].lerp_(online.flat[row], self.config.target_rate)

    def reset(self, part: str, active: Array) -> None:
        """The critics of seeds `active` [S] begin anew from the seed's own stream, and so do their target networks and
        their optimiser (Lee et al. 2021, algorithm 2)."""
        if part not in self.config.resets:
            raise unknown("part of this learner to be reset:", part, self.config.resets)
        self.critic.initialise(self.initial, active)
        for row in np.flatnonzero(active):
            self.target.flat[row].copy_(self.critic.flat[row])
        self.optimisers[1].reset(active)

    def sample(self, batch: Batch, rows: slice, acts: bool) -> Sample:
        """What a part of the seeds learns from. Each seed's own generator draws the target's critics, the noise in s′
        and, where the actor is due and takes it, the noise in s."""
        config, noise = self.config, self.noise[rows]
        shape = (*batch.reward.shape[1:], self.actions)

        def drawn(draw: Callable[[np.random.Generator], Array]) -> Tensor:
            return self._tensor(np.stack([draw(generator) for generator in noise]))

        def normal(generator: np.random.Generator) -> Array:
            return generator.standard_normal(shape, np.float32)

        def members(generator: np.random.Generator) -> Array:
            return generator.permutation(config.ensemble)[: config.subset]

        return Sample(
            observation=self._tensor(batch.observation[rows]),
            action=self._tensor(batch.action[rows]),
            reward=self._tensor(batch.reward[rows]),
            continues=self._tensor(np.float32(config.discount) * ~batch.terminated[rows]),
            next_observation=self._tensor(batch.next_observation[rows]),
            weight=None if batch.weight is None else self._tensor(batch.weight[rows]),
            chosen=None if config.subset == config.ensemble else drawn(members),
            next_noise=drawn(normal),
            noise=drawn(normal) if acts and self.draws_action else None,
        )

    def _tensor(self, array: Array) -> Tensor:
        # copied even on a CPU: NumPy's memory is aligned by chance, and the last bits of a product may depend on it
        return torch.tensor(array, device=self.device)

    def networks(self) -> dict[str, Parameters]:
        """All that a checkpoint holds of networks, by name."""
        return {"actor": self.actor, "critic": self.critic, "target": self.target}

    def state(self, row: int) -> State:
        return {
            **{name: parameters.arrays(row) for name, parameters in self.networks().items()},
            "actor_optimiser": self.optimisers[0].state(row),
            "critic_optimiser": self.optimisers[1].state(row),
            "renewals": int(self._renewals[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        for name, parameters in self.networks().items():
            parameters.load(row, state[name])
        self.optimisers[0].load_state(row, state["actor_optimiser"])
        self.optimisers[1].load_state(row, state["critic_optimiser"])
        self._renewals[row] = state.get("renewals", 0)  # older checkpoints are of runs that count none

    def parameters(self, row: int) -> Mapping[str, Array]:
        """The actor's and, for `value`, the critics'."""
        return {**self.actor.arrays(row), **self.critic.arrays(row)}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        for own in (self.actor, self.critic):
            own.load(row, {name: array for name, array in parameters.items() if name in own.specs})
