"""Verify a submission: evaluate its checkpoints again, and repeat a sample of its recorded model calls.

  bench verify alice.zip                                   record it in leaderboard/, where bench leaderboard looks
  bench verify leaderboard/submissions/doorkey-1a2b3c4d    verify a submission that was added
  bench verify alice.zip --episodes 100 --calls 50 judge.base_url=http://localhost:8000/v1 models.budget_calls=200
  bench verify runs/NAME                                   verify your own study; print the result, record nothing

A cell is verified if every run's final evaluation is reproduced, its success on new layouts matches the reported one
(Fisher's exact test, p of at least .01 after Holm's correction over the cells that can be played), and the named model
reproduces the recorded answers as far as it can be called. It is disputed if one of these checks fails. It is
self-reported if it cannot be checked, or if the episodes are too few to show a difference in success of .4. If a run
records the same processor and packages as here, every episode must be reproduced exactly. Otherwise rounding may change
returns and lengths of up to a quarter of a run's episodes; if it may have changed the success of up to a tenth, the
cell stays self-reported unless --tolerance allows that share.

The episodes of a gallery are played again as well, where the packages and the OpenGL backend that drew them are here:
their actions must be equal and their pictures within 2 of 255. Otherwise the leaderboard labels them "pictures not
verified"; that changes no standing.

You choose how a model is reached: judge.base_url, or that of another role, names a server, and judge.model=PATH gives
weights in place of a model that has no recipe. You also choose what servers may cost: without models.budget_usd,
models.budget_calls or models.budget_seconds no server is called. No address or path in a submission is ever opened.
Evaluations before the last have no checkpoint, so learning curves cannot be verified.

New layouts and samples depend on a random seed, which is recorded; --seed repeats one. After an interruption the same
command continues with the next cell; a complete record is replaced. The exit code is 1 if a cell is disputed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from guidebench.harness.errors import count

if TYPE_CHECKING:
    from guidebench.results.store import StudyRecord
    from guidebench.results.verification.record import Verification
    from guidebench.results.verification.verifying import Tell

HELP = "evaluate a submission's checkpoints again and repeat its model calls"
RUNS_CODE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", type=Path, help="an archive of `bench submit`, a submission's directory, or a study's"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="how to reach models, and what they may cost: judge.base_url=… models.budget_usd=…; and code that you "
        "trust: suite.module=… as it was trained with",
    )
    parser.add_argument(
        "--leaderboard",
        type=Path,
        default=Path("leaderboard"),
        metavar="DIR",
        help="directory for the record (leaderboard)",
    )
    parser.add_argument("--episodes", type=int, default=32, metavar="N", help="episodes per run on new layouts (32)")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the new layouts and samples (drawn at random and recorded)"
    )
    parser.add_argument("--calls", type=int, default=20, metavar="N", help="calls to repeat per model and cell (20)")
    parser.add_argument("--runs", type=int, metavar="N", help="most runs per cell, sampled with the seed (all)")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, metavar="SHARE", help="share of a run's episodes that may differ (0)"
    )
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="SECONDS", help="time limit of a run, and of a cell's calls (600)"
    )
    parser.add_argument("--json", action="store_true", help="print the record")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import consent
    from guidebench.harness.errors import UserError
    from guidebench.results.verification import reasking, record
    from guidebench.results.verification.verifying import Options, verify

    for name, value, low, high in (
        ("episodes", args.episodes, 1, 10_000),
        ("calls", args.calls, 0, 100_000),
        ("runs", 1 if args.runs is None else args.runs, 1, 100_000),
        ("seed", args.seed or 0, 0, 2**32 - 1),
        ("tolerance", args.tolerance, 0, 1),
        ("limit", args.limit, 0.001, 10**7),
    ):
        if not low <= value <= high:
            raise UserError(f"--{name} {value:g}: expected a number in [{low:g}, {high:g}]")
    model_settings, allowed = reasking.settings_of(consent.separated(args.overrides)[1])
    with _remarks(), _opened(args.source) as (study, digest):
        options = Options(
            args.seed, args.episodes, args.calls, args.runs, args.tolerance, args.limit, model_settings, allowed
        )
        with _telling(quiet=args.json, cells=len(study.cells)) as tell:
            verification = verify(study, digest, options, args.leaderboard if digest else None, tell)
    if args.json:
        print(_as_json(verification))
    else:
        _print(study, verification)
        print(
            f"recorded: {record.path_of(args.leaderboard, digest)}"
            if digest
            else "not recorded: a study changes; `bench submit` makes of it what can be recorded"
        )
    return int(any(verdict.standing == "disputed" for verdict in verification.cells.values()))


@contextmanager
def _remarks() -> Iterator[None]:
    """Print warnings as plain text on stderr."""
    import sys
    import warnings

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"bench verify: {message}", file=sys.stderr)
        yield


@contextmanager
def _opened(source: Path) -> Iterator[tuple[StudyRecord, str]]:
    """Yield the study and the digest of its submission, "" for a study that is not a submission."""
    from guidebench.harness.errors import UserError
    from guidebench.results import limits, store, submissions

    if source.is_file():
        with submissions.unpacked(source) as submission:
            yield submission.study, submission.digest
        return
    if not source.exists():
        raise UserError(
            f"{source} does not exist; give an archive of `bench submit`, a submission's directory, or a study's"
        )
    if source.is_dir():
        limits.check(source)
    if (source / "manifest.json").is_file():
        submission = submissions.opened(source)
        yield submission.study, submission.digest
    else:
        yield store.study(source), ""


@contextmanager
def _telling(quiet: bool, cells: int) -> Iterator[Tell]:
    """Yield a function that shows progress: a bar on a terminal, plain lines elsewhere."""
    import sys
    import time

    if quiet:
        yield lambda done, text: None
    elif sys.stdout.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with Progress(*columns, transient=True) as progress:
            bar = progress.add_task("", total=cells)
            yield lambda done, text: progress.update(bar, completed=done, description=text.replace("[", r"\["))
    else:
        started = time.monotonic()
        yield lambda done, text: print(
            f"[{time.monotonic() - started:6.0f} s] {done} of {count(cells, 'cell')}, {text}", flush=True
        )


def _as_json(verification: Verification) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(verification), indent=1, ensure_ascii=False)


def _print(study: StudyRecord, verification: Verification) -> None:
    """Print a line per cell, with its failed and missing checks below it."""
    names = {cell.id: f"{cell.suite}/{cell.task}  {cell.label}" for cell in study.cells}
    width = max(map(len, names.values()))
    for id, verdict in verification.cells.items():
        print(f"{names[id].ljust(width)}  {verdict.standing}")
        checks = [check for check in verdict.checks if not check.passed or check.what == "new layouts"]
        for check in checks:
            mark = {True: "held", False: "FAILED", None: "not checked"}[check.passed]
            print(f"    {check.what}: {mark}: {check.detail}")
        if verdict.standing == "self-reported" and not any(check.detail in verdict.reason for check in checks):
            print(f"    {verdict.reason}")
    total = {standing: 0 for standing in ("verified", "disputed", "self-reported")}
    for verdict in verification.cells.values():
        total[verdict.standing] += 1
    totals = ", ".join(f"{number} {standing}" for standing, number in total.items() if number)
    print(f"{totals} of {count(len(names), 'cell')}")
