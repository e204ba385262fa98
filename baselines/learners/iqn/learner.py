"""IQN: its update and the loss that it descends; the network of quantiles is in `network.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.learners.iqn.network import QuantileNetwork
from guidebench.baselines.learners.q_learning.learner import QLearner, Sample, Terms
from guidebench.baselines.parameters import SeedBlock
from guidebench.harness.interfaces import Array, Batch, Build, Difference, Loss, Update


class IqnLearner(QLearner):
    """Implicit quantile networks (Dabney et al. 2018) with the double target, for S seeds at once."""

    config: Iqn
    network: QuantileNetwork

    def __init__(self, config: Iqn, build: Build) -> None:
        super().__init__(config, build)
        self.noise = [streams.noise for streams in build.streams]

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step (Dabney et al. 2018, §3): update the target network if due, then descend the mean
        over the batch of w·`td_loss`, and what `losses` add to it (group `q`), by one step of Adam."""
        self.renew_target(active, step)
        return self.descend(batch, active, reducible, losses)

    def td_loss(
        self, online: SeedBlock, target: SeedBlock, sample: Sample, reducible: Difference | None = None
    ) -> Terms:
        """Return the quantile Huber loss of Z_τi(s, a) towards y_j = r + γ(1 − terminated)·Z̄_τ'j(s′, a*).

        a* has the highest Q(s′, ·) of the online network, or of the target network without `double`, among the actions
        that may be taken at s′ (`admitted`). TD errors are differences of means over the drawn quantiles:
        mean_i Z_τi(s, a) − mean_j y_j [choice]. The same holds for `reducible`, with Q̄(s, a) at the same τ as Q(s, a),
        and Q̄(s′, ·) at the same τ' as y (Dabney et al. 2018, eqs. 2 and 3; VLM-RB, app. E). Reducible losses are
        quantile Huber losses of Z and Z̄ towards the target built with Z̄'s own best action.
        """
        config, network = self.config, self.network
        drawn, drawn_next = sample.more["fractions"], sample.more["next_fractions"]
        choosing = online if config.double else target
        with torch.no_grad():
            best = self.admitted(network(choosing.views, sample.next_observation), sample.next_observation)
            best = best.argmax(2, keepdim=True)
            following = network.quantiles(target.views, sample.next_observation, drawn_next)
            td_target = sample.reward.unsqueeze(2) + sample.continues.unsqueeze(2) * taken(following, best)
        quantiles = taken(network.quantiles(online.views, sample.observation, drawn), sample.action)
        loss = quantile_huber(quantiles, td_target, drawn, config.kappa)
        value = quantiles.detach().mean(2)
        less = None
        if reducible is not None:
            with torch.no_grad():
                former = taken(network.quantiles(target.views, sample.observation, drawn), sample.action)
            if reducible == "error":
                means = self.admitted(following.mean(2), sample.next_observation)
                highest = sample.reward + sample.continues * means.amax(2)
                less = (value - highest).abs() - (former.mean(2) - highest).abs()
            else:
                means = self.admitted(following.mean(2), sample.next_observation)
                most = taken(following, means.argmax(2, keepdim=True))
                towards = sample.reward.unsqueeze(2) + sample.continues.unsqueeze(2) * most
                now, before = (quantile_huber(z, towards, drawn, config.kappa) for z in (quantiles.detach(), former))
                less = now - before
        return Terms(loss, value, value - td_target.mean(2), less)

    def sample(self, batch: Batch, rows: slice) -> Sample:
        """Return a block's share of the batch as tensors, with the fractions τ and τ' of its update."""
        config, size = self.config, batch.reward.shape[1]
        fractions = self.fractions(rows, size, config.train_quantiles)
        next_fractions = self.fractions(rows, size, config.target_quantiles)
        return super().sample(batch, rows)._replace(more={"fractions": fractions, "next_fractions": next_fractions})

    def fractions(self, rows: slice, size: int, count: int) -> Tensor:
        """Return τ uniform in [0, 1) for `size` transitions of the seed rows `rows`, [S, size, count], from each seed's
        generator."""
        return self._tensor(np.stack([noise.random((size, count), np.float32) for noise in self.noise[rows]]))


def taken(quantiles: Tensor, action: Tensor) -> Tensor:
    """Return the quantiles [S, B, N] of one action [S, B, 1] per transition, from quantiles [S, B, N, A]."""
    index = action.unsqueeze(3).expand(*quantiles.shape[:3], 1)
    return quantiles.gather(3, index).squeeze(3)


def quantile_huber(quantiles: Tensor, targets: Tensor, fractions: Tensor, kappa: float) -> Tensor:
    """Return Σ_i mean_j |τ_i − 1{δ_ij < 0}|·L_κ(δ_ij)/κ with δ_ij = target_j − quantile_i, and Huber's loss L_κ.

    Quantiles and fractions τ [S, B, N], targets [S, B, N'] -> [S, B] (Dabney et al. 2018, eq. 3).
    """
    delta = targets.unsqueeze(2) - quantiles.unsqueeze(3)
    huber = F.huber_loss(delta, torch.zeros_like(delta), reduction="none", delta=kappa) / kappa
    slope = (fractions.unsqueeze(3) - (delta.detach() < 0).float()).abs()
    return (slope * huber).mean(3).sum(2)
