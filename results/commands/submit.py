"""Pack a study into one archive that others can check, verify and add to their leaderboard.

  bench submit runs/mine --by "A. Reader" --contact reader@example.org
  bench leaderboard --add mine.zip                the maintainer checks it and adds it
  bench verify mine.zip                           its checkpoints are evaluated again, on new layouts too

The archive contains the study's configuration, provenance, evaluations, cost, sample frames, galleries and the final
parameters of its finished runs, with a checksum of every file. Paths of this machine are removed. Packing the same
study again gives the same bytes.
"""

from __future__ import annotations

import argparse
import collections
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from guidebench.harness.errors import UserError, count

HELP = "pack a study into one archive to hand in"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench submit`."""
    parser.add_argument("study", metavar="STUDY", type=Path, help="directory of a study with finished runs")
    parser.add_argument("--output", metavar="FILE.zip", type=Path, help="the archive (default: STUDY's name, here)")
    parser.add_argument("--by", metavar="NAME", default="", help="name of the submitter, for the manifest")
    parser.add_argument("--contact", metavar="TEXT", default="", help="where to send questions")
    parser.add_argument("--no-checkpoints", action="store_true", help="omit parameters: smaller, not verifiable")
    parser.add_argument("--cassette", action="store_true", help="include every recorded model call with its images")
    parser.add_argument(
        "--gallery",
        action=argparse.BooleanOptionalAction,
        help="draw the galleries that are missing, one run of a cell, without asking models (default: pack those that "
        "`bench eval RUN --gallery` has drawn); --no-gallery leaves all out",
    )
    parser.add_argument(
        "--push",
        metavar="REPO",
        help="upload it to a dataset repository OWNER/NAME of the Hugging Face Hub; a missing repository is created as "
        "private, and its owner can make it public there",
    )


def run(args: argparse.Namespace) -> int:
    """Write the archive and print a summary."""
    from guidebench.results.submissions import hub
    from guidebench.results.submissions.packing import pack

    if args.push:
        hub.ready(args.push)
    if args.gallery:
        for message in _drawn(args.study):
            print(message, file=sys.stderr)
    archive = pack(
        args.study,
        args.output,
        by=args.by,
        contact=args.contact,
        checkpoints=not args.no_checkpoints,
        cassette=args.cassette,
        gallery=args.gallery is not False,
    )
    runs = archive.study.runs
    seeds = collections.Counter({cell.id: 0 for cell in archive.study.cells})
    seeds.update(run.cell.id for run in runs if run.status == "finished")
    size = f"{archive.bytes / 2**20:.1f} MiB" if archive.bytes >= 2**20 else f"{archive.bytes / 2**10:.1f} KiB"
    print(f"{archive.file}: {size}, {count(len(archive.manifest.files), 'file')}")
    cells = count(len(seeds), "cell")
    print(f"  runs        {seeds.total()} of {len(runs)} finished, of {cells} (configurations on a task)")
    print(f"  seeds       {min(seeds.values())} of each cell at least; the leaderboard ranks from a minimum on")
    print(
        f"  verifiable  {'yes: every finished run comes with its checkpoint' if archive.manifest.verifiable else 'no'}"
    )
    for remark in archive.remarks:
        print(f"- {remark}")
    if args.push:
        print(f"pushed: {hub.push(archive.file, args.push)}")
    else:
        file = shlex.quote(str(archive.file))
        print(f"\n  bench leaderboard --add {file}\n  bench verify {file}")
    return 0


def _drawn(directory: Path) -> Iterator[str]:
    """Draw the gallery of the first finished run of each cell in which none has episodes; yield a message on each."""
    from guidebench.harness.gym.recorder import BACKEND
    from guidebench.harness.playback import gallery
    from guidebench.results import store

    study = store.study(directory)
    for cell in study.cells:
        runs = [run for run in study.runs if run.cell is cell and run.status == "finished" and cell.backend != BACKEND]
        if not runs or any(_has_episodes(directory / run.directory) for run in runs):
            continue
        first = min(runs, key=lambda run: run.seed).directory
        try:
            message = gallery.draw(directory / first).message
        except UserError as error:
            message = str(error)
        yield f"{first}: {message}"


def _has_episodes(run: Path) -> bool:
    from guidebench.harness.records.clips import read_gallery

    try:
        gallery = read_gallery(run)
    except (UserError, OSError):
        return False
    return bool(gallery and gallery.episodes)
