"""Episodes of the final policy that a row opens to. Every animation, a stranger's or not, is decoded in a separate
process and encoded anew, so that no byte of a source's file reaches the page. What somebody handed in is labelled
unless a verification has played it again."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, count
from guidebench.harness.records.clips import Clip, Gallery, read_gallery
from guidebench.reports.leaderboard.board import Film, Films, Pictures
from guidebench.reports.leaderboard.rows import RankedRow
from guidebench.reports.leaderboard.sources import clean
from guidebench.reports.rendering import animations
from guidebench.results import RunRecord, galleries
from guidebench.results.verification.record import UNVERIFIED, gallery_check

MOST = 3
"""Most episodes of a row: of its first tasks, of the first run of each that has a gallery."""
ROOM = 6_000_000
"""Most bytes of all episodes on a board, in base64."""
CAPTIONS, CAPTION = 60, 300
"""Most captions of an episode on a board, and most characters of one."""
SECONDS = 60.0
"""Seconds for decoding and encoding one episode."""


class Screening:
    """Chooses the films of rows within the board's room for them. Rows are asked for in the order of their claim to
    room."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.without = 0
        """Rows for whose episodes there was no room."""
        self._room = ROOM

    def of(self, row: RankedRow) -> Films | None:
        """Return the films of a row; None if it has none, or there is no room for them."""
        selections, rated, verified = list[str](), list[tuple[bool, Film]](), list[tuple[bool, str]]()
        for task, run, gallery in self._galleries(row):
            if not self._room:
                self.without += 1
                return None
            episodes = _chosen(gallery, max(1, MOST // len(row.tasks)))
            films = list(self._films(row, task, run, gallery, episodes))
            if films:
                selections.append(clean(f"{task}, seed {run.seed}: {animations.chosen(gallery, len(films))}", 600))
                if row.source.submitted:
                    verified.append(_verified(row, task, run))
            rated += films
        size = sum(len(film.webp) for _, film in rated)
        if size > self._room:
            self._room = 0
            self.without += 1
            return None
        self._room -= size
        in_order = sorted(rated, key=lambda pair: pair[0])
        if not rated:
            return None
        label: Pictures = ""
        if verified:
            label = "pictures verified" if all(equal for equal, _ in verified) else "pictures not verified"
        return Films(tuple(selections), tuple(film for _, film in in_order), label, tuple(text for _, text in verified))

    def _galleries(self, row: RankedRow) -> Iterator[tuple[str, RunRecord, Gallery]]:
        """Yield (task, run, gallery) for each of the row's first tasks: the first run with a gallery that has episodes
        of the task."""
        for task, measured in list(row.tasks.items())[:MOST]:
            for run in measured.runs:
                try:
                    gallery = read_gallery(row.source.study.directory / run.directory)
                except (UserError, OSError) as error:
                    self._note(row, f"the gallery of {run.directory} is not shown: {error}")
                    continue
                if gallery and gallery.episodes and (gallery.suite, gallery.task) == (measured.cell.suite, task):
                    yield task, run, gallery
                    break

    def _films(
        self, row: RankedRow, task: str, run: RunRecord, gallery: Gallery, episodes: Iterable[Clip]
    ) -> Iterator[tuple[bool, Film]]:
        """Yield (whether the episode counts as a success, its film) for the episodes that can be decoded; others become
        notes."""
        home = row.source.study.directory / run.directory
        for episode in episodes:
            description = f"decoding {episode.file[:60]}"
            try:
                webp = galleries.animation(home, episode.file)
                encoded = reader_process.call(description, SECONDS, galleries.remade, webp, episode.drawn)
            except (UserError, OSError) as error:
                self._note(row, f"episode {episode.episode} of {run.directory} is not shown: {error}")
                continue
            title = f"{animations.outcome(gallery, episode)} after {count(episode.length, 'step')}"
            about = f"{task}, seed {run.seed}, episode {episode.episode}"
            frames_text = f"{episode.drawn:,} of {count(episode.moves + 1, 'frame')}"
            if episode.moves < episode.length:
                frames_text += f", from step {episode.moves:,} on it goes round in circles"
            words = tuple((caption.step, clean(caption.text, CAPTION)) for caption in episode.captions[:CAPTIONS])
            film = Film(
                clean(title, 100), clean(f"{about}; return {episode.ret:,.4g}; {frames_text}", 400), words,
                len(episode.captions) - len(words) + episode.left_out, base64.b64encode(encoded).decode("ascii"),
            )  # fmt: skip
            yield gallery.measure == "success" and bool(episode.success), film

    def _note(self, row: RankedRow, text: str) -> None:
        self.notes.append(clean(f"{row.source.name}: {text}", 600))


def _verified(row: RankedRow, task: str, run: RunRecord) -> tuple[bool, str]:
    """Return whether a verification has replayed the episodes in a submitted run's gallery with equal pictures, and its
    words on that."""
    verdict = row.source.verification and row.source.verification.cells.get(run.cell.id)
    name = gallery_check(run.seed)
    check = next((check for check in verdict.checks if check.what == name), None) if verdict else None
    if check is None:
        return False, f"{task}, seed {run.seed}: {UNVERIFIED}: `bench verify` has not played them again"
    return check.passed is True, clean(f"{task}, seed {run.seed}: {check.detail}", 600)


def _chosen(gallery: Gallery, most: int) -> list[Clip]:
    """Return at most `most` episodes of a gallery: the first ones and the last."""
    episodes = list(gallery.episodes)
    return episodes if len(episodes) <= most else [*episodes[: max(1, most - 1)], *([episodes[-1]] if most > 1 else [])]
