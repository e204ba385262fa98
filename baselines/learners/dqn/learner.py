"""The DQN learner of S seeds: acting, the TD loss, the update, and what a checkpoint holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from baselines.learners.dqn import Dqn
from baselines.parameters import Adam, Parameters, clip_by_norm
from harness.interfaces import Array, Batch, Build, State, Update


class Loss(NamedTuple):
    """loss [S], whose sum over seeds is differentiated; td_error [S, B]; q_mean [S]."""

    loss: Tensor
    td_error: Tensor
    q_mean: Tensor


class DqnLearner:
    """Deep Q-learning (Mnih et al. 2015) with the double target (van Hasselt et al. 2016), for S seeds at once."""

    def __init__(self, config: Dqn, build: Build) -> None:
        assert build.actions.count is not None
        self.config = config
        self.batch_size = config.batch_size
        self.actions = build.actions.count
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
        """Environment step at which each seed's target network was last renewed, [S]."""

    def epsilon(self, step: int) -> float:
        """Probability of a random action at environment step `step`."""
        start, end = self.config.epsilon_start, self.config.epsilon_end
        return start + (end - start) * min(1.0, step / self.annealing)

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """ε-greedy by the generators `explore` [S], greedy without: observations [n, …] of seeds `rows` -> int64 [n].

        Each observation takes one uniform number and one action from its seed's generator, used or not."""
        if explore is None:
            return self._greedy(observation, rows)
        epsilon = self.epsilon(step)
        random, actions = np.empty(len(rows), bool), np.empty(len(rows), np.int64)
        for position, row in enumerate(rows.tolist()):
            random[position] = explore[row].random() < epsilon
            actions[position] = explore[row].integers(self.actions)
        if random.all():
            return actions
        if not random.any():
            return self._greedy(observation, rows)
        actions[~random] = self._greedy(observation[~random], rows[~random])
        return actions

    def _greedy(self, observation: Array, rows: Array) -> Array:
        """Greedy actions, part by part; in a part of several seeds, each is padded to the most observations of one."""
        actions = np.empty(len(rows), np.int64)
        places: list[list[int]] = [[] for _ in range(self.online.rows)]
        for position, row in enumerate(rows.tolist()):
            places[row].append(position)
        for part in self.online.parts:
            own = places[part.rows]
            longest = max(map(len, own))
            if longest == 0:
                continue
            # what pads is any observation; its action is not read
            padded = observation[np.array([index + [0] * (longest - len(index)) for index in own])]
            with torch.no_grad():
                best = self.network(part.views, self._tensor(padded)).argmax(2).cpu().numpy()
            for index, chosen in zip(own, best, strict=True):
                actions[index] = chosen[: len(index)]
        return actions

    def updates_due(self, step: int) -> int:
        due = step >= self.config.learning_starts and step % self.config.train_every == 0
        return self.config.gradient_steps if due else 0

    def update(self, batch: Batch, active: Array, step: int) -> Update:
        self._renew_target(active, step)
        results = [
            self.td_loss(online.views, target.views, _rows_of(batch, online.rows))
            for online, target in zip(self.online.parts, self.target.parts, strict=True)
        ]
        gradient = self.online.gradient([result.loss for result in results], self.gradient)
        norm = clip_by_norm(gradient, self.config.max_grad_norm)
        self.optimiser.step(gradient, active)
        loss, td_error, q_mean = zip(*results, strict=True)
        # one array, so that a GPU is waited for once
        told = torch.cat([*loss, *q_mean, norm, *(error.flatten() for error in td_error)]).detach().cpu().numpy()
        seeds = len(active)
        metrics = dict(zip(("loss", "q_mean", "grad_norm"), told[: 3 * seeds].reshape(3, seeds), strict=True))
        return Update(told[3 * seeds :].reshape(seeds, -1), metrics)

    def td_loss(self, online: Mapping[str, Tensor], target: Mapping[str, Tensor], batch: Batch) -> Loss:
        """Huber loss (κ = 1) of δ = Q(s, a) − y, y = r + γ(1 − terminated)·Q̄(s′, argmax_a′ Q(s′, a′)).

        Q has the parameters `online`, Q̄ `target`; without `double` the argmax is Q̄'s own. Batch fields [S, B, …],
        weights w [S, B] -> loss [S], the mean of w·huber(δ); δ [S, B]; q_mean [S] of Q(s, a) (van Hasselt et al.
        2016, eq. 4; VLM-RB, table 3).
        """
        next_observation = self._tensor(batch.next_observation)
        action = self._tensor(batch.action.astype(np.int64)).unsqueeze(2)
        continues = self._tensor(np.float32(self.config.discount) * ~batch.terminated)
        with torch.no_grad():
            values = self.network(target, next_observation)
            if self.config.double:
                chosen_next = self.network(online, next_observation).argmax(2, keepdim=True)
                best = values.gather(2, chosen_next).squeeze(2)
            else:
                best = values.amax(2)
            wanted = self._tensor(batch.reward).float() + continues * best
        chosen = self.network(online, self._tensor(batch.observation)).gather(2, action).squeeze(2)
        losses = F.huber_loss(chosen, wanted, reduction="none")
        if batch.weight is not None:
            losses = losses * self._tensor(batch.weight).float()
        chosen = chosen.detach()
        return Loss(losses.mean(1), chosen - wanted, chosen.mean(1))

    def _tensor(self, array: Array) -> Tensor:
        # copied even on a CPU: NumPy's memory is aligned by chance, and the last bits of a product may depend on it
        return torch.tensor(array, device=self.device)

    def _renew_target(self, active: Array, step: int) -> None:
        """θ̄ ← τθ + (1 − τ)θ̄ of the seeds for which a multiple of `target_every` has passed since the last time."""
        every = self.config.target_every
        due = active & (step // every > self.renewed // every)
        for row in np.flatnonzero(due):
            self.target.flat[row].lerp_(self.online.flat[row], self.config.target_rate)
        self.renewed[due] = step

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
        self.online.load(row, parameters)


def _rows_of(batch: Batch, rows: slice) -> Batch:
    return batch._replace(
        observation=batch.observation[rows],
        action=batch.action[rows],
        reward=batch.reward[rows],
        next_observation=batch.next_observation[rows],
        terminated=batch.terminated[rows],
        weight=None if batch.weight is None else batch.weight[rows],
    )
