"""The guide that learns a reward from preferences: explore, query in sessions, train, relabel (PEBBLE's algorithm)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.guides.preference import Preference
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.preference.exploration import INTRINSIC
from guidebench.baselines.preference.reward_inputs import REWARD_INPUTS
from guidebench.baselines.preference.rewards import Fit, Preferences, RewardEnsemble
from guidebench.baselines.preference.segments import INFORMATIVE, Recent, look_back, mean_reward, probabilities, starts
from guidebench.baselines.preference.sessions import Query, Sessions
from guidebench.baselines.preference.teaching import Pair, Teacher
from guidebench.harness.capabilities import HasRewards, coordinates
from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Context,
    Learner,
    Metrics,
    Question,
    RunPhase,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.harness.models.calls import Answer

REWARD, SNAPSHOT = "learned_reward", "snapshot"


class PreferenceGuide(BaseGuide):
    """Sets the learner's reward: an exploration reward until a seed's first session is over, then the ensemble's
    output."""

    def __init__(self, config: Preference, build: Build) -> None:
        self.config, self._build = config, build
        self.explored = config.explored(build.parts)
        """Environment steps before the first session."""
        self.teacher: Teacher = build.parts["teacher"].spawn(build)
        self.reward_input = REWARD_INPUTS[config.sees](config, build)
        self.wants_snapshots = self.teacher.wants_snapshots or self.reward_input.wants_snapshots
        self.columns = (TransitionColumn(REWARD, "mutable"), *self.reward_input.extra_columns)
        if self.teacher.wants_snapshots:
            self.columns += (TransitionColumn(SNAPSHOT, "fixed", (_snapshot_size(build),), "uint8", batched=False),)
        self.rewards = RewardEnsemble(
            build, self.reward_input.network, config.ensemble, config.lr, config.batch_size, config.smoothing
        )
        self.preferences = [
            Preferences(config.segment, *self.reward_input.shape, dtype=self.reward_input.dtype) for _ in build.seeds
        ]
        self.sessions = [Sessions(row) for row in range(build.rows)]
        self.intrinsic = [INTRINSIC[config.intrinsic](config.neighbours) for _ in build.seeds]
        self.exploring = np.ones(build.rows, bool)
        """[S], whether the seed has no learnt reward yet."""
        self.fit = Fit(*(np.full(build.rows, np.nan) for _ in Fit._fields))
        """Result of each seed's last training."""
        self._teach = [streams.teach for streams in build.streams]
        self._store: Store | None = None
        self._live_states: Tensor | None = None

    def phases(self, steps: int) -> tuple[RunPhase, ...]:
        return RunPhase("explore", self.explored), RunPhase("train", steps - self.explored)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Store the current reward of a new transition, and hold a session if one is due, so that immediate answers are
        available to this step's updates."""
        self._store, self._live_states = store, None
        slots, inputs = np.array([slot]), self.reward_input.of(transition)
        reward = self.rewards.reward_of(inputs, np.arange(self._build.rows))
        for row in range(self._build.rows):
            store.write(REWARD, row, slots, reward[row])
            for column in self.reward_input.extra_columns:
                store.write(column.name, row, slots, inputs[row])
            if self.teacher.wants_snapshots and transition.snapshot is not None:
                store.write(SNAPSHOT, row, slots, transition.snapshot[row])
        since = ctx.step - self.explored
        if since >= 0 and since % self.config.every == 0 and ctx.step < self._build.steps:
            self._hold(store, ctx)

    def _hold(self, store: Store, ctx: Context) -> None:
        """Hold a session for every seed with budget left: send pairs of segments to the teacher."""
        config = self.config
        recent = look_back(store, self._build.rows, config.recent * self._build.horizon)
        for row, sessions in enumerate(self.sessions):
            pair_count = min(config.queries, config.budget - sessions.query_count)
            if pair_count == 0:
                continue
            steps = self._choose(store, row, recent, pair_count)
            observations, rewards = recent.observations[row][steps], recent.rewards[row][steps]
            inputs = self._read(store, self.reward_input.column, row, recent.slots[steps])
            learned = self.rewards.returns(row, inputs).mean(0)
            queries = [
                Query(
                    Pair(row, sessions.query_count + n, *pair), ctx.step, sessions.session_count, learned[n], inputs[n]
                )
                for n, pair in enumerate(zip(observations, rewards, strict=True))
            ]
            sessions.begin(queries)
            scale = mean_reward(recent.rewards[row], recent.ended[row]) * config.segment
            snapshots: Sequence[Array | None] = [None] * len(queries)
            if self.teacher.wants_snapshots:
                snapshots = list(self._read(store, SNAPSHOT, row, recent.slots[steps]))
            for query, pair_snapshots in zip(queries, snapshots, strict=True):
                self._put(query, pair_snapshots, scale, ctx)

    def _choose(self, store: Store, row: int, recent: Recent, pair_count: int) -> Array:
        """Return the steps of pairs of segments, int64 [n, 2, H] into `recent`: `pair_count` pairs, or none if no
        episode is long enough."""
        config = self.config
        possible = starts(recent.ended[row], config.segment, config.recent)
        if not len(possible):
            return np.zeros((0, 2, config.segment), np.int64)
        informative = INFORMATIVE.get(config.sampling) if self.sessions[row].session_count else None
        candidates = pair_count * config.candidates if informative else pair_count
        steps = self._teach[row].choice(possible, (candidates, 2))[..., None] + np.arange(config.segment)
        if informative is None:
            return steps
        inputs = self._read(store, self.reward_input.column, row, recent.slots[steps])
        rated = informative(probabilities(self.rewards.returns(row, inputs)))
        return np.asarray(steps[np.argsort(-rated, kind="stable")[:pair_count]])

    def _read(self, store: Store, column: str, row: int, slots: Array) -> Array:
        """Return a column's values for pairs of segments of one seed: slots [n, 2, H] -> [n, 2, H, …]."""
        index = np.zeros((self._build.rows, slots.size), np.int64)
        index[row] = slots.ravel()
        stored = store.column(column, index)[row]
        return np.asarray(stored.reshape(*slots.shape, *stored.shape[1:]))

    def _put(self, query: Query, snapshots: Array | None, scale: float, ctx: Context) -> None:
        """Label the pair or send it as a question. Its snapshots travel with the question and are not kept."""
        pair = replace(query.pair, snapshots=snapshots)
        if self.teacher.to is None:
            query.verdict = self.teacher.label(pair, scale, self._teach[pair.row])
        else:
            ctx.ask(self.teacher.question(pair))

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        for question, answer in answers:
            if question.to == self.teacher.to:
                query = self.sessions[question.row].query(int(question.key[0]))
                query.verdict = self.teacher.verdict(query.pair, answer.value)

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> Array | int:
        """Train on the sessions whose answers are complete. After a seed's first session, its critic is reinitialised,
        and this seed alone takes extra updates."""
        self._store = store
        learning = np.zeros(self._build.rows, bool)
        for row, sessions in enumerate(self.sessions):
            for queries in sessions.finished():
                self._take_in(row, queries, ctx)
                learning[row] = True
        if not learning.any():
            return 0
        fit = self.rewards.train(self.preferences, learning, self._teach, self.config.epochs, self.config.enough)
        for mine, new in zip(self.fit, fit, strict=True):
            mine[learning] = new[learning]
        first = learning & self.exploring
        for row in np.flatnonzero(first & (self.fit.epochs == 0)).tolist():
            message = f"seed {self._build.seeds[row]}: the first session brought no preference; its reward is untrained"
            warnings.warn(Notice(message), stacklevel=2)
        self.exploring &= ~first
        self._relabel(store, learning if self.config.relabel else first)
        if not first.any():
            return 0
        reset: Any = learner
        reset.reset("critic", first)
        return np.where(first, self.config.updates_after_reset, 0)

    def _take_in(self, row: int, queries: Sequence[Query], ctx: Context) -> None:
        """Add a session's verdicts to the preferences, and note their records in `labels`."""
        pairs, labels, sketched = [], [], False
        for query in queries:
            verdict = query.verdict
            assert verdict is not None
            record = query.row()
            if verdict.is_used and verdict.label is not None:
                pairs.append(query.segments)
                labels.append(verdict.label)
            if verdict.imagined is not None:
                chosen, other = query.segments[[query.preferred, 1 - query.preferred]]
                pairs.append(np.stack([np.asarray(verdict.imagined, np.float32), chosen]))
                labels.append(0.0)
                record |= self._true_returns(row, imagined=pairs[-1][0], chosen=chosen, other=other)
                if not sketched:
                    self._sketch(query, ctx, imagined=pairs[-1][0], preferred=chosen, other=other)
                    sketched = True
            ctx.note("labels", row, record)
        self.preferences[row].add(pairs, labels)

    def _sketch(self, query: Query, ctx: Context, **segments: Array) -> None:
        """Note records in `imagined`: positions along segments [H, D], as far as the suite names coordinates."""
        things = coordinates(self._build.parts["suite"], self._build.task)
        for name, states in segments.items():
            for thing in things:
                for t, place in enumerate(states[:1, thing.entries] if thing.constant else states[:, thing.entries]):
                    record = {"query": query.pair.number, "segment": name, "t": t, "name": thing.name}
                    places = zip("xyz", place.tolist(), strict=False)
                    ctx.note("imagined", query.pair.row, record | dict(places))

    def _true_returns(self, row: int, **segments: Array) -> dict[str, float]:
        """Return the task's own return of a seed's segments [H, D] as `reward_NAME`, if the suite computes rewards from
        states."""
        suite = self._build.suite(row)
        if not isinstance(suite, HasRewards):
            return {}
        returns = {name: float(np.sum(suite.rewards(self._build.task, states))) for name, states in segments.items()}
        return {f"reward_{name}": value for name, value in returns.items() if np.isfinite(value)}

    def _relabel(self, store: Store, chosen: Array) -> None:
        """Relabel all live transitions of the seeds `chosen` [S] with the current reward."""
        live = store.live
        if not chosen.any():
            return
        for first in range(0, live.count, self.reward_input.chunk):
            slots = live.slots(np.arange(first, min(first + self.reward_input.chunk, live.count)))
            reward = self.rewards.reward(store.column(self.reward_input.column, np.tile(slots, (len(chosen), 1))))
            for row in np.flatnonzero(chosen).tolist():
                store.write(REWARD, row, slots, reward[row])

    def shape(self, batch: Batch) -> Batch:
        reward = batch.columns[REWARD]
        for row in np.flatnonzero(self.exploring).tolist():
            states = torch.tensor(batch.observation[row], dtype=torch.float32, device=self._build.device)
            reward[row] = self.intrinsic[row](states, self._stored()[row])
        return batch._replace(reward=reward)

    def _stored(self) -> Tensor:
        """Return all live states, float32 [S, n, D]."""
        if self._live_states is None:
            assert self._store is not None
            live = self._store.live
            everywhere = np.tile(live.slots(np.arange(live.count)), (self._build.rows, 1))
            states = self._store.column("observation", everywhere)
            self._live_states = torch.tensor(states, dtype=torch.float32, device=self._build.device)
        return self._live_states

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return r̂ of observations [n, D] of the seed rows `rows` [n], float32 [n]; None if the reward reads
        frames."""
        return self.rewards.reward_of(observation, rows) if self.reward_input.column == "observation" else None

    def metrics(self) -> Metrics:
        """Return counts over the run so far, and the results of the last training."""
        counts = [sessions.metrics() for sessions in self.sessions]
        counted = {name: np.array([seed_counts[name] for seed_counts in counts], float) for name in counts[0]}
        return {f"preference/{name}": value for name, value in {**counted, **self.fit._asdict()}.items()}

    def state(self, row: int) -> State:
        return {
            "rewards": self.rewards.state(row),
            "preferences": self.preferences[row].state(),
            "sessions": self.sessions[row].state(),
            "intrinsic": self.intrinsic[row].state(),
            "exploring": bool(self.exploring[row]),
            "fit": {name: float(values[row]) for name, values in self.fit._asdict().items()},
        }

    def load_state(self, row: int, state: State) -> None:
        self.rewards.load_state(row, state["rewards"])
        self.preferences[row].load_state(state["preferences"])
        self.sessions[row].load_state(state["sessions"])
        self.intrinsic[row].load_state(state["intrinsic"])
        self.exploring[row] = state["exploring"]
        for name, values in self.fit._asdict().items():
            values[row] = state["fit"][name]


def _snapshot_size(build: Build) -> int:
    task = build.parts["suite"].make(build.task)
    task.reset(0)
    return len(task.snapshot())
