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
from guidebench.harness.records.galleries import CONTENTS
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import GALLERY
from guidebench.results import galleries
from guidebench.results.galleries import Episode, Gallery
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
    found: dict[str, bytes] = {}
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
                    found |= files
                break
    if without:
        remarks.append(f"left out: the galleries of {count(without, 'cell')}; all together have at most 16 MiB")
    if found:
        cells = sum(path.endswith(CONTENTS) for path in found)
        remarks.append(
            f"{count(len(found) - cells, 'episode')} of {count(cells, 'cell')} can be seen, with what models said "
            f"(from RUN/{GALLERY}); --no-gallery leaves them out"
        )
    return found


def _files(root: Path, run: RunRecord) -> dict[str, bytes]:
    home = root / run.directory
    gallery = galleries.read(home)
    if gallery is None or not gallery.episodes:
        return {}
    if (gallery.suite, gallery.task) != (run.cell.suite, run.cell.task):
        command = shlex.join(["bench", "eval", run.directory, "--gallery"])
        raise UserError(f"it shows {gallery.suite}/{gallery.task}; `{command}` draws its own")
    chosen = list(gallery.episodes)
    if len(chosen) > EPISODES:
        chosen = [*chosen[: EPISODES - 1], chosen[-1]]
    found, told = {}, []
    for order, episode in enumerate(chosen):
        content, name = galleries.animation(home, episode.file), f"{order:02d}.webp"
        found[f"{run.directory}/{GALLERY}/{name}"] = content
        told.append(_plain(episode, name))
    about = {
        "schema": SCHEMA_VERSION, "suite": gallery.suite, "task": gallery.task, "seed": gallery.seed,
        "own": gallery.from_run, "step": gallery.step, "played": gallery.played, "successes": gallery.successes,
        "measure": gallery.measure, "unjudged": _public(gallery.unjudged), "episodes": told, "undrawn": [],
        "reason": "", **({} if gallery.opengl is None else {"opengl": gallery.opengl}),
    }  # fmt: skip
    content = f"{json.dumps(about, indent=1, ensure_ascii=False)}\n".encode()
    return {f"{run.directory}/{GALLERY}/{CONTENTS}": content, **found}


def _plain(episode: Episode, name: str) -> dict[str, Any]:
    return {
        "episode": episode.episode, "success": episode.success, "return": episode.ret, "length": episode.length,
        "score": episode.score, "moves": episode.moves, "frames": episode.frames, "file": name,
        "words": [{"step": step, "text": _public(text)} for step, text in episode.words],
        "words_left_out": episode.left_out, **({"actions": episode.actions} if episode.actions else {}),
    }  # fmt: skip


def _public(text: str) -> str:
    return printable(private.without_places(text), 1_000)


def check(study: StudyRecord, files: Iterable[str]) -> None:
    """Raise UserError naming the first gallery, or animation, of an untrusted submission that does not fit. Call it in
    a separate process."""
    listed = set(files)
    runs = {run.directory: run for run in study.runs if run.status == "finished"}
    seen: dict[str, str] = {}
    together = 0
    for path in sorted(each for each in listed if schemas.kind_of(each) == "gallery"):
        run = runs[str(PurePosixPath(path).parents[1])]
        if run.cell.id in seen:
            raise UserError(f"{path}: another run of its cell has a gallery too ({seen[run.cell.id]})")
        seen[run.cell.id] = path
        gallery = galleries.parsed(json.loads((study.directory / path).read_bytes()))
        _check_claims(gallery, run, study.directory, path)
        for episode in gallery.episodes:
            name = str(PurePosixPath(path).parent / episode.file)
            if name not in listed:
                raise UserError(f"{path} names {episode.file}, which the archive lacks or names twice")
            listed.discard(name)
            content = galleries.animation(study.directory / run.directory, episode.file)
            together += len(content)
            if together > TOGETHER:
                raise UserError(f"its animations together have more than {TOGETHER:,} bytes")
            try:
                galleries.check(content, episode.frames)
            except UserError as error:
                raise UserError(f"{name}: {error}") from None
    if besides := [path for path in listed if schemas.kind_of(path) == "animation"]:
        raise UserError(f"{min(besides)} belongs to no gallery that names it")


def _check_claims(gallery: Gallery, run: RunRecord, root: Path, path: str) -> None:
    """Raise UserError unless a gallery is of its run's task, and says of it nothing that its evaluations contradict."""
    cell, episodes = run.cell, gallery.episodes
    if (gallery.suite, gallery.task) != (cell.suite, cell.task):
        raise UserError(f"{path} shows {gallery.suite}/{gallery.task}, which is not the run's task")
    if not 0 < len(episodes) <= EPISODES or gallery.undrawn or gallery.reason:
        raise UserError(f"{path} has {len(episodes)} episodes; expected 1 to {EPISODES}, and nothing else")
    if gallery.measure not in ("success", cell.score.name):
        raise UserError(f"{path}: its episodes are chosen by {gallery.measure!r}, which is not the score of the task")
    numbers = [episode.episode for episode in episodes]
    successes = sum(episode.success for episode in episodes)
    if len(set(numbers)) < len(numbers) or max(numbers) >= gallery.played:
        raise UserError(f"{path} shows episodes {numbers} of {gallery.played:,}, each of which is there once")
    if not successes <= gallery.successes <= gallery.played - (len(episodes) - successes):
        raise UserError(
            f"{path} shows other successes than the {gallery.successes:,} of {gallery.played:,} that it counts"
        )
    if sorted(episodes, key=_order(gallery, cell)) != list(episodes):
        raise UserError(f"{path}: its failures do not come first")
    if any(not episode.frames - 1 <= episode.moves <= episode.length for episode in episodes):
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
    for each in gallery.episodes:
        row = last[each.episode]
        if (each.success, each.ret, each.length) != (row["success"], row["return"], row["length"]):
            raise UserError(f"{path}: episode {each.episode} ended otherwise in the evaluations")
