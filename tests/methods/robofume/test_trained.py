"""The trained classifier: words, training on pictures made here, and its whole way from a real suite to the cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.methods.robofume.dialogue import prompts
from guidebench.methods.robofume.judges import TrainedJudge
from guidebench.methods.robofume.network import SIZE, prepared
from guidebench.methods.robofume.trained import (
    JudgedEpisode,
    TrainedClassifier,
    fit,
    obtain,
    training_episodes,
    vocabulary,
)
from tests.refusals import check_refused

LEFT, RIGHT = "put the red block into the left bin", "put the red block into the right bin"
QUICK = TrainedJudge(updates=60, batch_size=32)


def picture(at: int) -> Any:
    """Two views of 32 pixels with a red square at the left (0) or at the right (1) of each."""
    frame = np.full((32, 64, 3), 40, np.uint8)
    for view in (0, 32):
        frame[12:20, view + 4 + 16 * at : view + 12 + 16 * at] = (220, 40, 40)
    return frame


def episodes() -> list[JudgedEpisode]:
    """Each instruction with a success and a failure, which differ between the instructions."""
    both = np.stack([picture(0), picture(1)])
    return [JudgedEpisode(LEFT, both, np.array([True, False])), JudgedEpisode(RIGHT, both, np.array([False, True]))]


def test_its_words_are_those_by_which_prompts_tell_instructions_apart_and_others_are_refused_by_name() -> None:
    words = vocabulary([LEFT, RIGHT, "put the green block into the left bin"], joined=True)
    assert words.input_words == ("green", "left", "red", "right")
    assert words.inputs(prompts(LEFT, True)[0]).tolist() == [1, 0, 1, 1, 0]
    assert words.inputs(prompts(RIGHT, True)[3]).tolist() == [1, 0, 0, 1, 1]

    check_refused(
        r"without the word 'orange'.*classifier\.tasks",
        words.inputs,
        prompts("put the orange block into the left bin", True)[0],
    )


def test_frames_of_any_size_become_views_of_one_size_beside_each_other() -> None:
    found = prepared(np.stack([picture(0)]))
    assert found.shape == (1, 6, SIZE, SIZE)
    assert torch.allclose(prepared(np.full((1, 100, 100, 3), 255, np.uint8)), torch.ones(1, 3, SIZE, SIZE))
    assert prepared(np.zeros((1, 50, 50, 3), np.uint8)).min() == -1


def test_it_learns_what_the_instruction_asks_for_the_same_each_time_and_refuses_other_views() -> None:
    network, words = fit(episodes(), QUICK)
    judge = TrainedClassifier(network, words)
    said = [[judge.judge(picture(at)[None], prompts(told, True)[0]) for at in (0, 1)] for told in (LEFT, RIGHT)]
    assert (np.array(said) >= 0.5).tolist() == [[True, False], [False, True]]
    before = torch.random.get_rng_state()
    one, other = (fit(episodes(), replace(QUICK, updates=2))[0].parameters() for _ in range(2))
    assert all(map(torch.equal, one, other))
    assert torch.equal(before, torch.random.get_rng_state())
    check_refused(
        r"shows 1 views, .* trained on 2; .*drawing\.camera",
        judge.judge,
        picture(0)[None, :, :32],
        prompts(LEFT, True)[0],
    )


@pytest.mark.parametrize(("success", "said"), [(False, "no frame"), (True, "every frame")])
def test_training_frames_of_one_kind_teach_nothing(success: bool, said: str) -> None:
    given = [each._replace(success=np.full(2, success)) for each in episodes()]
    check_refused(rf"{said} of the classifier's 4 training frames .*classifier\.failures", fit, given, QUICK)


class Helpless:
    """A suite whose policies never do what they are to."""

    def in_evaluation(self) -> Helpless:
        return self

    def demonstrate(self, task: str, seed: int) -> None:
        return None


def test_a_suite_that_never_demonstrates_is_named() -> None:
    check_refused(
        r"0 of 10 attempts gave demonstrations of forward .* 2 are needed",
        training_episodes,
        replace(QUICK, demonstrations=2),
        Helpless(),
        ("forward",),
        lambda snapshots: snapshots,
    )


def test_it_is_trained_once_and_a_later_process_reads_the_same_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ogbench")
    from guidebench.suites.bin_sorting import BinDrawing, BinSorting

    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    few = TrainedJudge(demonstrations=1, failures=1, tasks=("forward", "backward"), every=40, updates=2, batch_size=8)
    suite, drawing = BinSorting(observation="state"), BinDrawing(camera="both", size=32)
    first = obtain(few, suite, "sorting", drawing)
    (file,) = (tmp_path / "classifiers").glob("*.safetensors")
    written = file.stat().st_mtime_ns
    again = obtain(few, suite, "sorting", replace(drawing, perturbation="texture"))
    frame, prompt = np.full((1, 32, 64, 3), 90, np.uint8), "Is the block on the tray?"
    assert file.stat().st_mtime_ns == written
    assert first.judge(frame, prompt) == again.judge(frame, prompt)
