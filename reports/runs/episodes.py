"""A run's episodes from `bench eval RUN --frames` and `--video`: strips of frames with scores, frames that logs show,
questions as models saw them, and videos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.galleries import CONTENTS
from guidebench.harness.records.study import ACTED, FRAMES, GALLERY, LOGGED, QUESTIONS, VIDEOS
from guidebench.reports.runs.reading import brief, content, document, names, pixels, within
from guidebench.results import galleries
from guidebench.results.fields import field, number
from guidebench.results.galleries import Gallery

AnyEpisode = TypeVar("AnyEpisode")

EPISODES, CLIPS = 8, 64
"""Most episodes of a page, and most clips of an episode."""
STRIP, STRIPS = 2**20, 2**23
"""Most bytes of a strip, and of all strips."""
FILMS, FILM, REEL = 8, 2**23, 2**24
"""Most videos of a page, bytes of one, and of all."""
ANIMATED = 3 * 2**19
"""Most bytes of all animated episodes (1.5 MiB)."""
PATIENCE = 60.0
"""Seconds for decoding one."""
MESSAGES = 20
"""Most messages of a question, and pieces of one."""
NUMBERS, TEXTS = 6, 20
"""Most numbers of a logged frame, and most texts of its episode."""
PIXELS = 2**24
"""Most pixels of a strip."""


class ClipStrip(NamedTuple):
    """Frames after the moves `first` to `last`; `score` is the judge's P(yes), None without a judge."""

    png: bytes
    first: int
    last: int
    score: float | None
    events: tuple[str, ...]


class EpisodeStrips(NamedTuple):
    """One episode as strips of frames, one strip per clip."""

    name: str
    task_id: str
    moves: int
    length: int
    """Length of the episode; more than `moves` if the policy repeated a position and was stopped."""
    ret: float
    success: bool
    judge: str
    unjudged: str
    """Why its clips have no score although the run has a judge."""
    clips: tuple[ClipStrip, ...]
    left_out: int
    """Clips left out for lack of room."""


class Video(NamedTuple):
    """A video; without `content` only its name and the reason are shown."""

    name: str
    kind: str
    """video/mp4 or image/gif."""
    content: bytes
    reason: str = ""


class Animation(NamedTuple):
    """An animated episode of the final policy."""

    episode: galleries.Episode
    webp: bytes


class LoggedFrame(NamedTuple):
    """The frame after so many steps of an episode, with a log's numbers about it."""

    png: bytes
    frame: int
    numbers: tuple[tuple[str, float], ...]


class LoggedEpisode(NamedTuple):
    """An episode of training with the frames that a log names, and texts about it from logs."""

    log: str
    episode: int
    step: int
    """Environment step at which the last frame was logged."""
    success: bool | None
    """None if no log says."""
    frames: tuple[LoggedFrame, ...]
    left_out: int
    """Frames left out for lack of room."""
    texts: tuple[tuple[str, str], ...]
    """Name of a column and its text."""


class ActedFrames(NamedTuple):
    """The frames of an evaluation episode whose actions a log records."""

    log: str
    step: int
    """Environment step of the evaluation."""
    episode: int
    """Its index in the evaluation."""
    frames: tuple[tuple[int, bytes], ...]
    """Steps of the episode before the frame, and the frame as PNG, in order."""


class Piece(NamedTuple):
    """A piece of a message: text, or an image as PNG."""

    text: str = ""
    png: bytes = b""


class EpisodeQuestion(NamedTuple):
    """A question to a model about an episode of training, as it was asked, with texts from logs on the answer."""

    log: str
    role: str
    episode: int
    step: int
    """Environment step at which it was asked."""
    messages: tuple[tuple[str, tuple[Piece, ...]], ...]
    """Role of a message, and its pieces."""
    texts: tuple[tuple[str, str], ...]
    """Name of a column and its text."""
    frame: bytes
    """PNG of the frame from which its images are drawn; empty if there is no room for it."""
    left_out: int
    """Images left out for lack of room."""


class Episodes(NamedTuple):
    """All episodes that a run's directory has for its page."""

    strips: tuple[EpisodeStrips, ...] = ()
    logged: tuple[LoggedEpisode, ...] = ()
    films: tuple[Video, ...] = ()
    gallery: Gallery | None = None
    """What the run's gallery says; None without one."""
    animations: tuple[Animation, ...] = ()
    acted: tuple[ActedFrames, ...] = ()
    questions: tuple[EpisodeQuestion, ...] = ()
    notes: tuple[str, ...] = ()


def episodes(run: Path) -> Episodes:
    """Read the episodes in a run's directory; files that do not fit are left out with a note."""
    in_strips, notes = strips(run)
    logged, more = _every(run, LOGGED, _logged, lambda episode: [frame.png for frame in episode.frames])
    films, further = _films(run)
    acted, others = _every(run, ACTED, _acted, lambda episode: [png for _, png in episode.frames])
    model_questions, last = questions(run)
    gallery, animations, gallery_notes = _animations(run)
    notes = (*notes, *more, *further, *others, *last, *gallery_notes)
    return Episodes(in_strips, logged, films, gallery, animations, acted, model_questions, notes)


def questions(run: Path) -> tuple[tuple[EpisodeQuestion, ...], tuple[str, ...]]:
    """Read the first questions to models of which a run's directory has drawings; return them and notes."""

    def pictures(question: EpisodeQuestion) -> list[bytes]:
        return [question.frame, *(piece.png for _, pieces in question.messages for piece in pieces)]

    return _every(run, QUESTIONS, _question, pictures)


def strips(run: Path, most: int = EPISODES) -> tuple[tuple[EpisodeStrips, ...], tuple[str, ...]]:
    """Read the first `most` episodes in strips of a run's directory; return them and notes."""
    return _every(run, FRAMES, _episode, lambda episode: [clip.png for clip in episode.clips], most)


def _every(
    run: Path,
    folder: str,
    read: Callable[[Path, Path, int], AnyEpisode],
    pictures: Callable[[AnyEpisode], Iterable[bytes]],
    most: int = EPISODES,
) -> tuple[tuple[AnyEpisode, ...], tuple[str, ...]]:
    """Read the first `most` episodes that the JSON files in a folder of a run describe; return them, and notes on those
    that do not fit.

    `read(run, file, room)` reads one whose pictures may have `room` bytes together; `pictures` returns its PNGs.
    """
    episodes, notes, room = list[AnyEpisode](), list[str](), STRIPS
    files, more = names(run / folder, (".json",), most)
    for name in files:
        try:
            episode = read(run, run / folder / name, room)
        except (UserError, OSError) as error:
            notes.append(f"{folder}/{name}: {error}")
            continue
        room -= sum(map(len, pictures(episode)))
        episodes.append(episode)
    notes += [f"{folder}: {more} further episodes are left out"] if more and most == EPISODES else []
    return tuple(episodes), tuple(brief(note, 400) for note in notes)


def _episode(run: Path, file: Path, room: int) -> EpisodeStrips:
    if not within(run, file):
        raise UserError("lies outside the run")
    about = document(file)
    listed = field(about, "clips", list)
    clips = []
    for clip in listed[:CLIPS]:
        if not isinstance(clip, dict):
            raise UserError(f"a clip is {brief(repr(clip), 80)}; expected a JSON object")
        png = _strip(run, file.parent, field(clip, "file", str), min(room, STRIP))
        room -= len(png)
        if png:
            clips.append(_clip(clip, png))
    return EpisodeStrips(
        brief(file.stem, 100),
        brief(f"{field(about, 'suite', str)}/{field(about, 'task', str)}", 100),
        field(about, "moves", int),
        field(about, "length", int),
        number(about, "return"),
        field(about, "success", bool),
        brief(field(about, "judge", str), 100),
        brief(field(about, "unjudged", str), 400),
        tuple(clips),
        len(listed) - len(clips),
    )


def _logged(run: Path, file: Path, room: int) -> LoggedEpisode:
    if not within(run, file):
        raise UserError("lies outside the run")
    about = document(file)
    listed = field(about, "frames", list)
    frames = []
    for frame in listed[:CLIPS]:
        if not isinstance(frame, dict):
            raise UserError(f"a frame is {brief(repr(frame), 80)}; expected a JSON object")
        png = _strip(run, file.parent, field(frame, "file", str), min(room, STRIP))
        room -= len(png)
        numbers = field(frame, "numbers", dict)
        frame_numbers = tuple((brief(name, 60), number(numbers, name)) for name in list(numbers)[:NUMBERS])
        if png:
            frames.append(LoggedFrame(png, field(frame, "frame", int), frame_numbers))
    texts = _texts(about)
    success = None if about.get("success") is None else field(about, "success", bool)
    left_out = len(listed) - len(frames) + field(about, "left_out", int)
    log = brief(field(about, "log", str), 60)
    return LoggedEpisode(
        log, field(about, "episode", int), field(about, "step", int), success, tuple(frames), left_out, texts
    )


def _texts(about: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    texts = []
    for text in field(about, "told", list)[:TEXTS]:
        if not isinstance(text, dict):
            raise UserError(f"a text is {brief(repr(text), 80)}; expected a JSON object")
        texts.append((brief(field(text, "name", str), 60), brief(field(text, "text", str), 2_000)))
    return tuple(texts)


def _question(run: Path, file: Path, room: int) -> EpisodeQuestion:
    if not within(run, file):
        raise UserError("lies outside the run")
    about = document(file)
    frame = _strip(run, file.parent, field(about, "frame", str), min(room, STRIP))
    room, missing = room - len(frame), 0
    messages = []
    for message in field(about, "messages", list)[:MESSAGES]:
        if not isinstance(message, dict):
            raise UserError(f"a message is {brief(repr(message), 80)}; expected a JSON object")
        pieces = []
        for part in field(message, "parts", list)[:MESSAGES]:
            if not isinstance(part, dict):
                raise UserError(f"a piece of a message is {brief(repr(part), 80)}; expected a JSON object")
            if "file" not in part:
                pieces.append(Piece(brief(field(part, "text", str))))
                continue
            png = _strip(run, file.parent, field(part, "file", str), min(room, STRIP))
            room, missing = room - len(png), missing + (not png)
            pieces += [Piece(png=png)] if png else []
        messages.append((brief(field(message, "role", str), 20), tuple(pieces)))
    log, role = (brief(field(about, name, str), 60) for name in ("log", "role"))
    return EpisodeQuestion(
        log, role, field(about, "episode", int), field(about, "step", int), tuple(messages), _texts(about), frame,
        missing,
    )  # fmt: skip


def _acted(run: Path, file: Path, room: int) -> ActedFrames:
    if not within(run, file):
        raise UserError("lies outside the run")
    about = document(file)
    frames = []
    for frame in field(about, "frames", list)[:CLIPS]:
        if not isinstance(frame, dict):
            raise UserError(f"a frame is {brief(repr(frame), 80)}; expected a JSON object")
        png = _strip(run, file.parent, field(frame, "file", str), min(room, STRIP))
        room -= len(png)
        frames += [(field(frame, "frame", int), png)] if png else []
    return ActedFrames(
        field(about, "log", str), field(about, "step", int), field(about, "episode", int), tuple(sorted(frames))
    )


def _clip(entry: Mapping[str, Any], png: bytes) -> ClipStrip:
    score = number(entry, "score") if "score" in entry else None
    if score is not None and not 0 <= score <= 1:
        raise UserError(f"score is {score}; expected a number in [0, 1]")
    events = tuple(brief(str(name), 60) for name in field(entry, "events", list)[:20])
    return ClipStrip(png, field(entry, "first", int), field(entry, "last", int), score, events)


def _strip(run: Path, directory: Path, name: str, room: int) -> bytes:
    """Return the PNG of that name in a directory; empty if it has more than `room` bytes. Raise UserError if it is
    missing or too large a picture."""
    if Path(name).name != name or not within(run, directory / name):
        raise UserError(f"there is no file {brief(repr(name), 100)} in its directory")
    if (directory / name).stat().st_size > room:
        return b""
    png = content(directory / name, room)
    if (claimed := pixels(png)) > PIXELS:
        raise UserError(f"{brief(repr(name), 100)} has {claimed:,} pixels and at most {PIXELS:,} are shown")
    return png


def _films(run: Path) -> tuple[tuple[Video, ...], tuple[str, ...]]:
    videos, notes, room = list[Video](), list[str](), REEL
    files, more = names(run / VIDEOS, (".mp4", ".gif"), FILMS)
    for name in files:
        path = run / VIDEOS / name
        if not within(run, path):
            notes.append(f"{VIDEOS}/{name}: lies outside the run")
            continue
        kind = "image/gif" if path.suffix.lower() == ".gif" else "video/mp4"
        size, most = path.stat().st_size, min(room, FILM)
        film = content(path, most) if size <= most else b""
        fits = film.startswith((b"GIF87a", b"GIF89a")) if kind == "image/gif" else film[4:8] == b"ftyp"
        if film and not fits:
            notes.append(f"{VIDEOS}/{name}: is not {kind}")
            continue
        room -= len(film)
        videos.append(Video(brief(name, 100), kind, film, "" if film else f"too large for a page ({size:,} bytes)"))
    notes += [f"{VIDEOS}: {more} further files are left out"] if more else []
    return tuple(videos), tuple(brief(note, 400) for note in notes)


def _animations(run: Path) -> tuple[Gallery | None, tuple[Animation, ...], tuple[str, ...]]:
    """Return the record of the run's gallery, as many of its animated episodes as there is room for, in their order,
    and notes."""
    try:
        gallery = galleries.read(run)
    except (UserError, OSError) as error:
        return None, (), (brief(f"{GALLERY}/{CONTENTS}: {error}", 400),)
    animations, notes, room = list[Animation](), list[str](), ANIMATED
    for episode in gallery.episodes if gallery else ():
        try:
            webp = galleries.animation(run, episode.file)
            if len(webp) > room:
                raise UserError(f"left out, since it has {len(webp):,} bytes and a page has room for {room:,} more")
            description = f"decoding {brief(episode.file, 60)}"
            reader_process.call(description, PATIENCE, galleries.check, webp, episode.frames)
        except (UserError, OSError) as error:
            notes.append(f"{GALLERY}, episode {episode.episode}: {error}")
            continue
        room -= len(webp)
        animations.append(Animation(episode, webp))
    return gallery, tuple(animations), tuple(brief(note, 400) for note in notes)
