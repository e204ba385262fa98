"""Probes: what a run's judge sees, and what its critic and its learnt reward say, along one reference episode (VLM-RB,
figure 3; RL-SaLLM-F, figure 5).

The episode belongs to the task: every seed, method and study looks at the same one, unless the seed decides the layout
of a run (the suite's `of_run`), whose episode then has that layout. Looking draws no random number
and changes no state, so a run writes the same evaluation rows with probes and without. A learnt reward is also put to
pairs of segments of mixed quality that no run has seen (RL-SaLLM-F, table 6).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.capabilities import HasExpert
from guidebench.harness.errors import Stopped
from guidebench.harness.interfaces import Actions, Agent, Array, Build, Question, Suite
from guidebench.harness.models.questions import Backend, InFlight
from guidebench.harness.parts import TeacherPart, clip_length

STRETCH = 32
"""Random moves in a row; also the window of a method without a judge (VLM-RB, figure 3)."""
STRIDE = 4
"""Steps from one judged clip to the next."""
ORDINALS = 2**32
"""Where those of a probe's questions begin, beyond a run's own: what an oracle errs on follows from the ordinal."""
SEED = 0
"""Of the layouts and of the random moves."""
SEGMENT, EPISODES, PAIRS = 64, 10, 200
"""Moves of a segment of mixed quality, as the offline preference data of Hejna et al. (2024) has them (RL-SaLLM-F, app.
B.8); episodes they are cut from, and pairs (choice: seconds to make)."""


class Reference(NamedTuple):
    """An episode of T moves."""

    observations: Array  # [T, …], what each move was made on
    snapshots: Array  # uint8 [T, n], of the state after each move
    events: Array  # bool [T, E], what each move brought about
    expert: Array  # bool [T], whether the expert made it
    rewards: Array  # float [T], what the task gave for it


class Pairs(NamedTuple):
    """P pairs of segments of L moves."""

    observations: Array  # [P, 2, L, …], what each move was made on
    second: Array  # bool [P], whether the task's own reward prefers the second


class Point(NamedTuple):
    """What one row tells: `quantity` is critic, judge, expert, window, event/NAME, true_reward (the task's own), reward
    (the learnt one) or label_accuracy (of the learnt one, over all pairs)."""

    t: int
    quantity: str
    value: float


Write = Callable[[int, int, Iterable[Point]], None]
"""Takes what was seen of a seed's run at a step: row, step, points."""


def reference(suite: Suite, task: str) -> Reference | None:
    """The reference episode of a task; None if the task has no `expert()`, a scripted solver that tells its action.

    Random moves and the expert take turns, the expert until a move of its own brings about an event. The second half
    of the horizon is the expert's alone, so that it can end the episode.
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
    """Pairs of segments of a task that are not equally good, in their states and by the task's own reward; None if the
    task has no `expert()`. In every other episode the expert makes all moves, in the rest every other one is random."""
    environment = suite.make(task)
    length = min(SEGMENT, suite.horizon(task))
    if not isinstance(environment, HasExpert):
        return None
    actions, rng = suite.spaces(task)[1], np.random.default_rng(SEED)
    found: list[tuple[Array, float]] = []
    for episode in range(EPISODES):
        observation, done = environment.reset(SEED + 1 + episode), False
        moves: list[tuple[Array, float]] = []
        while not done:
            wandering = episode % 2 and len(moves) % 2
            step = environment.step(_random(actions, rng) if wandering else environment.expert())
            moves.append((observation, step.reward))
            observation, done = step.observation, step.terminated or step.truncated
        for start in range(0, len(moves) - length + 1, length):
            seen, rewards = zip(*moves[start : start + length], strict=True)
            found.append((np.stack(seen), float(sum(rewards))))
    if len(found) < 2:
        return None
    chosen = [rng.choice(len(found), 2, replace=False) for _ in range(PAIRS)]
    told = [(first, second) for first, second in chosen if found[first][1] != found[second][1]]
    if not told:
        return None
    states = np.stack([np.stack([found[one][0] for one in pair]) for pair in told])
    return Pairs(states, np.array([found[second][1] > found[first][1] for first, second in told]))


def _random(actions: Actions, rng: np.random.Generator) -> object:
    if actions.count is not None:
        return int(rng.integers(actions.count))
    return rng.uniform(-1, 1, actions.shape).astype(np.float32)


def probed_steps(count: int, every: int, end: int) -> frozenset[int]:
    """The evaluation steps (multiples of `every`, and `end`) nearest to `count` evenly spaced points up to `end`."""
    points = [end * number / count for number in range(1, count + 1)]
    return frozenset(min(max(1, round(p / every)) * every, end, key=lambda step: abs(step - p)) for p in points)


def clip_starts(length: int, window: int) -> list[int]:
    """First moves of the clips to judge in an episode of `length` moves: every few, and the clip that ends with it."""
    last = length - window
    return sorted({*range(0, last + 1, STRIDE), last}) if last >= 0 else []


class Probes:
    """The probes of a worker's seeds; none if their task has no reference episode or `count` is 0."""

    _episode: Callable[[int], Reference | None]
    """The reference episode of a seed's row."""
    _pairs: Callable[[int], Pairs | None]
    """The pairs that a learnt reward is put to, of a seed's row."""

    def __init__(self, build: Build, task: str, count: int, end: int, write: Write) -> None:
        """`count` looks at the critic in a run of `end` steps."""
        made = functools.cache(lambda suite: reference(suite, task))  # once for seeds that share their layouts
        self._episode = lambda row: made(build.suite(row)) if count else None
        self._learnt = count > 0 and any(isinstance(part, TeacherPart) for part in build.parts.values())
        paired = functools.cache(lambda suite: mixed_pairs(suite, task))
        self._pairs = lambda row: paired(build.suite(row)) if self._learnt else None
        self._events = build.events
        self._window: int = clip_length(build.parts) or STRETCH
        self._steps = probed_steps(count, build.parts["evaluation"].every, end)
        self._write = write

    def describe(
        self, rows: Sequence[int], judge: Backend | None, stop: Callable[[], bool], role: str = "judge"
    ) -> None:
        """Write the episode of seeds `rows` and what the judge, in its role, says of its clips; Stopped if `stop` asks
        for it.

        What the judge's clock counts is given back: it is kept for the clips of the run.
        """
        for row in rows:
            episode = self._episode(row)
            if episode is None:
                return
            self._write(row, 0, self._description(episode))
            if judge is not None:
                spent = judge.seconds, judge.clips
                self._write(row, 0, self._judged(episode, row, judge, stop, role))
                judge.seconds, judge.clips = spent

    def _description(self, episode: Reference) -> Iterator[Point]:
        yield Point(0, "window", self._window)
        for t, (events, expert) in enumerate(zip(episode.events, episode.expert, strict=True)):
            yield Point(t, "expert", float(expert))
            if self._learnt:
                yield Point(t, "true_reward", float(episode.rewards[t]))
            for number in np.flatnonzero(events).tolist():
                yield Point(t, f"event/{self._events[number]}", 1.0)

    def _judged(
        self, episode: Reference, row: int, judge: Backend, stop: Callable[[], bool], role: str
    ) -> Iterator[Point]:
        """The scores of the clips, each at the move in its middle. The numbers of a run's questions start at 0."""
        asked = []
        starts = clip_starts(len(episode.expert), self._window)
        for number, start in enumerate(starts):
            moves = slice(start, start + self._window)
            ask = Question(row, np.zeros(0, np.int64), episode.snapshots[moves], episode.events[moves], to=role)
            asked.append((start, InFlight(-1 - number - row * len(starts), ORDINALS + number, 0, ask)))
            judge.ask(asked[-1][1])
        for start, item in asked:
            if stop():
                raise Stopped
            told, _ = judge.take(item.number)
            if not told.failure:
                yield Point(start + self._window // 2, "judge", float(told.value))

    def __call__(self, agent: Agent, step: int, rows: Sequence[int]) -> None:
        """Write what the critic and a learnt reward say of each move, if `step` is one of those to look at."""
        if step not in self._steps:
            return
        for row in rows:  # each alone, so that no number depends on who shares the worker
            episode = self._episode(row)
            if episode is None:
                return
            seen = episode.observations
            values = {"critic": agent.value(seen, np.full(len(seen), row))}
            if (rewards := agent.reward(seen, np.full(len(seen), row))) is not None:
                values["reward"] = rewards
            points = [
                Point(t, quantity, value)
                for quantity, along in values.items()
                for t, value in enumerate(along.tolist())
                if np.isfinite(value)
            ]
            if rewards is not None and (pairs := self._pairs(row)) is not None:
                points.append(Point(0, "label_accuracy", self._accuracy(agent, row, pairs)))
            self._write(row, step, points)

    def _accuracy(self, agent: Agent, row: int, pairs: Pairs) -> float:
        """Share of pairs of which the learnt reward prefers the segment that the task's own prefers."""
        states = pairs.observations.reshape(-1, *pairs.observations.shape[3:])
        rewards = agent.reward(states, np.full(len(states), row))
        assert rewards is not None
        sums = rewards.reshape(pairs.observations.shape[:3]).sum(2)
        return float(((sums[:, 1] > sums[:, 0]) == pairs.second).mean())
