"""Guides that add the cosine of a frame and the instruction to the task's reward: of LIV's vectors, of random
projections, or of projections trained while the agent learns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.frame_vectors import FRAME, FrameVectors, about, pieces
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
    Response,
    State,
    Store,
    Transition,
)
from guidebench.methods.furl import Furl, Liv, LivProj
from guidebench.methods.furl.dialogue import GOAL, INSTRUCTION
from guidebench.methods.furl.losses import agreement, cosine, ranking, successes
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
        self._asked = np.zeros(build.rows, bool)
        """Whether each seed's questions about instruction and goal image were sent, bool [S]."""
        self._rewards = np.zeros(build.rows)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        for row in np.flatnonzero(~self._asked).tolist():
            self._ask_once(row, ctx)
            self._asked[row] = True
        self.vectors.observed(transition, store, ctx)

    def _ask_once(self, row: int, ctx: Context) -> None:
        """Ask for the vector of the instruction."""
        ctx.ask(about(row, json.dumps(INSTRUCTION)))

    def answered(self, answers: Sequence[Response], store: Store, ctx: Context) -> None:
        frames, others = pieces(answers)
        for answer in frames:
            self.vectors.answered(answer, store)
        for answer in others:
            if answer.value is None:
                self._lost(answer)
            else:
                self._told(answer)

    def _lost(self, answer: Response) -> None:
        """Raise UserError, because the embedder failed on the instruction or the goal image."""
        which = "instruction" if answer.key[0] == -1 else "goal image"
        raise UserError(
            f"the embedder gave no vector of the {which}, which every reward needs; check it with `bench doctor "
            f"embedder=…` and choose another output=…, since this study's record holds the failure"
        )

    def _told(self, answer: Response) -> None:
        """Keep the vector of the instruction."""
        self._texts[answer.row] = answer.value[0]

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with r_task + ρ·r_VLM."""
        vectors = batch.columns[FRAME]
        there = np.isfinite(vectors[..., 0]) & np.isfinite(self._texts[:, :1])
        found = np.where(there, self.cosines(filled(vectors)), 0.0)
        self._rewards = found.sum(1) / np.maximum(there.sum(1), 1)
        reward = batch.reward + np.float32(self.config.rho) * found.astype(np.float32)
        return batch._replace(reward=reward)

    def cosines(self, vectors: Array) -> Array:
        """Return r_VLM of frames' vectors [S, B, W], [S, B]."""
        frames, text = tensor(vectors, "cpu"), tensor(filled(self._texts), "cpu").unsqueeze(1)
        return cosine(frames, text).numpy()

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean r_VLM of the last batch, and `guide/failed`, the frames that could not be
        embedded."""
        return {"guide/reward": self._rewards, "guide/failed": self.vectors.failed.astype(np.float64)}

    def state(self, row: int) -> State:
        return {
            "vectors": self.vectors.state(row), "text": self._texts[row].copy(), "asked": bool(self._asked[row]),
        }  # fmt: skip

    def load_state(self, row: int, state: State) -> None:
        self.vectors.load_state(row, state["vectors"])
        self._texts[row], self._asked[row] = state["text"], state["asked"]


class LivProjGuide(LivGuide):
    """r = r_task + ρ·cos(E_i(x), E_t(y)), with randomly initialised, untrained heads (FuRL's baseline LIV-Proj)."""

    def __init__(self, build: Build, config: LivProj) -> None:
        super().__init__(build, config)
        widths = {"image": config.width, "text": config.width}
        self.heads = Heads(build, widths, config.hidden, config.out, config.learning_rate)

    def cosines(self, vectors: Array) -> Array:
        frames, texts = tensor(vectors, self._device), tensor(filled(self._texts), self._device).unsqueeze(1)
        found = self.heads.evaluate(lambda block, rows: self._cosine(block, frames[rows], texts[rows]))
        return found.cpu().numpy()

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
        self._losses, self._agreement = np.full((2, build.rows), np.nan)

    def _ask_once(self, row: int, ctx: Context) -> None:
        """Ask for the vectors of the instruction and of the goal image."""
        super()._ask_once(row, ctx)
        if self._images is not None:
            ctx.ask(about(row, json.dumps(GOAL), self._images[row][None])._replace(key=np.full(1, -2, np.int64)))

    def _told(self, answer: Response) -> None:
        (self._texts if answer.key[0] == -1 else self._goals)[answer.row] = answer.value[0]

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Keep the transition in mind; at the end of an episode, a demonstration included, sort its frames into those
        of a success and those of a failure."""
        super().observed(slot, transition, store, ctx)
        ended = transition.terminated | transition.truncated
        for row, memory in enumerate(self.memory):
            memory.add(store.written - 1, bool(transition.success[row]))
            if ended[row]:
                memory.close()

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> int:
        """Take as many steps of the heads as the learner has gradient steps due."""
        for _ in range(learner.updates_due(ctx.step, ctx.phase.updates)):
            self._align(store, ctx)
        return 0

    def _align(self, store: Store, ctx: Context) -> None:
        known = np.isfinite(self._texts[:, 0])
        aligned = known & [memory.succeeded for memory in self.memory]
        ranked = known & ~aligned & np.isfinite(self._goals[:, 0])
        self._losses[:] = self._agreement[:] = np.nan
        if ranked.any():
            self._rank(store, ranked)
        if aligned.any():
            self._contrast(store, aligned)

    def _rank(self, store: Store, active: Array) -> None:
        """Take one step on the ranking loss, for the seeds `active` [S]; each draws stored transitions uniformly."""
        offsets = self._drawn(active, [store.live.count] * len(active))
        vectors = store.column(FRAME, store.live.slots(offsets))
        there = torch.from_numpy(np.isfinite(vectors[..., 0])).to(self._device)
        frames, texts = tensor(filled(vectors), self._device), tensor(filled(self._texts), self._device).unsqueeze(1)
        goals = tensor(filled(self._goals), self._device).unsqueeze(1)
        distances = torch.linalg.vector_norm(frames - goals, dim=2)

        def loss(block: int, rows: slice) -> Tensor:
            cosines = self._cosine(block, frames[rows], texts[rows])
            agreed = agreement(cosines.detach(), distances[rows], there[rows], self.config.l2)
            self._agreement[rows][active[rows]] = agreed.cpu().numpy()[active[rows]]
            found = ranking(cosines, distances[rows], there[rows], self.config.margin, self.config.l2)
            return self._noted(rows, found, active)

        self.heads.step(loss, active)

    def _contrast(self, store: Store, active: Array) -> None:
        """Take one step on the losses of successes, for the seeds `active` [S]."""
        memory = self.memory
        drawn = self._drawn(active, [max(len(each.valid), 1) for each in memory])
        numbers = {
            "positive": np.stack([each.positive(draw) for each, draw in zip(memory, drawn, strict=True)]),
            "lag": np.stack([each.lag(draw) for each, draw in zip(memory, drawn, strict=True)]),
        }
        drawn = self._drawn(active, [max(len(each.negatives), 1) for each in memory])
        numbers["negative"] = np.stack([each.negative(draw) for each, draw in zip(memory, drawn, strict=True)])
        frames, there = {}, {}
        for kind, chosen in numbers.items():
            held = store.holds(chosen)
            vectors = store.column(FRAME, np.where(held, store.slot(chosen), 0))
            there[kind] = torch.from_numpy(held & np.isfinite(vectors[..., 0])).to(self._device)
            frames[kind] = tensor(filled(vectors), self._device)
        texts = tensor(filled(self._texts), self._device).unsqueeze(1)

        def loss(block: int, rows: slice) -> Tensor:
            cosines = {kind: self._cosine(block, each[rows], texts[rows]) for kind, each in frames.items()}
            terms = [
                successes(
                    cosines["positive"], cosines[kind], (there["positive"] & there[kind])[rows], self.config.margin
                )
                for kind in ("negative", "lag")
            ]
            return self._noted(rows, terms[0] + terms[1], active)

        self.heads.step(loss, active)

    def _noted(self, rows: slice, loss: Tensor, active: Array) -> Tensor:
        """Return the loss of some seed rows, after it is kept for the metrics of those that are `active` [S]."""
        self._losses[rows][active[rows]] = loss.detach().cpu().numpy()[active[rows]]
        return loss

    def _drawn(self, active: Array, counts: Sequence[int]) -> Array:
        """Return draws below `counts` [S] for each seed, int [S, batch]; a seed that is not active draws none."""
        size = self.config.batch_size
        return np.stack(
            [
                stream.integers(count, size=size) if moving else np.zeros(size, np.int64)
                for stream, count, moving in zip(self._streams, counts, active, strict=True)
            ]
        )

    def metrics(self) -> Metrics:
        """Return the metrics of LIV; `guide/loss`, that of the heads' last step; `guide/agreement`, the share of the
        pairs in it whose cosines are in the order of their distances to the goal image, before the first success; and
        `guide/positives` and `guide/negatives`, the numbers of frames kept."""
        kept = {
            "guide/positives": np.array([len(memory.positives) for memory in self.memory], np.float64),
            "guide/negatives": np.array([len(memory.negatives) for memory in self.memory], np.float64),
        }
        of_step = {"guide/loss": self._losses.copy(), "guide/agreement": self._agreement.copy()}
        return {**super().metrics(), **of_step, **kept}

    def state(self, row: int) -> State:
        return {**super().state(row), "memory": self.memory[row].state(), "goal": self._goals[row].copy()}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.memory[row].load_state(state["memory"])
        self._goals[row] = state["goal"]


def _goal(build: Build, row: int) -> Array:
    """Return the snapshot of a seed's goal image; raise UserError if the suite's solver never succeeds."""
    suite, seed = build.suite(row), build.seeds[row]
    found: Array | None = suite.goal_snapshot(build.task, seed)
    if found is None:
        raise UserError(
            f"the suite's own solver never succeeds at {build.task!r} on layout {seed}, so there is no goal image; set "
            f"guide.goal=false, or choose another task or seed"
        )
    return found


def filled(vectors: Array) -> Array:
    """Return vectors [..., n], or numbers, as float32, with 0 for what has not arrived, which is NaN."""
    found: Array = vectors.astype(np.float32)
    if not np.isfinite(found.sum()):  # cheaper than looking at every number, and few batches lack one
        np.nan_to_num(found, copy=False)
    return found
