"""A clip is written and read by one form per folder: nothing of it is lost, and its keys are those on record."""

import json
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.records import clips
from guidebench.harness.records.clips import Caption, Clip, Frame, Gallery, ShownMessage, ShownPiece, Undrawn

STRIP = Frame("a.png", 1, 4, ("key",), 0.5, content=b"one")
LOGGED = Clip(
    "log-00003", "log", episode=3, step=70, success=None, left_out=2,
    frames=(Frame("b.png", 17, numbers={"weight": 4.25}, content=b"two"),),
    captions=(Caption("close it", "fix", "feedback"),),
)  # fmt: skip
QUESTION = Clip(
    "log-planner-00003", "log", "planner", episode=3, step=70, file="c.png", content=b"three",
    messages=(ShownMessage("user", (ShownPiece("where?"), ShownPiece(file="d.png", content=b"four"))),),
    captions=(Caption("there", "plan"),),
)  # fmt: skip
ENDED = {"moves": 4, "length": 9, "ret": 0.5, "success": True}
WRITTEN = {
    "frames": Clip("mine", suite="grid", task="8x8", seed=2, judge="sprite", frames=(STRIP,), **ENDED),  # type: ignore[arg-type]
    "logged": LOGGED,
    "acted": Clip("log-00070-00003", "log", episode=3, step=70, moves=9, frames=(Frame("e.png", 0, content=b"five"),)),
    "questions": QUESTION,
}
KEYS = {
    "frames": "suite task seed moves length return success judge unjudged clips",
    "logged": "log episode step success left_out frames told",
    "acted": "log episode step played frames",
    "questions": "log episode step role frame messages told",
}


def without_pictures(clip: Clip) -> Clip:
    """Return a clip as it is read before its pictures are."""
    messages = [
        message._replace(parts=tuple(piece._replace(content=b"") for piece in message.parts))
        for message in clip.messages
    ]
    frames = tuple(frame._replace(content=b"") for frame in clip.frames)
    return clip._replace(content=b"", frames=frames, messages=tuple(messages))


@pytest.mark.parametrize("folder", clips.FORMS)
def test_what_is_written_is_read_again_with_the_keys_on_record(tmp_path: Path, folder: str) -> None:
    clip = WRITTEN[folder]
    clips.write(tmp_path / folder, folder, clip)
    assert clips.read(tmp_path, folder, f"{clip.name}.json") == without_pictures(clip)
    described = json.loads((tmp_path / folder / f"{clip.name}.json").read_text())
    assert [*described] == ["schema", *KEYS[folder].split()]
    pictures = {file.name: file.read_bytes() for file in (tmp_path / folder).glob("*.png")}
    assert pictures == {
        "frames": {"a.png": b"one"}, "logged": {"b.png": b"two"}, "acted": {"e.png": b"five"},
        "questions": {"c.png": b"three", "d.png": b"four"},
    }[folder]  # fmt: skip


def test_a_gallery_is_read_as_it_was_written_and_one_without_episodes_says_why() -> None:
    animated = Clip(
        episode=3, score=1.0, file="00.webp", drawn=5, actions="0" * 64, left_out=1,
        captions=(Caption("open", step=2),), **ENDED,  # type: ignore[arg-type]
    )  # fmt: skip
    gallery = Gallery("grid", "8x8", 7, True, 70, 2, 1, episodes=(animated,), undrawn=(Undrawn(4, "no OpenGL"),))
    for opengl in (None, "", "egl"):
        described = clips.plain_gallery(gallery._replace(opengl=opengl))
        assert clips.gallery_of(json.loads(json.dumps(described))) == gallery._replace(opengl=opengl)
        assert ("opengl" in described) is (opengl is not None)
    empty = {"schema": described["schema"], "episodes": [], "undrawn": [], "reason": "OSMesa is missing"}
    assert clips.plain_gallery(Gallery(reason="OSMesa is missing")) == empty
    assert clips.gallery_of(empty) == Gallery(reason="OSMesa is missing")


def test_a_description_that_lies_outside_the_run_is_not_read(tmp_path: Path) -> None:
    clips.write(tmp_path / "other", "logged", LOGGED)
    (tmp_path / "run" / "logged").mkdir(parents=True)
    (tmp_path / "run" / "logged" / "x.json").symlink_to(tmp_path / "other" / f"{LOGGED.name}.json")
    with pytest.raises(UserError, match=r"x\.json lies outside the run"):
        clips.read(tmp_path / "run", "logged", "x.json")
