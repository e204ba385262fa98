"""ELLM's guide: it asks for goals in a state and rewards a step that achieves one of them, once per episode."""

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
from guidebench.methods.ellm.goals import Suggested, Words, question_state, read
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
    wants_words = Ellm.reads_words

    def __init__(self, config: Ellm, build: Build) -> None:
        self.config, rows = config, build.rows
        self._deeds = tuple(build.parts["suite"].deeds(build.task))
        self._done, self._words = frozenset(self._deeds), Words.of(self._deeds)
        self.states = [StateGoals(directory) for directory in build.directories]
        self.vectors = TextVectors(config.width, build.directories, VECTORS)
        self._cosines: list[dict[str, dict[str, float]]] = [{} for _ in range(rows)]
        """For each seed: caption -> goal -> cosine of their vectors; a cache, not part of a checkpoint."""
        self._achieved: list[dict[str, int]] = [{} for _ in range(rows)]
        """For each seed: goal -> number of steps of the present episode that achieved it."""
        self._paid, self._episode = np.zeros(rows), np.zeros(rows, np.int64)
        """Sum of R_int in the present episode, and its number in the run."""
        self.wants_measures = getattr(build.parts.get(ROLE), "backend", "") == "oracle"
        self._measures: list[Array | None] = [None] * rows
        """Measures of the state that each seed is in, [P], for an oracle; None in an episode's first state, and for any
        other model."""
        self._reward = np.full(rows, np.nan)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Store R_int of a transition, after asking for the goals of new states; it is 0 for a transition without
        words, such as a demonstration's, and for a seed that has stopped training."""
        rewards = np.zeros(len(self.states), np.float32)
        if (words := transition.words) is not None:
            training = np.flatnonzero(ctx.active).tolist()
            did = [row for row in training if words.captions[row] in self._done]
            asking_rows = training if self.config.every_state else did
            states = {
                row: question_state(words.before[row], self.config.omit, self.config.brief) for row in asking_rows
            }
            self._ask(states, ctx)
            goals = {row: self.states[row].get(states[row]) for row in did}
            self._compare({row: words.captions[row] for row in did}, goals, ctx)
            for row in did:
                rewards[row] = self._achieve(row, words.captions[row], goals[row])
            if transition.measures is not None:
                self._measures = [*map(np.copy, transition.measures)]
        at = np.array([slot])
        for row in range(len(rewards)):
            store.write(REWARD.name, row, at, rewards[row : row + 1])

    def _ask(self, states: Mapping[int, str], ctx: Context) -> None:
        """Ask, in one batch, for the goals of those states that their seeds have not asked about. `states`: row ->
        state. An oracle is asked only about states that have measures."""
        new = {
            row: state
            for row, state in states.items()
            if state not in self.states[row] and not (self.wants_measures and self._measures[row] is None)
        }
        if not new:
            return
        questions = [
            question(json.dumps(state), Place(row, 0), ROLE)._replace(
                measures=None if (measures := self._measures[row]) is None else measures[None]
            )
            for row, state in new.items()
        ]
        for (row, state), answer in zip(new.items(), ctx.consult(questions), strict=True):
            suggested = read(answer or (), self._deeds, self._words, self.config.most, self.config.formed)
            self.states[row].add(state, None if answer is None else suggested.goals)
            ctx.note("goals", row, _logged(state, suggested, answer is None))

    def _compare(self, captions: Mapping[int, str], goals: Mapping[int, Sequence[str]], ctx: Context) -> None:
        """Compute the missing cosines of each seed's caption with its goals, after asking for the vectors of new texts.
        `captions`: row -> caption; `goals`: row -> goals."""
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
        for (row, caption, goal), caption_vector, goal_vector in zip(new, vectors[::2], vectors[1::2], strict=True):
            self._cosines[row][caption][goal] = cosine(caption_vector, goal_vector)

    def _achieve(self, row: int, caption: str, goals: Sequence[str]) -> float:
        """Return R_int of a seed's step, and count the goals that it achieved."""
        achieved, cosines = self._achieved[row], self._cosines[row].get(caption, {})
        achieved_goals = [
            goal
            for goal in goals
            if cosines[goal] > self.config.threshold and not (self.config.once and goal in achieved)
        ]
        for goal in achieved_goals:
            achieved[goal] = achieved.get(goal, 0) + 1
        reward = max((cosines[goal] for goal in achieved_goals), default=0.0)
        self._paid[row] += reward
        return reward

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Log the goals that each of these episodes achieved, and reset the counts."""
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
        goal_rewards = batch.columns[REWARD.name]
        self._reward = goal_rewards.mean(1)
        task_weight, weight = np.float32(self.config.task_weight), np.float32(self.config.weight)
        return batch._replace(reward=task_weight * batch.reward + weight * goal_rewards)

    def metrics(self) -> Metrics:
        """Return `guide/reward`, the mean of R_int in the last batch; `guide/questions`, the states asked about so far;
        `guide/failed`, those without an answer; and `guide/goals`, the mean number of goals per state."""
        questions, failed, suggested = (
            np.array([float(count) for count in counts])
            for counts in (
                map(len, self.states),
                (states.failed for states in self.states),
                (states.suggested for states in self.states),
            )
        )
        return {
            "guide/reward": self._reward.copy(),
            "guide/questions": questions,
            "guide/failed": failed,
            "guide/goals": suggested / np.maximum(questions, 1),
        }

    def state(self, row: int) -> State:
        return {
            "states": self.states[row].state(),
            "vectors": self.vectors.state(row),
            "achieved": [[goal, times] for goal, times in self._achieved[row].items()],
            "paid": float(self._paid[row]),
            "episode": int(self._episode[row]),
            "reward": float(self._reward[row]),
            "measures": None if (measures := self._measures[row]) is None else measures.tolist(),
        }

    def load_state(self, row: int, state: State) -> None:
        self.states[row].load_state(state["states"])
        self.vectors.load_state(row, state["vectors"])
        self._cosines[row] = {}
        self._achieved[row] = {goal: int(times) for goal, times in state["achieved"]}
        self._paid[row], self._episode[row] = state["paid"], state["episode"]
        self._reward[row], measures = state["reward"], state["measures"]
        self._measures[row] = None if measures is None else np.array(measures, np.float32)


def _joined(goals: Iterable[str]) -> str:
    """Return goals joined by commas, without the last ones if the text is longer than a log allows."""
    joined = ", ".join(goals)
    return joined if len(joined) <= TEXT else joined[: TEXT + 2].rpartition(", ")[0]


def _logged(state: str, suggested: Suggested, failed: bool) -> dict[str, object]:
    return {
        "state": "".join(character for character in state if character.isprintable())[:2_000],
        "goals": _joined(suggested.goals),
        "kept": len(suggested.goals),
        "proposed": suggested.proposed,
        "unknown": suggested.unknown,
        "senseless": suggested.senseless,
        "cut": suggested.cut,
        "failed": failed,
    }
