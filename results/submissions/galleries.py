"""Galleries in a submission: what of them is packed, and how those of a stranger are checked.

Of each cell one run shows at most `EPISODES` episodes of the final policy, as small WebP animations. Their bytes are
decoded completely before the archive is accepted, and the leaderboard encodes them anew, so no page holds bytes of a
submission.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from guidebench.harness.errors import UserError, count
from guidebench.harness.records import clips
from guidebench.harness.records.clips import Gallery
from guidebench.harness.records.galleries import CONTENTS
from guidebench.harness.records.study import GALLERY
from guidebench.results import galleries
from guidebench.results.store import CellRecord, RunRecord, StudyRecord
from guidebench.results.submissions import private, schemas
from guidebench.results.submissions.strict import printable

EPISODES = 3
"""Most episodes of a cell: the first ones, and the last, which is a success if there was any."""
TOGETHER = 16 * schemas.MIB
"""Most bytes of all animations of a submission."""


def packed(study: StudyRecord, remarks: list[str]) -> dict[str, bytes]:
    """Return path in the archive -> contents of the galleries to hand in: of each cell, that of its first finished run
    that has episodes. What is left out is added to `remarks`."""
    contents: dict[str, bytes] = {}
    room, without = TOGETHER, 0
    for cell in study.cells:
        for run in sorted((run for run in study.runs if run.cell is cell), key=lambda run: run.seed):
            if run.status != "finished":
                continue
            try:
                files = _files(study.directory, run)
            except (UserError, OSError) as error:
                remarks.append(f"left out: the gallery of {run.directory}: {private.without_places(str(error))}")
                continue
            if files:
                size = sum(len(content) for path, content in files.items() if path.endswith(".webp"))
                without += size > room
                if size <= room:
                    room -= size
                    contents |= files
                break
    if without:
        remarks.append(f"left out: the galleries of {count(without, 'cell')}; all together have at most 16 MiB")
    if contents:
        cells = sum(path.endswith(CONTENTS) for path in contents)
        remarks.append(
            f"{count(len(contents) - cells, 'episode')} of {count(cells, 'cell')} can be seen, with what models said "
            f"(from RUN/{GALLERY}); --no-gallery leaves them out"
        )
    return contents


def _files(root: Path, run: RunRecord) -> dict[str, bytes]:
    home = root / run.directory
    gallery = clips.read_gallery(home)
    if gallery is None or not gallery.episodes:
        return {}
    if (gallery.suite, gallery.task) != (run.cell.suite, run.cell.task):
        command = shlex.join(["bench", "eval", run.directory, "--gallery"])
        raise UserError(f"it shows {gallery.suite}/{gallery.task}; `{command}` draws its own")
    chosen = list(gallery.episodes)
    if len(chosen) > EPISODES:
        chosen = [*chosen[: EPISODES - 1], chosen[-1]]
    contents, episodes = {}, []
    for order, episode in enumerate(chosen):
        content, name = galleries.animation(home, episode.file), f"{order:02d}.webp"
        contents[f"{run.directory}/{GALLERY}/{name}"] = content
        captions = tuple(caption._replace(text=_public(caption.text)) for caption in episode.captions)
        episodes.append(episode._replace(file=name, captions=captions))
    public = gallery._replace(unjudged=_public(gallery.unjudged), episodes=tuple(episodes), undrawn=())
    content = f"{json.dumps(clips.plain_gallery(public), indent=1, ensure_ascii=False)}\n".encode()
    return {f"{run.directory}/{GALLERY}/{CONTENTS}": content, **contents}


def _public(text: str) -> str:
    return printable(private.without_places(text), 1_000)


def check(study: StudyRecord, files: Iterable[str]) -> None:
    """Raise UserError naming the first gallery, or animation, of an untrusted submission that does not fit. Call it in
    a separate process."""
    listed = set(files)
    runs = {run.directory: run for run in study.runs if run.status == "finished"}
    by_cell: dict[str, str] = {}
    together = 0
    for path in sorted(file for file in listed if schemas.kind_of(file) == "gallery"):
        run = runs[str(PurePosixPath(path).parents[1])]
        if run.cell.id in by_cell:
            raise UserError(f"{path}: another run of its cell has a gallery too ({by_cell[run.cell.id]})")
        by_cell[run.cell.id] = path
        gallery = clips.gallery_of(json.loads((study.directory / path).read_bytes()))
        _check_claims(gallery, run, study.directory, path)
        for episode in gallery.episodes:
            name = str(PurePosixPath(path).parent / episode.file)
            if name not in listed:
                raise UserError(f"{path} names {episode.file}, which the archive lacks or names twice")
            listed.discard(name)
            webp = galleries.animation(study.directory / run.directory, episode.file)
            together += len(webp)
            if together > TOGETHER:
                raise UserError(f"its animations together have more than {TOGETHER:,} bytes")
            try:
                galleries.check(webp, episode.drawn)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
    if besides := [path for path in listed if schemas.kind_of(path) == "animation"]:
        raise UserError(f"{min(besides)} belongs to no gallery that names it")


def _check_claims(gallery: Gallery, run: RunRecord, root: Path, path: str) -> None:
    """Raise UserError unless a gallery is of its run's task and consistent with the run's evaluations."""
    cell, episodes = run.cell, gallery.episodes
    if (gallery.suite, gallery.task) != (cell.suite, cell.task):
        raise UserError(f"{path} shows {gallery.suite}/{gallery.task}, which is not the run's task")
    if not 0 < len(episodes) <= EPISODES or gallery.undrawn or gallery.reason:
        raise UserError(f"{path} has {len(episodes)} episodes; expected 1 to {EPISODES}, and nothing else")
    if gallery.measure not in ("success", cell.score.name):
        raise UserError(f"{path}: its episodes are chosen by {gallery.measure!r}, which is not the score of the task")
    numbers = [episode.episode for episode in episodes]
    successes = sum(bool(episode.success) for episode in episodes)
    if len(set(numbers)) < len(numbers) or max(numbers) >= gallery.played:
        raise UserError(f"{path} shows episodes {numbers} of {gallery.played:,}, each of which is there once")
    if not successes <= gallery.successes <= gallery.played - (len(episodes) - successes):
        raise UserError(
            f"{path} shows other successes than the {gallery.successes:,} of {gallery.played:,} that it counts"
        )
    if sorted(episodes, key=_order(gallery, cell)) != list(episodes):
        raise UserError(f"{path}: its failures do not come first")
    if any(not episode.drawn - 1 <= episode.moves <= episode.length for episode in episodes):
        raise UserError(f"{path}: an episode has more frames than steps")
    if gallery.from_run:
        _check_own(gallery, run, root, path)
    elif gallery.step:
        raise UserError(f"{path}: new layouts are played after training, at no step of it")


def _order(gallery: Gallery, cell: CellRecord) -> Any:
    if gallery.measure == "success":
        return lambda episode: episode.success
    return lambda episode: cell.score.sign * episode.score


def _check_own(gallery: Gallery, run: RunRecord, root: Path, path: str) -> None:
    """Raise UserError unless the episodes are those of the run's last evaluation."""
    import pyarrow.parquet as pq

    columns = ["step", "episode", "success", "return", "length"]
    rows = pq.read_table(root / run.directory / "evaluations.parquet", columns=columns, partitioning=None).to_pylist()
    last = {row["episode"]: row for row in rows if row["step"] == gallery.step}
    successes = sum(row["success"] for row in last.values())
    true = {"seed": run.seed, "step": run.step, "played": len(last), "successes": successes}
    for name, value in true.items():
        if getattr(gallery, name) != value:
            raise UserError(f"{path}: its {name} is {getattr(gallery, name):,}, in the evaluations {value:,}")
    for episode in gallery.episodes:
        row = last[episode.episode]
        if (episode.success, episode.ret, episode.length) != (row["success"], row["return"], row["length"]):
            raise UserError(f"{path}: episode {episode.episode} ended otherwise in the evaluations")
