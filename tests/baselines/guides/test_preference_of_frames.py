"""The guide `preference` with a reward of frames, on real storage: which state they show, and every seed for itself."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.guides.preference.guide import REWARD, SNAPSHOT
from guidebench.baselines.preference.reward_inputs import area_mean
from guidebench.baselines.teachers.llm import Llm
from guidebench.baselines.teachers.oracle import Oracle
from guidebench.harness.interfaces import Array
from tests.baselines.guides.test_preference import QUICK, AskingLlm, Run, answer, parts
from tests.cell_views import cell_view

SIDE, SIZE = 94, 47
CONFIG = replace(QUICK, segment=1, sees="frame", frame_size=SIZE, ensemble=2, batch_size=4, epochs=1)


def draw_states(states: Array) -> Array:
    """Draw Reach's states [n, 2] as frames [n, SIDE, SIDE, 3]: point and place are bright columns."""
    frames = np.zeros((len(states), SIDE, SIDE, 3), np.uint8)
    for frame, state in zip(frames, states, strict=True):
        for channel, place in enumerate(np.clip((state + 2) / 4 * SIDE, 0, SIDE - 1).astype(int)):
            frame[:, max(0, place - 6) : place + 6, channel] = 255
    return frames


@dataclass(frozen=True)
class Drawing:
    """Draws Reach, and only what it is asked for."""

    def spawn(self, task: str) -> Any:
        return lambda snapshots: draw_states(snapshots.view(np.float32))


def run(path: Path, seeds: tuple[int, ...] = (0,), config: Any = CONFIG, teacher: Any = None) -> Run:
    return Run(path, seeds, config, teacher or Oracle(), drawing=Drawing())


def test_a_stored_frame_shows_the_state_after_its_step_at_the_rewards_size(tmp_path: Path) -> None:
    played_run = run(tmp_path, (0, 1))
    played_run.play(19)  # an episode but for its end
    batch = played_run.store.gather(played_run.everywhere())
    stored = played_run.store.column("frame", played_run.everywhere())
    for row in range(2):
        assert np.array_equal(stored[row], area_mean(draw_states(batch.next_observation[row]), SIZE))
        assert not np.array_equal(stored[row], area_mean(draw_states(batch.observation[row]), SIZE))
    assert set(batch.columns) == {REWARD}, "frames are in no batch"


def test_all_that_is_stored_is_paid_what_the_ensemble_says_of_its_frames(tmp_path: Path) -> None:
    played_run = run(tmp_path, (0, 1))
    assert played_run.play(40)[-1] == 7
    frames = played_run.store.column("frame", played_run.everywhere())
    learnt = played_run.guide.rewards.reward(frames)
    paid = played_run.store.column(REWARD, played_run.everywhere())
    assert paid == pytest.approx(learnt, abs=1e-6) and paid.std() > 0
    assert np.array_equal(played_run.batch().reward, paid[:, -16:])
    played_run.play(1)
    newest = played_run.store.column("frame", played_run.everywhere())[:, -1]
    assert played_run.store.column(REWARD, played_run.everywhere())[:, -1] == pytest.approx(
        played_run.guide.rewards.reward_of(newest, np.arange(2)), abs=1e-6
    )
    assert played_run.guide.reward(newest, np.arange(2)) is None, "it says nothing of states"


def test_pairs_are_learnt_from_as_the_teacher_was_shown_them(tmp_path: Path) -> None:
    played_run = run(tmp_path, teacher=AskingLlm(shows=True))
    played_run.play(40)
    snapshots = [ask.snapshots.view(np.float32) for ask in played_run.questions]
    played_run.advance(tuple(answer(ask, [True, False]) for ask in played_run.questions))
    pairs = played_run.guide.preferences[0].pairs
    assert pairs.shape == (5, 2, 1, SIZE, SIZE, 3) and pairs.dtype == np.uint8
    for pair, states in zip(pairs, snapshots, strict=True):
        assert np.array_equal(pair[:, 0], area_mean(draw_states(states), SIZE))
    assert played_run.store.column(SNAPSHOT, played_run.everywhere()).shape[-1] == 8


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ({"drawing": Drawing(), "teacher": Oracle()}, ""),
        ({"drawing": None, "teacher": Oracle()}, "no part of the cell shows frames"),
        ({"teacher": Oracle()}, "name teacher=vlm or set guide.sees=state"),
        ({"drawing": Drawing(), "teacher": Llm()}, "imagines states, of which there are no frames"),
        ({"drawing": Drawing(), "teacher": Llm(augment="none")}, ""),
    ],
)
def test_without_frames_a_reward_of_them_is_refused(around: dict[str, Any], words: str) -> None:
    fault = CONFIG.fits(cell_view({**parts(), **around}, "reach"))
    assert words in fault and bool(words) == bool(fault)
    assert replace(CONFIG, sees="state").fits(cell_view({**parts(), **around}, "reach")) == ""


def test_nothing_is_drawn_before_there_is_a_transition(tmp_path: Path) -> None:
    """A policy is tested again on machines that cannot draw."""
    played_run = Run(tmp_path, (0,), CONFIG)
    with pytest.raises(KeyError, match="drawing"):
        played_run.play(1)
