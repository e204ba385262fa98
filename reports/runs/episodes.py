"""A run's clips for its page: strips of frames with scores, frames that logs show, questions as models saw them,
episodes played again, videos, and the gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.clips import FORMS, Clip, Gallery, read, read_gallery
from guidebench.harness.records.files import content_of, is_within
from guidebench.harness.records.galleries import CONTENTS
from guidebench.harness.records.study import GALLERY, VIDEOS
from guidebench.harness.texts import brief
from guidebench.reports.runs.reading import names, pixels
from guidebench.results import galleries

EPISODES, CLIPS = 8, 64
"""Most clips of a folder, and most frames of a clip."""
STRIP, STRIPS = 2**20, 2**23
"""Most bytes of a picture, and of all pictures of a folder."""
FILMS, FILM, REEL = 8, 2**23, 2**24
"""Most videos of a page, bytes of one, and of all."""
ANIMATED = 3 * 2**19
"""Most bytes of all animated episodes (1.5 MiB)."""
PATIENCE = 60.0
"""Seconds for decoding one animated episode."""
PIXELS = 2**24
"""Most pixels of a picture."""


class Episodes(NamedTuple):
    """All clips that a run's directory has for its page."""

    clips: Mapping[str, tuple[Clip, ...]]
    """Folder -> its clips, with the contents of their files."""
    gallery: Gallery | None = None
    """What the run's gallery says; None without one."""
    notes: tuple[str, ...] = ()


class _Room:
    """Reads files of a run's folder while there is room for them."""

    def __init__(self, run: Path, folder: str, most: int) -> None:
        self._run, self._home, self.bytes_left = run, run / folder, most

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file; empty if it has more than `most` bytes, or there is no room for it."""
        path = self._home / name
        if Path(name).name != name or not is_within(self._run, path):
            raise UserError(f"there is no file {brief(repr(name), 100)} in its directory")
        if path.stat().st_size > min(most, self.bytes_left):
            return b""
        content = content_of(path, most)
        self.bytes_left -= len(content)
        return content

    def picture(self, name: str) -> bytes:
        """Return a PNG as `read` does; raise UserError for too large a picture."""
        png = self.read(name, STRIP)
        if png and (claimed := pixels(png)) > PIXELS:
            raise UserError(f"{brief(repr(name), 100)} has {claimed:,} pixels and at most {PIXELS:,} are shown")
        return png


def episodes(run: Path) -> Episodes:
    """Read the clips in a run's directory; files that do not fit are left out with a note."""
    notes: list[str] = []
    clips: dict[str, tuple[Clip, ...]] = {}
    for folder in FORMS:
        clips[folder], more = folder_clips(run, folder)
        notes += more
    clips[VIDEOS] = _videos(run, notes)
    gallery, clips[GALLERY] = _animations(run, notes)
    return Episodes(clips, gallery, tuple(notes))


def folder_clips(run: Path, folder: str, most: int = EPISODES) -> tuple[tuple[Clip, ...], tuple[str, ...]]:
    """Read the first `most` clips that the JSON files in a folder of a run describe; return them and notes on those
    that do not fit."""
    files, more = names(run / folder, (".json",), most)
    notes, room = list[str](), _Room(run, folder, STRIPS)
    clips = _clips(((f"{folder}/{file}", partial(_illustrated, run, folder, file, room)) for file in files), notes)
    notes += [f"{folder}: {more} further episodes are left out"] if more and most == EPISODES else []
    return clips, tuple(notes)


def _clips(reads: Iterable[tuple[str, Callable[[], Clip]]], notes: list[str]) -> tuple[Clip, ...]:
    """Return what each function returns, given with a name for its clip; if it raises UserError or OSError, add a
    note."""
    clips = []
    for name, read_clip in reads:
        try:
            clips.append(read_clip())
        except (UserError, OSError) as error:
            notes.append(brief(f"{name}: {error}", 400))
    return tuple(clips)


def _illustrated(run: Path, folder: str, file: str, room: _Room) -> Clip:
    """Return a clip with its pictures; those without room are left out and counted."""
    clip = read(run, folder, file)
    content = room.picture(clip.file) if clip.file else b""
    drawn = [frame._replace(content=room.picture(frame.file)) for frame in clip.frames[:CLIPS]]
    frames = sorted((frame for frame in drawn if frame.content), key=lambda frame: frame.first)
    messages, left_out = [], clip.left_out + len(clip.frames) - len(frames)
    for message in clip.messages:
        pieces = [piece._replace(content=room.picture(piece.file)) if piece.file else piece for piece in message.parts]
        readable = tuple(piece for piece in pieces if piece.content or not piece.file)
        left_out += len(pieces) - len(readable)
        messages.append(message._replace(parts=readable))
    return clip._replace(content=content, frames=tuple(frames), messages=tuple(messages), left_out=left_out)


def _videos(run: Path, notes: list[str]) -> tuple[Clip, ...]:
    files, more = names(run / VIDEOS, (".mp4", ".gif"), FILMS)
    room = _Room(run, VIDEOS, REEL)
    videos = _clips(((f"{VIDEOS}/{file}", partial(_video, run, file, room)) for file in files), notes)
    notes += [f"{VIDEOS}: {more} further files are left out"] if more else []
    return videos


def _video(run: Path, file: str, room: _Room) -> Clip:
    film, is_gif = room.read(file, FILM), file.lower().endswith(".gif")
    if film and not (film.startswith((b"GIF87a", b"GIF89a")) if is_gif else film[4:8] == b"ftyp"):
        raise UserError(f"is not {'image/gif' if is_gif else 'video/mp4'}")
    size = (run / VIDEOS / file).stat().st_size
    return Clip(brief(file, 255), content=film, reason="" if film else f"too large for a page ({size:,} bytes)")


def _animations(run: Path, notes: list[str]) -> tuple[Gallery | None, tuple[Clip, ...]]:
    """Return the record of the run's gallery, and as many of its animated episodes as there is room for, in their
    order."""
    try:
        gallery = read_gallery(run)
    except (UserError, OSError) as error:
        notes.append(brief(f"{GALLERY}/{CONTENTS}: {error}", 400))
        return None, ()
    room = _Room(run, GALLERY, ANIMATED)
    shown_episodes = gallery.episodes if gallery else ()
    reads = ((f"{GALLERY}, episode {clip.episode}", partial(_animation, run, clip, room)) for clip in shown_episodes)
    return gallery, _clips(reads, notes)


def _animation(run: Path, clip: Clip, room: _Room) -> Clip:
    webp = galleries.animation(run, clip.file)
    if len(webp) > room.bytes_left:
        raise UserError(f"left out, since it has {len(webp):,} bytes and a page has room for {room.bytes_left:,} more")
    reader_process.call(f"decoding {brief(clip.file, 60)}", PATIENCE, galleries.check, webp, clip.drawn)
    room.bytes_left -= len(webp)
    return clip._replace(content=webp)
