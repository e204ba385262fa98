"""Guides that add the cosine of a frame and the instruction to the task's reward: of LIV's vectors, of random
projections, or of projections trained while the agent learns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.frame_vectors import FRAME, FrameVectors, about
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.heads.projection import Heads
from guidebench.baselines.tensors import tensor
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Context,
    Learner,
    Metrics,
    Question,
    State,
    Store,
    Transition,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.records.schema import SHAPING, TASK_REWARD
from guidebench.methods.furl import Furl, Liv, LivProj
from guidebench.methods.furl.dialogue import GOAL, INSTRUCTION
from guidebench.methods.furl.losses import agreement, cosine, ranked, ranked_share, ranking, successes
from guidebench.methods.furl.memory import Memory

STREAM = "furl"
"""Name of each seed's random stream from which the losses draw frames."""


class LivGuide(BaseGuide):
    """r = r_task + ρ·cos(x, y): x is the frame's vector, y the instruction's (LIV, as FuRL's baseline).

    The reward is computed when a batch is drawn. Transitions whose vector has not arrived, and all transitions before
    the instruction's vector has arrived, have r_task alone (choice: FuRL waits for its encoder).
    """

    wants_snapshots = True

    def __init__(self, build: Build, config: Liv) -> None:
        self.config, self._device = config, build.device
        self.vectors = FrameVectors(build.rows, config.width, config.every, config.stretch)
        self.columns = (self.vectors.column,)
        self._texts = np.full((build.rows, config.width), np.nan, np.float32)
        """The instruction's vector y of each seed, [S, W]; NaN until it arrives."""
        self._questions_sent = np.zeros(build.rows, bool)
        """Whether each seed's questions about instruction and goal image were sent, bool [S]."""
        self._rewards = np.zeros(build.rows)
        self._shaping, self._task_reward = np.full((2, build.rows), np.nan)
        """Mean |ρ·r| and mean |r_task| of the last batch, [S]; NaN before the first."""

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        for row in np.flatnonzero(~self._questions_sent).tolist():
            self._ask_once(row, ctx)
            self._questions_sent[row] = True
        self.vectors.observed(transition, store, ctx)

    def _ask_once(self, row: int, ctx: Context) -> None:
        """Ask for the vector of the instruction."""
        ctx.ask(about(row, json.dumps(INSTRUCTION)))

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        for question, answer in answers:
            if question.key[0] >= 0:
                self.vectors.answered(question, answer, store)
        for question, answer in answers:  # those that belong to no transition (`about`)
            if question.key[0] < 0 and answer.value is None:
                self._lost(question)
            elif question.key[0] < 0:
                self._store_vector(question, answer.value[0])

    def _lost(self, question: Question) -> None:
        """Raise UserError, because the embedder failed on the instruction or the goal image."""
        which = "instruction" if question.key[0] == -1 else "goal image"
        raise UserError(
            f"the embedder gave no vector of the {which}, which every reward needs; check it with `bench doctor "
            f"embedder=…` and choose another output=…, since this study's record holds the failure"
        )

    def _store_vector(self, question: Question, vector: Array) -> None:
        """Store the vector of the instruction."""
        self._texts[question.row] = vector

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with the reward r_task + ρ·r_VLM, r_VLM being 0 where a vector is missing."""
        vectors = batch.columns[FRAME]
        has_vectors = np.isfinite(vectors[..., 0]) & np.isfinite(self._texts[:, :1])
        cosines = np.where(has_vectors, self.cosines(filled(vectors)), 0.0)
        self._rewards = cosines.sum(1) / np.maximum(has_vectors.sum(1), 1)
        shaping = np.float32(self.config.rho) * cosines.astype(np.float32)
        self._note_share(shaping, batch.reward)
        reward = batch.reward + shaping
        return batch._replace(reward=reward)

    def _note_share(self, shaping: Array, task: Array) -> None:
        """Note the mean absolute values of the shaping ρ·r and of the task's reward over a batch, [S, B] each."""
        self._shaping, self._task_reward = np.abs(shaping).mean(1), np.abs(task).mean(1)

    def cosines(self, vectors: Array) -> Array:
        """Return the cosines r_VLM, [S, B], of frames with these vectors [S, B, W] and each seed's instruction."""
        frames, text = tensor(vectors, "cpu"), tensor(filled(self._texts), "cpu").unsqueeze(1)
        return cosine(frames, text).numpy()

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean r_VLM of the last batch; `guide/shaping` and `guide/task_reward`, its mean
        |ρ·r_VLM| and mean |r_task|; and `guide/failed`, the frames that could not be embedded."""
        return {
            "guide/reward": self._rewards, "guide/failed": self.vectors.failed.astype(np.float64),
            SHAPING: np.asarray(self._shaping, np.float64), TASK_REWARD: np.asarray(self._task_reward, np.float64),
        }  # fmt: skip

    def state(self, row: int) -> State:
        return {
            "vectors": self.vectors.state(row), "text": self._texts[row].copy(),
            "asked": bool(self._questions_sent[row]),
        }  # fmt: skip

    def load_state(self, row: int, state: State) -> None:
        self.vectors.load_state(row, state["vectors"])
        self._texts[row], self._questions_sent[row] = state["text"], state["asked"]


class LivProjGuide(LivGuide):
    """r = r_task + ρ·cos(E_i(x), E_t(y)), with randomly initialised, untrained heads (FuRL's baseline LIV-Proj)."""

    def __init__(self, build: Build, config: LivProj) -> None:
        super().__init__(build, config)
        widths = {"image": config.width, "text": config.width}
        self.heads = Heads(build, widths, config.hidden, config.out, config.learning_rate)

    def cosines(self, vectors: Array) -> Array:
        frames, texts = tensor(vectors, self._device), tensor(filled(self._texts), self._device).unsqueeze(1)
        cosines = self.heads.evaluate(lambda block, rows: self._cosine(block, frames[rows], texts[rows]))
        return cosines.cpu().numpy()

    def _cosine(self, block: int, frames: Tensor, texts: Tensor) -> Tensor:
        """Return the projected cosine of frames [seeds, B, W] and texts [seeds, 1, W], [seeds, B], with gradients."""
        return cosine(self.heads.project(block, "image", frames), self.heads.project(block, "text", texts))

    def state(self, row: int) -> State:
        return {**super().state(row), "heads": self.heads.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.heads.load_state(row, state["heads"])


class FurlGuide(LivProjGuide):
    """Trains the heads while the agent learns (FuRL, released code).

    Each gradient step of the learner is preceded by one of the heads. Before a seed's first success, its loss ranks
    frames by their distance to the goal image; afterwards, it contrasts successes with failures and earlier frames.
    """

    def __init__(self, build: Build, config: Furl) -> None:
        super().__init__(build, config)
        self.config: Furl = config
        self._streams = [streams.named(STREAM) for streams in build.streams]
        self.memory = [Memory(config.kept, config.gap) for _ in range(build.rows)]
        self._goals = np.full((build.rows, config.width), np.nan, np.float32)
        """The goal image's vector of each seed, [S, W]; NaN until it arrives, or if no goal image is used."""
        self._images = [_goal(build, row) for row in range(build.rows)] if config.goal else None
        self._losses, self._agreement, self._ranked = np.full((3, build.rows), np.nan)

    def _ask_once(self, row: int, ctx: Context) -> None:
        """Ask for the vectors of the instruction and of the goal image."""
        super()._ask_once(row, ctx)
        if self._images is not None:
            ctx.ask(about(row, json.dumps(GOAL), self._images[row][None])._replace(key=np.full(1, -2, np.int64)))

    def _store_vector(self, question: Question, vector: Array) -> None:
        (self._texts if question.key[0] == -1 else self._goals)[question.row] = vector

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Record the transition; at the end of an episode, also of a demonstration, sort its frames into those of
        successes and of failures."""
        super().observed(slot, transition, store, ctx)
        ended = transition.terminated | transition.truncated
        for row, memory in enumerate(self.memory):
            memory.add(store.written - 1, bool(transition.success[row]))
            if ended[row]:
                memory.close()

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> int:
        """Take one step of the heads for each gradient step that the learner has due."""
        for _ in range(learner.updates_due(ctx.step, ctx.phase.updates)):
            self._align(store, ctx)
        return 0

    def _align(self, store: Store, ctx: Context) -> None:
        has_text = np.isfinite(self._texts[:, 0])
        aligned = has_text & [memory.succeeded for memory in self.memory]
        unsolved = has_text & ~aligned & np.isfinite(self._goals[:, 0])
        self._losses[:] = self._agreement[:] = self._ranked[:] = np.nan
        if unsolved.any():
            self._rank(store, unsolved)
        if aligned.any():
            self._contrast(store, aligned)

    def _rank(self, store: Store, active: Array) -> None:
        """Take one step on the ranking loss, for the seeds `active` [S]; each draws stored transitions uniformly."""
        offsets = self._drawn(active, [store.live.count] * len(active))
        vectors = store.column(FRAME, store.live.slots(offsets))
        has_vector = torch.from_numpy(np.isfinite(vectors[..., 0])).to(self._device)
        frames, texts = tensor(filled(vectors), self._device), tensor(filled(self._texts), self._device).unsqueeze(1)
        goals = tensor(filled(self._goals), self._device).unsqueeze(1)
        distances = torch.linalg.vector_norm(frames - goals, dim=2)

        def loss(block: int, rows: slice) -> Tensor:
            cosines = self._cosine(block, frames[rows], texts[rows])
            pairs = ranked(distances[rows], has_vector[rows], self.config.l2)
            agreed, share = agreement(cosines.detach(), pairs), ranked_share(pairs, has_vector[rows])
            for metric, shares in ((self._agreement, agreed), (self._ranked, share)):
                metric[rows][active[rows]] = shares.cpu().numpy()[active[rows]]
            losses = ranking(cosines, pairs, has_vector[rows], self.config.margin)
            return self._noted(rows, losses, active)

        self.heads.step(loss, active)

    def _contrast(self, store: Store, active: Array) -> None:
        """Take one step on the losses of successes, for the seeds `active` [S]."""
        memory = self.memory
        draws = self._drawn(active, [max(len(seed_memory.valid), 1) for seed_memory in memory])
        numbers = {
            "positive": np.stack([seed_memory.positive(draw) for seed_memory, draw in zip(memory, draws, strict=True)]),
            "lag": np.stack([seed_memory.lag(draw) for seed_memory, draw in zip(memory, draws, strict=True)]),
        }
        draws = self._drawn(active, [max(len(seed_memory.negatives), 1) for seed_memory in memory])
        numbers["negative"] = np.stack(
            [seed_memory.negative(draw) for seed_memory, draw in zip(memory, draws, strict=True)]
        )
        frames, has_vector = {}, {}
        for kind, chosen in numbers.items():
            is_stored = store.holds(chosen)
            vectors = store.column(FRAME, np.where(is_stored, store.slot(chosen), 0))
            has_vector[kind] = torch.from_numpy(is_stored & np.isfinite(vectors[..., 0])).to(self._device)
            frames[kind] = tensor(filled(vectors), self._device)
        texts = tensor(filled(self._texts), self._device).unsqueeze(1)

        def loss(block: int, rows: slice) -> Tensor:
            cosines = {kind: self._cosine(block, vectors[rows], texts[rows]) for kind, vectors in frames.items()}
            terms = [
                successes(
                    cosines["positive"],
                    cosines[kind],
                    (has_vector["positive"] & has_vector[kind])[rows],
                    self.config.margin,
                )
                for kind in ("negative", "lag")
            ]
            return self._noted(rows, terms[0] + terms[1], active)

        self.heads.step(loss, active)

    def _noted(self, rows: slice, loss: Tensor, active: Array) -> Tensor:
        """Return the loss of a block of seeds unchanged, after storing it for the metrics of the `active` [S] ones."""
        self._losses[rows][active[rows]] = loss.detach().cpu().numpy()[active[rows]]
        return loss

    def _drawn(self, active: Array, counts: Sequence[int]) -> Array:
        """Return uniform draws below `counts` [S] for each seed, int [S, batch_size]; zeros, without a draw, for a seed
        that is not `active` [S]."""
        size = self.config.batch_size
        return np.stack(
            [
                stream.integers(count, size=size) if moving else np.zeros(size, np.int64)
                for stream, count, moving in zip(self._streams, counts, active, strict=True)
            ]
        )

    def metrics(self) -> Metrics:
        """Return the metrics of LIV; `guide/loss`, that of the heads' last step; `guide/agreement`, the share of the
        ranked pairs in it whose cosines are in the order of their distances to the goal image, and `guide/ranked`, the
        share of all pairs that these are, before the first success; and `guide/positives` and `guide/negatives`, the
        numbers of stored frames."""
        frame_counts = {
            "guide/positives": np.array([len(memory.positives) for memory in self.memory], np.float64),
            "guide/negatives": np.array([len(memory.negatives) for memory in self.memory], np.float64),
        }
        step_metrics = {
            "guide/loss": self._losses.copy(), "guide/agreement": self._agreement.copy(),
            "guide/ranked": self._ranked.copy(),
        }  # fmt: skip
        return {**super().metrics(), **step_metrics, **frame_counts}

    def state(self, row: int) -> State:
        return {**super().state(row), "memory": self.memory[row].state(), "goal": self._goals[row].copy()}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.memory[row].load_state(state["memory"])
        self._goals[row] = state["goal"]


def _goal(build: Build, row: int) -> Array:
    """Return the snapshot from which a seed's goal image is drawn; raise UserError if the suite's solver never
    succeeds."""
    suite, seed = build.suite(row), build.seeds[row]
    snapshot: Array | None = suite.goal_snapshot(build.task, seed)
    if snapshot is None:
        raise UserError(
            f"the suite's own solver never succeeds at {build.task!r} on layout {seed}, so there is no goal image; set "
            f"guide.goal=false, or choose another task or seed"
        )
    return snapshot


def filled(vectors: Array) -> Array:
    """Return vectors [..., n] as float32, with 0 in place of NaN, which stands for a vector that has not arrived."""
    numbers: Array = vectors.astype(np.float32)
    if not np.isfinite(numbers.sum()):  # one sum is cheaper than a mask, and few batches have a NaN
        np.nan_to_num(numbers, copy=False)
    return numbers
