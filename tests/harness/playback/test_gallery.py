"""Small animated episodes of a trained run, failures first, and why there are none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.playback import gallery
from guidebench.harness.playback.gallery import EPISODES, LARGEST, SIZES, Moment, Reel
from tests.harness.playback.test_acted_frames import WORDS


@dataclass(frozen=True)
class Noise:
    """Draws noise, which no format makes small."""

    size: int

    def spawn(self, task: str) -> Callable[[Array], Array]:
        rng = np.random.default_rng(0)
        return lambda moments: rng.integers(0, 256, (len(moments), self.size, self.size, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Nothing:
    """Cannot draw."""

    def spawn(self, task: str) -> Any:
        raise UserError("frames cannot be drawn: OSMesa is missing; apt-get install libosmesa6")


def moments(number: int, words: Sequence[str] = ("",)) -> list[Moment]:
    return [Moment(step, np.zeros(4, np.uint8), words[step % len(words)]) for step in range(number)]


def abouts(run: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((run / "gallery").glob("*.json"))]


@pytest.fixture
def run(train: Callable[..., Path]) -> Path:
    return next(train("method=uer", "seeds=[0]", packs=[(0,)]).glob("*/*/*/seed-0"))


def test_failures_come_first_and_a_success_last() -> None:
    def results(successes: set[int], number: int) -> list[Result]:
        return [Result(0, episode, 0.0, episode in successes, 5, 0.0) for episode in range(number)]

    def chosen(successes: set[int], number: int = 10) -> list[int]:
        return [result.episode for result in gallery.shown(results(successes, number))]

    assert chosen({0, 1}) == [2, 3, 4, 5, 6, 0] and EPISODES == 6
    assert chosen(set()) == [0, 1, 2, 3, 4, 5]
    assert chosen(set(range(10))) == [0, 1, 2, 3, 4, 5]
    assert chosen({0}, 2) == [1, 0]


def test_a_long_episode_is_kept_thinned_with_its_end() -> None:
    reel = Reel()
    for step in range(1_001):
        reel.add(step, np.zeros(1, np.uint8))
    kept = [moment.step for moment in reel.shown]
    assert kept[0] == 0 and kept[-1] == 1_000 and 60 <= len(kept) <= 121
    assert len(set(np.diff(kept[:-1]).tolist())) == 1


def test_an_animation_has_as_many_frames_as_fit() -> None:
    content, frames = gallery.film(Noise(4), "x", moments(30))
    assert frames == 30 and len(content) <= LARGEST
    with Image.open(io.BytesIO(content)) as found:
        assert (found.format, found.n_frames, found.width) == ("WEBP", 30, SIZES[0][1])
    smaller, fewer = gallery.film(Noise(192), "x", moments(60))
    assert fewer < 60 and len(smaller) <= LARGEST


def test_an_episode_too_large_at_any_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "LARGEST", 100)
    with pytest.raises(UserError, match="an episode of 12 frames 96 pixels wide has more than 100 bytes"):
        gallery.film(Noise(64), "x", moments(30))


def test_words_stand_below_the_frame() -> None:
    frame = np.zeros((48, 64, 3), np.uint8)
    silent, said = (np.asarray(gallery._captioned(frame, Moment(3, frame, text), 96)) for text in ("", "open the door"))
    assert silent.shape == said.shape and (silent[:72] == said[:72]).all()
    assert (said[72:] < 128).sum() > (silent[72:] < 128).sum() > 0


def test_bench_eval_draws_the_episodes_that_it_played(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "3", "--json"]) == 0
    played = json.loads(capsys.readouterr().out)
    found = abouts(run)
    order = sorted(played, key=lambda each: each["success"])
    assert [each["episode"] for each in found] == [each["episode"] for each in order]
    for about, each in zip(found, order, strict=True):
        assert (about["success"], about["length"], about["return"]) == (each["success"], each["length"], each["return"])
        content = (run / "gallery" / about["file"]).read_bytes()
        assert 0 < len(content) <= LARGEST and content[8:12] == b"WEBP"


def test_an_old_gallery_is_replaced_and_a_failure_to_draw_is_explained(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "1"]) == 0
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    monkeypatch.setattr(MiniGridDoorKey, "drawing", Nothing)
    capsys.readouterr()
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "1"]) == 0
    assert "gallery: not all episodes are drawn: frames cannot be drawn: OSMesa is missing" in capsys.readouterr().out
    (about,) = abouts(run)
    assert about["reason"] == "frames cannot be drawn: OSMesa is missing; apt-get install libosmesa6"


def test_episodes_of_the_run_itself_have_the_words_of_its_log(
    train_once: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    pytest.importorskip("crafter")
    shutil.copytree(train_once(*WORDS, packs=[(3,)]), tmp_path / "study")
    run = next((tmp_path / "study").glob("*/*/*/seed-3"))
    assert "gallery: 2 episodes" in gallery.write_spoken(run)
    for episode, about in enumerate(abouts(run)):
        assert (about["step"], about["episode"], about["of"]) == (40, episode, "the run's last evaluation")
        assert about["words"] and about["words"][0]["frame"] == 0 and about["words"][0]["text"]
    rows = (run / "actions.parquet").read_bytes()
    (run / "actions.parquet").write_bytes(rows[: len(rows) // 2])
    assert "gallery: not all episodes are drawn" in gallery.write_spoken(run)
