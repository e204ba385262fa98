"""Gather the datasets that runs learn from, tell what they hold, and export one for Minari or LeRobot.

A dataset is gathered once and kept below $GUIDEBENCH_CACHE, or ~/.cache/guidebench; `bench run` gathers missing ones.

  bench dataset suite=bin_sorting method=cal_ql                            what the runs' dataset holds
  bench dataset suite=bin_sorting method=cal_ql --minari bins/sorting-v0   also write it as a Minari dataset, below
                                                                           $MINARI_DATASETS_PATH or ~/.minari/datasets
  bench run suite=bin_sorting method=cal_ql offline=minari offline.id=bins/sorting-v0
  bench dataset suite=bin_sorting method=cal_ql --lerobot me/bins          also write it as a LeRobot dataset, below
                                                                           $HF_LEROBOT_HOME
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.episodes.datasets import Dataset, DatasetSpec

HELP = "gather the datasets that runs learn from, and export one for Minari or LeRobot"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="+", metavar="key=value", help="as for `bench run`: suite=, method=, offline.…="
    )
    parser.add_argument("--minari", metavar="ID", help="also write it as this Minari dataset, such as bins/sorting-v0")
    parser.add_argument("--lerobot", metavar="ID", help="also write it as this LeRobot dataset, such as me/bins")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.episodes import datasets
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import matrix

    plan = matrix.plan(args.overrides)
    requests = dict.fromkeys(
        request for cell in plan.trained for seed in plan.seeds for request in datasets.specs(cell, seed)
    )
    if not requests:
        methods = ", ".join(dict.fromkeys(cell.names.method for cell in plan.cells))
        raise UserError(f"no chosen method learns from a dataset ({methods}); name one that does, such as method=bc")
    exports = {name: id for name in EXAMPLES if (id := getattr(args, name)) is not None}
    for name, id in exports.items():
        _check(name, id, requests)
    descriptions = []
    for request in requests:
        dataset = datasets.obtain(request)
        description = _described(request, dataset)
        for name, id in exports.items():
            description[name] = _export(name, id, request, dataset, " ".join(["bench", "dataset", *args.overrides]))
        descriptions.append(description)
        if not args.json:
            print(_in_words(description))
    if args.json:
        print(json.dumps(descriptions, indent=1))
    return 0


EXAMPLES = {"minari": "bins/sorting-v0", "lerobot": "me/bins"}
"""Option of an export -> an example of its id."""


def _check(name: str, id: str, requests: Mapping[DatasetSpec, None]) -> None:
    """Raise UserError, before anything is gathered, for an export that cannot be written."""
    from importlib.util import find_spec

    from guidebench.baselines.datasets import lerobot, minari
    from guidebench.harness import extras
    from guidebench.harness.errors import UserError

    module = {"minari": minari, "lerobot": lerobot}[name]
    if not module.ID.fullmatch(id):
        raise UserError(f"--{name} {id!r} is no name of a dataset; expected one such as {EXAMPLES[name]}")
    if len(requests) > 1:
        named = ", ".join(f"{request} on {request.task!r}" for request in requests)
        raise UserError(
            f"--{name} writes one dataset, and the command has {len(requests)} ({named}); choose one of them"
        )
    if name == "minari" and find_spec("h5py") is None:
        raise extras.missing("--minari needs the package h5py", "minari")
    if (place := module.home() / id).exists():
        raise UserError(f"{place} is there already; choose another id, or remove it")


def _export(name: str, id: str, request: DatasetSpec, dataset: Dataset, command: str) -> str:
    if name == "lerobot":
        from guidebench.baselines.datasets import lerobot
        from guidebench.baselines.datasets.lerobot import writing as lerobot_files

        return str(lerobot_files.write(dataset, request.suite, request.task, lerobot.home() / id))
    from guidebench.baselines.datasets.minari import home, writing

    about = f"Episodes of the suite {type(request.suite).__name__}, written by guidebench: {command}"
    return str(writing.write(dataset, request.suite, request.task, home() / id, id, about))


def _described(request: DatasetSpec, dataset: Dataset) -> dict[str, Any]:
    episodes = dataset.episodes
    return {
        "role": request.role,
        "part": type(request.part).__name__,
        "task": request.task,
        "episodes": len(episodes),
        "transitions": dataset.length,
        "tasks": dict(Counter(episode.task for episode in episodes)),
        "successes": sum(bool(episode.success.any()) for episode in episodes),
        "openings": sum(episode.opening is not None for episode in episodes),
        "bytes": request.file.with_suffix(".safetensors").stat().st_size,
        "sha256": dataset.digest,
        "file": str(request.file),
    }


def _in_words(description: Mapping[str, Any]) -> str:
    tasks = ", ".join(f"{count} of {task}" for task, count in description["tasks"].items())
    size = description["bytes"] / description["transitions"]
    lines = [
        f"{description['role']} ({description['part']}) on {description['task']}: {description['episodes']} episodes "
        f"({tasks}), {description['successes']} with a success; {description['transitions']:,} transitions of "
        f"{size:,.0f} bytes ({description['sha256'][:10]}); {description['file']}"
    ]
    lines += [f"written to {description[name]}" for name in EXAMPLES if name in description]
    return "\n".join(lines)
