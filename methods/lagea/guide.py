"""LaGEA's guide: a reward from potentials of goal and feedback, in a space that is aligned while the agent learns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.frame_vectors import FRAME, about
from guidebench.baselines.heads.projection import Heads
from guidebench.baselines.tensors import tensor
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Context,
    Episode,
    Metrics,
    Question,
    State,
    Store,
    Transition,
)
from guidebench.harness.logs import packed
from guidebench.harness.models.calls import Answer
from guidebench.methods.furl.guide import FurlGuide, filled
from guidebench.methods.lagea import LOGGED_POINTS, TRACED, WEIGHT, Lagea, keyframes
from guidebench.methods.lagea.aligner import Aligner, AlignmentBatch, FeedbackVectors, rivals
from guidebench.methods.lagea.episodes import Episodes, Recording
from guidebench.methods.lagea.losses import unit
from guidebench.methods.lagea.shaping import Points, Strength, Terms, TransitionFacts, fuse

OPENING = "opening"
"""Content of the question about the first frame of an episode."""
BEFORE = -3
"""Key of the question about the first frame of the episode whose first transition is 0; -4 for transition 1, etc. Keys
-1 and -2 are the instruction's and the goal image's."""


class Feedback(NamedTuple):
    """The feedback on the episodes of S × B transitions, each vector once, so that it is projected once."""

    vectors: Array
    """Vectors of the episodes of each seed, [S, E, F], E of the seed with most episodes; NaN where there is none."""
    places: Array
    """Place in `vectors` of each transition's episode, int64 [S, B]."""
    counts: Array
    """Number of episodes of each seed, [S]."""

    @property
    def present(self) -> Array:
        """Whether each transition's episode has feedback, bool [S, B]."""
        return np.take_along_axis(np.isfinite(self.vectors[..., 0]), self.places, 1)

    def tensors(self, device: str) -> FeedbackVectors:
        """Return them as tensors, with 0 in place of missing vectors."""
        return FeedbackVectors(
            tensor(filled(self.vectors), device), torch.from_numpy(self.places).to(device), self.counts
        )


class Frames(NamedTuple):
    """The inputs of the reward of S × B transitions, as tensors; missing vectors are 0."""

    before: Tensor
    """Vectors of the frames before the transitions, [S, B, W]."""
    after: Tensor
    """Vectors of the frames after the transitions, [S, B, W]."""
    feedback: FeedbackVectors
    """The feedback on the transitions' episodes."""
    facts: TransitionFacts


class LageaGuide(FurlGuide):
    """r = r_task + ρ̂·r̃, with heads that FuRL's losses and LaGEA's alignment train (LaGEA, algorithm 1).

    When an episode ends and its frames are embedded, its key frames and weights are computed and a model writes
    feedback, whose vector then belongs to all of its transitions. Before it arrives, and in an episode without usable
    feedback, α = 0: r̃ is r^goal alone (choice). A transition without the vectors of both frames has r_task alone.
    """

    def __init__(self, build: Build, config: Lagea) -> None:
        super().__init__(build, config)
        self.config: Lagea = config
        widths = {"image": config.width, "text": config.width, "feedback": config.text_width}
        self.heads = Heads(build, widths, config.hidden, config.out, config.learning_rate)
        self.columns = (*self.columns, WEIGHT)
        self.episodes = [Episodes(config.width, config.text_width) for _ in range(build.rows)]
        self.wants_measures = getattr(build.parts.get("feedback"), "backend", "") == "oracle"
        self._open: list[Recording | None] = [None] * build.rows
        self._waiting: list[list[Recording]] = [[] for _ in range(build.rows)]
        """Ended episodes whose frames are not all embedded, oldest first."""
        self._awaiting_feedback: list[list[Recording]] = [[] for _ in range(build.rows)]
        """Episodes whose feedback has been asked for, oldest first, without snapshots."""
        self._openings: list[Array] = [np.zeros(0, np.uint8)] * build.rows
        """Snapshot of the first state of each seed's newest episode."""
        self._history: list[list[dict[str, str]]] = [[] for _ in range(build.rows)]
        self._count = np.zeros(build.rows, np.int64)
        """Number of episodes begun, [S]."""
        self._updates = 0
        """Number of the learner's gradient steps that the heads preceded, for `align_every`."""
        self.strength = Strength(config, build.rows)
        self.aligner = Aligner(config, self.heads, build.rows)
        self._empty = np.zeros(build.rows, np.int64)
        self._shaping_metrics: dict[str, Array] = {name: np.full(build.rows, np.nan) for name in SHAPING_METRICS}
        self._store: Store | None = None

    # Episodes, and the questions about them

    def begun(self, rows: Array, store: Store, ctx: Context) -> None:
        """Begin to record the new episodes of these seeds, and ask for the vectors of their first frames."""
        for row in rows.tolist():
            opening, first, episodes = ctx.snapshot(row), store.written, self.episodes[row]
            episodes.open(first, store.written - store.live.count)
            earlier, self._openings[row] = self._openings[row], opening
            if np.array_equal(earlier, opening) and np.isfinite(episodes.openings[-2:, 0])[0]:
                episodes.openings[-1] = episodes.openings[-2]
            else:
                question = about(row, json.dumps(OPENING), opening[None])
                ctx.ask(question._replace(key=np.full(1, BEFORE - first, np.int64)))
            self._open[row] = Recording(int(self._count[row]), first, opening)
            self._count[row] += 1

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        self._store = store
        super().observed(slot, transition, store, ctx)
        assert transition.snapshot is not None, "snapshots were wanted"
        for row, recording in enumerate(self._open):
            if recording is not None:
                measures = None if transition.measures is None else transition.measures[row].copy()
                recording.step(transition.snapshot[row], bool(transition.success[row]), measures)

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        super().ended(episodes, store, ctx)
        for episode in episodes:
            recording, self._open[episode.row] = self._open[episode.row], None
            if recording is not None:
                self._waiting[episode.row].append(recording)
                self.strength.episode(episode.row, any(recording.successes))

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        role = answers[0][0].to
        if role == "feedback":
            for question, answer in answers:
                self._reflected(question, answer.value, ctx)
        elif role == "text_embedder":
            for question, answer in answers:
                self._embedded(question, answer.value, store, ctx)
        else:
            super().answered(answers, store, ctx)
            for question, _ in answers:
                waiting = self._waiting[question.row]
                while waiting and waiting[0].last <= question.key[-1]:
                    self._close(question.row, waiting.pop(0), store, ctx)

    def _lost(self, question: Question) -> None:
        """Count an episode's first frame that could not be embedded; for the instruction and the goal image, raise."""
        if question.key[0] > BEFORE:
            super()._lost(question)
        self.vectors.failed[question.row] += 1

    def _store_vector(self, question: Question, vector: Array) -> None:
        if question.key[0] > BEFORE:
            super()._store_vector(question, vector)
        elif (place := self.episodes[question.row].place(int(BEFORE - question.key[0]))) is not None:
            self.episodes[question.row].openings[place] = vector

    def _close(self, row: int, recording: Recording, store: Store, ctx: Context) -> None:
        """Compute key frames and weights of an episode whose frames are embedded, and ask for feedback on it."""
        numbers = np.arange(recording.first, recording.last + 1)
        place = self.episodes[row].place(recording.first)
        if place is None or not store.holds(numbers).all():  # only if answers are late: `fits` refuses small stores
            self._empty[row] += 1
            return
        opening = self.episodes[row].openings[place]
        vectors = np.concatenate([opening[None], store.read(FRAME, row, store.slot(numbers)).astype(np.float32)])
        similarity = self._similarity(row, vectors)
        chosen_keyframes = self._keyframes(similarity)
        weights = self._weights(chosen_keyframes, len(similarity)).astype(np.float32)
        store.apply(WEIGHT.name, row, numbers, weights[1:])
        self.episodes[row].weights[place] = weights[0]
        preferred = chosen_keyframes if self.config.shown == "keyframes" else chosen_keyframes[:0]
        prompt_frames = keyframes.prompt_frames(preferred, len(similarity), self.config.frames)
        self._note_keyframes(row, recording, chosen_keyframes, weights, similarity, ctx)
        content = {
            "history": self._history[row], "frames": prompt_frames.tolist(), "steps": recording.length,
            "succeeded": any(recording.successes), "structured": self.config.structured,
            "embedded": self.config.embedded,
        }  # fmt: skip
        ctx.ask(
            Question(
                row, np.array([recording.first], np.int64), np.stack([recording.snapshots[at] for at in prompt_frames]),
                np.zeros((1, 0), bool), json.dumps(content), "feedback",
                measures=np.stack(recording.measures) if recording.measures else None,
            )
        )  # fmt: skip
        recording.snapshots, recording.measures = [], []
        self._awaiting_feedback[row].append(recording)

    def _similarity(self, row: int, vectors: Array) -> Array:
        """Return the similarity s_t of an episode's frames, with vectors [n, W], to the goal image, [n]: the cosine
        after projection (algorithm 1), or the dot product of the raw vectors (released code). Values of frames without
        a vector are interpolated."""
        is_embedded = np.isfinite(vectors[:, 0])
        goal = self._goals[row]
        if not is_embedded.any() or not np.isfinite(goal[0]):
            return np.zeros(len(vectors))
        if self.config.similarity == "raw":
            similarity = vectors[is_embedded] @ goal
        else:
            both = torch.from_numpy(np.concatenate([vectors[is_embedded], goal[None]])).to(self._device)
            projected = unit(self.heads.of_row(row, "image", both))
            similarity = (projected[:-1] @ projected[-1]).cpu().numpy()
        return np.asarray(np.interp(np.arange(len(vectors)), np.flatnonzero(is_embedded), similarity))

    def _keyframes(self, similarity: Array) -> Array:
        """Return the key frames of an episode, increasing int64, given the similarity of its frames [n]; none with
        `keyframes=none`."""
        config = self.config
        if config.keyframes == "none":
            return np.zeros(0, np.int64)
        choose = keyframes.SELECTORS[config.keyframes]
        return choose(similarity, config.saliency, config.most_keyframes, config.spacing)

    def _weights(self, chosen_keyframes: Array, count: int) -> Array:
        """Return the weights ŵ of an episode's frames, [count]; all 1 without key frames."""
        if not len(chosen_keyframes):
            return np.ones(count)
        return keyframes.weights(chosen_keyframes, count, self.config.window, self.config.floor)

    def _reflected(self, question: Question, reflection: Any, ctx: Context) -> None:
        """Log the model's feedback on an episode, and ask for the vector of its text."""
        row = question.row
        recording = self._recording(row, int(question.key[0]))
        if reflection is not None and recording is not None:
            ctx.note("feedback", row, _reported(recording, reflection))
        if reflection is None or reflection["empty"]:
            self._empty[row] += 1
            self._conclude(row, int(question.key[0]))
            return
        history = [*self._history[row], {name: reflection[name] for name in HISTORY}]
        self._history[row] = history[max(len(history) - self.config.history, 0) :]
        ctx.ask(about(row, json.dumps(reflection["text"]), role="text_embedder")._replace(key=question.key))

    def _embedded(self, question: Question, vectors: Array | None, store: Store, ctx: Context) -> None:
        """Store the vector of an episode's feedback."""
        row, first = question.row, int(question.key[0])
        place = self.episodes[row].place(first)
        if vectors is None:
            self._empty[row] += 1
        elif place is not None:
            self.episodes[row].feedback[place] = vectors[0]
            recording = self._recording(row, first)
            if recording is not None and recording.number % TRACED == 0:
                self._trace(row, recording, store, ctx)
        self._conclude(row, first)

    def _conclude(self, row: int, first: int) -> None:
        """Drop the recording of the episode whose first transition has this number."""
        self._awaiting_feedback[row] = [
            recording for recording in self._awaiting_feedback[row] if recording.first != first
        ]

    def _recording(self, row: int, first: int) -> Recording | None:
        return next((recording for recording in self._awaiting_feedback[row] if recording.first == first), None)

    # Training of the heads

    def _align(self, store: Store, ctx: Context) -> None:
        """Take the steps of the heads before a step of the learner: alignment, refinement, then FuRL's losses."""
        if self.config.alignment == "frozen":
            return
        self._updates += 1
        if self.config.alignment != "ranking" and self._updates % self.config.align_every == 0:
            self._align_feedback(store, ctx)
        super()._align(store, ctx)

    def _align_feedback(self, store: Store, ctx: Context) -> None:
        has_feedback = np.array([np.isfinite(episodes.feedback[:, 0]).any() for episodes in self.episodes])
        has_feedback &= np.isfinite(self._goals[:, 0])
        if not has_feedback.any():
            return
        offsets = self._drawn(has_feedback, [store.live.count] * len(has_feedback))
        numbers = store.written - store.live.count + offsets
        slots = store.slot(numbers)
        frames, weights = store.column(FRAME, slots), store.column(WEIGHT.name, slots)
        feedback, places = self._feedback_of(numbers)
        complete = np.isfinite(frames[..., 0]) & np.isfinite(weights) & feedback.present & has_feedback[:, None]
        if not complete.any():
            return
        transitions = AlignmentBatch(
            frames=tensor(filled(frames), self._device),
            feedback=feedback.tensors(self._device),
            weights=tensor(filled(weights), self._device),
            success=tensor(store.column("success", slots).astype(np.float32), self._device),
            complete=torch.from_numpy(complete).to(self._device),
            rivals=torch.from_numpy(rivals(complete, places, self.config.mask_shared)).to(self._device),
            goals=tensor(filled(self._goals), self._device).unsqueeze(1),
        )
        active = complete.any(1)
        settled = np.array([memory.succeeded for memory in self.memory]) | (self.config.contrast_from == "start")
        refined = active & settled & (ctx.step >= self.config.contrast_after)
        self.aligner.step(transitions, active, refined)

    def _feedback_of(self, numbers: Array) -> tuple[Feedback, Array]:
        """Return, for transitions with these numbers [S, B], the feedback on their episodes, and the places of their
        episodes in `Episodes`' arrays, int [S, B], -1 before the first episode."""
        places = np.stack(
            [episodes.of(row_indices) for episodes, row_indices in zip(self.episodes, numbers, strict=True)]
        )
        different = [np.unique(row_places, return_inverse=True) for row_places in places]
        counts = np.array([len(row_places) for row_places, _ in different])
        vectors = np.full((len(places), counts.max(), self.config.text_width), np.nan, np.float32)
        for row, (row_places, _) in enumerate(different):
            begun = row_places >= 0
            vectors[row, : len(row_places)][begun] = self.episodes[row].feedback[row_places[begun]]
        index = np.stack([row_index.reshape(places.shape[1]) for _, row_index in different]).astype(np.int64)
        return Feedback(vectors, index, counts), places

    # The reward

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with the reward r_task + ρ·r̃, ρ·r̃ limited to ±`limit`; a success has r_task alone."""
        task, frames = self._task(batch), self._frames(batch)
        terms, has_frames, has_feedback = (
            self._terms(frames),
            frames.facts.has_frames.cpu(),
            frames.facts.has_feedback.cpu(),
        )
        rho = self.strength.batch(terms.goal, has_frames)
        shaping = (rho[:, None] * terms.fused.numpy()).astype(np.float32)
        if self.config.limit is not None:
            shaping = np.clip(shaping, -self.config.limit, self.config.limit)
        shaping = np.where(_solved(batch), np.float32(0), shaping)
        self._note_share(shaping, task)
        for name, values, chosen in (
            ("reward", terms.fused, has_frames), ("goal_delta", terms.goal, has_frames),
            ("feedback_delta", terms.feedback, has_feedback), ("alpha", terms.share, has_feedback),
        ):  # fmt: skip
            self._shaping_metrics[name][:] = ((values * chosen).sum(1) / chosen.sum(1)).numpy()
        return batch._replace(reward=task + shaping)

    def unguided(self, batch: Batch) -> Batch:
        """Return the batch with the task's reward r_task alone."""
        return batch._replace(reward=self._task(batch))

    def _task(self, batch: Batch) -> Array:
        """Return r_task of a batch, float32 [S, B]: `success_reward` for a success, otherwise -1."""
        return np.where(_solved(batch), np.float32(self.config.success_reward), np.float32(-1))

    def _frames(self, batch: Batch) -> Frames:
        """Return the inputs of the reward of a batch's transitions."""
        numbers, store = batch.number, self._store
        assert numbers is not None and store is not None, "batches of a store number their transitions"
        feedback, places = self._feedback_of(numbers)
        in_episode = places >= 0
        firsts = [_at(episodes.firsts, row_places) for episodes, row_places in zip(self.episodes, places, strict=True)]
        opening = in_episode & (np.stack(firsts) == numbers)
        is_stored = store.holds(numbers - 1) & ~opening
        slots = store.slot(np.where(is_stored, numbers - 1, numbers))
        before, weight = store.column(FRAME, slots), store.column(WEIGHT.name, slots)
        before[~is_stored], weight[~is_stored] = np.nan, np.nan
        for row, (episodes, first) in enumerate(zip(self.episodes, opening, strict=True)):
            before[row, first] = episodes.openings[places[row, first]]
            weight[row, first] = episodes.weights[places[row, first]]
        after = batch.columns[FRAME]
        has_targets = np.isfinite(self._texts[:, :1]) & np.isfinite(self._goals[:, :1])
        has_frames = np.isfinite(before[..., 0]) & np.isfinite(after[..., 0]) & in_episode & has_targets
        has_feedback = has_frames & feedback.present & np.isfinite(weight)
        return Frames(
            before=tensor(filled(before), self._device),
            after=tensor(filled(after), self._device),
            feedback=feedback.tensors(self._device),
            facts=TransitionFacts(
                weight=tensor(filled(np.where(has_feedback, weight, 0)), self._device),
                has_frames=torch.from_numpy(has_frames).to(self._device),
                has_feedback=torch.from_numpy(has_feedback).to(self._device),
            ),
        )

    def _terms(self, frames: Frames) -> Terms:
        """Return the terms of the dense reward r̃ of S × B transitions, [S, B] each, on the CPU."""
        count = frames.before.shape[1]
        goals = tensor(filled(self._goals), self._device).unsqueeze(1)
        texts = tensor(filled(self._texts), self._device).unsqueeze(1)

        def evaluate(block: int, rows: slice) -> Tensor:
            pictures = torch.cat([frames.before[rows], frames.after[rows], goals[rows]], 1)
            images = unit(self.heads.project(block, "image", pictures))
            points = Points(
                images[:, :count], images[:, count:-1], images[:, -1:],
                unit(self.heads.project(block, "text", texts[rows])),
                frames.feedback.projected(self.heads, block, rows),
            )  # fmt: skip
            facts = TransitionFacts(*(fact[rows] for fact in frames.facts))
            return torch.stack(fuse(self.config, points, facts), 1)  # [seeds, 4, B]

        return Terms(*self.heads.evaluate(evaluate).cpu().unbind(1))

    def along(self, row: int, first: int, last: int, store: Store) -> Terms:
        """Return the terms of the dense reward r̃ of the transitions `first` to `last` of a seed's episode, [last -
        first + 1] each. All of them must be stored."""
        numbers, episodes = np.arange(first, last + 1), self.episodes[row]
        place = episodes.place(first)
        assert place is not None, "the episode is stored"
        slots = store.slot(numbers)
        frames = np.concatenate([episodes.openings[place][None], store.read(FRAME, row, slots).astype(np.float32)])
        weights = np.concatenate([episodes.weights[place][None], store.read(WEIGHT.name, row, slots)])[:-1]
        is_embedded = np.isfinite(frames[:, 0])
        has_frames = is_embedded[:-1] & is_embedded[1:]
        has_feedback = has_frames & np.isfinite(weights) & np.isfinite(episodes.feedback[place, 0])

        def projected(kind: str, vectors: Array) -> Tensor:
            return unit(self.heads.of_row(row, kind, tensor(filled(vectors), self._device))).unsqueeze(0)

        images = projected("image", frames)
        points = Points(
            images[:, :-1], images[:, 1:], projected("image", self._goals[row][None]),
            projected("text", self._texts[row][None]), projected("feedback", episodes.feedback[place][None]),
        )  # fmt: skip
        facts = TransitionFacts(
            *(torch.from_numpy(fact).to(self._device)[None] for fact in (filled(weights), has_frames, has_feedback))
        )
        return Terms(*(term[0].cpu() for term in fuse(self.config, points, facts)))

    # Logs, metrics, checkpoints

    def _note_keyframes(
        self, row: int, recording: Recording, chosen_keyframes: Array, weights: Array, similarity: Array, ctx: Context
    ) -> None:
        """Log the key frames of an episode, with their snapshots in every `TRACED`-th episode."""
        for frame in chosen_keyframes.tolist():
            columns = {
                "episode": recording.number, "frame": frame, "weight": float(weights[frame]),
                "similarity": float(similarity[frame]),
            }  # fmt: skip
            if recording.number % TRACED == 0:
                columns["snapshot"] = packed(recording.snapshots[frame].tobytes())
            ctx.note("keyframes", row, columns)

    def _trace(self, row: int, recording: Recording, store: Store, ctx: Context) -> None:
        """Log the reward along an episode, at up to `LOGGED_POINTS` evenly spread steps."""
        numbers = np.arange(recording.first, recording.last + 1)
        if not store.holds(numbers).all():
            return
        terms = self.along(row, recording.first, recording.last, store)
        steps = np.unique(np.linspace(0, len(numbers) - 1, LOGGED_POINTS).round().astype(int))
        for at in steps.tolist():
            ctx.note("shaping", row, {
                "episode": recording.number, "frame": at + 1, "success": recording.successes[at],
                "goal": float(terms.goal[at]), "feedback": float(terms.feedback[at]),
                "share": float(terms.share[at]), "fused": float(terms.fused[at]),
            })  # fmt: skip

    def metrics(self) -> Metrics:
        """Return the metrics of FuRL, those of `SHAPING_METRICS` and `aligner.LOSSES`; `guide/rho`, `guide/progress`,
        P, and `guide/success_rate`, s̄; and `guide/empty`, the episodes without usable feedback."""
        last_metrics = {**self._shaping_metrics, **self.aligner.last_metrics}
        metrics = {f"guide/{name}": values.copy() for name, values in last_metrics.items()}
        metrics["guide/rho"], metrics["guide/progress"] = self.strength.rho.copy(), self.strength.progress.copy()
        metrics["guide/success_rate"] = self.strength.success_rate.copy()
        metrics["guide/empty"] = self._empty.astype(np.float64)
        return {**super().metrics(), **metrics}

    def state(self, row: int) -> State:
        recording_now = self._open[row]
        return {
            **super().state(row),
            "episodes": self.episodes[row].state(),
            "open": None if recording_now is None else recording_now.state(),
            "waiting": [recording.state() for recording in self._waiting[row]],
            "asked_about": [recording.state() for recording in self._awaiting_feedback[row]],
            "opening": self._openings[row],
            "history": self._history[row],
            "count": int(self._count[row]),
            "updates": self._updates,
            "strength": self.strength.state(row),
            "empty": int(self._empty[row]),
            "seen": np.array([metric[row] for metric in self._last_metrics]),
        }

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.episodes[row].load_state(state["episodes"])
        self._open[row] = None if state["open"] is None else Recording.of_state(state["open"])
        self._waiting[row] = [Recording.of_state(recording) for recording in state["waiting"]]
        self._awaiting_feedback[row] = [Recording.of_state(recording) for recording in state["asked_about"]]
        self._openings[row] = state["opening"]
        self._history[row] = [dict(feedback) for feedback in state["history"]]
        self._count[row], self._updates = state["count"], int(state["updates"])
        self.strength.load_state(row, state["strength"])
        self._empty[row] = state["empty"]
        for metric, number in zip(self._last_metrics, state["seen"].tolist(), strict=True):
            metric[row] = number

    @property
    def _last_metrics(self) -> list[Array]:
        """The metrics of the last shaped batch and of the last steps of the heads, [S] each."""
        return [*self._shaping_metrics.values(), *self.aligner.last_metrics.values()]


SHAPING_METRICS = ("reward", "goal_delta", "feedback_delta", "alpha")
"""Means over the last batch of r̃, r^goal, r^fb and α."""
HISTORY = ("outcome", "code", "fix", "summary")
"""Fields of an episode's feedback that later prompts repeat."""


def _reported(recording: Recording, reflection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the log record of an episode's feedback."""
    return {
        "episode": recording.number, "succeeded": any(recording.successes), "outcome": reflection["outcome"],
        "code": reflection["code"], "explanation": reflection["explanation"],
        "secondary": ", ".join(reflection["secondary"]),
        "frames": ", ".join(map(str, reflection["frames"])), "fix": reflection["fix"],
        "confidence": float(reflection["confidence"]),
        "summary": reflection["summary"], "retries": reflection["retries"], "empty": reflection["empty"],
    }  # fmt: skip


def _solved(batch: Batch) -> Array:
    """Return which transitions of a batch are successes, bool [S, B]."""
    assert batch.success is not None, "batches of a store tell of success"
    return batch.success


def _at(values: Array, places: Array) -> Array:
    """Return the values at places [n]; -1 for each place if there are no values at all."""
    return values[places] if len(values) else np.full(len(places), -1, np.int64)
