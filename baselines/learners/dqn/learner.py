"""DQN: its update and its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.learners.q_learning.learner import QLearner, Sample, Terms
from guidebench.baselines.parameters import SeedBlock
from guidebench.baselines.tensors import ObservationTensors
from guidebench.harness.interfaces import Array, Batch, Difference, Loss, Update


class DqnLearner(QLearner):
    """Deep Q-learning (Mnih et al. 2015) with the double target (van Hasselt et al. 2016), for S seeds at once.

    In training it acts ε-greedily (`act`, `epsilon`).
    """

    def update(
        self,
        batch: Batch,
        active: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step (Mnih et al. 2015, algorithm 1): update the target network if due, then descend the
        mean over the batch of w·`td_loss`, plus the added `losses` (group `q`), by one step of Adam."""
        self.renew_target(active, step)
        return self.descend(batch, active, reducible, losses)

    def td_loss(
        self, online: SeedBlock, target: SeedBlock, sample: Sample, reducible: Difference | None = None
    ) -> Terms:
        """Return the Huber loss (κ = 1) of δ = Q(s, a) − y, y = r + γ(1 − terminated)·Q̄(s′, argmax_a′ Q(s′, a′)).

        Without `double`, the argmax is that of Q̄ (van Hasselt et al. 2016, eq. 4; VLM-RB, table 3). Maxima at s′ are
        over the actions that may be taken there (`admitted`).
        """
        with torch.no_grad():
            best, highest = self.following(online, target, sample.next_observation)
            td_target = sample.reward + sample.continues * best
        q_values = self.network(online.views, sample.observation)
        chosen = q_values.gather(2, sample.action).squeeze(2)
        loss = F.huber_loss(chosen, td_target, reduction="none")
        chosen = chosen.detach()
        less = None
        if reducible is not None:
            with torch.no_grad():
                former = self.network(target.views, sample.observation).gather(2, sample.action).squeeze(2)
            reachable = sample.reward + sample.continues * highest
            measure = F.l1_loss if reducible == "error" else F.huber_loss
            less = measure(chosen, reachable, reduction="none") - measure(former, reachable, reduction="none")
        return Terms(loss, chosen, chosen - td_target, less, self.measures(q_values.detach(), sample.observation))

    def measures(self, q_values: Tensor, observation: ObservationTensors) -> Mapping[str, Tensor]:
        """Return further metrics of the Q-values [S, B, A] of a batch's observations, name -> mean over the batch [S]:
        none of a policy that is ε-greedy."""
        return {}

    def following(self, online: SeedBlock, target: SeedBlock, observation: ObservationTensors) -> tuple[Tensor, Tensor]:
        """Return two values of the next observations [S, B, …], [S, B] each: the one in y, and the target
        network's own maximum, with which losses are compared."""
        values = self.admitted(self.network(target.views, observation), observation)
        choosing = self.admitted(self.network(online.views, observation), observation) if self.config.double else values
        return values.gather(2, choosing.argmax(2, keepdim=True)).squeeze(2), values.amax(2)
