"""Probes: judge scores, critic values and learnt rewards along one reference episode (VLM-RB, figure 3; RL-SaLLM-F,
figure 5).

The episode depends on the task alone, so every seed, method and study uses the same one; if the seed decides the layout
of a run (the suite's `of_run`), the episode has that layout. Probing draws no random numbers and changes no state, so
results are equal with and without probes. A learnt reward is also tested on pairs of segments of mixed quality that no
run has seen (RL-SaLLM-F, table 6).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.capabilities import HasExpert
from guidebench.harness.errors import Stopped
from guidebench.harness.interfaces import Actions, Agent, Array, Build, Question, Suite
from guidebench.harness.models.calls import Ticket
from guidebench.harness.models.questions import Backend
from guidebench.harness.parts import TeacherPart, clip_length

STRETCH = 32
"""Length of a sequence of random moves, and clip length for a method without a judge (VLM-RB, figure 3)."""
STRIDE = 4
"""Steps between the starts of consecutive judged clips."""
ORDINALS = 2**32
"""First ordinal of a probe's questions, above those of training: an oracle's errors depend on the ordinal."""
SEED = 0
"""Seed of the layouts and of the random moves."""
SEGMENT, EPISODES, PAIRS = 64, 10, 200
"""Moves per segment of mixed quality, as in the offline preference data of Hejna et al. (2024) (RL-SaLLM-F, app. B.8);
number of episodes that segments are cut from, and of pairs (choice: takes seconds)."""


class Reference(NamedTuple):
    """The reference episode of T moves."""

    observations: Array  # [T, …], before each move
    snapshots: Array  # uint8 [T, n], of the state after each move
    events: Array  # bool [T, E], events that occurred in each move
    expert: Array  # bool [T], whether the expert made the move
    rewards: Array  # float [T], task reward of each move


class Pairs(NamedTuple):
    """P pairs of segments of L moves."""

    observations: Array  # [P, 2, L, …], before each move
    second: Array  # bool [P], whether the task reward prefers the second segment


class Point(NamedTuple):
    """One table row of the log `probes`. `quantity` is critic, judge, expert, window, event/NAME, true_reward (task
    reward), reward (learnt reward) or label_accuracy (of the learnt reward, over all pairs)."""

    t: int
    quantity: str
    value: float


Write = Callable[[int, int, Iterable[Point]], None]
"""Callback that writes points: seed row, step, points."""


def reference(suite: Suite, task: str) -> Reference | None:
    """Return the reference episode of a task, or None if the task has no scripted solver (`HasExpert`).

    Sequences of random moves alternate with expert moves, which continue until one of them causes an event. In the
    second half of the horizon only the expert moves, so that it can finish the episode.
    """
    environment = suite.make(task)
    if not isinstance(environment, HasExpert):
        return None
    actions, half = suite.spaces(task)[1], suite.horizon(task) // 2
    rng = np.random.default_rng(SEED)
    observation = environment.reset(SEED)
    moves: list[tuple[Array, Array, Array, bool, float]] = []
    wandering = STRETCH if half >= STRETCH else 0
    while True:
        solving = wandering == 0
        wandering -= not solving
        step = environment.step(environment.expert() if solving else _random(actions, rng))
        events = environment.events().copy()
        moves.append((observation, environment.snapshot(), events, solving, step.reward))
        observation = step.observation
        if step.terminated or step.truncated:
            return Reference(*(np.array(part) for part in zip(*moves, strict=True)))
        if solving and events.any() and len(moves) + STRETCH <= half:
            wandering = STRETCH


def mixed_pairs(suite: Suite, task: str) -> Pairs | None:
    """Return pairs of segments whose sums of task rewards differ, or None if the task has no scripted solver
    (`HasExpert`). In every second episode the expert makes all moves; in the others, every second move is random."""
    environment = suite.make(task)
    length = min(SEGMENT, suite.horizon(task))
    if not isinstance(environment, HasExpert):
        return None
    actions, rng = suite.spaces(task)[1], np.random.default_rng(SEED)
    segments: list[tuple[Array, float]] = []
    for episode in range(EPISODES):
        observation, is_over = environment.reset(SEED + 1 + episode), False
        moves: list[tuple[Array, float]] = []
        while not is_over:
            wandering = episode % 2 and len(moves) % 2
            step = environment.step(_random(actions, rng) if wandering else environment.expert())
            moves.append((observation, step.reward))
            observation, is_over = step.observation, step.terminated or step.truncated
        for start in range(0, len(moves) - length + 1, length):
            observations, rewards = zip(*moves[start : start + length], strict=True)
            segments.append((np.stack(observations), float(sum(rewards))))
    if len(segments) < 2:
        return None
    pairs = [rng.choice(len(segments), 2, replace=False) for _ in range(PAIRS)]
    differing = [(first, second) for first, second in pairs if segments[first][1] != segments[second][1]]
    if not differing:
        return None
    states = np.stack([np.stack([segments[segment][0] for segment in pair]) for pair in differing])
    return Pairs(states, np.array([segments[second][1] > segments[first][1] for first, second in differing]))


def _random(actions: Actions, rng: np.random.Generator) -> object:
    if actions.count is not None:
        return int(rng.integers(actions.count))
    return rng.uniform(-1, 1, actions.shape).astype(np.float32)


def probed_steps(count: int, every: int, end: int) -> frozenset[int]:
    """Return the evaluation steps (multiples of `every`, and `end`) nearest to `count` evenly spaced steps up to
    `end`."""
    points = [end * number / count for number in range(1, count + 1)]
    return frozenset(min(max(1, round(p / every)) * every, end, key=lambda step: abs(step - p)) for p in points)


def clip_starts(length: int, window: int) -> list[int]:
    """Return the first moves of the clips to judge in an episode of `length` moves: every STRIDE moves, and the last
    clip."""
    last = length - window
    return sorted({*range(0, last + 1, STRIDE), last}) if last >= 0 else []


class Probes:
    """The probes of a worker's seeds; none if their task has no reference episode or `count` is 0."""

    _episode: Callable[[int], Reference | None]
    """Seed row -> reference episode."""
    _pairs: Callable[[int], Pairs | None]
    """Seed row -> segment pairs that test a learnt reward."""

    def __init__(self, build: Build, task: str, count: int, end: int, write: Write) -> None:
        """`count`: number of probes in a run of `end` steps."""
        # Seeds with the same layouts share the reference episode.
        reference_episode = functools.cache(lambda suite: reference(suite, task))
        self._episode = lambda row: reference_episode(build.suite(row)) if count else None
        self._learnt = count > 0 and any(isinstance(part, TeacherPart) for part in build.parts.values())
        paired = functools.cache(lambda suite: mixed_pairs(suite, task))
        self._pairs = lambda row: paired(build.suite(row)) if self._learnt else None
        self._events = build.events
        self._window: int = clip_length(build.parts) or STRETCH
        self._steps = probed_steps(count, build.parts["evaluation"].every, end)
        self._write = write

    def describe(
        self,
        rows: Sequence[int],
        judge: Backend | None,
        runs: Sequence[str],
        stop: Callable[[], bool],
        role: str = "judge",
    ) -> None:
        """Write the reference episode of seed rows `rows` and the judge's scores of its clips. `runs`: CELL/SEED of
        every seed row. Raise Stopped if `stop` returns True.

        The judge's counters are restored afterwards, since they count only the clips of the run.
        """
        for row in rows:
            episode = self._episode(row)
            if episode is None:
                return
            self._write(row, 0, self._description(episode))
            if judge is not None:
                spent = judge.seconds, judge.clips
                self._write(row, 0, self._clip_scores(episode, row, judge, runs[row], stop, role))
                judge.seconds, judge.clips = spent

    def _description(self, episode: Reference) -> Iterator[Point]:
        yield Point(0, "window", self._window)
        for t, (events, expert) in enumerate(zip(episode.events, episode.expert, strict=True)):
            yield Point(t, "expert", float(expert))
            if self._learnt:
                yield Point(t, "true_reward", float(episode.rewards[t]))
            for number in np.flatnonzero(events).tolist():
                yield Point(t, f"event/{self._events[number]}", 1.0)

    def _clip_scores(
        self, episode: Reference, row: int, judge: Backend, run: str, stop: Callable[[], bool], role: str
    ) -> Iterator[Point]:
        """Yield the scores of the clips, each at its middle move."""
        starts = clip_starts(len(episode.expert), self._window)
        tickets = [Ticket(run, ORDINALS + number, 0, role, probe=True) for number in range(len(starts))]
        for ticket, start in zip(tickets, starts, strict=True):
            moves = slice(start, start + self._window)
            judge.ask(
                ticket, Question(row, np.zeros(0, np.int64), episode.snapshots[moves], episode.events[moves], to=role)
            )
        for ticket, start in zip(tickets, starts, strict=True):
            if stop():
                raise Stopped
            answer, _ = judge.take(ticket)
            if not answer.failure:
                yield Point(start + self._window // 2, "judge", float(answer.value))

    def __call__(self, agent: Agent, step: int, rows: Sequence[int]) -> None:
        """Write critic values and learnt rewards of each move, if `step` is a step to probe."""
        if step not in self._steps:
            return
        for row in rows:  # one row per batch, so that results do not depend on packing
            episode = self._episode(row)
            if episode is None:
                return
            observations = episode.observations
            of_row = np.full(len(observations), row)
            rewards = agent.reward(observations, of_row)
            values = {"critic": agent.value(observations, of_row), "reward": rewards}
            points = [
                Point(t, quantity, value)
                for quantity, along in values.items()
                if along is not None
                for t, value in enumerate(along.tolist())
                if np.isfinite(value)
            ]
            if rewards is not None and (pairs := self._pairs(row)) is not None:
                points.append(Point(0, "label_accuracy", self._accuracy(agent, row, pairs)))
            self._write(row, step, points)

    def _accuracy(self, agent: Agent, row: int, pairs: Pairs) -> float:
        """Return the share of pairs in which the learnt reward and the task reward prefer the same segment."""
        states = pairs.observations.reshape(-1, *pairs.observations.shape[3:])
        rewards = agent.reward(states, np.full(len(states), row))
        assert rewards is not None
        sums = rewards.reshape(pairs.observations.shape[:3]).sum(2)
        return float(((sums[:, 1] > sums[:, 0]) == pairs.second).mean())
