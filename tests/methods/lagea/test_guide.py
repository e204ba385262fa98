"""LaGEA's guide on a real store: questions about episodes, rewards worked by hand, training of heads, checkpoints."""

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.frame_vectors import FRAME
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Array,
)
from guidebench.harness.models.calls import Answer
from guidebench.methods.furl.dialogue import INSTRUCTION
from guidebench.methods.lagea import WEIGHT, Lagea, keyframes
from guidebench.methods.lagea.feedback.prompts import earlier_attempts
from tests.methods.furl.test_guide import Played

SMALL: dict[str, Any] = {
    "width": 2, "stretch": 2, "text_width": 3, "hidden": (5,), "out": 3, "learning_rate": 0.01,
    "batch_size": 8, "gap": 1, "most_keyframes": 3, "spacing": 1, "window": 1, "frames": 3,
    "saliency": (0.5, 0.25, 0.25), "floor": 0.1, "bce_temperature": 0.1, "alignment_share": 0.1,
    "uniformity_share": 0.01, "goal_temperature": 0.5, "feedback_temperature": 0.5, "alpha_min": 0.1, "alpha_max": 0.9,
    "rho": 0.05, "rho_min": 0.01, "rho_max": 0.1, "success_rate": 0.1, "limit": None,
}  # fmt: skip
WROTE = {
    "text": "it drifts away", "retries": 0, "empty": False, "outcome": "failure", "code": "drift_from_goal",
    "explanation": "it turned", "secondary": [], "frames": [1], "fix": "go back", "confidence": 0.5, "summary": "no",
}  # fmt: skip
EMPTY = {**WROTE, "text": "", "empty": True, "retries": 3, "outcome": "", "code": ""}


def lagea(**changed: Any) -> Lagea:
    return Lagea(**SMALL | changed)


class Attempts(Played):
    """A guide whose models answer at once with values that the test computes."""

    def __init__(self, path: Path, config: Lagea, seeds: tuple[int, ...] = (3, 5)) -> None:
        super().__init__(path, config, seeds)
        self.ctx.snapshot = lambda row: np.full(4, self.opening, np.uint8)
        self.ctx.notes = []
        self.ctx.note = lambda log, row, columns: self.ctx.notes.append((log, row, columns))
        self.opening, self.questions = 100, []
        self.wrote: dict[str, Any] | None = WROTE

    def play(self, *steps: str) -> None:
        self.guide.begun(np.arange(len(self.seeds)), self.store, self.ctx)
        super().play(*steps)

    def answer(self, failed: bool = False) -> None:
        """Frame k has the vector (cos k, sin k), the first frame (cos −1, sin −1), the instruction (1, 0), the goal
        image (0, 1). The feedback on the episode from transition k has the vector (1, k, 1)."""
        while self.ctx.questions:
            question = self.ctx.questions.pop(0)
            self.questions.append(question)
            reply: Any
            if question.to == "feedback":
                reply = self.wrote
            elif question.to == "text_embedder":
                reply = np.array([[1, question.key[0], 1]], np.float32)
            elif question.key[0] >= 0:
                reply = np.stack([np.cos(question.key), np.sin(question.key)], 1).astype(np.float16)
            elif question.key[0] <= -3:
                reply = np.array([[math.cos(-1), math.sin(-1)]], np.float16)
            else:
                reply = np.array([[1.0, 0.0]] if json.loads(question.content) == INSTRUCTION else [[0.0, 1.0]])
            self.guide.answered([(question, Answer(reply))], self.store, self.ctx)

    def questions_to(self, role: str) -> list[Any]:
        return [question for question in self.questions if question.to == role]

    def rewarded(self, *numbers: int) -> Array:
        """Return the rewards of the first seed's transitions, minus r_task."""
        batch = self.store.gather(np.tile(numbers, (len(self.seeds), 1)))
        bonus: Array = self.guide.shape(batch).reward - self.guide.unguided(batch).reward
        return bonus[0]


def unit_vector(attempts: Attempts, kind: str, *vector: float, row: int = 0) -> Array:
    """Project a vector by the test's own arithmetic and scale it to length 1."""
    weights = attempts.guide.heads.parameters.arrays(row)
    hidden = np.maximum(np.float32(vector) @ weights[f"{kind}.0.weight"] + weights[f"{kind}.0.bias"], 0)
    projected: Array = hidden @ weights[f"{kind}.1.weight"] + weights[f"{kind}.1.bias"]
    return projected / np.linalg.norm(projected)


def frame(attempts: Attempts, k: float, row: int = 0) -> Array:
    return unit_vector(attempts, "image", math.cos(k), math.sin(k), row=row)


def test_an_episode_becomes_a_question_with_its_key_frames_and_its_history(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea())
    attempts.play("00", "00", "00", "01")
    assert not [question for question in attempts.ctx.questions if question.to == "feedback"], (
        "no frame is embedded yet"
    )
    attempts.answer()
    first, second = attempts.questions_to("feedback")
    content = json.loads(first.content)
    assert first.row == 0 and first.key.tolist() == [0]
    form = {"structured": True, "embedded": "all"}
    assert content == {"history": [], "frames": content["frames"], "steps": 4, "succeeded": False, **form}
    assert json.loads(second.content)["succeeded"] is True
    assert content["frames"][0] == 0 and content["frames"][-1] == 4 and len(content["frames"]) == 3
    expected = [100 if at == 0 else at - 1 for at in content["frames"]]  # step t is transition t − 1 of this store
    assert first.snapshots[:, 0].tolist() == expected
    assert [json.loads(question.content) for question in attempts.questions_to("text_embedder")] == [
        "it drifts away"
    ] * 2
    attempts.live("00", "00")
    attempt = {"outcome": "failure", "code": "drift_from_goal", "fix": "go back", "summary": "no"}
    assert json.loads(attempts.questions_to("feedback")[-1].content)["history"] == [attempt]


def test_the_history_holds_the_newest_episodes_alone(tmp_path: Path) -> None:
    for history, expected in ((2, ["b", "c"]), (0, [])):
        attempts = Attempts(tmp_path / str(history), lagea(history=history), seeds=(3,))
        for fix in "abc":
            attempts.wrote = {**WROTE, "fix": fix}
            attempts.live("0", "0")
        attempts.live("0", "0")
        earlier = json.loads(attempts.questions_to("feedback")[-1].content)["history"]
        assert [attempt["fix"] for attempt in earlier] == expected


def test_weights_of_an_episode_follow_from_its_frames(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(floor=0.2), seeds=(3,)).live(*"00000")
    goal = unit_vector(attempts, "image", 0, 1)
    similarity = np.array([frame(attempts, k) @ goal for k in range(-1, 5)])
    frames = keyframes.salient(similarity, (0.5, 0.25, 0.25), 3, 1)
    expected = keyframes.weights(frames, 6, 1, 0.2)
    np.testing.assert_allclose(attempts.store.column(WEIGHT.name, np.arange(5)[None])[0], expected[1:], rtol=1e-4)
    assert attempts.guide.episodes[0].weights[0] == pytest.approx(expected[0], rel=1e-4)
    rows = [row for log, _, row in attempts.ctx.notes if log == "keyframes"]
    assert [row["frame"] for row in rows] == frames.tolist()
    assert [row["weight"] for row in rows] == pytest.approx(expected[frames].tolist(), rel=1e-4)


def test_without_key_frames_steps_have_equal_weights_and_the_model_sees_evenly_spread_frames(tmp_path: Path) -> None:
    for settings, equal in (({"keyframes": "none"}, True), ({"shown": "even"}, False)):
        attempts = Attempts(tmp_path / str(equal), lagea(**settings), seeds=(3,)).live(*"00000000")
        assert (attempts.store.column(WEIGHT.name, np.arange(8)[None]) == 1).all() == equal
        assert json.loads(attempts.questions_to("feedback")[0].content)["frames"] == [0, 4, 8]


def phi(attempts: Attempts, k: int) -> float:
    """The goal potential of a frame, by hand; 2τ = 1."""
    aims = unit_vector(attempts, "text", 1, 0), unit_vector(attempts, "image", 0, 1)
    return sum(math.tanh(frame(attempts, k) @ aim) for aim in aims) / 2


def psi(attempts: Attempts, k: int) -> float:
    """The feedback potential of a frame of the first episode, by hand."""
    return float(frame(attempts, k) @ unit_vector(attempts, "feedback", 1, 0, 1))


def slope(after: float, before: float) -> float:
    return math.tanh((0.99 * after - before) / 0.5)


def expected_terms(attempts: Attempts, k: int, weight: float) -> tuple[float, float, float]:
    """r^goal, r^fb and α of transition k, whose episode began with transition 0, by hand."""
    agreed = unit_vector(attempts, "text", 1, 0) @ unit_vector(attempts, "feedback", 1, 0, 1)
    r_goal, r_fb = (slope(potential(attempts, k), potential(attempts, k - 1)) for potential in (phi, psi))
    return r_goal, weight * r_fb, min(max(0.5 * (1 + agreed) / 2, 0.1), 0.9)


def test_the_reward_is_the_papers(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(adaptive=False, rho=0.5), seeds=(3,)).live(*"000001")
    episodes, ramp = attempts.guide.episodes[0], np.linspace(0.5, 2, 7).astype(np.float32)
    episodes.weights[0] = ramp[0]  # each frame has a weight of its own, so that a neighbour's is not taken for it
    attempts.store.apply(WEIGHT.name, 0, np.arange(6), ramp[1:])
    terms = [expected_terms(attempts, k, float(ramp[k])) for k in range(5)]
    fused = np.array([min(max((1 - share) * r_goal + share * r_fb, -1), 1) for r_goal, r_fb, share in terms])
    rewarded = [*0.5 * fused, 0]
    assert attempts.rewarded(*range(6)) == pytest.approx(rewarded, rel=5e-3, abs=1e-4), "a success is not shaped"
    along = attempts.guide.along(0, 0, 5, attempts.store)
    assert along.fused[:5].numpy() == pytest.approx(fused, rel=5e-3, abs=1e-4)


def test_the_first_transition_of_a_later_episode_begins_with_its_own_frame(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(adaptive=False, rho=1.0), seeds=(3,)).live(*"000")
    attempts.wrote = EMPTY
    attempts.live(*"00")
    expected = slope(phi(attempts, 3), phi(attempts, -1))
    assert attempts.rewarded(3) == pytest.approx([expected], rel=5e-3, abs=1e-4)


def test_the_task_reward_is_minus_one_or_one_for_both_learners(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(goal_delta=False, feedback_delta=False)).live("01", "00")
    batch = attempts.store.gather(np.array([[0, 1], [0, 1]]))
    assert attempts.guide.unguided(batch).reward.tolist() == [[-1, -1], [1, -1]]
    assert attempts.guide.shape(batch).reward.tolist() == [[-1, -1], [1, -1]], "all potentials are dropped"


def test_without_feedback_the_goal_alone_is_rewarded(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(adaptive=False, rho=1.0), seeds=(3,))
    attempts.play(*"000")
    assert attempts.rewarded(1) == [0], "no frame has its vector yet"
    attempts.wrote = EMPTY
    attempts.answer()
    assert attempts.rewarded(1) == pytest.approx([expected_terms(attempts, 1, 1.0)[0]], rel=5e-3)
    assert attempts.guide.metrics()["guide/empty"].tolist() == [1]
    assert [columns["empty"] for log, _, columns in attempts.ctx.notes if log == "feedback"] == [True]
    assert not attempts.questions_to("text_embedder")
    attempts.wrote = None  # the model gave no answer at all
    attempts.live(*"000")
    assert attempts.guide.metrics()["guide/empty"].tolist() == [2]


def test_each_ablation_of_the_reward_removes_its_term(tmp_path: Path) -> None:
    for ablation in ("goal_delta", "feedback_delta", "differenced"):
        config = lagea(adaptive=False, rho=1.0, **{ablation: False})
        attempts = Attempts(tmp_path / ablation, config, seeds=(3,)).live(*"000")
        weight = float(attempts.store.column(WEIGHT.name, np.array([[0]]))[0, 0])
        r_goal, r_fb, share = expected_terms(attempts, 1, weight)
        plain = (1 - share) * phi(attempts, 1) + share * weight * psi(attempts, 1)
        expected = {
            "goal_delta": share * r_fb, "feedback_delta": (1 - share) * r_goal, "differenced": min(max(plain, -1), 1)
        }  # fmt: skip
        assert attempts.rewarded(1)[0] == pytest.approx(expected[ablation], rel=5e-3, abs=1e-4), ablation


def rising(attempts: Attempts) -> float:
    """The squared share of the first episode's three transitions whose potential rises, by hand."""
    return float(np.mean([expected_terms(attempts, k, 1.0)[0] > 0 for k in range(3)]) ** 2)


def test_rho_falls_with_success_and_with_rising_potentials(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(success_rate=0.5, rho_min=0.1, rho_max=0.9), seeds=(3,)).live(*"000")
    attempts.rewarded(0, 1, 2)
    assert attempts.guide.metrics()["guide/rho"] == pytest.approx([0.1 + 0.8 * (1 - rising(attempts))])
    attempts.play(*"010")
    attempts.live(*"100").rewarded(0, 1, 2)
    metrics = attempts.guide.metrics()
    assert metrics["guide/success_rate"] == pytest.approx([0.75])
    assert metrics["guide/rho"] == pytest.approx([0.1 + 0.8 * (1 - max(rising(attempts), 0.75))])


def test_the_released_code_averages_rho_and_limits_the_shaping(tmp_path: Path) -> None:
    released = lagea(rho=0.25, rho_min=0.05, rho_max=0.99, rho_rate=0.1, limit=0.01)
    attempts = Attempts(tmp_path, released, seeds=(3,)).live(*"000")
    bonuses = attempts.rewarded(0, 1, 2)
    target = 0.05 + 0.94 * (1 - rising(attempts))
    assert attempts.guide.metrics()["guide/rho"] == pytest.approx([0.25 + 0.1 * (target - 0.25)])
    assert np.abs(bonuses).max() == pytest.approx(0.01, rel=1e-4)


def test_free_text_is_remembered_by_its_words(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(structured=False), seeds=(3,))
    attempts.wrote = {**WROTE, "outcome": "", "code": "", "fix": "", "summary": "It never came near."}
    for _ in range(2):
        attempts.live("0", "0")
    content = json.loads(attempts.questions_to("feedback")[-1].content)
    assert earlier_attempts(content["history"]) == "- It never came near."


def test_the_first_frame_of_equal_starts_is_embedded_once(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(), seeds=(3,))
    for opening in (100, 100, 101):
        attempts.opening = opening
        attempts.live("0", "0")
    keys = [int(question.key[0]) for question in attempts.questions_to("embedder") if question.key[0] <= -3]
    assert keys == [-3, -7], "the episodes from transitions 0 and 4"
    assert np.isfinite(attempts.guide.episodes[0].openings).all()


def test_heads_learn_from_feedback_once_it_is_there(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(l2=99.0, batch_size=32))  # no two frames are ranked by FuRL's first loss
    attempts.play("00", "01", "01", "01")
    before = attempts.heads(0)
    attempts.train()
    np.testing.assert_array_equal(attempts.heads(0), before)
    attempts.answer()
    attempts.train(60)
    assert (attempts.heads(0) != before).any()
    metrics = attempts.guide.metrics()
    success, failure = metrics["guide/success_cosine"], metrics["guide/failure_cosine"]
    assert success[1] > failure[1] + 0.1, "the second seed has both"
    assert np.isnan(success[0]) and failure[0] < -0.3
    assert np.isfinite([metrics[f"guide/{name}"] for name in ("bce", "contrast", "alignment", "uniformity")]).all()


def test_frozen_heads_stay_as_they_are(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(alignment="frozen")).live("00", "01", "01")
    before = attempts.heads(1)
    attempts.train(5)
    np.testing.assert_array_equal(attempts.heads(1), before)


def test_the_symmetric_loss_waits_if_it_is_told_to(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(contrast_from="success")).live("00", "01", "01")
    late = Attempts(tmp_path / "late", lagea(contrast_after=50)).live("00", "01", "01")
    for player, trained in ((attempts, [False, True]), (late, [False, False])):
        player.train()
        metrics = player.guide.metrics()
        assert np.isfinite(metrics["guide/contrast"]).tolist() == trained and np.isfinite(metrics["guide/bce"]).all()


def test_frames_that_failed_leave_the_tasks_reward(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(adaptive=False), seeds=(3,))
    attempts.play(*"000")
    pending = attempts.ctx.questions
    of_frames = [question for question in pending if not -3 < question.key[0] < 0]
    pending[:] = [question for question in pending if -3 < question.key[0] < 0]
    for question in of_frames:
        attempts.guide.answered([(question, Answer(None))], attempts.store, attempts.ctx)
    assert attempts.guide.metrics()["guide/failed"].tolist() == [4], "three frames and the first one"
    attempts.answer()
    assert attempts.rewarded(0, 1, 2).tolist() == [0, 0, 0]
    assert len(attempts.questions_to("feedback")) == 1, "the model still sees the episode"


def test_it_keeps_frames_and_weights_and_measures_for_an_oracle_alone(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, lagea(), seeds=(3,))
    assert [column.name for column in attempts.guide.columns] == [FRAME, WEIGHT.name]
    assert not attempts.guide.wants_measures
    parts = {**attempts.build.parts, "feedback": SimpleNamespace(backend="oracle")}
    assert lagea().spawn(dataclasses.replace(attempts.build, parts=parts)).wants_measures  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"saliency": (0.5, 0.5, 0.5)}, r"guide\.saliency=\[0\.5, 0\.5, 0\.5\].*whose sum is 1"),
        ({"saliency": (1.0,)}, "three shares"),
        ({"rho_min": 0.995}, r"guide\.rho_min=0\.995 exceeds guide\.rho_max=0\.99"),
        ({"alpha_min": 0.96}, r"guide\.alpha_min=0\.96 exceeds"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Lagea(**changed)
