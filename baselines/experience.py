"""One stream of transitions: its store, the sampler that draws from it, the clips that are judged, the task phases.

An agent has one or several named experiences. In an `Experience` every seed stores a transition at each `add`, so the
seeds share a store and its write pointer. In an `Uneven` experience each seed stores selected transitions, such as
successful episodes only, or the steps taken by one of two learners.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.n_step import Stretch, folded, reach
from guidebench.baselines.storage import Storage
from guidebench.baselines.task_phases import TaskPhases
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Context,
    Draw,
    Learner,
    Metrics,
    Moment,
    NStep,
    Question,
    State,
    StepWords,
    Transition,
    TransitionColumn,
    Update,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.parts import DatasetPart


class Drawn(NamedTuple):
    """A batch and the stored transitions that it contains."""

    draw: Draw
    batch: Batch
    ready: Array
    """bool [S], seeds that have stored enough to learn from; the batch of the others is zeros."""
    stretch: Stretch | None = None
    """The transitions that follow each one of the batch, if n-step returns were asked for."""

    def shaped(self, shape: Callable[[Batch], Batch]) -> Batch:
        """Return the batch to learn from: `shape` of the batch, or of all transitions of the stretches, which are then
        folded into n-step returns."""
        if self.stretch is None:
            return shape(self.batch)
        return folded(self.stretch._replace(batch=shape(self.stretch.batch)))


class Experience:
    """A stream of transitions of S seeds, each of which stores the same number."""

    def __init__(
        self,
        build: Build,
        replay: Any,
        guided: Sequence[TransitionColumn] = (),
        learners: Sequence[Learner] = (),
        name: str = "",
        broken: bool = False,
        rows: Array | None = None,
    ) -> None:
        """Create the store and the sampler.

        `replay` is the configuration of a replay, which draws the batches; `guided` are the columns of a guide.
        `learners` may have columns too, and are notified of each stored episode. `name`, "" for an agent's first
        experience, keeps the files and random numbers of several experiences apart. `broken` states whether `cut` is
        ever called. `rows` [S] are the seed rows in the worker, if not all of them.

        Clips are sent to the role of kind judge that the replay needs; two experiences with judged clips need replays
        with two such roles.
        """
        self.name, self.replay = name, replay
        self.rows = np.arange(build.rows) if rows is None else rows
        self._learners = tuple(learners)
        self.sampler = replay.spawn(build)
        self._phases = TaskPhases(build.rows, build.events) if build.events and _phased(build) else None
        batched = (*guided, *(column for learner in self._learners for column in learner.columns))
        extra = (*self.sampler.columns, *((self._phases.column,) if self._phases else ()))
        self.store = Storage(build, batched, extra, f"replay/{name}" if name else "replay", broken or _fed(build))
        self.judge = next((role for role, kind in replay.needs.items() if kind == "judge"), "judge")
        self.judged = self.sampler.clip_length > 0
        self.wants_reducible = self.sampler.wants_reducible
        self._clips = [Clip() for _ in range(build.rows)]
        self._episode_starts = np.zeros(build.rows, np.int64)
        """[S], number of the first transition of the episode being stored."""
        self._rngs = [streams.named(f"sample/{name}") if name else streams.sample for streams in build.streams]

    @property
    def stored(self) -> Array:
        """Number of transitions that may be drawn, int [S]."""
        return np.full(len(self.rows), self.store.live.count)

    def add(self, transition: Transition, ctx: Context) -> int:
        """Store a transition of every seed and send questions about complete clips; return its slot."""
        number = self.store.written
        slot = self.store.append(transition)
        self.sampler.added(slot, self.store.live, transition)
        if self._phases is not None:
            self._phases.added(slot, self.store.live, transition, self.store)
        ended = transition.terminated | transition.truncated
        if self.judged and transition.snapshot is not None:
            for row, clip in enumerate(self._clips):
                clip.add(number, transition.snapshot[row], transition.events[row])
                if len(clip.numbers) == self.sampler.clip_length or ended[row]:
                    ctx.ask(clip.close(int(self.rows[row]))._replace(to=self.judge))
        if self._learners and ended.any():
            for row in np.flatnonzero(ended).tolist():
                self._ended(row)
        return slot

    def _ended(self, row: int) -> None:
        """Pass an ended episode's slots, as far as they are still in the store, to the learners."""
        written = self.store.written
        first = max(int(self._episode_starts[row]), written - self.store.live.count)
        for learner in self._learners:
            learner.ended(row, self.store.slot(np.arange(first, written)), self.store)
        self._episode_starts[row] = written

    def cut(self) -> None:
        """Mark that the next stored transition does not follow the last one, although no episode ended; drop an open
        clip."""
        self.store.cut()
        self._episode_starts[:] = self.store.written
        self._clips = [Clip() for _ in self._clips]

    def sample(self, count: int, ctx: Context, observation: Array | None = None, n_step: NStep | None = None) -> Drawn:
        """Return a batch of `count` transitions of each seed; UserError if nothing is stored yet. `observation` [seeds
        of the worker, …] holds each seed's current observation, if it differs from the task's. With `n_step`, the batch
        comes with the transitions that follow each of its own."""
        if not self.store.live.count:
            raise UserError(
                f"phase {ctx.phase.name!r} takes gradient steps at step {ctx.step}, and nothing is stored to learn "
                f"from; let a phase with transitions come first, or give this one updates=0"
            )
        current = ctx.observation if observation is None else observation
        if len(current) > len(self.rows):
            current = current[self.rows]
        draw = self.sampler.draw(count, Moment(ctx.step, self.store.live, self._rngs, current, self.store))
        ready = np.ones(len(self.rows), bool)
        if n_step is None:
            return Drawn(draw, self.store.gather(draw.index)._replace(weight=draw.weight), ready)
        return _stretched(self.store, draw, ready, n_step)

    def feedback(self, drawn: Drawn, update: Update) -> None:
        """Pass on a learner's results for a batch to the sampler."""
        self.sampler.feedback(drawn.draw.index, update)

    def answered(self, answers: Sequence[tuple[Question, Answer]]) -> None:
        """Apply a judge's scores to clips, whose questions have numbers within this experience as keys; a clip without
        a score stays unjudged."""
        for question, answer in answers:
            if answer.value is not None:
                numbers = question.key[self.store.holds(question.key)]
                self.sampler.scored(question.row, self.store.slot(numbers), answer.value)

    def evaluated(self, returns: Array) -> None:
        """Pass on the mean evaluation return of each seed, [S]."""
        self.sampler.evaluated(returns)

    def metrics(self, step: int) -> Metrics:
        """Return the sampler's metrics."""
        return _named(self.name, self.sampler.metrics(step))

    def spread(self, drawn: Drawn) -> Metrics:
        """Return the distribution of draws and stored transitions over task phases; empty if the task has none."""
        return _named(self.name, self._phases.metrics(drawn.draw.index, self.store)) if self._phases else {}

    def state(self, row: int) -> State:
        return {
            "sampler": self.sampler.state(row),
            "storage": self.store.state(row),
            "clip": self._clips[row].state(),
            "begun": int(self._episode_starts[row]),
            "phases": self._phases.state(row) if self._phases else None,
        }

    def load_state(self, row: int, state: State) -> None:
        self.sampler.load_state(row, state["sampler"])
        self.store.load_state(row, state["storage"])
        self._clips[row].load_state(state["clip"])
        self._episode_starts[row] = state["begun"]
        if self._phases:
            self._phases.load_state(row, state["phases"])


class Uneven:
    """A stream of transitions of S seeds with independent write pointers: one `Experience` per seed."""

    def __init__(
        self,
        build: Build,
        replay: Any,
        guided: Sequence[TransitionColumn] = (),
        learners: Sequence[Learner] = (),
        name: str = "",
    ) -> None:
        """Create one `Experience` per seed; arguments are those of `Experience`."""
        self.name = name
        self.by_seed = [
            Experience(_alone(build, row), replay, guided, learners, name, broken=True, rows=np.array([row]))
            for row in range(build.rows)
        ]
        first = self.by_seed[0]
        self.judge, self.judged, self.wants_reducible = first.judge, first.judged, first.wants_reducible

    @property
    def stored(self) -> Array:
        """Number of transitions that may be drawn, int [S]."""
        return np.concatenate([seed_experience.stored for seed_experience in self.by_seed])

    def cut(self) -> None:
        """Mark for every seed that its next stored transition does not follow its last one."""
        for experience in self.by_seed:
            experience.cut()

    def add(self, transition: Transition, rows: Array, ctx: Context) -> Array:
        """Store the transition [S, …] of the seed rows `rows`; return their slots, int [len(rows)].

        For every other seed the next stored transition does not follow its last one, unless its episode ended there.
        """
        adding = set(np.asarray(rows).tolist())
        for row, experience in enumerate(self.by_seed):
            if row not in adding:
                experience.cut()
        return np.array([self.by_seed[row].add(_of(transition, row), ctx) for row in rows], np.int64)

    def sample(
        self,
        count: int,
        ctx: Context,
        observation: Array | None = None,
        n_step: NStep | None = None,
        least: int | None = None,
    ) -> Drawn:
        """Return `count` transitions of each seed that has stored at least `least` (None: `count`); the other seeds get
        zeros and draw no random number. `n_step`: as for `Experience.sample`."""
        ready = self.stored >= (count if least is None else least)
        current = ctx.observation if observation is None else observation
        nothing = np.zeros((1, count), np.int64)
        samples = [
            experience.sample(count, ctx, current[row : row + 1], n_step)
            if ready[row]
            else _unready(experience.store, nothing, n_step)
            for row, experience in enumerate(self.by_seed)
        ]
        weights = [sample.draw.weight for sample in samples]
        ones = np.ones((1, count), np.float32)
        weight = None
        if any(seed_weight is not None for seed_weight in weights):
            weight = np.concatenate([ones if seed_weight is None else seed_weight for seed_weight in weights])
        draw = Draw(np.concatenate([sample.draw.index for sample in samples]), weight)
        batch = _joined([sample.batch for sample in samples])._replace(weight=weight)
        stretches = [sample.stretch for sample in samples if sample.stretch is not None]
        if n_step is None:
            return Drawn(draw, batch, ready)
        every = None if weight is None else np.repeat(weight, n_step.steps, axis=1)
        stretched = _joined([stretch.batch for stretch in stretches])._replace(weight=every)
        length = np.concatenate([stretch.length for stretch in stretches])
        return Drawn(draw, batch, ready, Stretch(stretched, length, n_step.discount))

    def feedback(self, drawn: Drawn, update: Update) -> None:
        """Pass on a learner's results for a batch to the sampler."""
        for row in np.flatnonzero(drawn.ready).tolist():
            mine = slice(row, row + 1)
            weight = None if drawn.draw.weight is None else drawn.draw.weight[mine]
            seed_update = Update(
                update.td_error[mine],
                {name: values[mine] for name, values in update.metrics.items()},
                None if update.reducible is None else update.reducible[mine],
            )
            draw = Draw(drawn.draw.index[mine], weight)
            self.by_seed[row].feedback(Drawn(draw, drawn.batch, drawn.ready[mine]), seed_update)

    def answered(self, answers: Sequence[tuple[Question, Answer]]) -> None:
        """Apply a judge's scores to clips."""
        for question, answer in answers:
            self.by_seed[question.row].answered([(question._replace(row=0), answer)])

    def evaluated(self, returns: Array) -> None:
        """Pass on the mean evaluation return of each seed, [S]."""
        for row, experience in enumerate(self.by_seed):
            experience.evaluated(returns[row : row + 1])

    def metrics(self, step: int) -> Metrics:
        """Return the samplers' metrics and `stored`, the number of transitions that may be drawn."""
        seed_metrics = [experience.metrics(step) for experience in self.by_seed]
        metrics = {name: np.concatenate([mine[name] for mine in seed_metrics]) for name in seed_metrics[0]}
        return {**metrics, **_named(self.name, {"stored": self.stored.astype(np.float64)})}

    def state(self, row: int) -> State:
        return self.by_seed[row].state(0)

    def load_state(self, row: int, state: State) -> None:
        self.by_seed[row].load_state(0, state)


def _stretched(store: Storage, draw: Draw, ready: Array, n_step: NStep) -> Drawn:
    """Return the batch of a draw with the transitions that follow each of its own."""
    slots, length = reach(store, draw.index, n_step.steps)
    weight = None if draw.weight is None else np.repeat(draw.weight, n_step.steps, axis=1)
    stretched = store.gather(slots.reshape(len(slots), -1))._replace(weight=weight)
    fields: Any = {
        name: values[:, :: n_step.steps]
        for name, values in stretched._asdict().items()
        if isinstance(values, np.ndarray)
    }
    columns = {name: values[:, :: n_step.steps] for name, values in stretched.columns.items()}
    batch = stretched._replace(**fields, columns=columns)
    return Drawn(draw, batch, ready, Stretch(stretched, length, n_step.discount))


def _unready(store: Storage, nothing: Array, n_step: NStep | None) -> Drawn:
    """Return zeros at slots `nothing` [1, B], for one seed that has stored too little."""
    draw, ready = Draw(nothing, None), np.zeros(1, bool)
    sample = Drawn(draw, store.gather(nothing), ready) if n_step is None else _stretched(store, draw, ready, n_step)
    stretch = sample.stretch and sample.stretch._replace(batch=_zeros(sample.stretch.batch))
    return sample._replace(batch=_zeros(sample.batch), stretch=stretch)


def _phased(build: Build) -> bool:
    """Return whether the task's episodes have task phases."""
    suite = build.parts["suite"]
    return bool(suite.ordered) and build.task not in suite.goalless


def _fed(build: Build) -> bool:
    """Return whether a dataset may be stored while episodes are under way."""
    return any(isinstance(part, DatasetPart) for part in build.parts.values())


def _alone(build: Build, row: int) -> Build:
    """Return the build restricted to one seed."""
    mine = slice(row, row + 1)
    return dataclasses.replace(
        build, seeds=build.seeds[mine], streams=build.streams[mine], directories=build.directories[mine]
    )


def _of(transition: Transition, row: int) -> Transition:
    """Return the transition of one seed."""
    fields: dict[str, Any] = {
        name: None if values is None else values[row : row + 1] for name, values in transition._asdict().items()
    }
    step_words = transition.words
    return Transition(**fields | {"words": step_words and StepWords(*(words[row : row + 1] for words in step_words))})


def _joined(batches: Sequence[Batch]) -> Batch:
    """Return the batches of several seeds concatenated, without weights."""
    columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in batches[0].columns}
    fields: Any = {
        name: np.concatenate([getattr(batch, name) for batch in batches])
        for name in Batch._fields
        if isinstance(getattr(batches[0], name), np.ndarray) and name != "weight"
    }
    return Batch(**fields, weight=None, columns=columns)


def _zeros(batch: Batch) -> Batch:
    """Return a batch of the same shapes, filled with zeros."""
    fields: Any = {
        name: None if values is None else np.zeros_like(values)
        for name, values in batch._asdict().items()
        if name != "columns"
    }
    return Batch(**fields, columns={name: np.zeros_like(values) for name, values in batch.columns.items()})


def _named(name: str, metrics: Metrics) -> Metrics:
    """Return the metrics with the experience's name as prefix."""
    return {f"{name}/{key}": values for key, values in metrics.items()} if name else metrics


class Clip:
    """The transitions since a seed's last question, and the snapshots for drawing their frames.

    Clips are disjoint and end with the episode (VLM-RB, algorithm 1). The frame of a transition shows the state after
    it, so a clip that ends at the goal shows the goal reached.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._snapshots: list[Array] = []
        self._events: list[Array] = []

    def add(self, number: int, snapshot: Array, events: Array) -> None:
        self.numbers.append(number)
        self._snapshots.append(snapshot)
        self._events.append(events)

    def close(self, row: int) -> Question:
        ask = Question(row, np.array(self.numbers, np.int64), np.stack(self._snapshots), np.stack(self._events))
        self.numbers, self._snapshots, self._events = [], [], []
        return ask

    def state(self) -> State:
        return {
            "numbers": np.array(self.numbers, np.int64),
            "snapshots": np.stack(self._snapshots) if self._snapshots else None,
            "events": np.stack(self._events) if self._events else None,
        }

    def load_state(self, state: State) -> None:
        self.numbers = [int(number) for number in state["numbers"]]
        self._snapshots = [] if state["snapshots"] is None else list(state["snapshots"])
        self._events = [] if state["events"] is None else list(state["events"])
