"""Gather the datasets that runs learn from, tell what they hold, and export one for Minari.

A dataset is gathered once and kept below $GUIDEBENCH_CACHE, or ~/.cache/guidebench; `bench run` gathers missing ones.

  bench dataset suite=bin_sorting method=cal_ql                            what the runs' dataset holds
  bench dataset suite=bin_sorting method=cal_ql --minari bins/sorting-v0   also write it as a Minari dataset, below
                                                                           $MINARI_DATASETS_PATH or ~/.minari/datasets
  bench run suite=bin_sorting method=cal_ql offline=minari offline.id=bins/sorting-v0
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.episodes.datasets import Dataset, DatasetSpec

HELP = "gather the datasets that runs learn from, and export one for Minari"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="+", metavar="key=value", help="as for `bench run`: suite=, method=, offline.…="
    )
    parser.add_argument("--minari", metavar="ID", help="also write it as this Minari dataset, such as bins/sorting-v0")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.episodes import datasets
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import matrix

    plan = matrix.plan(args.overrides)
    found = dict.fromkeys(what for cell in plan.trained for seed in plan.seeds for what in datasets.specs(cell, seed))
    if not found:
        methods = ", ".join(dict.fromkeys(cell.names.method for cell in plan.cells))
        raise UserError(f"no chosen method learns from a dataset ({methods}); name one that does, such as method=bc")
    if args.minari is not None:
        _check(args.minari, found)
    told = []
    for what in found:
        dataset = datasets.obtain(what)
        said = _described(what, dataset)
        if args.minari is not None:
            said["minari"] = _export(args.minari, what, dataset, " ".join(["bench", "dataset", *args.overrides]))
        told.append(said)
        if not args.json:
            print(_in_words(said))
    if args.json:
        print(json.dumps(told, indent=1))
    return 0


def _check(id: str, found: Mapping[DatasetSpec, None]) -> None:
    """Raise UserError, before anything is gathered, for an export that cannot be written."""
    from importlib.util import find_spec

    from guidebench.baselines.datasets.minari import ID, home
    from guidebench.harness import extras
    from guidebench.harness.errors import UserError

    if not ID.fullmatch(id):
        raise UserError(f"--minari {id!r} is no name of a Minari dataset; expected one such as bins/sorting-v0")
    if len(found) > 1:
        named = ", ".join(f"{what} on {what.task!r}" for what in found)
        raise UserError(f"--minari writes one dataset, and the command has {len(found)} ({named}); choose one of them")
    if find_spec("h5py") is None:
        raise extras.missing("--minari needs the package h5py", "minari")
    if (home() / id).exists():
        raise UserError(f"{home() / id} is there already; choose another id, or remove it")


def _export(id: str, what: DatasetSpec, dataset: Dataset, command: str) -> str:
    from guidebench.baselines.datasets.minari import home, writing

    about = f"Episodes of the suite {type(what.suite).__name__}, written by guidebench: {command}"
    return str(writing.write(dataset, what.suite, what.task, home() / id, id, about))


def _described(what: DatasetSpec, dataset: Dataset) -> dict[str, Any]:
    episodes = dataset.episodes
    return {
        "role": what.role,
        "part": type(what.part).__name__,
        "task": what.task,
        "episodes": len(episodes),
        "transitions": dataset.length,
        "tasks": dict(Counter(episode.task for episode in episodes)),
        "successes": sum(bool(episode.success.any()) for episode in episodes),
        "openings": sum(episode.opening is not None for episode in episodes),
        "bytes": what.file.with_suffix(".safetensors").stat().st_size,
        "sha256": dataset.digest,
        "file": str(what.file),
    }


def _in_words(said: Mapping[str, Any]) -> str:
    tasks = ", ".join(f"{count} of {task}" for task, count in said["tasks"].items())
    lines = [
        f"{said['role']} ({said['part']}) on {said['task']}: {said['episodes']} episodes ({tasks}), "
        f"{said['successes']} with a success; {said['transitions']:,} transitions of "
        f"{said['bytes'] / said['transitions']:,.0f} bytes ({said['sha256'][:10]}); {said['file']}"
    ]
    if "minari" in said:
        lines.append(f"written to {said['minari']}")
    return "\n".join(lines)
