"""The guide that asks a model for waypoints at the beginning of every episode and rewards following them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import (
    Array,
    Batch,
    Context,
    Metrics,
    Question,
    State,
    Store,
    Transition,
    TransitionColumn,
)
from guidebench.harness.logs import TEXT, packed
from guidebench.harness.models.calls import Answer
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.filming import Film
from guidebench.methods.kagi.questions import SEGMENTER, TRACKER, WAYPOINTS, Candidates, WaypointQuestion
from guidebench.methods.kagi.rewards import Shape, dense, usable
from guidebench.methods.kagi.sight import Sight
from guidebench.methods.kagi.tracking import matrices, positions, to_follow, with_object
from guidebench.methods.kagi.waypoints import POINTS
from guidebench.methods.robofume.guide import Source, SparseGuide

TIP = TransitionColumn("tip", "fixed", (3,), batched=False)
"""Where the views show the gripper's tip in the state after a transition (`Sight.tips`), pixels."""
DENSE = TransitionColumn("dense", "mutable", initial=float("nan"))
"""The dense reward; NaN without waypoints."""
LOG, FOLLOWED, QUESTIONS, PATHS = "waypoints", "tracked", "questions", "paths"
RUNNING = -1
"""Length of an episode that has not ended."""


class EpisodeStart(NamedTuple):
    """An episode whose waypoints are asked for: where it is stored, and its first state."""

    store: int
    """Index of the name of its store, in the order of `Guide.connect`."""
    first: int
    """Number of its first transition in that store."""
    length: int
    """Number of its transitions, or `RUNNING`."""
    tip: Array
    """(x, y, z) of the gripper's tip in its first state, float32 [3], pixels."""
    snapshot: Array
    """Snapshot of its first state."""


class WaypointSettings(NamedTuple):
    """Settings by which the guide asks for waypoints and rewards following them."""

    shape: Shape
    size: int
    """Pixels along the side of the views in which distances are measured."""
    width: int
    """Coordinates that count: 3, or 2 without heights."""
    asks: bool
    """Whether waypoints are asked for; if not, only the sparse reward counts."""
    both: bool
    """Whether a sparse reward of 1 comes before the dense one."""
    oracles: frozenset[str]
    """Roles that an oracle fills; questions to these state the true places."""
    start: bool
    """Whether questions state the gripper's position, so that paths begin there."""
    follows: bool = False
    """Whether a tracker follows the object in the episodes that the run collects, and its position is rewarded too."""
    spacing: int = 1
    """Fewest environment steps between the begins of traced episodes, of which question and path are logged."""


class WaypointGuide(SparseGuide):
    """Rewards a transition by the dense reward of its next state; with `both`, by 1 where the sparse reward is 1.

    When an episode begins, the segmenter and then the waypoints' model are asked about its first state. The questions
    about episodes of a dataset are sent when the first episode of the environment begins. Until then these episodes
    have the sparse reward, as have episodes whose first state is unknown, demonstrations, and episodes without usable
    waypoints.

    If the object is followed, the tracker is asked about the states of a collected episode once it has ended and its
    waypoints are known; its answer replaces the gripper's reward by the mean of the gripper's and the object's.
    """

    def __init__(
        self,
        instruction: Callable[[int, Array], str],
        sights: Sequence[Sight | None],
        ways: WaypointSettings,
        every: int,
        threshold: float,
        source: Source,
    ) -> None:
        """`sights`: the views of each seed, None if no waypoints are asked for; the other arguments are those of
        `SparseGuide`."""
        rows = len(sights)
        super().__init__(rows, instruction, every, threshold, source)
        self._sights, self._ways = sights, ways
        self.columns = (*self.columns, *((TIP, DENSE) if ways.asks else ()))
        self._open: list[dict[tuple[int, int], EpisodeStart]] = [{} for _ in range(rows)]
        """For each seed: (store, first transition) -> episode whose waypoints are awaited."""
        self._dataset_episodes: list[list[EpisodeStart]] = [[] for _ in range(rows)]
        """For each seed: the episodes of datasets whose questions have not been sent yet."""
        self._now: list[tuple[int, Array | None] | None] = [None] * rows
        """First transition of each seed's episode, and its waypoints in pixels [m, k] once they are known."""
        self._traced: list[dict[int, int]] = [{} for _ in range(rows)]
        """First transition -> number of traced episodes."""
        self._begun, self._due = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        """Episodes of the run so far, and the step from which the next one is traced."""
        self._failed, self._unknown = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        """Episodes without usable waypoints, and episodes of datasets without a first state."""
        self.wants_snapshots |= ways.follows
        self._films: list[dict[int, Film]] = [{} for _ in range(rows)]
        """For each seed: first transition -> recorded states of a collected episode whose object is to be followed."""
        self._dense_share = np.full(rows, np.nan)
        """Share of each seed's last batch that has the dense reward, [S]."""
        self._untracked = np.zeros(rows, np.int64)
        """Episodes of each seed in which the tracker found the object in no state, [S]."""

    # Observation

    def observed_dataset(self, slot: int, transition: Transition, name: str, ctx: Context) -> None:
        """Record where the episodes of a dataset begin and end, for their questions, and store the gripper's
        position."""
        if self._ways.asks:
            store = self._stores[name]
            self._locate(slot, transition, store)
            number, which = store.written - 1, [*self._stores].index(name)
            for row in np.flatnonzero(self._clock == 0).tolist():
                if transition.opening is None:
                    self._unknown[row] += 1
                else:
                    tip = self._tips(transition.observation)[row]
                    self._dataset_episodes[row].append(
                        EpisodeStart(which, number, RUNNING, tip, transition.opening[row].copy())
                    )
            for row in np.flatnonzero(transition.terminated | transition.truncated).tolist():
                episodes = self._dataset_episodes[row]
                if episodes and episodes[-1].first == number - int(self._clock[row]):
                    episodes[-1] = episodes[-1]._replace(length=number - episodes[-1].first + 1)
        super().observed_dataset(slot, transition, name, ctx)

    def begun(self, rows: Array, store: Store, ctx: Context) -> None:
        """Send the questions about these seeds' new episodes and, the first time, about the episodes of datasets."""
        if not self._ways.asks:
            return
        tips = self._tips(ctx.observation)
        for row in np.asarray(rows).tolist():
            for episode in self._dataset_episodes[row]:
                self._ask(row, episode, ctx)
            self._dataset_episodes[row] = []
            self._now[row] = (store.written, None)
            if ctx.step >= self._due[row]:
                self._traced[row][store.written] = int(self._begun[row])
                self._due[row] = ctx.step + self._ways.spacing
            self._begun[row] += 1
            begun = EpisodeStart(0, store.written, RUNNING, tips[row], ctx.snapshot(row).copy())
            if self._ways.follows:
                self._films[row][begun.first] = Film(begun.first, [begun.snapshot])
            self._ask(row, begun, ctx)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Store the gripper's position and, where an episode's waypoints are known, the dense reward of its
        transition."""
        if self._ways.asks:
            self._locate(slot, transition, store)
            number = store.written - 1
            ended = transition.terminated | transition.truncated
            for row, now in enumerate(self._now):
                if now is None:
                    continue
                first, waypoints = now
                if waypoints is not None:
                    self._reward(store, row, first if self._ways.shape.onward else number, number, waypoints)
                if ended[row] and (episode := self._open[row].get((0, first))):
                    self._open[row][0, first] = episode._replace(length=number - first + 1)
                if film := self._films[row].get(first):
                    assert transition.snapshot is not None, "snapshots were wanted"
                    film.step(transition.snapshot[row], bool(ended[row]))
                    self._track(row, film, ctx)
                if ended[row]:
                    self._now[row] = None
                    self._note_path(store, row, first, number, ctx)
        super().observed(slot, transition, store, ctx)

    def _locate(self, slot: int, transition: Transition, store: Store) -> None:
        for row, tip in enumerate(self._tips(transition.next_observation)):
            store.write(TIP.name, row, np.array([slot]), tip)

    def _tips(self, observations: Array) -> Array:
        """Return the pixel coordinates (x, y, z) of each seed's gripper, float32 [S, 3], for observations [S, …]."""
        sights = [sight for sight in self._sights if sight is not None]
        if all(sight is sights[0] for sight in sights):
            return sights[0].tips(observations)
        return np.concatenate([sight.tips(observations[row : row + 1]) for row, sight in enumerate(sights)])

    # Questions and answers

    def _ask(self, row: int, episode: EpisodeStart, ctx: Context) -> None:
        self._open[row][episode.store, episode.first] = episode
        ctx.ask(self._question(row, episode, SEGMENTER, self._segmenter_content(row, episode)))

    def _segmenter_content(self, row: int, episode: EpisodeStart) -> str:
        """Return the content of the question to the segmenter about an episode, as JSON."""
        return json.dumps({"instruction": self._instruction(row, episode.snapshot)})

    def _question(self, row: int, episode: EpisodeStart, role: str, content: str) -> Question:
        key = np.array([episode.store, episode.first], np.int64)
        question = Question(row, key, episode.snapshot[None], np.zeros((2, 0), bool), content, role)
        if role in self._ways.oracles and (sight := self._sights[row]) is not None:
            return question._replace(measures=sight.places(episode.snapshot))
        return question

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Handle answers: send the question for waypoints after the segmenter's, reward an episode by its waypoints,
        and by its object's positions after the tracker's."""
        super().answered(answers, store, ctx)
        for question, answer in answers:
            if question.to == TRACKER:
                self._tracked(question.row, int(question.key[0]), answer.value, ctx)
            elif question.to in (SEGMENTER, WAYPOINTS):
                store_number, first = question.key.tolist()
                episode = self._open[question.row][store_number, first]
                (self._segmented if question.to == SEGMENTER else self._led)(question.row, episode, answer.value, ctx)

    def _segmented(self, row: int, episode: EpisodeStart, answer: Any, ctx: Context) -> None:
        if answer is None:
            self._note_question(row, episode, SEGMENTER, self._segmenter_content(row, episode), ctx)
            self._conclude(row, episode, None, None, ctx)
            return
        candidates = Candidates(answer["grasp"], answer["target"])
        if film := self._film(row, episode):
            film.grasp = np.array(candidates.grasp, np.float64)
        grid, start = Grid(heights=self._ways.width == 3), episode.tip[: self._ways.width] / self._ways.size
        start_place = start.tolist() if self._ways.start and np.isfinite(start).all() else None
        content = WaypointQuestion(self._instruction(row, episode.snapshot), candidates, grid, start_place).content()
        self._note_question(row, episode, WAYPOINTS, content, ctx)
        ctx.ask(self._question(row, episode, WAYPOINTS, content))

    def _led(self, row: int, episode: EpisodeStart, answer: Any, ctx: Context) -> None:
        waypoints = usable(answer, self._ways.width)
        self._conclude(row, episode, waypoints, answer if waypoints is not None else None, ctx)

    def _conclude(self, row: int, episode: EpisodeStart, fractions: Array | None, answer: Any, ctx: Context) -> None:
        """Log an episode's waypoints, fractions [m, k], and reward the episode by them; None counts it as failed.
        `answer`: that of the waypoints' model, or None."""
        del self._open[row][episode.store, episode.first]
        name = [*self._stores][episode.store]
        self._failed[row] += fractions is None
        columns = {} if fractions is None else {
            **{kind: f"{letter}{answer[kind]}" for kind, letter in (("grasp", "P"), ("target", "Q")) if kind in answer},
            "blocks": json.dumps(answer.get("blocks", [])), "path": json.dumps(np.round(fractions, 4).tolist()),
            "retries": int(answer.get("retries", 0)),
        }  # fmt: skip
        ctx.note(LOG, row, {
            "collected": episode.store == 0, "first": episode.first, "failed": fractions is None,
            "instruction": self._instruction(row, episode.snapshot), **columns,
            "episode": self._traced[row].get(episode.first) if episode.store == 0 else None,
        })  # fmt: skip
        film = self._film(row, episode)
        if fractions is None:
            if film:
                del self._films[row][film.first]
            return
        store, waypoints = self._stores[name], fractions * self._ways.size
        if episode.length == RUNNING:
            self._now[row] = (episode.first, waypoints)
            self._reward(store, row, episode.first, store.written - 1, waypoints)
        else:
            last = episode.first + episode.length - 1
            self._reward(store, row, episode.first, last, waypoints)
            self.renewed(name, row, episode.first, last)
        if film:
            sight, instruction = self._sights[row], self._instruction(row, episode.snapshot)
            assert sight is not None, "waypoints are asked for"
            film.waypoints = waypoints
            film.content = to_follow(instruction, film.grasp[answer["grasp"] - 1].tolist(), fractions, sight.cameras)
            self._track(row, film, ctx)

    def _note_question(self, row: int, episode: EpisodeStart, role: str, content: str, ctx: Context) -> None:
        """Log the last question about a traced episode, with the snapshot and the cameras of its images."""
        snapshot = packed(episode.snapshot.tobytes())
        if episode.store or episode.first not in self._traced[row] or max(len(snapshot), len(content)) > TEXT:
            return
        sight = self._sights[row]
        cameras = matrices(sight.cameras) if sight is not None and self._ways.width == 3 else None
        ctx.note(QUESTIONS, row, {
            "episode": self._traced[row][episode.first], "first": episode.first, "role": role, "asked": content,
            "snapshot": snapshot,
            "cameras": None if cameras is None else json.dumps([[[float(f"{x:.6g}") for x in line] for line in camera]
                                                                for camera in cameras.tolist()]),
        })  # fmt: skip

    def _note_path(self, store: Store, row: int, first: int, last: int, ctx: Context) -> None:
        """Log the gripper's positions in a traced episode, whose transitions are `first` to `last`."""
        if first in self._traced[row]:
            numbers = np.unique(np.linspace(first, last, POINTS).round().astype(np.int64))
            tips = store.read(TIP.name, row, store.slot(numbers[store.holds(numbers)]))
            path = np.round(tips[np.isfinite(tips).all(axis=1)].astype(float), 1).tolist()
            ctx.note(PATHS, row, {"first": first, "tips": json.dumps(path)})

    def _film(self, row: int, episode: EpisodeStart) -> Film | None:
        """Return the film of an episode; None unless the run collected it and its object is followed."""
        return self._films[row].get(episode.first) if episode.store == 0 else None

    def _track(self, row: int, film: Film, ctx: Context) -> None:
        """Send the question to the tracker about an episode once it is due (`Film.due`)."""
        if film.due and film.content:
            ctx.ask(film.question(row))
        elif film.due:
            self._tracked(row, film.first, None, ctx)

    def _tracked(self, row: int, first: int, answer: Any, ctx: Context) -> None:
        """Reward an ended episode by its object's positions, or count it as untracked without any. `first`: number of
        its first transition; `answer`: the tracker's (`tracking.Tracking`), or None."""
        film = self._films[row].pop(first)
        after = positions(answer or [None] * (film.length + 1))[1:] * self._ways.size
        visible_states = int(np.isfinite(after[:, 0]).sum())
        self._untracked[row] += visible_states == 0
        ctx.note(
            FOLLOWED, row, {"first": first, "failed": answer is None, "states": film.length, "seen": visible_states}
        )
        if visible_states:
            assert film.waypoints is not None, "they were known when the tracker was asked"
            name, last = next(iter(self._stores)), first + film.length - 1
            self._reward(self._stores[name], row, first, last, film.waypoints, after)
            self.renewed(name, row, first, last)

    def _reward(
        self, store: Store, row: int, first: int, last: int, waypoints: Array, places: Array | None = None
    ) -> None:
        """Write the dense rewards of a seed's transitions `first` to `last` that are still stored. `places`: the
        object's position after each of these transitions, pixels [n, 3], if it is rewarded too."""
        numbers = np.arange(first, last + 1)
        is_stored = store.holds(numbers)
        slots = store.slot(numbers[is_stored])
        if not len(slots):
            return
        tips = store.read(TIP.name, row, slots)[:, : self._ways.width].astype(np.float64)
        rewards = dense(tips, waypoints, self._ways.shape)
        if places is not None:
            rewards = with_object(rewards, dense(places, waypoints, self._ways.shape)[is_stored])
        store.write(DENSE.name, row, slots, rewards)

    # Rewards, metrics and state

    def shape(self, batch: Batch) -> Batch:
        if not self._ways.asks:
            return super().shape(batch)
        sparse, dense_rewards = self.sparse(batch), batch.columns[DENSE.name]
        has_dense = ~np.isnan(dense_rewards)
        if self._ways.both:
            has_dense &= ~sparse
        reward = np.where(has_dense, dense_rewards, sparse)
        self._dense_share[:] = has_dense.mean(1)
        return batch._replace(reward=reward.astype(np.float32))

    def metrics(self) -> Metrics:
        """Return the metrics of `SparseGuide`, and the numbers of episodes so far without usable waypoints,
        `guide/failed`, of dataset episodes whose first state is unknown, `guide/unknown`, and, if the object is
        followed, of episodes in which the tracker never found it, `guide/untracked`; and the share of the last batch
        that has the waypoints' reward, `guide/dense_share`."""
        counts = {"guide/failed": self._failed, "guide/unknown": self._unknown} if self._ways.asks else {}
        if self._ways.asks:
            counts["guide/dense_share"] = self._dense_share
        if self._ways.follows:
            counts["guide/untracked"] = self._untracked
        return {**super().metrics(), **{name: values.astype(float) for name, values in counts.items()}}

    def state(self, row: int) -> State:
        now = self._now[row]
        films = [film.state() for film in self._films[row].values()]
        followed = {"films": films, "untracked": int(self._untracked[row])} if self._ways.follows else {}
        return {
            **super().state(row),
            **followed,
            "open": _packed_episodes([*self._open[row].values()]),
            "given": _packed_episodes(self._dataset_episodes[row]),
            "now": None if now is None else {"first": now[0], "waypoints": now[1]},
            "traced": np.array([*self._traced[row].items()], np.int64).reshape(-1, 2),
            "begun": int(self._begun[row]),
            "due": int(self._due[row]),
            "failed": int(self._failed[row]),
            "unknown": int(self._unknown[row]),
            "dense_share": float(self._dense_share[row]),
        }

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self._open[row] = {(episode.store, episode.first): episode for episode in _episodes(state["open"])}
        self._dataset_episodes[row] = _episodes(state["given"])
        now = state["now"]
        self._now[row] = None if now is None else (int(now["first"]), now["waypoints"])
        self._traced[row] = dict(state["traced"].tolist())
        self._begun[row], self._due[row] = state["begun"], state["due"]
        self._failed[row], self._unknown[row] = state["failed"], state["unknown"]
        self._dense_share[row] = state.get("dense_share", np.nan)  # a checkpoint of an earlier version lacks it
        if self._ways.follows:
            self._films[row] = {film.first: film for film in map(Film.restored, state["films"])}
            self._untracked[row] = state["untracked"]


def _packed_episodes(episodes: Sequence[EpisodeStart]) -> State:
    """Return episodes as arrays for a checkpoint; their snapshots are concatenated, since their lengths may differ."""
    return {
        "numbers": np.array([episode[:3] for episode in episodes], np.int64).reshape(-1, 3),
        "tips": np.array([episode.tip for episode in episodes], np.float32).reshape(-1, 3),
        "sizes": np.array([len(episode.snapshot) for episode in episodes], np.int64),
        "snapshots": np.concatenate([np.zeros(0, np.uint8), *(episode.snapshot for episode in episodes)]),
    }


def _episodes(state: State) -> list[EpisodeStart]:
    shots = np.split(state["snapshots"], np.cumsum(state["sizes"])[:-1]) if len(state["sizes"]) else []
    return [
        EpisodeStart(int(store), int(first), int(length), tip, shot)
        for (store, first, length), tip, shot in zip(state["numbers"], state["tips"], shots, strict=True)
    ]
