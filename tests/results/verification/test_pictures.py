"""The pictures of a gallery are those of the checkpoint: played again, with equal actions and pixels, or labelled."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guidebench.harness.errors import UserError
from guidebench.harness.models import study_models
from guidebench.harness.models.cassette import MERGED
from guidebench.harness.playback import gallery
from guidebench.harness.records.clips import read_gallery
from guidebench.harness.records.galleries import animated
from guidebench.reports.leaderboard import gathering
from guidebench.results import galleries, store
from guidebench.results.submissions import packing
from guidebench.results.submissions.manifest import MANIFEST, read
from guidebench.results.submissions.opening import add
from guidebench.results.verification import pictures, verifying
from guidebench.results.verification.pictures import GalleryRun, replayed
from guidebench.results.verification.record import Verification
from tests.harness.models.canned import completion, serving
from tests.results.verification.conftest import trained


@pytest.fixture(scope="module")
def drawn_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a study of one run and draw its gallery; tests only read it."""
    study = trained(tmp_path_factory.mktemp("drawn") / "study", "suite=minigrid_doorkey", "method=uer")
    gallery.draw(run_of(study), episodes=4, seed=3)
    return study


@pytest.fixture
def study(drawn_study: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(drawn_study, tmp_path / "study"))


def run_of(study: Path) -> Path:
    return next(study.glob("*/*/*/seed-0"))


def differences(study: Path, cassette: Path | None = None) -> dict[int, str]:
    run = run_of(study)
    return replayed(GalleryRun(run.parent, run.parent.name.rpartition("-")[2], 0, cassette))


def describe(study: Path, change: Callable[[Any], object]) -> None:
    file = run_of(study) / "gallery" / "gallery.json"
    description = json.loads(file.read_text())
    change(description)
    file.write_text(json.dumps(description))


def repaint(study: Path, by: int) -> None:
    """Change the colours of a gallery's first animation by up to `by`, plus what its encoding changes."""
    file = run_of(study) / "gallery" / "00.webp"
    frames = galleries.pixels(file.read_bytes(), 60).astype(np.int16)
    file.write_bytes(animated([Image.fromarray(np.clip(frame + by, 0, 255).astype(np.uint8)) for frame in frames]))


def test_the_checkpoint_takes_the_same_actions_and_its_frames_are_the_pictures(study: Path) -> None:
    shown_gallery = read_gallery(run_of(study))
    assert shown_gallery is not None and shown_gallery.opengl == "" and len(shown_gallery.episodes) == 4
    assert all(len(episode.actions) == 64 for episode in shown_gallery.episodes)
    assert differences(study) == dict.fromkeys((episode.episode for episode in shown_gallery.episodes), "")


def test_other_pictures_and_other_actions_are_noticed(study: Path) -> None:
    repaint(study, 40)
    first, *others = differences(study).values()
    assert first.startswith("its frame 0 differs by up to") and not any(others)
    describe(study, lambda description: description["episodes"][1].update(actions=64 * "0"))
    assert list(differences(study).values())[1] == "played again, the policy takes other actions"
    describe(
        study, lambda description: description["episodes"][2].update(length=description["episodes"][2]["length"] - 1)
    )
    assert list(differences(study).values())[2] == "played again it ends otherwise"


def test_a_colour_may_differ_by_two_of_255() -> None:
    frames = np.full((3, 6, 8, 3), 100, np.uint8)

    def lossless(number: int, by: int) -> bytes:
        coloured = frames.copy()
        coloured[:, 0, 0, 0] += np.arange(3, dtype=np.uint8) * 20  # neighbours that are equal would be one frame
        coloured[number, 3, 3, 1] += by
        buffer = io.BytesIO()
        first, *rest = [Image.fromarray(frame) for frame in coloured]
        first.save(buffer, "WEBP", save_all=True, append_images=rest, lossless=True)
        return buffer.getvalue()

    assert pictures._differing(lossless(1, 2), lossless(1, 0), 3) == ""
    assert pictures._differing(lossless(1, 3), lossless(1, 0), 3).startswith("its frame 1 differs by up to 3 of 255")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda description: description.update(opengl="egl"),
            "it was drawn with egl, and this machine draws with no OpenGL",
        ),
        (lambda content: content.pop("opengl"), "it does not say which actions it shows"),
        (lambda description: description["episodes"][0].pop("actions"), "it does not say which actions it shows"),
    ],
)
def test_what_was_drawn_otherwise_is_not_played(study: Path, change: Callable[[Any], object], says: str) -> None:
    describe(study, change)
    with pytest.raises(UserError, match=says):
        differences(study)


def verify(study: Path, leaderboard: Path, digest: str) -> Verification:
    options = verifying.Options(1, episodes=2)
    return verifying.verify(store.study(study), digest, options, leaderboard, lambda done, text: None)


def test_a_submission_s_pictures_are_labelled_until_they_have_been_played_again(study: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    directory = add(packing.pack(study, tmp_path / "study.zip").file, board)

    def labels() -> tuple[str, str]:
        gathered = gathering.gather([str(directory)], board)
        (entry,), (details,) = gathered.entries, gathered.details.values()
        assert details.episodes is not None and details.episodes.pictures == entry.pictures
        return entry.pictures, details.episodes.verification[0]

    assert labels() == (
        "pictures not verified",
        "5x5, seed 0: pictures not verified: `bench verify` has not played them again",
    )
    manifest = read((directory / MANIFEST).read_bytes())
    verification = verify(directory, board, manifest.digest)
    (verdict,) = verification.cells.values()
    check = next(check for check in verdict.checks if check.what == "seed 0: pictures")
    assert check.passed and "played again: equal actions and pictures" in check.detail
    assert labels()[0] == "pictures verified"


def test_pictures_made_with_other_packages_are_labelled_and_their_run_is_verified_as_before(
    study: Path, tmp_path: Path
) -> None:
    file = run_of(study) / "run.json"
    content = json.loads(file.read_text())
    content["provenance"]["packages"]["torch"] = "0.1"
    file.write_text(json.dumps(content))
    (verdict,) = verify(study, tmp_path, 64 * "0").cells.values()
    check = next(check for check in verdict.checks if check.what == "seed 0: pictures")
    assert check.passed is None and "pictures not verified: the run was made with other packages" in check.detail
    assert "pictures" not in verdict.reason


def test_pictures_that_opengl_drew_are_drawn_again_with_the_same_backend(opengl: None, tmp_path: Path) -> None:
    study = trained(
        tmp_path / "study", "suite=classic", "task=Hopper-v5", "method=sac", "training.steps=20", "evaluation.every=20",
        "evaluation.episodes=2", "learner.learning_starts=16", "learner.batch_size=8", "learner.hidden=[8]",
    )  # fmt: skip
    gallery.draw(run_of(study), episodes=2, seed=3)
    shown_gallery = read_gallery(run_of(study))
    assert shown_gallery is not None and shown_gallery.opengl in ("egl", "osmesa")
    assert differences(study) == {0: "", 1: ""}
    repaint(study, 40)
    first, second = differences(study).values()
    assert first.startswith("its frame 0 differs by up to") and not second


LOGGED = (
    "suite=crafter_ood", "task=wood_sword", "suite.observation=text", "suite.actions=find", "suite.impossible=masked",
    "suite.area=16", "suite.test_length=8", "method=model_as_agent", "training.steps=1", "evaluation.every=1",
    "evaluation.episodes=2",
)  # fmt: skip
"""A run whose log tells the actions of its evaluation episodes, so that its gallery shows those with the model's
words."""


def test_the_run_s_own_episodes_of_a_log_of_actions_are_played_again(tmp_path: Path) -> None:
    pytest.importorskip("crafter")
    study = trained(tmp_path / "study", *LOGGED, "performer=scripted")
    gallery.draw(run_of(study))
    shown_gallery = read_gallery(run_of(study))
    assert (
        shown_gallery is not None and shown_gallery.from_run and all(clip.captions for clip in shown_gallery.episodes)
    )
    assert differences(study) == {0: "", 1: ""}
    describe(study, lambda description: description["episodes"][0]["words"][0].update(text="chop tree, as planned"))
    assert next(iter(differences(study).values())).startswith("its frame 0 differs by up to")


def test_episodes_whose_actions_a_served_model_chose_are_played_again_by_its_recorded_answers(tmp_path: Path) -> None:
    pytest.importorskip("crafter")
    prompts: list[str] = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        prompts.append(str(body["messages"][0]["content"]))
        possible = re.findall(r"^- (.+)$", prompts[-1].partition("## Actions")[2], re.MULTILINE)
        return 200, completion([*possible, "fly"][7 * len(prompts) % (len(possible) + 1)])

    with serving(answers) as url:
        served = ("performer=openai", "performer.model=m", f"performer.base_url={url}", "performer.attempts=1")
        study = trained(tmp_path / "study", *LOGGED, *served)
    study_models.settle(study_models.folder(study))
    gallery.draw(run_of(study))
    call_count = len(prompts)
    verdicts = verify(study, tmp_path, 64 * "0").cells.values()
    (check,) = (check for verdict in verdicts for check in verdict.checks if check.what == "seed 0: pictures")
    assert check.passed and "episodes 0, 1 were played again: equal actions and pictures" in check.detail
    assert len(prompts) == call_count
    with pytest.raises(UserError, match="asks its performer while it acts, and the answers are not there"):
        differences(study)
    describe(study, lambda description: description.update(own=False))
    with pytest.raises(UserError, match="asks its performer while it acts, and the answers are not there"):
        differences(study, study_models.folder(study) / MERGED)
