"""Small animations of a trained run's episodes, failures first, or the reason why there are none."""

import io
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Question
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.playback import gallery
from guidebench.harness.playback.gallery import Moment, Reel
from guidebench.harness.records.clips import Clip, Gallery
from guidebench.harness.records.galleries import CAPTION, EPISODES, LARGEST, SIZES
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests import programs
from tests.harness.models.canned import completion, serving
from tests.harness.playback.test_acted_frames import WORDS


@dataclass(frozen=True)
class Noise:
    """A drawing of noise, which no image format compresses."""

    size: int

    def spawn(self, task: str) -> Callable[[Array], Array]:
        rng = np.random.default_rng(0)
        return lambda moments: rng.integers(0, 256, (len(moments), self.size, self.size, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Nothing:
    """A drawing that always fails."""

    def opengl(self, task: str) -> str:
        raise UserError("frames cannot be drawn: OSMesa is missing; apt-get install libosmesa6")

    def spawn(self, task: str) -> Any:
        raise UserError("frames cannot be drawn: OSMesa is missing; apt-get install libosmesa6")


@dataclass(frozen=True)
class Deadly:
    """A drawing that ends its process, as a driver may."""

    def opengl(self, task: str) -> str:
        return "osmesa"

    def spawn(self, task: str) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


@dataclass(frozen=True)
class Picky:
    """A drawing that fails for episodes with one given number of moments."""

    moments: int
    from_: Any

    def spawn(self, task: str) -> Callable[[Array], Array]:
        draw = self.from_.spawn(task)

        def draw_or_fail(snapshots: Array) -> Array:
            if len(snapshots) == self.moments:
                raise UserError("this episode cannot be drawn")
            return np.asarray(draw(snapshots))

        return draw_or_fail


def moments(number: int) -> list[Moment]:
    return [Moment(step, np.zeros(4, np.uint8)) for step in range(number)]


def contents(run: Path) -> dict[str, Any]:
    description: dict[str, Any] = json.loads((run / "gallery" / "gallery.json").read_text())
    return description


SHORT = (
    "seeds=[0]", "training.steps=40", "evaluation.every=40", "evaluation.episodes=1", "learner.channels=4",
    "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained_study(train_once: Callable[..., Path]) -> Path:
    return train_once("method=uer", *SHORT, packs=[(0,)])


@pytest.fixture
def run(trained_study: Path, tmp_path: Path) -> Path:
    return next(Path(shutil.copytree(trained_study, tmp_path / "study")).glob("*/*/*/seed-0"))


def test_failures_come_first_and_a_success_last() -> None:
    def results(successes: set[int], number: int) -> list[Result]:
        return [Result(0, episode, 0.0, episode in successes, 5, 0.0) for episode in range(number)]

    def chosen_episodes(successes: set[int], number: int = 10) -> list[int]:
        return [result.episode for result in gallery.chosen_results(results(successes, number))]

    assert chosen_episodes({0, 1}) == [2, 3, 4, 5, 6, 0] and EPISODES == 6
    assert chosen_episodes(set()) == [0, 1, 2, 3, 4, 5] and chosen_episodes(set(range(10))) == [0, 1, 2, 3, 4, 5]
    assert chosen_episodes({0}, 2) == [1, 0]


def test_a_long_episode_is_kept_thinned_with_its_end() -> None:
    reel = Reel()
    for step in range(1_001):
        reel.add(np.zeros(1, np.uint8), step)
    steps = [moment.step for moment in reel.all_moments]
    assert steps[0] == 0 and steps[-1] == 1_000 and 60 <= len(steps) <= 121
    assert len(set(np.diff(steps[:-1]).tolist())) == 1


def test_an_animation_has_as_many_frames_as_fit() -> None:
    content, frames = gallery.film(Noise(4), "x", moments(30), ())
    assert frames == 30 and len(content) <= LARGEST
    with Image.open(io.BytesIO(content)) as image:
        assert (image.format, image.n_frames, image.width) == ("WEBP", 30, SIZES[0][1])
    smaller, fewer = gallery.film(Noise(192), "x", moments(60), ())
    assert fewer < 60 and len(smaller) <= LARGEST


def test_an_episode_too_large_at_any_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "LARGEST", 100)
    with pytest.raises(UserError, match="an episode of 12 frames 96 pixels wide has more than 100 bytes"):
        gallery.film(Noise(64), "x", moments(30), ())


def test_words_stand_below_the_frame() -> None:
    frame = np.zeros((48, 64, 3), np.uint8)
    silent, spoken = (np.asarray(gallery._captioned(frame, text, 96)) for text in ("3", "3  open the door"))
    assert silent.shape == spoken.shape and (silent[:72] == spoken[:72]).all()
    assert (spoken[72:] < 128).sum() > (silent[72:] < 128).sum() > 0


def test_bench_eval_draws_the_episodes_that_it_played(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "3", "--json"]) == 0
    played = json.loads(capsys.readouterr().out)
    description = contents(run)
    episodes = description["episodes"]
    assert (description["played"], description["successes"], description["own"]) == (
        3,
        sum(episode["success"] for episode in played),
        False,
    )
    order = sorted(played, key=lambda episode: episode["success"])
    assert [episode["episode"] for episode in episodes] == [episode["episode"] for episode in order]
    for about, episode in zip(episodes, order, strict=True):
        assert (about["success"], about["length"], about["return"]) == (
            episode["success"],
            episode["length"],
            episode["return"],
        )
        content = (run / "gallery" / about["file"]).read_bytes()
        assert 0 < len(content) <= LARGEST and content[8:12] == b"WEBP"


def test_where_no_episode_can_score_success_the_worst_come_first_and_the_best_last() -> None:
    episode_results = [Result(0, episode, 0.0, False, 5, float(episode * 7 % 10)) for episode in range(10)]
    assert [episode_result.score for episode_result in gallery.chosen_results(episode_results, "return")] == [
        0,
        1,
        2,
        3,
        4,
        9,
    ]
    assert [episode_result.score for episode_result in gallery.chosen_results(episode_results, "return", -1)] == [
        9,
        8,
        7,
        6,
        5,
        0,
    ]
    assert [episode_result.episode for episode_result in gallery.chosen_results(episode_results)] == [0, 1, 2, 3, 4, 5]


def test_an_old_gallery_is_replaced_and_a_failure_to_draw_is_explained(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "2"]) == 0
    monkeypatch.setattr(MiniGridDoorKey, "drawing", Nothing)
    capsys.readouterr()
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "2"]) == 1
    output = capsys.readouterr()
    reason = "frames cannot be drawn: OSMesa is missing; apt-get install libosmesa6"
    assert f"gallery: episodes 0, 1 are not drawn: {reason}\n" == output.err and "of 2 episodes" in output.out
    description = contents(run)
    assert [episode["reason"] for episode in description["undrawn"]] == [reason] * 2 and description["episodes"] == []
    assert [path.name for path in (run / "gallery").iterdir()] == ["gallery.json"]


def test_a_process_that_dies_while_it_draws_is_named_with_a_way_out(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MiniGridDoorKey, "drawing", Deadly)
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "1"]) == 1
    (undrawn,) = contents(run)["undrawn"]
    assert undrawn["episode"] == 0 and "made its process end with exit code -11" in undrawn["reason"]
    assert "MUJOCO_GL=osmesa draws in software (Debian, Ubuntu: apt-get install libosmesa6)" in undrawn["reason"]
    assert undrawn["reason"] in capsys.readouterr().err


def test_an_episode_that_cannot_be_drawn_does_not_cost_the_others(tmp_path: Path) -> None:
    films = [gallery.Film(Clip(episode=number, success=False), moments(number + 2)) for number in range(3)]
    cast = gallery.Cast(Gallery(), films)
    message, empty = gallery._write(tmp_path / "gallery", Picky(3, Noise(8)), "x", lambda: cast)
    assert not empty and "2 episodes in" in message
    assert "gallery: episode 1 is not drawn: this episode cannot be drawn" in message
    assert [episode["episode"] for episode in contents(tmp_path)["episodes"]] == [0, 2]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"MUJOCO_GL": "bogus"}, "MUJOCO_GL=bogus: MuJoCo knows no such way to draw; set it to egl (the driver of a"),
        (
            {"MUJOCO_GL": "egl", "__EGL_VENDOR_LIBRARY_DIRS": "/nowhere"},
            "set MUJOCO_GL=osmesa (Debian, Ubuntu: apt",
        ),
        ({"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "x11"}, "and PYOPENGL_PLATFORM=x11 contradict each other"),
        ({"MUJOCO_GL": "", "DISPLAY": "", "SDL_VIDEODRIVER": ""}, ""),
        ({"MUJOCO_GL": "glfw", "DISPLAY": ""}, ""),
    ],
)
def test_an_environment_in_which_mujoco_cannot_draw_is_explained_with_the_fix(
    headless: Path, opengl: None, variables: dict[str, str], says: str
) -> None:
    """With the real libraries, in a process with these environment variables."""
    shutil.rmtree(headless / "gallery", ignore_errors=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}  # set by what has drawn
    done = programs.bench("eval", str(headless), "--gallery", "--episodes", "1", env={**clean, **variables})
    assert "Traceback" not in done.err, done.err[-2_000:]
    if not says:
        assert done.code == 0 and len(contents(headless)["episodes"]) == 1, done.err[-2_000:]
        return
    assert done.code in (1, 2) and says in done.err, done.err[-2_000:]
    if done.code == 1:
        (undrawn,) = contents(headless)["undrawn"]
        assert says in undrawn["reason"] and undrawn["episode"] == 0


@pytest.fixture(scope="module")
def headless(train_once: Callable[..., Path]) -> Path:
    """Return a run of a task on MuJoCo."""
    pytest.importorskip("gymnasium_robotics")
    words = ("suite=point_maze", "task=umaze", "suite.steps=20", "method=random", *SHORT[:4])
    return next(train_once(*words, packs=[(0,)]).glob("*/*/*/seed-0"))


JUDGED = ("method=vlm_rb", "replay.clip_length=100", *SHORT)


@pytest.mark.parametrize("judge", ["sprite", "oracle"])
def test_a_hand_written_judge_is_asked_at_once_about_each_clip_of_the_episodes_shown(
    train: Callable[..., Path], judge: str
) -> None:
    run = next(train(*JUDGED, f"judge={judge}", packs=[(0,)]).glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--gallery", "--episodes", "2"]) == 0
    description = contents(run)
    assert description["unjudged"] == "" and len(description["episodes"]) == 2
    for episode in description["episodes"]:
        assert [words["step"] for words in episode["words"]] == [*range(1, episode["length"] + 1, 100)][
            : len(episode["words"])
        ]
        assert all(words["text"].startswith("judge: P(yes) ") for words in episode["words"]) and episode["words"]
        assert "of steps 1 to " in episode["words"][0]["text"]


def test_a_foundation_model_is_asked_only_when_told_and_then_replayed(
    train: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a real server, which receives first no request, then one for each clip, then none again."""
    requests = []

    def answer(path: str, body: dict[str, Any], _: dict[str, str]) -> tuple[int, Any]:
        requests.append(path)
        return 200, completion("Answer: Yes")

    with serving(answer) as address:
        server = ("judge=openai", "judge.model=canned", "judge.scoring=literal", f"judge.base_url={address}")
        run = next(train(*JUDGED, *server, packs=[(0,)]).glob("*/*/*/seed-0"))
        requests.clear()
        evaluate = ["eval", str(run), "--gallery", "--episodes", "1"]
        assert cli.main(evaluate) == 0 and requests == []
        description = contents(run)
        assert description["episodes"][0]["words"] == [] and "models.mode=record asks it" in description["unjudged"]
        assert f"gallery: {description['unjudged']}" in capsys.readouterr().out
        assert cli.main([*evaluate, "models.mode=record"]) == 0
        description = contents(run)
        clips = len(description["episodes"][0]["words"])
        assert description["unjudged"] == "" and 1 <= clips == len(requests)
        assert description["episodes"][0]["words"][0]["text"].startswith("judge: P(yes) 1.00 of steps 1 to ")
        assert cli.main(evaluate) == 0 and len(requests) == clips and contents(run) == description
        assert cli.main([*evaluate, "--seed", "1"]) == 0 and len(requests) == clips
        assert "the answer is not on record" in contents(run)["unjudged"]
        assert cli.main([*evaluate, "--seed", "2", "models.mode=record", "models.budget_calls=0"]) == 0
        assert len(requests) == clips and "budget" in contents(run)["unjudged"]


def test_what_a_model_answered_while_the_agent_acted_stands_from_there_on() -> None:
    def words(*answers: tuple[int, Any]) -> dict[int, str]:
        recording = object.__new__(gallery.GalleryRecording)
        recording._captions, recording._reels = {}, {0: Reel()}
        for step, answer in answers:
            recording._reels[0].steps = step
            question = Question(0, np.zeros(0, np.int64), None, np.zeros((0, 0), bool), "", "planner")
            recording.heard([question], [answer])
        captions = gallery.together(recording._captions.get(0, {}), {3: ["judge: P(yes) 0.50"]})
        return {caption.step: caption.text for caption in captions}

    assert words((0, "find a tree"), (5, {"goal": "cut it", "boxes": [[1, 2]]})) == {
        0: "planner: find a tree",
        3: "planner: find a tree · judge: P(yes) 0.50",
        5: "planner: goal cut it · judge: P(yes) 0.50",
    }
    assert words((0, np.zeros(4))) == {3: "judge: P(yes) 0.50"} and words((0, None))[0] == "planner: no answer"


def test_a_caption_is_one_line_of_bounded_length() -> None:
    assert gallery.caption("a\n\tb\x1b[2J\u202ec") == r"a b\x1b[2J\u202ec"
    assert len(gallery.caption("x" * 10_000)) == CAPTION


def test_episodes_of_the_run_itself_have_the_words_of_its_log(
    train_once: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("crafter")
    shutil.copytree(train_once(*WORDS, packs=[(3,)]), tmp_path / "study")
    run = next((tmp_path / "study").glob("*/*/*/seed-3"))
    message, empty = gallery.write_spoken(run) or ("", True)
    assert "gallery: 2 episodes" in message and not empty
    about = contents(run)
    assert (about["step"], about["own"], about["seed"], about["played"]) == (40, True, 3, 2)
    for number, episode in enumerate(about["episodes"]):
        assert episode["episode"] == number and episode["words"][0]["step"] == 0 and episode["words"][0]["text"]
        assert all(earlier["text"] != later["text"] for earlier, later in itertools.pairwise(episode["words"]))
    rows = (run / "actions.parquet").read_bytes()
    (run / "actions.parquet").write_bytes(rows[: len(rows) // 2])
    message, empty = gallery.write_spoken(run) or ("", False)
    assert empty and "gallery: no episode is drawn: " in message and contents(run)["reason"] in message
