"""What serves SAC and TD3, whose algorithms are in `sac/learner.py` and `td3/learner.py`: values and target values,
steps of Adam, when an update is due and what it draws, acting, checkpoints."""

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
from guidebench.baselines.learners.actor_critic import ActorCritic
from guidebench.baselines.learners.actor_critic.captured import Captured, Kind, Learn, UpdateStatistics
from guidebench.baselines.learners.actor_critic.sample import Sample
from guidebench.baselines.learning import BaseLearner
from guidebench.baselines.losses import ActorCriticNetworks, Added
from guidebench.baselines.networks import ensemble
from guidebench.baselines.parameters import Adam, Parameters, clip_by_norm, gradients_of
from guidebench.baselines.tensors import Seen, tensor, tensors
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array, Batch, Build, Difference, Loss, State, Update

OPTIMISERS = ("actor_optimiser", "critic_optimiser", "encoder_optimiser")
ACTOR, CRITICS = slice(0, 1), slice(1, 3)
"""Of the optimisers, those that the actor's loss moves and those that the critics' moves."""
REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "min": lambda values: values.amin(1),
    "mean": lambda values: values.mean(1),
    "first": lambda values: values[:, 0],
}
"""How the critics' values [S, N, B] become one, [S, B]."""


class CriticUpdate(NamedTuple):
    """What an update of the critics tells, without gradient."""

    metrics: dict[str, Tensor]  # name -> [S]
    td_error: Tensor  # [S, B], mean_i Q_i(s, a) − y
    reducible: Tensor | None  # [S, B]


class ActorCriticLearner(BaseLearner, ABC):
    """An actor, N critics and their target networks, for S seeds at once.

    All of them see features [S, B, D], which are the observations themselves where no encoder learns. A learner says in
    `learn` how a gradient step goes. Most methods compute for one part of the seeds, given by its number."""

    draws_action = False
    """Whether the actor's loss takes noise."""
    delays_targets = False
    """Whether target networks move only after updates that are also the actor's."""

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
        """The last step, and how many updates the phase wanted of it."""
        self._renewals = np.zeros(build.rows, np.int64)
        """[S], updates since each seed's target networks last moved."""
        self._learn: Learn = Captured(self.learn) if build.device.startswith("cuda") else self.learn

    @abstractmethod
    def learn(self, sample: Sample, kind: Kind, added: Mapping[str, Added] = MappingProxyType({})) -> UpdateStatistics:
        """One gradient step: all of an update that follows its batch and its random numbers.

        It waits for no result of a GPU's, so that it can be captured. `added`: what others add to its losses, by
        group."""

    @abstractmethod
    def greedy(self, part: int, features: Tensor) -> Tensor:
        """Actions [S, B, A] without noise."""

    @abstractmethod
    def explore(self, part: int, features: Tensor, noise: Tensor) -> Tensor:
        """Actions [S, B, A] that explore by standard normal `noise` [S, B, A]."""

    def targets(self) -> list[tuple[Parameters, Parameters]]:
        """Each target network, and the one that it follows."""
        encoders = [(self.target_encoder, self.encoder)] if self.encodes else []
        return [(self.target, self.critic), *encoders]

    def features(self, part: int, observation: Seen) -> Tensor:
        """What the networks see of observations [S, B, …]: [S, B, D]."""
        return self.encoder_network(self.encoder.parts[part].views, observation)

    def target_features(self, part: int, observation: Seen) -> Tensor:
        """What target networks see of them."""
        return self.encoder_network(self.target_encoder.parts[part].views, observation)

    def drawn(self, part: int, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [S, B, A] of the policy by standard normal `noise` [S, B, A], and their log-probabilities [S, B]."""
        raise self._deterministic()

    def log_probability(self, part: int, features: Tensor, action: Tensor) -> Tensor:
        """log π(a|s) of actions [S, B, A], [S, B]."""
        raise self._deterministic()

    def _deterministic(self) -> UserError:
        name = type(self.config).__name__.lower()
        return UserError(f"the policy of {name} is deterministic: a loss has its policy(observation), or learner=sac")

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """float32 [n, A] in [-1, 1] for observations [n, …] of seeds `rows` [n]; by the generators `explore` [S]
        uniformly random up to step `learning_starts` and then by the learner's noise, greedy without."""
        if explore is None:
            return self.actor.evaluate(self._greedy, observation, rows)
        generators = [explore[row] for row in rows.tolist()]
        if step <= self.config.learning_starts:
            return np.stack([generator.uniform(-1, 1, self.actions) for generator in generators]).astype(np.float32)
        noise = np.stack([generator.standard_normal(self.actions, np.float32) for generator in generators])

        def noisy(part: int, seen: Seen, noise: Tensor) -> Tensor:
            return self.explore(part, self.features(part, seen), noise)

        return self.actor.evaluate(noisy, observation, rows, noise)

    def _greedy(self, part: int, seen: Seen) -> Tensor:
        return self.greedy(part, self.features(part, seen))

    def value(self, observation: Array, rows: Array) -> Array:
        """mean_i Q_i(s, π(s)) of observations [n, …] of seeds `rows` [n] under greedy actions, float32 [n]."""

        def values(part: int, seen: Seen) -> Tensor:
            features = self.features(part, seen)
            return self.q(self.critic.parts[part].views, features, self.greedy(part, features)).mean(1)

        return self.actor.evaluate(values, observation, rows)

    def q(self, critics: Mapping[str, Tensor], features: Tensor, action: Tensor) -> Tensor:
        """Q_i(s, a) of the critics [S·N, …]: features [S, B, D], actions [S, B, A] -> [S, N, B]."""
        return ensemble(self.critic_network, critics, torch.cat([features, action], 2))

    def target_q(self, part: int, sample: Sample, features: Tensor, action: Tensor) -> Tensor:
        """The target critics' value of actions [S, B, A] at target features of s′, reduced over the chosen, [S, B]."""
        own = self.target.parts[part]
        critics = own.views if sample.chosen is None else self.target.subset(own, sample.chosen)
        return REDUCTIONS[self.config.target_reduction](self.q(critics, features, action))

    def actor_q(self, part: int, features: Tensor, action: Tensor) -> Tensor:
        """The online critics' value of actions [S, B, A] at features of s, reduced over all, [S, B]."""
        critics: Mapping[str, Tensor] = self.critic.parts[part].views
        if self.config.actor_reduction == "first":
            critics = {name: view[:: self.config.ensemble] for name, view in critics.items()}
        return REDUCTIONS[self.config.actor_reduction](self.q(critics, features, action))

    def fit_critics(self, sample: Sample, wanted: Tensor, kind: Kind, added: Added | None) -> CriticUpdate:
        """One step of Adam of the critics, and of the encoder, on Σ_i mean of w·(Q_i(s, a) − y)² (VLM-RB, app. E.1).

        `wanted`: y, [S, B]. The reducible error is |mean_i Q_i − y| − |mean_i Q̄_i − y| [choice], the reducible loss
        Σ_i (Q_i − y)² − Σ_i (Q̄_i − y)²."""
        part = kind.part
        features = self.features(part, sample.observation)
        errors = self.q(self.critic.parts[part].views, features, sample.action) - wanted.unsqueeze(1)
        squares = errors.square()
        if sample.weight is not None:
            squares = squares * sample.weight.unsqueeze(1)
        loss = squares.sum(1).mean(1)
        errors = errors.detach()
        td_error = errors.mean(1)
        norms = self._descend(CRITICS, kind, loss, added)
        metrics = {"loss": loss.detach(), "q_mean": (td_error + wanted).mean(1)}
        metrics |= dict(zip(("grad_norm", "encoder_grad_norm"), norms, strict=False))
        less = None
        if kind.reducible is not None:
            with torch.no_grad():
                former_features = self.target_features(part, sample.observation)
                former = self.q(self.target.parts[part].views, former_features, sample.action)
            if kind.reducible == "error":
                less = td_error.abs() - (former.mean(1) - wanted).abs()
            else:
                less = errors.square().sum(1) - (former - wanted.unsqueeze(1)).square().sum(1)
        return CriticUpdate(metrics, td_error, less)

    def fit_actor(self, loss: Tensor, kind: Kind, added: Added | None) -> dict[str, Tensor]:
        """One step of Adam of the actor on its loss [S]; what to tell of it, name -> [S]."""
        (norm,) = self._descend(ACTOR, kind, loss, added)
        return {"actor_loss": loss.detach(), "actor_grad_norm": norm}

    def move_targets(self, kind: Kind) -> None:
        """θ̄ ← τθ + (1 − τ)θ̄ of the seeds whose target networks are due."""
        if any(kind.renews):
            for target, online in self.targets():
                self.move(target, online, np.array(kind.renews))

    @staticmethod
    def told(critics: CriticUpdate, metrics: Mapping[str, Tensor], added: Mapping[str, Added]) -> UpdateStatistics:
        """What a gradient step tells: of its critics, `metrics` of what else it updated, and the added losses."""
        numbers = {**critics.metrics, **metrics, **{f"{group}_added": more.value for group, more in added.items()}}
        errors = [error for error in (critics.td_error, critics.reducible) if error is not None]
        # one array, so that a GPU is waited for once
        return UpdateStatistics(tuple(numbers), torch.cat([torch.stack(list(numbers.values()), 1), *errors], 1))

    def updates_due(self, step: int, asked: int | None = None) -> int:
        self._asked = step, asked
        if asked is not None:
            return asked
        return self.config.utd if step >= self.config.learning_starts else 0

    def actor_due(self, step: int) -> bool:
        """Whether the update that begins now, at environment step `step`, is also the actor's.

        On every `policy_frequency`-th step the actor follows the critics' updates k = 1 … `utd` at which
        ⌊k · actor_utd / utd⌋ rises, so that the last is one of them [choice]. Where the phase says how many updates a
        step takes, k goes on from step to step."""
        config = self.config
        if step != self._step:
            asked = self._asked[1] if self._asked[0] == step else None
            self._step, self._updates = step, (step - 1) * (asked or 0)
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
        """One gradient step, `learn`, of each part of the seeds.

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
        adding.check_groups(losses, self.config.groups)
        rows, critics = self.critic.parts[part]

        def of_actor(compute: Callable[..., Any]) -> Callable[..., Any]:
            """The actor's, which sees features without gradient."""

            def computed(observation: Seen, *given: Tensor) -> Any:
                with torch.no_grad():
                    features = self.features(part, observation)
                return compute(part, features, *given)

            return computed

        networks = ActorCriticNetworks(
            rows,
            of_actor(self.greedy),
            of_actor(self.drawn),
            of_actor(self.log_probability),
            lambda observation, action: self.q(critics, self.features(part, observation), action),
        )
        groups = {"critic": [*critics.values(), *self.encoder.parts[part].views.values()]}
        if acts:
            groups["actor"] = [*self.actor.parts[part].views.values()]
        return adding.added(losses, adding.of(batch, rows, self.device), networks, groups)

    def _descend(self, which: slice, kind: Kind, loss: Tensor, added: Added | None) -> list[Tensor]:
        """A step of Adam of each of a part's networks `which`, on their loss and what is added to it; their gradients'
        norms before clipping, [seeds] each."""
        part, moving = kind.part, np.array(kind.active)
        optimisers, gradients = self.optimisers[which], self.gradients[which]
        networks = [optimiser.parameters for optimiser in optimisers]
        gradients_of(part, loss, *zip(networks, gradients, strict=True))
        further, norms = iter(added.gradients if added is not None else ()), []
        for optimiser, gradient in zip(optimisers, gradients, strict=True):
            if added is not None:
                gradient.add(part, [*itertools.islice(further, len(gradient.specs))])
            norms.append(clip_by_norm(gradient.flat[gradient.parts[part].rows], self.config.max_grad_norm))
            optimiser.step(gradient.flat, moving)
        return norms

    def move(self, target: Parameters, online: Parameters, active: Array) -> None:
        """θ̄ ← τθ + (1 − τ)θ̄ of the active seeds (Lillicrap et al. 2016)."""
        if active.all():
            target.flat.lerp_(online.flat, self.config.target_rate)
            return
        for row in np.flatnonzero(active):
            target.flat[row].lerp_(online.flat[row], self.config.target_rate)

    def reset(self, part: str, active: Array) -> None:
        """The critics of seeds `active` [S] begin anew from the seed's own stream, and so do their target networks and
        their optimiser (Lee et al. 2021, algorithm 2); an encoder stays, since the actor sees by it too [choice]."""
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
        """All that a checkpoint holds of networks, by name."""
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
        self._renewals[row] = state.get("renewals", 0)  # older checkpoints are of runs that count none

    def parameters(self, row: int) -> Mapping[str, Array]:
        """The encoder's, the actor's and, for `value`, the critics'."""
        return {**self.encoder.arrays(row), **self.actor.arrays(row), **self.critic.arrays(row)}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        for own in (self.encoder, self.actor, self.critic):
            own.load(row, {name: array for name, array in parameters.items() if name in own.specs})
