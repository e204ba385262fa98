"""The exploration reward of single steps, with numbers worked by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench.harness import logs
from guidebench.harness.interfaces import Batch, Episode, Mode, RunPhase, StepWords, Transition
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import matrix
from guidebench.harness.streams import Streams
from guidebench.methods.ellm import LOGS
from guidebench.methods.ellm.guide import REWARD, VECTORS, EllmGuide, cosine
from guidebench.methods.ellm.memory import FILE

WORDS = (
    "suite=crafter_ood", "task=deforestation", "method=ellm_exploration", "profile=smoke", "goals=scripted",
    "text_embedder=scripted", "text_embedder.width=16", "guide.width=16", "suite.observation=symbols",
)  # fmt: skip
TREE, COW = "you see tree.", "you see cow and tree."
VECTOR: Mapping[str, Sequence[float]] = {
    "chop tree": (1, 0), "chop grass": (3, 4), "eat tree": (24, 7), "attack cow": (0, 2), "eat cow": (0, 0),
    "sleep": (-1, 0),
}  # fmt: skip
"""Cosines with `chop tree`: chop grass .6, eat tree .96, attack cow 0, sleep -1; eat cow has none."""
GOALS: Mapping[str, Any] = {TREE: ["chop tree", "eat tree", "chop grass"], COW: ["attack cow", "fly", "chop tree"]}


class TableContext:
    """A context that answers from the tables above, where a state without goals fails, and records questions and
    notes."""

    mode, step, phase = Mode.TRAIN, 1, RunPhase("train", 300)

    def __init__(self, rows: int) -> None:
        self.rows, self.streams = np.arange(rows), [Streams(seed) for seed in range(rows)]
        self.active = np.ones(rows, bool)
        self.questions, self.batches = list[tuple[int, str, str]](), list[int]()
        self.notes: list[tuple[str, int, dict[str, Any]]] = []

    def consult(self, questions: Sequence[Any]) -> list[Any]:
        texts = [json.loads(question.content) for question in questions]
        self.batches.append(len(texts))
        self.questions += [(question.row, question.to, text) for question, text in zip(questions, texts, strict=True)]
        return [
            GOALS.get(text) if question.to == "goals" else _vector(text)
            for question, text in zip(questions, texts, strict=True)
        ]

    def note(self, log: str, row: int, values: dict[str, Any]) -> None:
        self.notes.append((log, row, values))


def _vector(text: str) -> Any:
    if text not in VECTOR:
        return None
    vector = np.zeros((1, 16), np.float32)
    vector[0, :2] = VECTOR[text]
    return vector


class Player:
    """The guide of seeds 0 … S-1 on a real store; tests feed it steps as (state, caption) texts."""

    def __init__(self, directory: Path, *words: str, rows: int = 1) -> None:
        (cell,) = matrix.plan([*WORDS, *words]).cells
        places = [directory / f"seed-{seed}" for seed in range(rows)]
        self.build = make_build(cell, range(rows), "cpu", places)
        self.agent = cell.section("agent").spawn(self.build)
        self.guide: EllmGuide = self.agent.guide
        self.ctx, self.rows, self.count = TableContext(rows), rows, 0

    def step(self, texts: Sequence[tuple[str, str]] | None, ended: bool = False) -> list[float]:
        """Observe a step of all seeds, each (state before it, caption), and return what is stored for it."""
        observations, zeros = np.zeros(self.rows, self.build.observations.numpy), np.zeros(self.rows, np.float32)
        words = None if texts is None else StepWords(*map(tuple, zip(*texts, strict=True)))
        self.agent.observe(
            Transition(
                observations, np.zeros(self.rows, np.int64), zeros, zeros > 0, np.full(self.rows, ended), observations,
                np.zeros((self.rows, 15), bool), None, zeros > 0, words=words,
            ),
            self.ctx,
        )  # fmt: skip
        self.count += 1
        if ended:
            self.agent.end([Episode(row, 0.0, self.count, False) for row in range(self.rows)], self.ctx)
        store = self.agent.experience.store
        index = np.full((self.rows, 1), store.slot(np.array([self.count - 1]))[0])
        return [round(float(value), 6) for value in store.column(REWARD.name, index)[:, 0]]

    def reward_for(self, state: str, caption: str, ended: bool = False) -> float:
        return self.step([(state, caption)], ended)[0]

    def suggest(self, goals: list[str]) -> Player:
        """Answer every question for goals with these."""
        self.ctx.consult = lambda questions: [  # type: ignore[method-assign]
            goals if question.to == "goals" else _vector(json.loads(question.content)) for question in questions
        ]
        return self

    def states(self) -> list[str]:
        """Return the states that goals were asked for."""
        return [text for _, role, text in self.ctx.questions if role == "goals"]

    def metric(self, name: str) -> list[float]:
        values: list[float] = self.guide.metrics()[f"guide/{name}"].tolist()
        return values


def test_a_step_is_rewarded_by_the_largest_cosine_above_the_threshold(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.threshold=0.5")
    assert player.reward_for(TREE, "chop grass") == 1.0, "of chop tree .6, eat tree .8 and chop grass 1"
    assert cosine(np.array([3.0, 4.0]), np.array([24.0, 7.0])) == pytest.approx((3 * 24 + 4 * 7) / (5 * 25))
    (log, row, note) = player.ctx.notes[0]
    assert (log, row, note["goals"]) == ("goals", 0, "chop tree, eat tree, chop grass")
    assert (note["kept"], note["proposed"], note["unknown"], note["senseless"]) == (3, 3, 0, 1)


def test_the_threshold_is_exceeded_not_reached_and_below_it_there_is_nothing(tmp_path: Path) -> None:
    for threshold, goals, state, caption, expected in (
        ("0.79", ["eat tree", "chop tree"], TREE, "chop grass", 0.8),
        ("0.81", ["eat tree", "chop tree"], TREE, "chop grass", 0.0),
        ("0.8", ["eat tree"], TREE, "chop grass", 0.0),  # 100 / 125 is .8, which does not exceed .8
        ("0", GOALS[COW], COW, "eat cow", 0.0),  # the caption's vector is zero, as that of a failed call
        ("0.99", GOALS[TREE], TREE, "chop tree", 1.0),
    ):
        player = Player(tmp_path / threshold, f"guide.threshold={threshold}").suggest(goals)
        assert player.reward_for(state, caption) == pytest.approx(expected), threshold


def test_a_goal_is_rewarded_once_an_episode_wherever_it_is_suggested(tmp_path: Path) -> None:
    player = Player(tmp_path)
    paid = [
        player.reward_for(TREE, "chop tree"),
        player.reward_for(TREE, "chop tree"),
        player.reward_for(COW, "chop tree"),
    ]
    assert paid == [1.0, 0.0, 0.0]
    assert player.reward_for(COW, "attack cow", ended=True) == 1.0
    assert player.ctx.notes[-1] == (
        "achieved", 0, {"episode": 0, "goals": "chop tree, attack cow", "count": 2, "reward": 2.0, "length": 4}
    )  # fmt: skip
    assert player.reward_for(COW, "chop tree") == 1.0, "a new episode"
    always = Player(tmp_path / "always", "guide.once=false")
    assert [always.reward_for(TREE, "chop tree") for _ in range(3)] == [1.0, 1.0, 1.0]


def test_each_goal_above_the_threshold_is_achieved_at_once(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.threshold=0.55")
    assert player.reward_for(TREE, "chop tree") == 1.0  # chop tree 1, eat tree .96, chop grass .6: all three
    assert player.reward_for(TREE, "chop grass") == 0.0
    player.reward_for(COW, "sleep", ended=True)
    assert player.ctx.notes[-1][2]["goals"] == "chop tree, eat tree, chop grass"


def test_moves_and_nothing_are_not_rewarded_and_raise_no_question(tmp_path: Path) -> None:
    player = Player(tmp_path)
    assert [player.reward_for(TREE, caption) for caption in ("", "move left", "wake up")] == [0.0, 0.0, 0.0]
    assert not player.ctx.questions
    every = Player(tmp_path / "every", "guide.every_state=true")
    assert [every.reward_for(TREE, ""), every.reward_for(TREE, "chop tree"), every.reward_for(COW, "move up")] == [
        0.0,
        1.0,
        0.0,
    ]
    assert every.states() == [TREE, COW]


def test_each_seed_asks_once_for_a_state_and_a_text_and_all_seeds_in_one_batch(tmp_path: Path) -> None:
    player = Player(tmp_path, rows=3)
    texts = [(TREE, "chop tree"), (COW, "attack cow"), (TREE, "chop tree")]
    assert player.step(texts) == [1.0, 1.0, 1.0]
    assert player.ctx.batches == [3, 8], "the goals of three states, then 3, 2 and 3 texts"
    assert player.step(texts) == [0.0, 0.0, 0.0] and player.ctx.batches == [3, 8]
    assert player.step([(COW, "attack cow"), (TREE, ""), (COW, "sleep")]) == [1.0, 0.0, 0.0]
    assert player.ctx.batches[2:] == [2, 3], "states of seeds 0 and 2; attack cow, and sleep and attack cow"
    assert len(player.ctx.questions) == len({*player.ctx.questions})
    alone = Player(tmp_path / "alone")
    assert [alone.reward_for(*texts[0]), alone.reward_for(*texts[0]), alone.reward_for(COW, "attack cow")] == [
        1.0,
        0.0,
        1.0,
    ]
    assert alone.ctx.questions == [question for question in player.ctx.questions if question[0] == 0], (
        "as beside two others"
    )


def test_a_failed_question_gives_no_goals_and_a_failed_vector_no_reward(tmp_path: Path) -> None:
    player = Player(tmp_path)
    assert player.reward_for("you see nothing of note.", "chop tree") == 0.0
    assert player.ctx.notes[-1][2] | {"state": ""} == {
        "state": "", "goals": "", "kept": 0, "proposed": 0, "unknown": 0, "senseless": 0, "cut": 0, "failed": True
    }  # fmt: skip
    assert player.reward_for("you see nothing of note.", "chop tree") == 0.0 and len(player.ctx.questions) == 1
    assert player.reward_for(COW, "drink water") == 0.0, "no vector of this caption"
    metrics = [player.metric(name) for name in ("failed", "questions", "goals")]
    assert metrics == [[1.0], [2.0], [1.0]], "2 goals for 2 states"
    assert cosine(np.zeros(3), np.ones(3)) == 0.0


def test_a_seed_that_has_stopped_training_keeps_nothing_and_asks_nothing(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.every_state=true", rows=2)
    player.ctx.active = np.array([True, False])
    assert player.step([(TREE, "chop tree"), (COW, "attack cow")]) == [1.0, 0.0]
    assert {row for row, _, _ in player.ctx.questions} == {0} == {row for _, row, _ in player.ctx.notes}
    assert (player.metric("questions"), player.metric("failed")) == ([1.0, 0.0], [0.0, 0.0])


def test_logs_hold_as_many_goals_as_a_text_may_have_characters(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.formed=false", "guide.most=256", "guide.threshold=0.5")
    goals = [f"{number:03d}{'z' * 57}" for number in range(256)]
    player.ctx.consult = lambda questions: [  # type: ignore[method-assign]
        goals if question.to == "goals" else _vector("chop tree") for question in questions
    ]
    assert player.reward_for(TREE, "chop tree", ended=True) == 1.0
    for (log, _, row), number in zip(player.ctx.notes, ("kept", "count"), strict=True):
        logged_goals = row["goals"].split(", ")
        assert logs.fitting(row, LOGS[log], log) == row and row[number] == 256
        assert logged_goals == goals[: len(logged_goals)] and len(logged_goals) == (logs.TEXT + 2) // 62 == 161, (
            "60 characters and a comma"
        )


def test_coarser_questions_are_shared_by_more_states_and_a_step_without_words_has_no_reward(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.omit=[you feel]")
    assert [player.reward_for(f"{TREE} you feel {how}.", "chop tree") for how in ("hurt", "hungry", "sleepy")] == [
        1,
        0,
        0,
    ]
    assert player.states() == [TREE] and player.step(None) == [0.0]


def test_the_learner_gets_the_weighted_sum(tmp_path: Path) -> None:
    player = Player(tmp_path, "guide.weight=0.5", "guide.task_weight=2")
    empty, column = np.zeros((1, 3)), {REWARD.name: np.array([[0, 1, 0.98]], np.float32)}
    batch = Batch(empty, empty, np.array([[1, 0, 3]], np.float32), empty, empty, None, column)
    shaped = player.guide.shape(batch)
    assert shaped.reward == pytest.approx(np.array([[2.0, 0.5, 6.49]])) and shaped.reward.dtype == np.float32
    assert batch.reward.tolist() == [[1, 0, 3]] and player.guide.unguided(batch) is batch
    assert player.guide.metrics()["guide/reward"] == pytest.approx([1.98 / 3])
    assert Player(tmp_path / "own").guide.shape(batch).reward == pytest.approx(batch.columns[REWARD.name])


def test_a_seed_goes_on_from_either_of_two_checkpoints_in_another_packing(tmp_path: Path) -> None:
    both = Player(tmp_path, rows=2)
    both.step([(TREE, "chop tree"), (COW, "attack cow")])
    older = both.guide.state(1)
    both.step([(TREE, "sleep"), (TREE, "chop grass")])
    newer = json.loads(json.dumps(both.guide.state(1)))
    file = tmp_path / "seed-1" / FILE
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [[COW, ["attack cow", "chop tree"]], [TREE, ["chop tree", "eat tree", "chop grass"]]]

    def again(state: Any) -> Player:
        player = Player(tmp_path / "alone")
        for name in (FILE, VECTORS):
            (tmp_path / "alone" / "seed-0").mkdir(parents=True, exist_ok=True)
            shutil.copy(tmp_path / "seed-1" / name, tmp_path / "alone" / "seed-0" / name)
        player.guide.load_state(0, state)
        return player

    late = again(newer)
    assert [
        late.reward_for(COW, "attack cow"),
        late.reward_for(TREE, "chop grass"),
        late.reward_for(COW, "chop tree"),
    ] == [0.0, 0.0, 1.0]
    assert not late.ctx.questions, "all is known"
    early = again(older)
    assert [early.reward_for(COW, "attack cow"), early.reward_for(TREE, "chop grass")] == [0.0, 1.0]
    assert early.states() == [TREE]
    early.count = 2
    assert {**early.guide.state(0), "reward": 0} == {**newer, "reward": 0}
    assert (tmp_path / "alone" / "seed-0" / FILE).read_bytes() == file.read_bytes()
