"""Import runs that another program logged, from an untrusted CSV with one line per evaluation episode."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.gym.recorder import Recorder

LONGEST = 100
TRUTH = {"1": True, "true": True, "0": False, "false": False}


class ImportedEpisode(NamedTuple):
    """One evaluation episode; `length` is 0 if unknown."""

    step: int
    episode: int
    success: bool
    ret: float
    length: int = 0
    score: float | None = None
    """The episode's score, if the suite's score is neither success nor return."""


class ImportedLog(NamedTuple):
    """The runs in a file: (method, task, seed) -> episodes, ordered by step and episode; and the file's unused
    columns."""

    runs: Mapping[tuple[str, str, int], list[ImportedEpisode]]
    unused: tuple[str, ...]


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or len(text.strip()) > 18:
        raise ValueError("a whole number of at least 0")
    return int(text)


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("a finite number")
    return value


def _truth(text: str) -> bool:
    if text.strip().lower() not in TRUTH:
        raise ValueError("0 or 1, false or true")
    return TRUTH[text.strip().lower()]


def _name(text: str) -> str:
    if not text or "/" in text or text.startswith(".") or not text.isprintable() or len(text.encode()) > LONGEST:
        raise ValueError(f"a plain name of at most {LONGEST} bytes, without / and not beginning with a dot")
    return text


COLUMNS: Mapping[str, Callable[[str], Any]] = {
    "method": _name, "task": _name, "seed": _whole, "step": _whole, "episode": _whole, "success": _truth,
    "return": _finite,
}  # fmt: skip
OPTIONAL: Mapping[str, Callable[[str], Any]] = {"length": _whole, "score": _finite}


def read(path: Path) -> ImportedLog:
    """Return the runs in a CSV file, read in the separate process; raise UserError naming line and column of the first
    invalid value."""
    return reader_process.read(f"{path}: reading its episodes", path, _read, path)


def _read(path: Path) -> ImportedLog:
    runs: dict[tuple[str, str, int], dict[tuple[int, int], ImportedEpisode]] = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = list(reader.fieldnames or ())
            _check_header(path, header)
            known = {**COLUMNS, **{name: check for name, check in OPTIONAL.items() if name in header}}
            for row in reader:
                values = _checked(path, reader.line_num, row, known)
                key = values["method"], values["task"], values["seed"]
                episode = ImportedEpisode(
                    values["step"], values["episode"], values["success"], values["return"], values.get("length", 0),
                    values.get("score"),
                )  # fmt: skip
                run = runs.setdefault(key, {})
                if run.setdefault(episode[:2], episode) is not episode:
                    raise UserError(
                        f"{path}, row {reader.line_num}: method {key[0]}, task {key[1]}, seed {key[2]} has episode "
                        f"{episode.episode} of step {episode.step} twice; number the episodes of an evaluation"
                    )
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); name a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a CSV in UTF-8 ({error})") from None
    if not runs:
        raise UserError(f"{path} holds no rows; expected one per evaluation episode")
    unused = tuple(name for name in header if name not in known)
    return ImportedLog({key: [run[place] for place in sorted(run)] for key, run in runs.items()}, unused)


def _check_header(path: Path, header: list[str]) -> None:
    lacking = [name for name in COLUMNS if name not in header]
    if lacking:
        raise UserError(f"{path} lacks the column {lacking[0]!r}; expected {', '.join(COLUMNS)}, found {header}")
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise UserError(f"{path} has the column {repeated[0]!r} twice")


def _checked(
    path: Path, row: int, given: Mapping[Any, Any], known: Mapping[str, Callable[[str], Any]]
) -> dict[str, Any]:
    if None in given or None in given.values():
        raise UserError(f"{path}, row {row}: it has more or fewer values than the header has names")
    values = {}
    for name, check in known.items():
        try:
            values[name] = check(given[name])
        except ValueError as error:
            raise UserError(f"{path}, row {row}, column {name!r}: {given[name]!r}; expected {error}") from None
    return values


def record(log: ImportedLog, output: Path, suite: str, profile: str, steps: int | None = None) -> int:
    """Write the runs of a log as a study whose runs are marked external; return the number of runs.

    A run counts as `steps` long, by default as long as the longest run of its method and task.
    """
    longest: dict[tuple[str, str], int] = {}
    for (method, task, _), episodes in log.runs.items():
        last = episodes[-1].step
        if steps is not None and last > steps:
            raise UserError(f"--steps {steps}: method {method} on {task} has an evaluation at step {last}")
        longest[method, task] = max(longest.get((method, task), 1), last, steps or 1)
    for (method, task, seed), episodes in log.runs.items():
        with Recorder(
            output, suite=suite, task=task, method=method, seed=seed, steps=longest[method, task], profile=profile
        ) as recorder:
            for entry in episodes:
                worth = entry.score if recorder.score.recorded else None
                recorder.episode(
                    step=entry.step, ret=entry.ret, success=entry.success, length=entry.length, score=worth
                )
    return len(log.runs)
