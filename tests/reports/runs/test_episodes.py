from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.models.backends.images import png
from guidebench.harness.records.clips import Caption
from guidebench.reports.leaderboard import gathering
from guidebench.reports.runs import episodes
from guidebench.results import submissions
from guidebench.results.submissions.packing import pack
from tests.reports.runs.conftest import CLIP
from tests.results import animations

Changes = dict[str, Any]


def put(
    run: Path, folder: str, name: str, about: dict[str, Any], inner: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Write the description of an episode into `folder`, with `changes` made in it or in its part `inner`, and two
    images."""
    home = run / folder
    home.mkdir(parents=True, exist_ok=True)
    for file, image in (("image.png", CLIP[0]), ("second.png", CLIP[1])):
        (home / file).write_bytes(png(image))
    for key, value in changes.items():
        (inner if key in inner else about)[key] = value
    (home / f"{name}.json").write_text(json.dumps(about))


def strips(run: Path, name: str = "mine", **changes: Any) -> None:
    """Write an episode of one clip as `bench eval --frames` writes it, with some entries changed."""
    clip = {"file": "image.png", "first": 1, "last": 4, "events": ["key"], "score": 0.5}
    about = {
        **{"suite": "grid", "task": "8x8", "seed": 0, "moves": 4, "length": 4, "return": 0.5, "success": True},
        **{"judge": "sprite", "unjudged": "", "clips": [clip]},
    }
    put(run, "frames", name, about, clip, changes)


def write_logged_episode(run: Path, name: str = "mine", **changes: Any) -> None:
    """Write an episode of training as `bench eval --frames` draws it from a log, with some entries changed."""
    frame = {"file": "image.png", "frame": 17, "numbers": {"weight": 4.25}}
    about = {
        **{"log": "keyframes", "episode": 10, "step": 5_500, "success": True, "left_out": 0, "frames": [frame]},
        **{"told": [{"log": "feedback", "name": "fix", "text": "Close the gripper."}]},
    }
    put(run, "logged", name, about, frame, changes)


def write_question(run: Path, name: str = "mine", **changes: Any) -> None:
    """Write a question as `bench eval --frames` draws it from a log, with some entries changed."""
    about = {
        **{"log": "questions", "role": "planner", "episode": 10, "step": 5_500, "frame": "second.png"},
        **{"messages": [{"role": "user", "parts": [{"text": "Where?"}, {"file": "image.png"}]}]},
        **{"told": [{"name": "plan", "text": "Over there."}]},
    }
    put(run, "questions", name, about, {}, changes)


def test_what_bench_eval_left_is_shown_with_the_scores(run: Path) -> None:
    run_episodes = episodes.episodes(run)
    (episode,), (film,) = run_episodes.clips["frames"], run_episodes.clips["videos"]
    assert run_episodes.notes == () and episode.judge == "sprite"
    assert (episode.suite, episode.task) == ("minigrid_doorkey", "5x5")
    assert episode.frames and all(frame.score in (0.0, 1.0) and frame.content for frame in episode.frames)
    assert (film.name, film.reason) == ("first.mp4", "") and film.content


def test_frames_and_questions_of_logs_come_with_their_numbers_texts_and_images(tmp_path: Path) -> None:
    write_logged_episode(tmp_path)
    write_question(tmp_path)
    run_episodes = episodes.episodes(tmp_path)
    (episode,), (question,) = run_episodes.clips["logged"], run_episodes.clips["questions"]
    assert (episode.log, episode.episode, episode.step, episode.success) == ("keyframes", 10, 5_500, True)
    (frame,) = episode.frames
    assert (frame.first, frame.numbers, frame.content) == (17, {"weight": 4.25}, png(CLIP[0]))
    assert episode.captions == (Caption("Close the gripper.", "fix", "feedback"),) and episode.left_out == 0
    assert (question.log, question.role, question.episode, question.step) == ("questions", "planner", 10, 5_500)
    ((role, (text, image)),) = question.messages
    assert (role, text.text, image.content, question.content) == ("user", "Where?", png(CLIP[0]), png(CLIP[1]))
    assert question.captions == (Caption("Over there.", "plan"),) and question.left_out == 0
    write_logged_episode(tmp_path, success=None)
    assert episodes.episodes(tmp_path).clips["logged"][0].success is None


KINDS = {
    "strips": ("frames", strips),
    "logged": ("logged", write_logged_episode),
    "questions": ("questions", write_question),
}
MISFITS = [
    ("logged", {"file": "../../run.json"}, "there is no file '../../run.json' in its directory"),
    ("logged", {"file": "vast.png"}, "has 4,294,836,225 pixels"),
    ("logged", {"file": "mine.json"}, "no PNG"),
    ("logged", {"numbers": {"weight": float("inf")}}, "weight is inf; expected a finite number"),
    ("logged", {"numbers": []}, "numbers is []; expected dict"),
    ("logged", {"frame": "1"}, "frame is '1'; expected int"),
    ("logged", {"frames": [1]}, "frames has an entry 1; expected a JSON object"),
    ("logged", {"told": ["fix"]}, "told has an entry 'fix'; expected a JSON object"),
    ("logged", {"told": [{"name": "fix", "text": 3}]}, "text is 3; expected str"),
    ("logged", {"success": "yes"}, "success is 'yes'; expected bool"),
    ("logged", {"episode": True}, "episode is True; expected int"),
    ("logged", {"left_out": None}, "left_out is None; expected int"),
    ("questions", {"frame": "../../run.json"}, "there is no file '../../run.json' in its directory"),
    ("questions", {"frame": "mine.json"}, "no PNG"),
    ("questions", {"messages": [1]}, "messages has an entry 1; expected a JSON object"),
    ("questions", {"messages": [{"role": "user", "parts": [1]}]}, "parts has an entry 1; expected a JSON object"),
    ("questions", {"messages": [{"role": "user", "parts": [{"file": "x.png"}]}]}, "there is no file 'x.png'"),
    ("questions", {"messages": [{"role": "user", "parts": [{"text": None}]}]}, "text is None; expected str"),
    ("questions", {"role": 1}, "role is 1; expected str"),
    ("questions", {"told": ["plan"]}, "told has an entry 'plan'; expected a JSON object"),
    ("strips", {"score": 1.5}, "score is 1.5; expected a number in [0, 1]"),
    ("strips", {"score": float("nan")}, "score is nan; expected a finite number"),
    ("strips", {"score": "high"}, "score is 'high'"),
    ("strips", {"return": float("inf")}, "return is inf"),
    ("strips", {"moves": True}, "moves is True; expected int"),
    ("strips", {"success": "yes"}, "success is 'yes'; expected bool"),
    ("strips", {"clips": {}}, "clips is {}; expected list"),
    ("strips", {"clips": ["a"]}, "clips has an entry 'a'; expected a JSON object"),
    ("strips", {"first": None}, "first is None; expected int"),
    ("strips", {"file": "../run.json"}, "there is no file '../run.json' in its directory"),
    ("strips", {"file": "/etc/passwd"}, "there is no file '/etc/passwd' in its directory"),
    ("strips", {"file": "\x00"}, "in its directory"),
    ("strips", {"file": "link.png"}, "there is no file 'link.png' in its directory"),
    ("strips", {"file": "mine.json"}, "no PNG"),
    ("strips", {"file": "vast.png"}, "has 4,294,836,225 pixels"),
]


@pytest.mark.parametrize(("kind", "changes", "says"), MISFITS)
def test_what_does_not_fit_is_named_and_the_rest_shown(
    tmp_path: Path, kind: str, changes: dict[str, Any], says: str
) -> None:
    run, (folder, write) = tmp_path / "seed-0", KINDS[kind]
    write(run, "good")
    image = png(CLIP[0])
    (tmp_path / "secret.png").write_bytes(image)
    (run / folder / "link.png").symlink_to(tmp_path / "secret.png")
    (run / folder / "vast.png").write_bytes(image[:16] + b"\x00\x00\xff\xff" * 2 + image[24:])
    write(run, "mine", **changes)
    run_episodes = episodes.episodes(run)
    (note,) = run_episodes.notes
    assert len(run_episodes.clips[folder]) == 1 and note.startswith(f"{folder}/mine.json: ") and says in note


def test_animated_episodes_come_in_their_order_with_what_was_said(tmp_path: Path) -> None:
    home = animations.write(tmp_path, animations.episode(4), animations.episode(1, success=True))
    run_episodes = episodes.episodes(tmp_path)
    first, second = run_episodes.clips["gallery"]
    assert (first.success, second.success) == (False, True)
    assert first.content == (home / "04.webp").read_bytes()
    assert (first.episode, first.length, first.drawn, first.ret) == (4, 9, 5, 0.5)
    assert first.captions == (Caption("open the door", step=2),) and run_episodes.notes == ()
    assert run_episodes.gallery is not None and (run_episodes.gallery.played, run_episodes.gallery.successes) == (
        32,
        20,
    )
    animations.write(tmp_path, reason="OSMesa is missing")
    run_episodes = episodes.episodes(tmp_path)
    assert run_episodes.gallery is not None and run_episodes.gallery.reason == "OSMesa is missing"
    assert (run_episodes.clips["gallery"], run_episodes.notes) == ((), ())


@pytest.mark.parametrize(
    ("changes", "content", "says"),
    [
        ({"file": "../../run.json"}, b"", "there is no file '../../run.json' in the gallery"),
        ({"file": "none.webp"}, None, "there is no file 'none.webp' in the gallery"),
        ({}, b"RIFF no picture at all, and that for thirty bytes", "it is no WebP"),
        ({}, b"x" * (2**18 + 1), "01.webp has 262,145 bytes; at most 262,144 are read"),
        ({}, animations.webp(5)[:-20], "bytes, which are not those that it says"),
        ({"frames": 3}, animations.webp(5), "it has 5 frames; it says 3"),
    ],
)
def test_an_animated_episode_that_does_not_fit_is_named_and_the_rest_shown(
    tmp_path: Path, changes: dict[str, Any], content: bytes | None, says: str
) -> None:
    home = animations.write(tmp_path, animations.episode(4), animations.episode(1, **changes))
    if content is None:
        (home / "none.webp").unlink()
    elif content:
        (home / "01.webp").write_bytes(content)
    run_episodes = episodes.episodes(tmp_path)
    (note,) = run_episodes.notes
    assert len(run_episodes.clips["gallery"]) == 1 and note.startswith("gallery, episode 1: ") and says in note


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"words": [1]}, "words has an entry 1; expected a JSON object"),
        ({"success": 1}, "success is 1; expected bool"),
        ({"return": float("inf")}, "return is inf; expected a finite number"),
        ({"length": -1}, "length is -1; expected a count"),
    ],
)
def test_a_gallery_whose_description_does_not_fit_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    animations.write(tmp_path, animations.episode(4), animations.episode(1, **changes))
    run_episodes = episodes.episodes(tmp_path)
    (note,) = run_episodes.notes
    assert run_episodes.clips["gallery"] == () and note.startswith("gallery/gallery.json: ") and says in note


def test_animated_episodes_beyond_a_page_s_bytes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = animations.write(tmp_path, animations.episode(4), animations.episode(1))
    monkeypatch.setattr(episodes, "ANIMATED", (home / "04.webp").stat().st_size + 1)
    run_episodes = episodes.episodes(tmp_path)
    assert len(run_episodes.clips["gallery"]) == 1 and "a page has room for 1 more" in run_episodes.notes[0]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 10_000, b" " * (2**20 + 1), b"\xff"])
def test_what_is_no_description_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "x.json").write_bytes(content)
    run_episodes = episodes.episodes(tmp_path)
    assert run_episodes.clips["frames"] == () and len(run_episodes.notes) == 1 and "x.json" in run_episodes.notes[0]


def test_what_would_make_the_page_too_large_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_size, second_size = (len(png(image)) for image in CLIP[:2])
    assert not any([*episodes.episodes(tmp_path).clips.values()]), "a run without any has none"
    for number in range(episodes.EPISODES + 2):
        strips(tmp_path / "strips", f"e{number:02}")
    for number in range(3):
        write_logged_episode(tmp_path / "logged", f"e{number}", left_out=2)
    for name in ("a", "b"):
        write_question(tmp_path / "asked", name)
    monkeypatch.setattr(episodes, "STRIPS", 3 * first_size)
    run_episodes = episodes.episodes(tmp_path / "strips")
    assert [(len(episode.frames), episode.left_out) for episode in run_episodes.clips["frames"]] == [(1, 0)] * 3 + [
        (0, 1)
    ] * 5
    assert run_episodes.notes == ("frames: 2 further episodes are left out",)
    monkeypatch.setattr(episodes, "STRIPS", first_size)
    counts = [
        (len(episode.frames), episode.left_out) for episode in episodes.episodes(tmp_path / "logged").clips["logged"]
    ]
    assert counts == [(1, 2), (0, 3), (0, 3)]
    monkeypatch.setattr(episodes, "STRIPS", first_size + second_size)
    first, second = episodes.episodes(tmp_path / "asked").clips["questions"]
    assert (first.left_out, second.left_out, second.content) == (0, 1, b"")


def test_a_video_is_shown_if_it_is_one_and_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "FILM", 100)
    (tmp_path / "videos").mkdir()
    for name, content in {
        "a.gif": b"GIF89a...", "b.mp4": b"\0\0\0\x20ftypisom", "c.mp4": b"<script>", "d.gif": b"GIF89a" + b"." * 100,
        "e.txt": b"GIF89a",
    }.items():  # fmt: skip
        (tmp_path / "videos" / name).write_bytes(content)
    (tmp_path / "videos" / "f.gif").symlink_to("/etc/passwd")
    run_episodes = episodes.episodes(tmp_path)
    films = [(film.name, bool(film.content), film.reason) for film in run_episodes.clips["videos"]]
    assert films == [("a.gif", True, ""), ("b.mp4", True, ""), ("d.gif", False, "too large for a page (106 bytes)")]
    assert run_episodes.notes == (
        "videos/c.mp4: is not video/mp4",
        "videos/f.gif: there is no file 'f.gif' in its directory",
    )


def test_a_submission_takes_strips_along_to_the_leaderboard(run: Path, tmp_path: Path) -> None:
    packed = pack(run.parents[3], tmp_path / "mine.zip")
    strip_files = sorted(path.name for path in (run / "frames").iterdir())
    assert [path.rpartition("/")[2] for path in packed.manifest.files if "/frames/" in path] == strip_files
    added = submissions.add(packed.file, tmp_path / "board")
    board = gathering.gather([str(run.parents[3])], tmp_path / "none")
    theirs = gathering.gather([], tmp_path / "board")
    (frames,), (same,) = ([details.frames for details in of.details.values()] for of in (board, theirs))
    (episode,), _ = episodes.folder_clips(run, "frames")
    assert frames == same and 0 < len(frames) <= 6 and added and not board.notes
    assert frames[0].caption.startswith(f"5x5, seed 0: moves 1–4 of {episode.moves} (")
    assert base64.b64decode(frames[0].png) == episode.frames[0].content
    assert f", sprite: {episode.frames[0].score:.2f}" in frames[0].caption


def test_strips_that_cannot_be_read_leave_a_note_on_the_leaderboard(run: Path, tmp_path: Path) -> None:
    for path in (run / "frames").glob("*.json"):
        path.write_text("[]")
    board = gathering.gather([str(run.parents[3])], tmp_path / "none")
    assert [details.frames for details in board.details.values()] == [()]
    assert "holds list; expected a JSON object" in board.notes[0]
