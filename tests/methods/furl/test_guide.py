"""FuRL's guides on a real store: rewards worked by hand, when heads learn and from what, and their checkpoints."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.frame_vectors import cropped
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import (
    Array,
)
from guidebench.harness.models.calls import Answer
from guidebench.methods.furl import Furl, Liv, LivProj
from guidebench.methods.furl.dialogue import GOAL, INSTRUCTION
from guidebench.methods.furl.guide import FurlGuide, LivGuide, LivProjGuide
from tests.baselines.test_experience import build, ctx, happened
from tests.refusals import check_refused

SMALL: dict[str, Any] = {"width": 2, "stretch": 2}
HEADS: dict[str, Any] = {**SMALL, "hidden": (5,), "out": 3, "learning_rate": 0.01}
ALIGNED: dict[str, Any] = {**HEADS, "batch_size": 8, "gap": 1}


class Suite:
    """Its goal image is a snapshot of nines; on layout 13 its solver never succeeds."""

    def of_run(self, seed: int) -> Suite:
        return self

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        return None if seed == 13 else np.full(4, 9, np.uint8)


class Played:
    """A guide beside a store; an embedder answers its questions at once with vectors that the test computes."""

    def __init__(self, path: Path, config: Liv, seeds: tuple[int, ...] = (3, 5)) -> None:
        self.build = dataclasses.replace(build(path, seeds=seeds), parts={"suite": Suite()})
        self.seeds = seeds
        self.guide: Any = config.spawn(self.build)
        self.store = Storage(self.build, self.guide.columns)
        self.ctx: Any = ctx(len(seeds))
        self.ctx.phase = SimpleNamespace(updates=None)
        self.learner: Any = SimpleNamespace(updates_due=lambda step, phase_updates: 1)

    def step(self, success: tuple[bool, ...], ended: bool = False) -> None:
        transition = happened(self.store.written, ended, self.seeds)._replace(success=np.array(success))
        slot = self.store.append(transition)
        self.guide.observed(slot, transition, self.store, self.ctx)
        if ended:
            self.guide.ended([SimpleNamespace(row=row) for row in range(len(self.seeds))], self.store, self.ctx)

    def play(self, *steps: str) -> None:
        """Play an episode; each text is a step with a digit per seed, 1 for a success."""
        for number, step in enumerate(steps):
            self.step(tuple(digit == "1" for digit in step), number == len(steps) - 1)

    def answer(self, failed: bool = False) -> None:
        """Frame k has the vector (cos k, sin k); the text is (1, 0), the goal image (0, 1)."""
        for question in self.ctx.questions:
            if question.key[0] >= 0:
                vectors = np.stack([np.cos(question.key), np.sin(question.key)], 1)
            else:
                vectors = np.array([[1.0, 0.0]] if json.loads(question.content) == INSTRUCTION else [[0.0, 1.0]])
            vector = None if failed else vectors.astype(np.float16)
            self.guide.answered([(question, Answer(vector))], self.store, self.ctx)
        self.ctx.questions.clear()

    def live(self, *steps: str) -> Any:
        """Play an episode and answer all questions."""
        self.play(*steps)
        self.answer()
        return self

    def train(self, times: int = 1) -> None:
        for _ in range(times):
            self.guide.before_update(self.store, self.learner, self.ctx)

    def take(self, other: Played) -> None:
        """Continue from the state of another guide of one seed."""
        self.store = other.store
        self.ctx.questions.extend(other.ctx.questions)
        self.guide.load_state(0, other.guide.state(0))
        self.build.streams[0].load_state(other.build.streams[0].state())

    def heads(self, row: int = 0) -> Array:
        return self.guide.heads.parameters.flat[row].clone().numpy()


def test_livs_reward_is_the_tasks_and_rho_times_the_cosine(tmp_path: Path) -> None:
    played = Played(tmp_path, Liv(rho=0.5, **SMALL))
    assert isinstance(played.guide, LivGuide)
    played.play("00", "00", "00", "00")
    index = np.array([[0, 1, 2], [3, 3, 3]])
    batch = played.store.gather(index)
    np.testing.assert_array_equal(played.guide.shape(batch).reward, batch.reward)  # nothing is answered yet
    played.answer()
    shaped = played.guide.shape(played.store.gather(index))
    np.testing.assert_allclose(shaped.reward - batch.reward, 0.5 * np.cos(index), atol=1e-3)
    np.testing.assert_array_equal(shaped.task_reward, batch.reward)
    assert played.guide.metrics()["guide/reward"] == pytest.approx(np.cos(index).mean(1), abs=1e-3)


def test_frames_that_failed_have_the_tasks_reward_and_without_the_instruction_the_run_ends(
    tmp_path: Path,
) -> None:
    played = Played(tmp_path, Liv(rho=0.5, **SMALL))
    played.step((False, False))
    assert [question.content for question in played.ctx.questions] == [json.dumps(INSTRUCTION)] * 2
    played.answer()
    played.play("00")
    played.answer(failed=True)
    batch = played.store.gather(np.zeros((2, 1), np.int64))
    np.testing.assert_array_equal(played.guide.shape(batch).reward, batch.reward)
    assert played.guide.metrics()["guide/failed"].tolist() == [2, 2]
    played = Played(tmp_path / "lost", Liv(**SMALL))
    played.step((False, False))
    check_refused(r"no vector of the instruction.*choose another output=", played.answer, failed=True)


def test_liv_proj_rewards_by_heads_that_never_change(tmp_path: Path) -> None:
    played = Played(tmp_path, LivProj(rho=1.0, **HEADS))
    assert isinstance(played.guide, LivProjGuide) and not isinstance(played.guide, FurlGuide)
    played.live("00", "01", "01")
    weights, before = played.guide.heads.parameters.arrays(1), played.heads()

    def head(kind: str, vector: Array) -> Array:
        hidden = np.maximum(vector @ weights[f"{kind}.0.weight"] + weights[f"{kind}.0.bias"], 0)
        return hidden @ weights[f"{kind}.1.weight"] + weights[f"{kind}.1.bias"]

    frame, text = head("image", np.array([np.cos(2), np.sin(2)])), head("text", np.array([1.0, 0.0]))
    expected = frame @ text / np.linalg.norm(frame) / np.linalg.norm(text)
    batch = played.store.gather(np.full((2, 1), 2))
    assert (played.guide.shape(batch).reward - batch.reward)[1, 0] == pytest.approx(expected, abs=1e-3)
    played.train(3)
    np.testing.assert_array_equal(played.heads(), before)


def watched(chosen: list[tuple[str, list[bool]]], name: str, real: Any, store: Any, active: Array) -> None:
    """Record which seeds a step of the heads trains, then take the step."""
    chosen.append((name, active.tolist()))
    real(store, active)


def test_furl_ranks_by_the_goal_until_a_seed_succeeds_and_contrasts_afterwards(tmp_path: Path) -> None:
    played = Played(tmp_path, Furl(**ALIGNED))
    played.play("00", "00", "00", "00")
    questions = {(question.row, question.content): question for question in played.ctx.questions}
    assert (questions[0, json.dumps(GOAL)].snapshots == 9).all()
    before = [played.heads(row) for row in range(2)]
    played.train()
    assert all((played.heads(row) == before[row]).all() for row in range(2)), "no vector of the instruction is there"
    played.answer()
    chosen: list[tuple[str, list[bool]]] = []
    for name in ("_rank", "_contrast"):
        setattr(played.guide, name, partial(watched, chosen, name, getattr(played.guide, name)))
    played.train()
    assert chosen == [("_rank", [True, True])]
    assert all((played.heads(row) != before[row]).any() for row in range(2))
    played.live("00", "01", "01")  # seed 5 succeeds
    chosen.clear()
    played.train()
    assert chosen == [("_rank", [True, False]), ("_contrast", [False, True])]
    assert played.guide.metrics()["guide/positives"].tolist() == [0, 3]
    assert played.guide.metrics()["guide/negatives"].tolist() == [7, 4]


def test_demonstrations_are_episodes_of_their_own(tmp_path: Path) -> None:
    """The loop passes demonstrations on before the first episode begins, without ends of episodes."""
    played = Played(tmp_path, Furl(**ALIGNED), seeds=(3,))
    for success, ended in ((False, False), (True, True), (False, False), (True, True)):
        transition = happened(played.store.written, ended, played.seeds)._replace(success=np.array([success]))
        played.store.append(transition)
        played.guide.observed(0, transition, played.store, played.ctx)
    played.play(*"000")
    assert played.guide.memory[0].positives.tolist() == [0, 1, 2, 3]
    assert played.guide.memory[0].negatives.tolist() == [4, 5, 6]


def test_without_a_goal_image_heads_wait_for_the_first_success(tmp_path: Path) -> None:
    played = Played(tmp_path, Furl(goal=False, **ALIGNED), seeds=(13,))
    played.play(*"000")
    assert [question.content for question in played.ctx.questions if question.content] == [json.dumps(INSTRUCTION)]
    played.answer()
    before = played.heads()
    played.train()
    np.testing.assert_array_equal(played.heads(), before)
    played.live(*"001")
    played.train()
    assert (played.heads() != before).any()


def test_a_solver_that_never_succeeds_is_told_with_the_way_out_and_frames_are_cropped(tmp_path: Path) -> None:
    """A frame loses the same share at each edge."""
    frames = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(1, 8, 8, 3)
    assert np.array_equal(cropped(frames, 0.125), frames[:, 1:7, 1:7]) and np.array_equal(cropped(frames, 0), frames)
    check_refused(
        r"never succeeds at '' on layout 13.*guide\.goal=false", Played, tmp_path, Furl(**ALIGNED), seeds=(13,)
    )
