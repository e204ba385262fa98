"""The guide `preference` on real storage: explore, ask, learn, relabel, reset; every seed for itself."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.guides.preference import Preference
from guidebench.baselines.guides.preference.guide import REWARD, PreferenceGuide
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.preference.exploration import neighbour_distance
from guidebench.baselines.preference.segments import INFORMATIVE
from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.storage import Storage
from guidebench.baselines.teachers.oracle import Oracle
from guidebench.harness.interfaces import (
    Array,
    Coordinates,
    Question,
    Transition,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.parts import SuitePart
from tests.baselines.learners.conftest import same
from tests.baselines.learners.continuous import SMALL, Reach, build
from tests.cell_views import cell_view

QUICK = Preference(
    budget=12,
    queries=5,
    every=20,
    segment=4,
    pretraining=40,
    hidden=(8,),
    epochs=2,
    batch_size=8,
    updates_after_reset=7,
)
LEARNER = Sac(**{**SMALL, "learning_starts": 16})


class Suite(SuitePart):
    """A suite whose rewards follow from the states: minus the distance of point and place."""

    def make(self, task: str) -> Reach:
        return Reach()

    def rewards(self, task: str, observations: Array) -> Array:
        return -abs(observations[:, 0] - observations[:, 1])

    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        return Coordinates("point", "", (0,)), Coordinates("place", "", (1,), constant=True)


@dataclass(frozen=True)
class AskingLlm:
    """A teacher part that asks over a channel and turns the answer into its verdict."""

    shows: bool = False

    def spawn(self, build: Any) -> Any:
        return AskingTeacher(self.shows)


class AskingTeacher:
    to = "chat"

    def __init__(self, shows: bool) -> None:
        self.wants_snapshots = shows

    def question(self, pair: Pair) -> Question:
        snapshots = None if pair.snapshots is None else pair.snapshots.reshape(-1, pair.snapshots.shape[2])
        return Question(pair.row, np.array([pair.number]), snapshots, np.zeros((1, 0), bool), "{}", "chat")

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        if value is None:
            return Verdict("failed")
        keep, better = value
        imagined = pair.observations[1] + 1 if better else None
        return Verdict("labelled", 1.0, keep, imagined, {"first": 2, "imagined": "kept"})


class Ctx:
    """The context that the loop offers a guide."""

    def __init__(self, step: int) -> None:
        self.step, self.questions, self.notes, self.sketches = step, [], [], []

    def ask(self, ask: Question) -> None:
        self.questions.append(ask)

    def note(self, log: str, row: int, values: Mapping[str, Any]) -> None:
        {"labels": self.notes, "imagined": self.sketches}[log].append((row, dict(values)))


class Run:
    """A guide with store and learner on the task Reach, with random actions."""

    def __init__(
        self, path: Path, seeds: tuple[int, ...] = (0,), config: Preference = QUICK, teacher: Any = None, **more: Any
    ) -> None:
        parts = {"teacher": teacher or Oracle(), "suite": Suite(), **more}
        self.build = build(seeds, path=path, parts=parts)
        self.guide = config.spawn(self.build)
        assert isinstance(self.guide, PreferenceGuide)
        self.learner = LEARNER.spawn(self.build)
        self.store = Storage(self.build, self.guide.columns)
        self.tasks = [Reach() for _ in seeds]
        self.observations = np.stack([task.reset(seed) for task, seed in zip(self.tasks, seeds, strict=True)])
        self.rngs = [np.random.default_rng(seed) for seed in seeds]
        self.step, self.notes, self.sketches, self.questions = 0, [], [], []

    def play(self, steps: int) -> list[int]:
        """Play these steps, and return the further updates that each asked for."""
        return [self.advance() for _ in range(steps)]

    def advance(self, answers: tuple[tuple[Question, Answer], ...] = ()) -> int:
        self.step += 1
        ctx = Ctx(self.step)
        before = self.observations
        action = np.stack([rng.uniform(-1, 1, 1) for rng in self.rngs]).astype(np.float32)
        steps = [task.step(row_action) for task, row_action in zip(self.tasks, action, strict=True)]
        self.observations = np.stack([step.observation for step in steps])
        transition = Transition(
            before, action, np.array([step.reward for step in steps], np.float32),
            np.array([step.terminated for step in steps]), np.array([step.truncated for step in steps]),
            self.observations, np.zeros((len(steps), 0), bool),
            np.stack([task.snapshot() for task in self.tasks]) if self.guide.wants_snapshots else None,
            np.array([step.success for step in steps]),
        )  # fmt: skip
        for row, step in enumerate(steps):
            if step.truncated:
                self.observations[row] = self.tasks[row].reset()
        slot = self.store.append(transition)
        self.guide.observed(slot, transition, self.store, ctx)
        if answers:
            self.guide.answered(answers, self.store, ctx)
        more = int(np.max(self.guide.before_update(self.store, self.learner, ctx)))
        self.notes += ctx.notes
        self.sketches += ctx.sketches
        self.questions += ctx.questions
        return more

    def everywhere(self) -> Array:
        live = self.store.live
        return np.tile(live.slots(np.arange(live.count)), (self.build.rows, 1))

    def batch(self, size: int = 16) -> Any:
        return self.guide.shape(self.store.gather(self.everywhere()[:, -size:]))


def test_a_run_explores_and_then_trains() -> None:
    guide = Preference().spawn(build(parts={"teacher": Oracle()}))
    assert [tuple(phase)[:2] for phase in guide.phases(500_000)] == [("explore", 10_000), ("train", 490_000)]


def test_without_pretraining_the_first_session_follows_the_random_steps(tmp_path: Path) -> None:
    guide = Preference(pretraining=None).spawn(build(parts={"teacher": Oracle(), "learner": LEARNER}))
    assert [tuple(phase)[:2] for phase in guide.phases(100)] == [("explore", 16), ("train", 84)]
    assert not Preference(pretraining=None).fits(cell_view(parts(steps=17), "reach"))
    assert "leaves nothing" in Preference(pretraining=None).fits(cell_view(parts(steps=16), "reach"))


def test_until_the_first_session_the_learner_is_paid_for_states_unlike_the_others(tmp_path: Path) -> None:
    run = Run(tmp_path, (0, 1))
    assert run.play(39) == [0] * 39 and not run.notes
    states = run.store.column("observation", run.everywhere())
    for row, paid in enumerate(run.batch().reward):
        near = np.sort(np.linalg.norm(states[row][:, None] - states[row][None], axis=2), 1)[-16:, 5]
        assert paid == pytest.approx(np.log(near), rel=1e-3)


def test_after_the_first_session_the_learner_is_paid_what_the_ensemble_says_of_all_that_is_stored(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, (0, 1))
    before = run.learner.state(0)
    assert run.play(40)[-1] == 7
    states = run.store.column("observation", run.everywhere())
    learnt = run.guide.rewards.reward(states)
    assert np.array_equal(run.store.column(REWARD, run.everywhere()), learnt)
    assert np.array_equal(run.batch().reward, learnt[:, -16:])
    assert run.guide.reward(states[1], np.ones(40, int)) == pytest.approx(learnt[1], abs=1e-6)
    after = run.learner.state(0)
    assert same(before["actor"], after["actor"]) and not same(before["critic"], after["critic"])
    run.play(1)  # a new transition is paid by the same reward at once
    newest = run.store.column(REWARD, run.everywhere())[:, -1]
    assert newest == pytest.approx(run.guide.rewards.reward(run.store.column("observation", run.everywhere()))[:, -1])


def test_sessions_come_every_so_many_steps_until_the_budget_is_spent(tmp_path: Path) -> None:
    run = Run(tmp_path, (0, 1))
    more = run.play(120)
    assert [step + 1 for step, count in enumerate(more) if count] == [40]
    for row in (0, 1):
        seed_rows = [note for note_row, note in run.notes if note_row == row]
        assert [note["asked"] for note in seed_rows] == [40] * 5 + [60] * 5 + [80] * 2
        assert [note["session"] for note in seed_rows] == [0] * 5 + [1] * 5 + [2] * 2
        assert [note["query"] for note in seed_rows] == list(range(12))
    assert run.guide.metrics()["preference/queries"].tolist() == [12, 12]


def test_labels_rows_tell_what_was_asked_and_the_truth(tmp_path: Path) -> None:
    run = Run(tmp_path, teacher=Oracle(mistake=0.5))
    run.play(100)
    pairs = run.guide.preferences[0]
    assert len(run.notes) == len(pairs) == 12
    wrong = 0
    for (_, row), label in zip(run.notes, pairs.labels, strict=True):
        assert row["truth"] == float(row["reward_1"] > row["reward_0"])
        assert row["outcome"] == "labelled" and row["kept"] and row["preference"] == label
        wrong += row["preference"] != row["truth"]
    accuracy = run.guide.metrics()["preference/label_accuracy"]
    assert 0 < wrong < 12 and accuracy == pytest.approx(1 - wrong / 12)


def test_learned_returns_are_those_before_the_session(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.play(39)
    before = run.guide.rewards
    state = before.state(0)
    run.play(1)
    before.load_state(0, state)
    for (_, row), pair in zip(run.notes, run.guide.preferences[0].pairs, strict=True):
        assert [row["learned_0"], row["learned_1"]] == pytest.approx(
            [before.reward(segment[None]).sum() for segment in pair], abs=1e-5
        )


def test_segments_stay_within_their_episode_and_pair_with_their_rewards(tmp_path: Path) -> None:
    run = Run(tmp_path, config=replace(QUICK, budget=300, queries=100))
    run.play(40)
    states = run.store.column("observation", run.everywhere())[0]
    rewards = run.store.column("reward", run.everywhere())[0]
    for (_, row), pair in zip(run.notes, run.guide.preferences[0].pairs, strict=True):
        for number, segment in enumerate(pair):
            start = int(np.flatnonzero((states == segment[0]).all(1))[0])
            assert np.array_equal(states[start : start + 4], segment) and start % 20 <= 16
            assert row[f"reward_{number}"] == pytest.approx(float(rewards[start : start + 4].sum()))


def test_informative_sampling_asks_about_the_pairs_rated_highest_but_in_the_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(INFORMATIVE, "entropy", lambda probabilities: -probabilities.mean(0))
    run = Run(tmp_path, config=replace(QUICK, budget=400, queries=20, sampling="entropy", epochs=20, lr=1e-2))
    run.play(100)
    more = {n: [v["learned_1"] - v["learned_0"] for _, v in run.notes if v["session"] == n] for n in (0, 1, 2, 3)}
    assert min(more[0]) < 0 < max(more[0])
    assert all(max(more[n]) < 0 for n in (1, 2, 3))  # rated highest: of ten times as many, the likeliest first


def answer(ask: Question, value: Any) -> tuple[Question, Answer]:
    return ask, Answer(value)


def test_questions_go_over_the_channel_and_a_session_is_learnt_when_all_answers_are_there(tmp_path: Path) -> None:
    run = Run(tmp_path, teacher=AskingLlm())
    assert not any(run.play(40)) and len(run.questions) == 5 and not run.notes
    first, rest = run.questions[:1], run.questions[1:]
    assert run.advance(tuple(answer(ask, [True, False]) for ask in first)) == 0 and not run.notes
    assert run.guide.exploring.all()
    answers = [[True, True], [False, True], [False, False], None]
    assert run.advance(tuple(answer(ask, value) for ask, value in zip(rest, answers, strict=True))) == 7
    assert not run.guide.exploring.any()
    # kept pairs and imagined pairs, whether the pair itself is kept or not
    assert run.guide.preferences[0].labels.tolist() == [1, 1, 0, 0]
    imagined = run.guide.preferences[0].pairs[2:]
    assert np.array_equal(imagined[:, 0], imagined[:, 1] + 1)
    rows = [note for _, note in run.notes]
    assert [note["outcome"] for note in rows] == ["labelled"] * 4 + ["failed"]
    assert [note["kept"] for note in rows] == [True, True, False, False, False]
    assert "preference" not in rows[4] and rows[0]["first"] == 2
    chosen = run.guide.preferences[0].pairs[2, 1]
    assert rows[1]["reward_chosen"] == pytest.approx(Suite().rewards("", chosen).sum())
    assert rows[1]["reward_imagined"] == pytest.approx(Suite().rewards("", chosen + 1).sum())
    assert "reward_imagined" not in rows[0]
    assert run.guide.metrics()["preference/imagined"].tolist() == [2]
    # of the first imagined segment of the session, four places of what moves and one of what does not, three times
    sketches = [note for _, note in run.sketches]
    assert len(sketches) == 15 and {note["query"] for note in sketches} == {1}
    assert [note["x"] for note in sketches[:4]] == (chosen[:, 0] + 1).tolist()
    assert sketches[4] == {"query": 1, "segment": "imagined", "t": 0, "name": "place", "x": float(chosen[0, 1] + 1)}


def test_a_second_session_may_be_answered_while_the_first_waits(tmp_path: Path) -> None:
    run = Run(tmp_path, teacher=AskingLlm())
    run.play(60)
    assert len(run.questions) == 10
    assert run.advance(tuple(answer(ask, [True, False]) for ask in run.questions[5:])) == 7
    assert [note["session"] for _, note in run.notes] == [1] * 5
    assert run.advance(tuple(answer(ask, [True, False]) for ask in run.questions[:5])) == 0
    assert len(run.guide.preferences[0]) == 10


def test_a_session_without_a_kept_pair_leaves_the_reward_as_it_is(tmp_path: Path) -> None:
    run = Run(tmp_path, teacher=AskingLlm())
    run.play(40)
    before = run.guide.rewards.state(0)
    assert run.advance(tuple(answer(ask, None) for ask in run.questions)) == 7
    assert same(before, run.guide.rewards.state(0)) and not run.guide.exploring.any()
    assert len(run.notes) == 5 and len(run.guide.preferences[0]) == 0
    assert np.isnan(run.guide.metrics()["preference/label_accuracy"]).all()


def test_where_no_episode_was_as_long_as_a_segment_nothing_is_asked_and_training_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, config=replace(QUICK, segment=21))
    assert run.play(40)[-1] == 7 and not run.notes and not run.guide.exploring.any()
    assert run.guide.metrics()["preference/queries"].tolist() == [0]


def test_without_relabelling_stored_transitions_keep_the_reward_of_their_time(tmp_path: Path) -> None:
    rewards = []
    for number, relabel in enumerate((True, False)):
        run = Run(tmp_path / str(number), config=replace(QUICK, relabel=relabel))
        run.play(40)
        first = run.store.column(REWARD, run.everywhere())
        run.play(20)
        rewards.append(np.array_equal(first, run.store.column(REWARD, run.everywhere())[:, :40]))
    assert rewards == [False, True]


def test_a_teacher_that_looks_is_shown_what_followed_each_step(tmp_path: Path) -> None:
    run = Run(tmp_path, teacher=AskingLlm(shows=True))
    run.play(40)
    snapshots = run.questions[0].snapshots.reshape(2, 4, -1)
    observations = run.guide.sessions[0].query(0).pair.observations
    # Reach's snapshot is its observation: that of a step is the next state of the segment
    assert np.array_equal(snapshots.view(np.float32)[:, :-1], observations[:, 1:])


def test_a_state_restores_preferences_networks_and_sessions_that_wait(tmp_path: Path) -> None:
    from guidebench.harness.loop import checkpoints

    original = Run(tmp_path / "whole", teacher=AskingLlm())
    original.play(41)
    original.advance((answer(original.questions[0], [False, True]),))
    before = copy.deepcopy(original.guide.state(0))
    original.guide.load_state(0, copy.deepcopy(before))  # as after the updates of another seed alone
    after = original.guide.state(0)
    assert np.isnan([before.pop("fit")["loss"], after.pop("fit")["loss"]]).all() and same(before, after)
    resumed = Run(tmp_path / "other", teacher=AskingLlm())
    checkpoints.save(tmp_path, 42, {"guide": original.guide.state(0), "teach": original.build.streams[0].state()})
    state = checkpoints.newest(tmp_path).state
    resumed.guide.load_state(0, state["guide"])
    restored, saved = resumed.guide.state(0), original.guide.state(0)
    assert np.isnan([restored.pop("fit")["loss"], saved.pop("fit")["loss"]]).all() and same(restored, saved)
    resumed.build.streams[0].load_state(state["teach"])
    for run in (original, resumed):
        run.store, run.notes = original.store, []
        ctx = Ctx(43)
        run.guide.answered([answer(ask, [True, True]) for ask in original.questions[1:]], run.store, ctx)
        assert run.guide.before_update(run.store, run.learner, ctx) == 7
        run.notes = ctx.notes
    assert same(resumed.guide.state(0), original.guide.state(0)) and resumed.notes == original.notes


def parts(**settings: Any) -> dict[str, Any]:
    from types import SimpleNamespace

    from guidebench.baselines.learners.dqn import Dqn

    learner = {"sac": LEARNER, "dqn": Dqn()}[settings.get("learner", "sac")]
    suite = SimpleNamespace(horizon=lambda task: settings.get("horizon", 20))
    return {"suite": suite, "training": SimpleNamespace(steps=settings.get("steps", 1000)), "learner": learner}


@pytest.mark.parametrize(
    ("changes", "around", "words"),
    [
        ({}, {}, ""),
        ({"segment": 21}, {}, "longer than an episode of 20"),
        ({"budget": 4}, {}, "guide.budget=4 is smaller than a session of guide.queries=5"),
        ({}, {"steps": 40}, "leaves nothing of training.steps=40"),
        ({"pretraining": 15}, {}, "before learner.learning_starts=16"),
        ({"pretraining": 3}, {}, "before there is a segment of 4"),
        ({}, {"learner": "dqn"}, "begins anew"),
    ],
)
def test_settings_that_cannot_work_are_told_with_what_to_do(
    changes: dict[str, Any], around: dict[str, Any], words: str
) -> None:
    fault = replace(QUICK, **changes).fits(cell_view(parts(**around), "reach"))
    assert words in fault and bool(words) == bool(fault)


def test_distance_is_paid_over_its_deviation_where_asked(tmp_path: Path) -> None:
    run = Run(tmp_path, config=replace(QUICK, intrinsic="distance"))
    run.play(30)
    paid = run.batch().reward[0]
    states = run.guide._stored()[0]
    distance = neighbour_distance(states[-16:], states, 5).numpy()
    assert paid == pytest.approx(distance / distance.std(), rel=1e-4)
