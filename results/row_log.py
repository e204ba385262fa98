"""Read a run's evaluation log while a worker writes it: each look reads only the lines that are new.

The lines may be a stranger's. `look_at` is called in a separate process, which remembers how far it has come.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guidebench.harness.errors import UserError
from guidebench.harness.records import schema
from guidebench.harness.records.files import open_regular
from guidebench.results import rows
from guidebench.results.store import IDENTITY, RunRecord, identity

CHUNK, LONGEST = 2**24, 2**20
"""Most bytes that one look reads of a log, and most bytes of a line."""
TAIL = 512
"""Bytes before the place that was reached, by which a look recognises the file that it read before."""
Sign = tuple[int, int, int]
"""Inode, size and time of last change in nanoseconds of a file, by which a changed file is recognised."""


def sign(path: Path) -> Sign | None:
    """Return the sign of a file or directory, or None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Curve(NamedTuple):
    """The evaluations of a run in the order of their steps, arrays [n]."""

    steps: NDArray[np.int64]
    episodes: NDArray[np.int64]
    """Episodes of each evaluation."""
    scores: NDArray[np.float64]
    """Means over episodes of the cell's score; likewise success rates and mean returns."""
    success: NDArray[np.float64]
    returns: NDArray[np.float64]
    variances: NDArray[np.float64]
    """Variances of `scores` as means of episodes; NaN with one episode."""


class RowLog:
    """A log of evaluation episodes as JSON lines, which may grow, be truncated when its run resumes, or be replaced.

    A line that does not fit ends the reading until the file is truncated or replaced; `fault` names it.
    """

    def __init__(self, path: Path, run: RunRecord) -> None:
        self.path, self.cell, self.fault = path, run.cell, ""
        self._required = rows.required(rows.columns(rows.EVALUATIONS, run.cell))
        self._claims = {name: value for name, value in identity(run).items() if name in IDENTITY}
        self._sign: Sign | None = None
        self._begin()

    def _begin(self) -> None:
        self.fault, self._tail, self._end, self._lines = "", b"", 0, 0
        self._sums: dict[int, NDArray[np.float64]] = {}
        self._scores: dict[int, list[float]] = {}
        self._episodes: dict[int, set[int]] = {}

    def look(self) -> bool:
        """Read up to `CHUNK` bytes of what is new; return whether the evaluations may have changed."""
        now = sign(self.path)
        if now is None or now == self._sign:
            return False
        try:
            with open_regular(self.path) as file:
                anew = not self._continues(file.fileno())
                if anew:
                    self._begin()
                elif self.fault:
                    self._sign = now
                    return False
                block = os.pread(file.fileno(), CHUNK, self._end)
        except OSError as error:
            self.fault = f"{self.path} cannot be read ({error.strerror})"
            return True
        complete, newline, rest = block.rpartition(b"\n")
        read = len(complete) + len(newline)
        if len(block) < CHUNK:
            self._sign = now  # otherwise the next look reads on
        try:
            for line in complete.split(b"\n") if newline else ():
                self._add(line)
            if len(rest) > LONGEST:
                raise UserError(f"{self.path}, row {self._lines + 1}: a line of more than {LONGEST:,} bytes")
        except UserError as error:
            self.fault = str(error)
        self._end += read
        self._tail = (self._tail + block[:read])[-TAIL:]
        return anew or bool(read) or bool(self.fault)

    @property
    def sign(self) -> Sign | None:
        """Sign of the file at the last look; None while there is more to read."""
        return self._sign

    def _continues(self, handle: int) -> bool:
        """Return whether the file still holds what was read last, at its place."""
        return os.pread(handle, len(self._tail), self._end - len(self._tail)) == self._tail

    def _add(self, line: bytes) -> None:
        """Count the episode of a line."""
        self._lines += 1
        place = f"{self.path}, row {self._lines}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{place}: not JSON; {rows.ADVICE}") from None
        if wrong := rows.misfit(row, self._required, None):
            raise UserError(f"{place}{wrong}; {rows.ADVICE}")
        for name, expected in self._claims.items():
            if row[name] != expected:
                contradiction = f"{str(row[name])[:80]!r}, but it lies in the directory of {name} {expected!r}"
                raise UserError(f"{place}, column {name!r}: {contradiction}")
        for name in ("step", "episode", "length"):
            if row[name] < 0:
                raise UserError(f"{place}, column {name!r}: {row[name]}; expected a whole number of at least 0")
        score = self.cell.score
        worth = float(row[schema.SCORE if score.recorded else score.name])
        if not schema.within(score, worth):
            raise UserError(f"{place}: {worth!r}; expected a number in {schema.limits(score)}, the range of the score")
        episodes = self._episodes.setdefault(row["step"], set())
        if row["episode"] in episodes:
            raise UserError(f"{place}: episode {row['episode']} of step {row['step']} is there twice; {rows.ADVICE}")
        episodes.add(row["episode"])
        self._sums.setdefault(row["step"], np.zeros(3))[:] += (worth, row["success"], row["return"])
        self._scores.setdefault(row["step"], []).append(worth)

    @property
    def curve(self) -> Curve | None:
        """The evaluations that were read, or None if there are none."""
        if not self._sums:
            return None
        steps = np.array(sorted(self._sums))
        episodes = np.array([len(self._episodes[step]) for step in steps])
        means = np.stack([self._sums[step] for step in steps]) / episodes[:, None]
        variances = [
            np.var(self._scores[step], ddof=1) / count if count > 1 else np.nan
            for step, count in zip(steps.tolist(), episodes.tolist(), strict=True)
        ]
        return Curve(steps, episodes, means[:, 0], means[:, 1], means[:, 2], np.array(variances))


class Growth(NamedTuple):
    """What a look at a log has shown."""

    changed: bool
    """Whether the evaluations may have changed."""
    sign: Sign | None
    """Sign of the file, which need not be looked at again until it changes; None while there is more to read."""
    curve: Curve | None
    fault: str


def look_at(logs: Sequence[tuple[Path, RunRecord]], ended: Sequence[Path] = ()) -> list[Growth]:
    """Look at growing logs, each of a run, and forget those that have `ended`. Call it in the separate process, where
    each call continues the last one; in a process that was started anew, logs are read from their beginning."""
    for path in ended:
        _LOGS.pop(path, None)
    growth = []
    for path, run in logs:
        log = _LOGS.get(path)
        if log is None or log.cell != run.cell:
            log = _LOGS[path] = RowLog(path, run)
        growth.append(Growth(log.look(), log.sign, log.curve, log.fault))
    return growth


_LOGS: dict[Path, RowLog] = {}
"""The logs that this process looked at."""
