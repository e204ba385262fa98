"""VLM-RB's samplers: a share of each batch is drawn by judged priority, with or without TD boost, the rest
uniformly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guidebench.baselines.sampling import BaseSampler
from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Draw, Metrics, Moment, Span, State, Transition, Update

if TYPE_CHECKING:
    from guidebench.methods.vlm_rb import VlmRb


def prioritised_share(config: VlmRb, step: int, steps: int) -> float:
    """Return λ at environment step `step` of a run of `steps`: linear from 0 to lambda_max, then constant (VLM-RB,
    §3.1)."""
    if config.lambda_max is None:
        return 1.0
    stretch = config.schedule_share * steps
    return config.lambda_max * (min(1.0, step / stretch) if stretch > 0 else 1.0)


class JudgedSampler(BaseSampler):
    """Draws from λ·q^P + (1 − λ)·q^U, q^P ∝ p^α, where p is the judge's 0 or 1 (VLM-RB, equation 2, algorithm 1).

    A transition not yet judged has p = p̄, the mean over all clips judged before it was stored, or 1 before the first.
    If every p of a seed is 0, its batches are uniform. Importance weights are off (VLM-RB, tables 2 and 3).
    """

    def __init__(self, config: VlmRb, rows: int, slots: int, steps: int) -> None:
        """`slots` is the size of the ring, `steps` the length of the whole run."""
        self.config = config
        self.clip_length = config.clip_length
        self._tree = SumTree(rows, slots)
        self._entering: list[tuple[int, int]] = []
        """Changes not yet applied to the tree: (evicted slot, filled slot)."""
        self._entering_priority: list[Array] = []
        self._steps = steps
        self._clips = np.zeros(rows, np.int64)
        self._meaningful = np.zeros(rows, np.int64)
        """Number of clips that scored above the threshold, of the `_clips` judged so far."""
        self._judged = np.zeros((rows, slots), bool)
        self._judged_count = np.zeros(rows, np.int64)
        self._stored = 0
        self.default_priority = np.ones(rows)
        """p̄ of each seed, [S]: the cumulative mean of thresholded scores, one per clip; 1 before the first."""
        self._unjudged_priority = np.ones(rows)
        """p̄^α."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B], the prioritised ones first, without weights.

        Draws floor(λB) samples from q^P, plus one with probability frac(λB).
        """
        tree, live = self.tree, moment.live
        rows, total = tree.rows, tree.total
        base_share, rest = divmod(prioritised_share(self.config, moment.step, self._steps) * count, 1)
        shares = [0] * rows
        mass, uniform = np.empty((rows, count)), np.empty((rows, count), np.int64)
        # Each seed draws the same count of numbers for any shares and priorities, so its stream depends on neither.
        for row, rng in enumerate(moment.rngs):
            extra = rng.random() < rest
            shares[row] = int(base_share) + extra if total[row] > 0 else 0
            rng.random(out=mass[row])
            uniform[row] = rng.integers(live.count, size=count)
        index = live.slots(uniform)
        prioritised = tree.find(mass[:, : max(shares)] * total[:, None])
        for row, share in enumerate(shares):
            index[row, :share] = prioritised[row, :share]
        return Draw(index, None)

    def scored(self, row: int, index: Array, score: float) -> None:
        """Threshold a clip's P(yes), set p of its transitions `index` [m], and include it once in p̄."""
        meaningful = score > self.config.threshold
        self._judge(row, index, float(meaningful))
        self._clips[row] += 1
        self._meaningful[row] += meaningful
        self._set_default(row)
        self._judged_count[row] += len(index) - self._judged[row, index].sum()
        self._judged[row, index] = True

    def _judge(self, row: int, index: Array, score: float) -> None:
        """Set p of these transitions to `score`."""
        self.tree.set_row(row, index, score**self.config.alpha)

    def _set_default(self, row: int) -> None:
        """Set p̄ to the share of clips judged so far that are above the threshold; 1 before the first (algorithm 1)."""
        self.default_priority[row] = self._meaningful[row] / self._clips[row] if self._clips[row] else 1.0
        self._unjudged_priority = self.default_priority**self.config.alpha

    def added(self, index: int, live: Span, transition: Transition) -> None:
        self._entering.append(((live.start - 1) % live.size, index))
        self._entering_priority.append(self._new_priority(index))
        self._stored = live.count

    def _new_priority(self, index: int) -> Array:
        """Return the sampling priority, [S], of the transition that every seed has just stored at slot `index`."""
        return self._unjudged_priority

    @property
    def tree(self) -> SumTree:
        """Sampling priorities of all stored transitions. New transitions are inserted on access, several at once;
        inserting one at every step, with its ancestors, would cost more than drawing the batches."""
        if self._entering:
            slots = np.array(self._entering)
            evicted = slots[:, 0]
            self._judged_count -= self._judged[:, evicted].sum(axis=1)
            self._judged[:, evicted] = False
            index = slots.reshape(1, -1).repeat(self._tree.rows, axis=0)
            priority = np.zeros(index.shape)
            priority[:, 1::2] = np.array(self._entering_priority).T
            self._entering, self._entering_priority = [], []
            self._tree.set(index, priority)
        return self._tree

    def metrics(self, step: int) -> Metrics:
        """Return λ, p̄ and the share of stored transitions that have been judged."""
        share = prioritised_share(self.config, step, self._steps)
        return {
            "replay/lambda": np.full(len(self._clips), share),
            "replay/default_priority": self.default_priority.copy(),
            "replay/judged_share": self._judged_count / max(1, self._stored),
        }

    def state(self, row: int) -> State:
        return {
            "priority": self.tree.leaves(row),
            "judged": self._judged[row].copy(),
            "clips": int(self._clips[row]),
            "meaningful": int(self._meaningful[row]),
            "stored": self._stored,
        }

    def load_state(self, row: int, state: State) -> None:
        self.tree.load_leaves(row, state["priority"])
        self._judged[row] = state["judged"]
        self._judged_count[row] = self._judged[row].sum()
        self._clips[row] = state["clips"]
        self._meaningful[row] = state["meaningful"]
        self._set_default(row)
        self._stored = state["stored"]


class BoostedSampler(JudgedSampler):
    """JudgedSampler with q^P ∝ (p·(|δ| + ε))^α: p is set once, and the product changes with δ (VLM-RB, §3.3)."""

    def __init__(self, config: VlmRb, rows: int, slots: int, steps: int) -> None:
        super().__init__(config, rows, slots, steps)
        self._score = np.zeros((rows, slots), np.float32)
        self._error = np.zeros((rows, slots), np.float32)
        """p and |δ| of each transition."""

    def feedback(self, index: Array, update: Update) -> None:
        """Store the TD errors [S, B]; a value that is not finite is ignored."""
        row = np.arange(self.tree.rows)[:, None]
        error = np.abs(update.td_error).astype(np.float32)
        finite = np.isfinite(error)
        if not finite.all():
            error = np.where(finite, error, self._error[row, index])
        self._error[row, index] = error
        self.tree.set(index, self.priority(self._score[row, index], error))

    def priority(self, score: Array, error: Array) -> Array:
        """Return (p·(|δ| + ε))^α, the priority in the tree."""
        return np.asarray((score * (error.astype(np.float64) + self.config.epsilon)) ** self.config.alpha)

    def _judge(self, row: int, index: Array, score: float) -> None:
        self._score[row, index] = score
        self.tree.set_row(row, index, self.priority(self._score[row, index], self._error[row, index]))

    def _new_priority(self, index: int) -> Array:
        self._score[:, index] = self.default_priority
        self._error[:, index] = self.config.new_error
        return self.priority(self._score[:, index], self._error[:, index])

    def state(self, row: int) -> State:
        return super().state(row) | {"score": self._score[row].copy(), "error": self._error[row].copy()}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self._score[row] = state["score"]
        self._error[row] = state["error"]
