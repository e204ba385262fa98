"""ELLM's guide: it asks for goals in a state and rewards the step that does one of them, once an episode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from guidebench.baselines.by_text import question
from guidebench.baselines.guiding import BaseGuide
from guidebench.baselines.text_vectors import TextVectors, cosine
from guidebench.harness.interfaces import (
    Array,
    Batch,
    Build,
    Context,
    Episode,
    Metrics,
    Place,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.harness.logs import TEXT
from guidebench.methods.ellm import ROLE, Ellm
from guidebench.methods.ellm.goals import Suggested, Words, asked_about, read
from guidebench.methods.ellm.memory import StateGoals

REWARD = TransitionColumn("goal_reward", "fixed")
"""The column with R_int of each transition."""
VECTORS = Path("replay", "goal_vectors.bin")
"""The file in a run's directory with the vectors of captions and goals."""


class EllmGuide(BaseGuide):
    """R_int = max_i Δ(c, g_i), with Δ(c, g) = cos(E(c), E(g)) if that exceeds T, and else 0 (ELLM, eq. 1 to 3), for S
    seeds.

    c is the caption of a step and g_i are the goals suggested for the state before it, without those that an earlier
    step of the episode achieved. A goal is achieved by a step with Δ > 0. A step that is no deed of the task
    (`NamesDeeds`), such as a move, or that did nothing, has R_int = 0 and raises no question, unless `every_state`.
    """

    columns: tuple[TransitionColumn, ...] = (REWARD,)
    wants_words = True

    def __init__(self, config: Ellm, build: Build) -> None:
        self.config, rows = config, build.rows
        self._deeds = tuple(build.parts["suite"].deeds(build.task))
        self._done, self._words = frozenset(self._deeds), Words.of(self._deeds)
        self.states = [StateGoals(directory) for directory in build.directories]
        self.vectors = TextVectors(config.width, build.directories, VECTORS)
        self._cosines: list[dict[str, dict[str, float]]] = [{} for _ in range(rows)]
        """Caption -> goal -> cosine, for what a seed has compared; follows from its vectors."""
        self._achieved: list[dict[str, int]] = [{} for _ in range(rows)]
        """Goal -> steps that achieved it in the present episode."""
        self._paid, self._episode = np.zeros(rows), np.zeros(rows, np.int64)
        """Sum of R_int in the present episode, and its number in the run."""
        self.wants_measures = getattr(build.parts.get(ROLE), "backend", "") == "oracle"
        self._measures: list[Array | None] = [None] * rows
        """What an oracle is told of the state that each seed is in, [P]; None in an episode's first state, and for any
        other model."""
        self._reward = np.full(rows, np.nan)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Write R_int of a transition, 0 for one without words, such as a demonstration's; ask about what is new. A
        seed that has stopped training is left out."""
        rewards = np.zeros(len(self.states), np.float32)
        if (told := transition.words) is not None:
            training = np.flatnonzero(ctx.active).tolist()
            did = [row for row in training if told.captions[row] in self._done]
            asking = training if self.config.every_state else did
            states = {row: asked_about(told.before[row], self.config.omit, self.config.brief) for row in asking}
            self._ask(states, ctx)
            goals = {row: self.states[row].get(states[row]) for row in did}
            self._compare({row: told.captions[row] for row in did}, goals, ctx)
            for row in did:
                rewards[row] = self._achieve(row, told.captions[row], goals[row])
            if transition.measures is not None:
                self._measures = [*map(np.copy, transition.measures)]
        at = np.array([slot])
        for row in range(len(rewards)):
            store.write(REWARD.name, row, at, rewards[row : row + 1])

    def _ask(self, states: Mapping[int, str], ctx: Context) -> None:
        """Ask for the goals of states, by seed row, that the seed has not asked about, in one batch. An oracle is asked
        only about states in which the task has been measured."""
        new = {
            row: state
            for row, state in states.items()
            if state not in self.states[row] and not (self.wants_measures and self._measures[row] is None)
        }
        if not new:
            return
        questions = [
            question(json.dumps(state), Place(row, 0), ROLE)._replace(
                measures=None if (measured := self._measures[row]) is None else measured[None]
            )
            for row, state in new.items()
        ]
        for (row, state), answer in zip(new.items(), ctx.consult(questions), strict=True):
            found = read(answer or (), self._deeds, self._words, self.config.most, self.config.formed)
            self.states[row].add(state, None if answer is None else found.goals)
            ctx.note("goals", row, _logged(state, found, answer is None))

    def _compare(self, captions: Mapping[int, str], goals: Mapping[int, Sequence[str]], ctx: Context) -> None:
        """Find the cosine of each seed's caption with its goals, where it is not known; ask for their vectors."""
        new = [
            (row, caption, goal)
            for row, caption in captions.items()
            for goal in goals[row]
            if goal not in self._cosines[row].setdefault(caption, {})
        ]
        if not new:
            return
        texts = [text.encode() for _, caption, goal in new for text in (caption, goal)]
        places = [Place(row, 0) for row, _, _ in new for _ in range(2)]
        vectors = self.vectors.of(texts, places, ctx.active, ctx)
        for (row, caption, goal), one, other in zip(new, vectors[::2], vectors[1::2], strict=True):
            self._cosines[row][caption][goal] = cosine(one, other)

    def _achieve(self, row: int, caption: str, goals: Sequence[str]) -> float:
        """Return R_int of a seed's step, and count the goals that it achieved."""
        achieved, cosines = self._achieved[row], self._cosines[row].get(caption, {})
        near = [
            goal
            for goal in goals
            if cosines[goal] > self.config.threshold and not (self.config.once and goal in achieved)
        ]
        for goal in near:
            achieved[goal] = achieved.get(goal, 0) + 1
        reward = max((cosines[goal] for goal in near), default=0.0)
        self._paid[row] += reward
        return reward

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Log what episodes achieved, and forget it."""
        for episode in episodes:
            row, achieved = episode.row, self._achieved[episode.row]
            ctx.note(
                "achieved",
                row,
                {
                    "episode": int(self._episode[row]),
                    "goals": _joined(achieved),
                    "count": len(achieved),
                    "reward": float(self._paid[row]),
                    "length": episode.length,
                },
            )
            self._achieved[row], self._measures[row] = {}, None
            self._paid[row] = 0.0
            self._episode[row] += 1

    def shape(self, batch: Batch) -> Batch:
        """Return the batch with `task_weight` times the task's reward plus `weight` times R_int."""
        found = batch.columns[REWARD.name]
        self._reward = found.mean(1)
        task, own = np.float32(self.config.task_weight), np.float32(self.config.weight)
        return batch._replace(reward=task * batch.reward + own * found)

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean of R_int in the last batch; `guide/questions`, the states asked about so far;
        `guide/failed`, those without an answer; and `guide/goals`, the goals kept per state."""
        asked, failed, suggested = (
            np.array([float(each) for each in values])
            for values in (
                map(len, self.states),
                (states.failed for states in self.states),
                (states.suggested for states in self.states),
            )
        )
        return {
            "guide/reward": self._reward.copy(),
            "guide/questions": asked,
            "guide/failed": failed,
            "guide/goals": suggested / np.maximum(asked, 1),
        }

    def state(self, row: int) -> State:
        return {
            "states": self.states[row].state(),
            "vectors": self.vectors.state(row),
            "achieved": [[goal, times] for goal, times in self._achieved[row].items()],
            "paid": float(self._paid[row]),
            "episode": int(self._episode[row]),
            "reward": float(self._reward[row]),
            "measures": None if (measured := self._measures[row]) is None else measured.tolist(),
        }

    def load_state(self, row: int, state: State) -> None:
        self.states[row].load_state(state["states"])
        self.vectors.load_state(row, state["vectors"])
        self._cosines[row] = {}
        self._achieved[row] = {goal: int(times) for goal, times in state["achieved"]}
        self._paid[row], self._episode[row] = state["paid"], state["episode"]
        self._reward[row], measured = state["reward"], state["measures"]
        self._measures[row] = None if measured is None else np.array(measured, np.float32)


def _joined(goals: Iterable[str]) -> str:
    """Return goals, separated by commas, as a log can hold them: without the last ones where they are too long."""
    told = ", ".join(goals)
    return told if len(told) <= TEXT else told[: TEXT + 2].rpartition(", ")[0]


def _logged(state: str, found: Suggested, failed: bool) -> dict[str, object]:
    return {
        "state": "".join(each for each in state if each.isprintable())[:2_000],
        "goals": _joined(found.goals),
        "kept": len(found.goals),
        "proposed": found.proposed,
        "unknown": found.unknown,
        "senseless": found.senseless,
        "cut": found.cut,
        "failed": failed,
    }
