"""A study's budget for its models, kept in one small file that all its workers on a host share. Where they are on
several hosts, `grants.py` gives each a part of it.

The largest possible cost of a call is reserved before the call and settled after it. Each request counts as a call from
the moment before it is sent; what else a killed process had reserved is released. Spent amounts stay, so a study
continues where it stopped once its budget is raised.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.models.calls import Usage
from guidebench.harness.records.files import read_regular

UNITS = {"usd": "USD", "calls": "calls", "seconds": "seconds of models' time"}
TINY = 1e-9
"""Tolerance for rounding errors of sums and differences of amounts."""
Amounts = dict[str, float]
ONE: Amounts = {"usd": 0, "calls": 1, "seconds": 0}
"""What is known of a request before it is sent."""


class Limits(NamedTuple):
    """Limits on all calls of a study together; None means no limit."""

    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None


class Budget:
    """One process's access to the study's account."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """`path`: account file, created if missing. Raises UserError if it is not an account."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._limits = path, limits
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        self._me = f"{os.getpid()}:{_started(os.getpid())}"
        with self._account():
            pass

    def reserve(self, estimate: Usage) -> bool:
        """Reserve an upper bound of a call's usage; return False while other reservations leave too little.

        Raises BudgetReached if the amount already spent leaves too little.
        """
        wanted = amounts(estimate)
        with self._account() as account:
            reserved = account["reserved"]
            reached(self._limits, account["spent"], wanted)
            if not self._fits(account, wanted):
                for holder in [holder for holder in reserved if not _alive(holder)]:
                    del reserved[holder]
                if not self._fits(account, wanted):
                    return False
            reserved[self._me] = plus(reserved.get(self._me, dict.fromkeys(UNITS, 0)), wanted)
        return True

    def begin(self) -> None:
        """Count one request of a reserved call as spent, because it is about to be sent and the process may be killed
        before it is settled."""
        with self._account() as account:
            mine = account["reserved"].get(self._me)
            if mine is not None:
                account["reserved"][self._me] = plus(mine, ONE, -1)
            account["spent"] = plus(account["spent"], ONE)

    def settle(self, estimate: Usage, took: Usage, begun: int = 0) -> None:
        """Release a call's reservation and add its actual usage to the amount spent, without the requests that `begin`
        has counted."""
        counted = {which: begun * amount for which, amount in ONE.items()}
        with self._account() as account:
            left = plus(amounts(estimate), counted, -1)
            mine = plus(account["reserved"].pop(self._me, left), left, -1)
            if any(amount > TINY for amount in mine.values()):
                account["reserved"][self._me] = mine
            account["spent"] = plus(account["spent"], plus(amounts(took), counted, -1))

    @property
    def spent(self) -> Mapping[str, float]:
        """Amounts spent over all commands of the study: `usd`, `calls`, `seconds`."""
        with self._account() as account:
            return dict(account["spent"])

    def count(self, grants: int, spent: Amounts) -> None:
        """Count the grants up to this number, of which these amounts were spent, as one step."""
        with self._account() as account:
            account["spent"], account["grants"] = plus(account["spent"], spent), grants

    def rest(self) -> None:
        """Let others have what is not reserved, as they do at any time."""

    def close(self) -> None:
        os.close(self._file)

    def _fits(self, account: Mapping[str, Any], wanted: Amounts) -> bool:
        taken = account["spent"]
        for each in account["reserved"].values():
            taken = plus(taken, each)
        limits = self._limits._asdict()
        return all(limits[each] is None or taken[each] + wanted[each] <= limits[each] + TINY for each in UNITS)

    @contextmanager
    def _account(self) -> Iterator[dict[str, Any]]:
        """Yield the locked account, and write it back if it changed and no error was raised."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            text = os.pread(self._file, os.fstat(self._file).st_size, 0)
            account = _parsed(text, self._path)
            yield account
            # A single write within a page cannot be cut by a kill; a rename would wait for the disk.
            content = json.dumps(account).encode().ljust(len(text))
            if content != text:
                os.pwrite(self._file, content, 0)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def spent(path: Path) -> tuple[Amounts, int]:
    """Return the amounts spent by an account file, and the number of the last grant that they count. Takes no lock; a
    file that is missing counts as empty."""
    account = _parsed(read_regular(path) if path.exists() else b"", path)
    return dict(account["spent"]), account["grants"]


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    """Return the account that a file's text holds."""
    if not text:
        return {"spent": dict.fromkeys(UNITS, 0), "reserved": {}, "grants": 0}
    try:
        account = json.loads(text)
        for each in (account["spent"], *account["reserved"].values()):
            checked(each)
        account["grants"] = int(account.get("grants", 0))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not what this program wrote ({error}); restore it, or delete it to count from nothing"
        ) from None
    return dict(account)


def checked(content: Any) -> Amounts:
    """Return amounts that were read. Raise ValueError if they are none."""
    if set(content) != set(UNITS) or not all(type(value) in (int, float) for value in content.values()):
        raise ValueError(f"{content} are no amounts")
    return dict(content)


def reached(limits: Limits, spent: Mapping[str, float], wanted: Mapping[str, float]) -> None:
    """Raise BudgetReached if what is spent leaves too little for what the next call may take."""
    for which, limit in limits._asdict().items():
        if limit is not None and spent[which] + wanted[which] > limit + TINY:
            raise BudgetReached(
                f"models.budget_{which}={limit:g} is reached: {spent[which]:.6g} {UNITS[which]} are spent and "
                f"the next call may take {wanted[which]:.6g}; raise it and run the same command again"
            )


def amounts(usage: Usage) -> Amounts:
    """Return what a call takes of each limited amount."""
    return {which: getattr(usage, which) for which in UNITS}


def plus(one: Mapping[str, float], other: Mapping[str, float], sign: int = 1) -> Amounts:
    """Return the sum, or with `sign` = -1 the difference."""
    return {which: one[which] + sign * other[which] for which in UNITS}


def _alive(holder: str) -> bool:
    """Return whether the process `PID:START` still runs; the start time distinguishes a later process with the same
    PID."""
    pid, _, started = holder.partition(":")
    return pid.isdigit() and _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return a process's start time in kernel clock ticks, "" if it does not run, "?" if the system does not report
    it."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]  # a zombie has ended
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return ""
        return "?"
