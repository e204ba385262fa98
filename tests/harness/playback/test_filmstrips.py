"""`bench eval RUN --frames` draws an episode of a trained run as strips, each with its judge's score."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.loop.probes import STRETCH
from guidebench.harness.playback.filmstrips import CLIPS
from guidebench.harness.playback.log_clips import evenly
from guidebench.harness.playback.reevaluation import SHIFT
from guidebench.harness.playback.sample_frames import GAP
from guidebench.harness.streams import Streams

SHORT = (
    "seeds=[0]", "training.steps=40", "evaluation.every=40", "evaluation.episodes=1", "learner.channels=4",
    "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip
JUDGED = ("method=vlm_rb", "replay.clip_length=4", "drawing.tile_size=8", *SHORT)
SIDE = 5 * 8


@pytest.fixture(scope="module")
def judged_study(train_once: Callable[..., Path]) -> Path:
    """Return a study with the judge that looks at sprites; only to be read."""
    return train_once(*JUDGED, "judge=sprite", packs=[(0,)])


@pytest.fixture(scope="module")
def plain_study(train_once: Callable[..., Path]) -> Path:
    """Return a study without a judge; only to be read."""
    return train_once("method=uer", *SHORT, packs=[(0,)])


def filmstrip(study: Path, directory: Path, *words: str) -> tuple[dict, Path]:
    """Return the JSON file that `bench eval --frames` writes for a copy of a study below `directory`, and its
    folder."""
    run = next(Path(shutil.copytree(study, directory / "study")).glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--episodes", "2", "--frames", *words]) == 0
    return json.loads(next((run / "frames").glob("*.json")).read_text()), run / "frames"


def test_each_clip_of_the_episode_is_drawn_as_the_judge_sees_it_and_scored_by_it(
    judged_study: Path, tmp_path: Path
) -> None:
    strip, folder = filmstrip(judged_study, tmp_path)
    assert strip["judge"] == "sprite" and strip["unjudged"] == ""
    clips = strip["clips"]
    assert [clip["first"] for clip in clips] == [*range(1, strip["moves"] + 1, 4)][: len(clips)]
    assert clips[-1]["last"] == strip["moves"] <= strip["length"]
    for clip in clips:
        image = np.asarray(imageio.imread(folder / clip["file"]))
        count = clip["last"] - clip["first"] + 1
        assert image.shape == (SIDE, count * SIDE + (count - 1) * GAP, 3)
        assert clip["score"] == float(bool(clip["events"])), "this judge is right about clips without perturbation"


def test_an_oracle_is_told_the_events_of_the_same_clips(train: Callable[..., Path], tmp_path: Path) -> None:
    study = train("method=vlm_rb", "replay.clip_length=4", *SHORT, "judge=oracle", packs=[(0,)])
    strip, _ = filmstrip(study, tmp_path / "copy")
    assert strip["judge"] == "oracle"
    assert [clip["score"] for clip in strip["clips"]] == [float(bool(clip["events"])) for clip in strip["clips"]]


def test_without_a_judge_the_frames_are_drawn_as_the_suite_draws_them(plain_study: Path, tmp_path: Path) -> None:
    strip, folder = filmstrip(plain_study, tmp_path, "--seed", "3")
    assert strip["judge"] == "" and all("score" not in clip for clip in strip["clips"])
    suite = registry.get("suite", "minigrid_doorkey")()
    task = suite.make("5x5")
    task.reset(Streams(3 + SHIFT).evaluation_seed(0, 0))
    first = np.asarray(imageio.imread(folder / strip["clips"][0]["file"]))
    expected_frame = suite.drawing().spawn("5x5")(task.snapshot()[None])[0]
    assert first.shape[0] == len(expected_frame) and strip["clips"][0]["last"] <= STRETCH


def test_on_another_task_of_its_suite_the_judge_answers_too(judged_study: Path, tmp_path: Path) -> None:
    strip, _ = filmstrip(judged_study, tmp_path, "task=6x6")
    assert strip["task"] == "6x6" and all("score" in clip for clip in strip["clips"])


def test_a_foundation_model_is_not_asked_for_a_picture(judged_study: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(registry.get("judge", "sprite"), "backend", "transformers")
    strip, _ = filmstrip(judged_study, tmp_path)
    assert "a foundation model" in strip["unjudged"] and all("score" not in clip for clip in strip["clips"])


def test_of_a_long_episode_the_clips_are_spread_evenly() -> None:
    firsts = evenly(range(1, 10_001, 10), CLIPS)
    assert len(firsts) == CLIPS and firsts[0] == 1 and firsts[-1] == 9991
    assert max(np.diff(firsts)) - min(np.diff(firsts)) <= 10


def test_frames_that_cannot_be_written_are_told(plain_study: Path, tmp_path: Path, capsys) -> None:
    run = next(Path(shutil.copytree(plain_study, tmp_path / "study")).glob("*/*/*/seed-0"))
    (run / "frames").write_text("mine")
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 2
    assert "cannot be written" in capsys.readouterr().err
