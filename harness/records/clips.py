"""What is shown of an episode, in one record for all of a run's folders: strips of frames, frames and questions of its
logs, episodes played again, animated episodes, and videos.

A clip names its pictures by their files and is described by a JSON object beside them; of a gallery, one file describes
all clips. The forms say which keys such a description has, so writers and readers share them. `read` and `read_gallery`
parse descriptions, which may be a stranger's, in the separate process; keys that a form does not name are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.files import content_of, is_within, write_bytes, write_json
from guidebench.harness.records.galleries import CAPTION, CAPTIONS, CONTENTS, EPISODES
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import ACTED, FRAMES, GALLERY, LOGGED, QUESTIONS
from guidebench.harness.texts import brief

DOCUMENT = 2**20
"""Most bytes of a description."""
LARGEST = 1e300
"""Largest absolute value of a number; larger ones are brought to it, so that sums of a few stay finite."""

AnyRecord = TypeVar("AnyRecord")
Kind = Callable[[Any, str], Any]
"""Returns a value of a description, given its raw form and its key; raises UserError for one that does not fit."""
Form = Mapping[str, tuple[str, Kind]]
"""Key of a description -> field of the record and kind of the value. A key that ends in `?` may be missing."""


class Frame(NamedTuple):
    """A picture of a clip, and what is said of it."""

    file: str
    first: int
    """Steps of the episode before it; of a strip, the first move that it shows."""
    last: int = 0
    """Last move that a strip shows."""
    events: tuple[str, ...] = ()
    score: float | None = None
    """P(yes) of the run's judge; None without one."""
    numbers: Mapping[str, float] = {}
    content: bytes = b""
    """PNG; empty where it is not read."""


class ShownPiece(NamedTuple):
    """A piece of a message: text, or an image."""

    text: str = ""
    file: str = ""
    content: bytes = b""
    """PNG of an image."""


class ShownMessage(NamedTuple):
    """A message of a question to a model, or a part of another call's request."""

    role: str
    parts: tuple[ShownPiece, ...]


class Caption(NamedTuple):
    """A text about a clip: from a log, or said from a step on."""

    text: str
    name: str = ""
    """Column of the log."""
    log: str = ""
    step: int = 0


class Clip(NamedTuple):
    """One episode, or a question about one, as pictures and captions; a form names the fields that its folder has."""

    name: str = ""
    """Name of its description without ending; of a video, its file."""
    log: str = ""
    role: str = ""
    """Role of the model that was asked."""
    suite: str = ""
    task: str = ""
    seed: int = 0
    """Seed of the evaluation."""
    episode: int = 0
    step: int = 0
    """Environment step of the evaluation, or at which the last frame was logged or the question asked."""
    moves: int = 0
    """Steps that were played; fewer than `length` if the policy repeated a position and was stopped."""
    length: int = 0
    ret: float = 0.0
    success: bool | None = None
    """None if nothing says."""
    score: float = 0.0
    """Its score, as the gallery's `measure` names it."""
    judge: str = ""
    unjudged: str = ""
    """Why its frames have no score although the run has a judge."""
    file: str = ""
    """File of the animation, or of the frame from which a question's images are drawn."""
    content: bytes = b""
    """Bytes of `file`; empty where they are not read."""
    drawn: int = 0
    """Frames of the animation, of moves + 1."""
    actions: str = ""
    """SHA-256 of its actions in hexadecimal digits; "" if its description does not say it."""
    frames: tuple[Frame, ...] = ()
    messages: tuple[ShownMessage, ...] = ()
    captions: tuple[Caption, ...] = ()
    left_out: int = 0
    """Pictures left out for lack of room; of an animation, captions."""
    reason: str = ""
    """Why a video is not shown."""


class Undrawn(NamedTuple):
    """An episode that could not be drawn."""

    episode: int
    reason: str


class Gallery(NamedTuple):
    """Animated episodes, and the evaluation that they were chosen from."""

    suite: str = ""
    task: str = ""
    seed: int = 0
    """Seed of the run, or that of the new layouts."""
    from_run: bool = False
    """Whether the episodes are from the run's own last evaluation; else they were played for the gallery."""
    step: int = 0
    """Environment step of the run's own evaluation."""
    played: int = 0
    """Episodes of the evaluation, and how many of them succeeded."""
    successes: int = 0
    measure: str = "success"
    """The score by which they are chosen: failures first under `success`, else the worst first."""
    unjudged: str = ""
    """Why clips have no score of the run's judge; "" if all have one, or there is none."""
    episodes: tuple[Clip, ...] = ()
    undrawn: tuple[Undrawn, ...] = ()
    reason: str = ""
    """Why there is no episode at all, or ""."""
    opengl: str | None = None
    """OpenGL backend that drew it, "" for none; None if the gallery does not say it."""


def _exactly(raw: Any, name: str, kind: type) -> Any:
    if type(raw) is not kind:
        raise UserError(f"{name} is {brief(repr(raw), 80)}; expected {kind.__name__}")
    return raw


def _count(raw: Any, name: str) -> int:
    if not 0 <= _exactly(raw, name, int) <= 2**53:
        raise UserError(f"{name} is {brief(str(raw), 80)}; expected a count")
    return int(raw)


def _flag(raw: Any, name: str) -> bool:
    return bool(_exactly(raw, name, bool))


def _verdict(raw: Any, name: str) -> bool | None:
    return None if raw is None else _flag(raw, name)


def _number(raw: Any, name: str) -> float:
    if type(raw) not in (int, float) or not abs(raw) < math.inf:
        raise UserError(f"{name} is {brief(repr(raw), 80)}; expected a finite number")
    return float(min(max(raw, -LARGEST), LARGEST))


def _share(raw: Any, name: str) -> float:
    if not 0 <= _number(raw, name) <= 1:
        raise UserError(f"{name} is {raw}; expected a number in [0, 1]")
    return float(raw)


def _text(most: int) -> Kind:
    return lambda raw, name: brief(_exactly(raw, name, str), most)


def _events(raw: Any, name: str) -> tuple[str, ...]:
    return tuple(brief(str(event), 60) for event in _exactly(raw, name, list)[:20])


def _numbers(raw: Any, name: str) -> dict[str, float]:
    numbers: dict[str, Any] = _exactly(raw, name, dict)
    return {brief(column, 60): _number(numbers[column], column) for column in [*numbers][:6]}


@dataclass(frozen=True)
class _Several:
    """The kind of a list of records; entries beyond the first `most` are left out."""

    record: type[Any]
    form: Form
    most: int

    def __call__(self, raw: Any, name: str) -> tuple[Any, ...]:
        entries = _exactly(raw, name, list)[: self.most]
        return tuple(_record(self.record, self.form, entry, f"{name} has an entry") for entry in entries)


def _record(kind: type[AnyRecord], form: Form, raw: Any, subject: str) -> AnyRecord:
    """Return the record that a JSON object describes."""
    if not isinstance(raw, dict):
        raise UserError(f"{subject} {brief(repr(raw), 80)}; expected a JSON object")
    keys = {key.removesuffix("?"): read for key, read in form.items() if not key.endswith("?") or key[:-1] in raw}
    return kind(**{field: read(raw.get(key), key) for key, (field, read) in keys.items()})


def plain(record: Any, form: Form) -> dict[str, Any]:
    """Return the JSON object that describes a record; keys that may be missing are left out at their defaults."""
    described = {}
    for key, (field, kind) in form.items():
        raw = getattr(record, field)
        if not key.endswith("?") or raw != record._field_defaults[field]:
            listed = [plain(entry, kind.form) for entry in raw] if isinstance(kind, _Several) else raw
            described[key.removesuffix("?")] = listed
    return described


def _same(**kinds: Kind) -> dict[str, tuple[str, Kind]]:
    """Return the form of fields whose keys are their names."""
    return {field: (field, kind) for field, kind in kinds.items()}


_NAME = _text(100)
_FILE = _text(255)
_PLACE = _same(log=_text(60), episode=_count, step=_count)
_ENDING: Form = {"length": ("length", _count), "return": ("ret", _number), "success": ("success", _flag)}
_LOGGED: Form = {"file": ("file", _FILE), "frame": ("first", _count)}
_PARTS = _Several(ShownPiece, {"text?": ("text", _text(4_000)), "file?": ("file", _FILE)}, 20)
_COLUMN_TEXT = {"log?": ("log", _NAME), **_same(name=_text(60), text=_text(2_000))}
_STRIP: Form = {**_same(file=_FILE, first=_count, last=_count, events=_events), "score?": ("score", _share)}
FORMS: Mapping[str, Form] = {
    FRAMES: {
        **_same(suite=_NAME, task=_NAME, seed=_count, moves=_count), **_ENDING,
        **_same(judge=_NAME, unjudged=_text(400)), "clips": ("frames", _Several(Frame, _STRIP, 10_000)),
    },
    LOGGED: {
        **_PLACE, "success": ("success", _verdict), "left_out": ("left_out", _count),
        "frames": ("frames", _Several(Frame, {**_LOGGED, "numbers": ("numbers", _numbers)}, 10_000)),
        "told": ("captions", _Several(Caption, _COLUMN_TEXT, 20)),
    },
    ACTED: {**_PLACE, "played?": ("moves", _count), "frames": ("frames", _Several(Frame, _LOGGED, 10_000))},
    QUESTIONS: {
        **_PLACE, "role": ("role", _text(60)), "frame": ("file", _FILE),
        "messages": ("messages", _Several(ShownMessage, _same(role=_text(20), parts=_PARTS), 20)),
        "told": ("captions", _Several(Caption, _COLUMN_TEXT, 20)),
    },
}  # fmt: skip
"""Folder of a run -> the form of its descriptions."""
_WORDS = _Several(Caption, _same(step=_count, text=_text(2 * CAPTION)), CAPTIONS)
_ANIMATED: Form = {
    "episode": ("episode", _count), "success": ("success", _flag), "return": ("ret", _number),
    "length": ("length", _count), **_same(score=_number, moves=_count), "frames": ("drawn", _count),
    "file": ("file", _FILE), "words": ("captions", _WORDS),
    "words_left_out": ("left_out", _count), "actions?": ("actions", _text(64)),
}  # fmt: skip
_EMPTY: Form = {
    "episodes": ("episodes", _Several(Clip, _ANIMATED, EPISODES)),
    "undrawn": ("undrawn", _Several(Undrawn, _same(episode=_count, reason=_text(1_000)), EPISODES)),
    "reason": ("reason", _text(1_000)),
}
_FULL: Form = {
    **_same(suite=_text(200), task=_text(200), seed=_count), "own": ("from_run", _flag),
    **_same(step=_count, played=_count, successes=_count, measure=_text(60), unjudged=_text(1_000)),
    **_EMPTY, "opengl?": ("opengl", _text(60)),
}  # fmt: skip


def document(root: Path, file: Path) -> dict[str, Any]:
    """Return the JSON object in a file below `root`; raise UserError for any other file. Call it in the separate
    process."""
    if not is_within(root, file):
        raise UserError(f"{file.name} lies outside the run")
    try:
        described = json.loads(content_of(file, DOCUMENT))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file.name} cannot be read as JSON ({error})") from None
    if not isinstance(described, dict):
        raise UserError(f"{file.name} holds {type(described).__name__}; expected a JSON object")
    return described


def read(run: Path, source: str, file: str) -> Clip:
    """Return the clip that a file in the folder `source` of a run describes, without the contents of its pictures;
    raise UserError for a file that does not fit."""
    return reader_process.call(f"{file}: reading it", reader_process.SECONDS, _clip, run, source, file)


def _clip(run: Path, source: str, file: str) -> Clip:
    clip = _record(Clip, FORMS[source], document(run, run / source / file), "it is")
    return clip._replace(name=brief(Path(file).stem, 100))


def read_gallery(run: Path) -> Gallery | None:
    """Return a run's gallery; None if it has none. Raise UserError for a file that does not fit."""
    if not (run / GALLERY / CONTENTS).is_file():
        return None
    return reader_process.call(f"{CONTENTS}: reading it", reader_process.SECONDS, _gallery, run)


def _gallery(run: Path) -> Gallery:
    return gallery_of(document(run, run / GALLERY / CONTENTS))


def gallery_of(described: Mapping[str, Any]) -> Gallery:
    """Return the gallery that a JSON object describes; raise UserError for values of another kind."""
    return _record(Gallery, _EMPTY if described.get("reason") else _FULL, described, "it is")


def plain_gallery(gallery: Gallery) -> dict[str, Any]:
    """Return the JSON object that describes a gallery."""
    return {"schema": SCHEMA_VERSION, **plain(gallery, _EMPTY if gallery.reason else _FULL)}


def write(directory: Path, source: str, clip: Clip) -> None:
    """Write the pictures of a clip and its description to a directory; raise UserError if that is impossible."""
    pieces = [piece for message in clip.messages for piece in message.parts]
    pictures: list[Clip | Frame | ShownPiece] = [clip, *clip.frames, *pieces]
    try:
        for file, png in {picture.file: picture.content for picture in pictures if picture.file}.items():
            write_bytes(directory / file, png)
        write_json(directory / f"{clip.name}.json", {"schema": SCHEMA_VERSION, **plain(clip, FORMS[source])})
    except OSError as error:
        raise UserError(f"{directory} cannot be written ({error.strerror or error})") from None
