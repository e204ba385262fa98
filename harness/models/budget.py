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
"""The amounts of one request before it is sent: only that it is one call."""


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
        self._me = f"{os.getpid()}:{_start_time(os.getpid())}"
        with self._account():
            pass

    def reserve(self, estimate: Usage) -> bool:
        """Reserve an upper bound of a call's usage; return False while the reservations of other calls leave too
        little.

        Raises BudgetReached if the amount already spent leaves too little.
        """
        call_amounts = amounts(estimate)
        with self._account() as account:
            reserved = account["reserved"]
            check_limits(self._limits, account["spent"], call_amounts)
            if not self._fits(account, call_amounts):
                for holder in [holder for holder in reserved if not _alive(holder)]:
                    del reserved[holder]
                if not self._fits(account, call_amounts):
                    return False
            reserved[self._me] = plus(reserved.get(self._me, dict.fromkeys(UNITS, 0)), call_amounts)
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
        begun_amounts = {unit: begun * amount for unit, amount in ONE.items()}
        with self._account() as account:
            reservation = plus(amounts(estimate), begun_amounts, -1)
            mine = plus(account["reserved"].pop(self._me, reservation), reservation, -1)
            if any(amount > TINY for amount in mine.values()):
                account["reserved"][self._me] = mine
            account["spent"] = plus(account["spent"], plus(amounts(took), begun_amounts, -1))

    @property
    def spent(self) -> Mapping[str, float]:
        """Amounts spent over all commands of the study: `usd`, `calls`, `seconds`."""
        with self._account() as account:
            return dict(account["spent"])

    def count(self, grants: int, spent: Amounts) -> None:
        """Add the amounts spent of all grants up to number `grants` to the account, in one step."""
        with self._account() as account:
            account["spent"], account["grants"] = plus(account["spent"], spent), grants

    def rest(self) -> None:
        """Release what this worker does not need while it waits. Nothing is to be done here, since workers share the
        unreserved part of this budget at any time."""

    def close(self) -> None:
        os.close(self._file)

    def _fits(self, account: Mapping[str, Any], call_amounts: Amounts) -> bool:
        total = account["spent"]
        for reservation in account["reserved"].values():
            total = plus(total, reservation)
        limits = self._limits._asdict()
        return all(limits[unit] is None or total[unit] + call_amounts[unit] <= limits[unit] + TINY for unit in UNITS)

    @contextmanager
    def _account(self) -> Iterator[dict[str, Any]]:
        """Yield the locked account, and write it back if it changed and no error was raised."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            text = os.pread(self._file, os.fstat(self._file).st_size, 0)
            account = _parse_account(text, self._path)
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
    account = _parse_account(read_regular(path) if path.exists() else b"", path)
    return dict(account["spent"]), account["grants"]


def _parse_account(text: bytes, path: Path) -> dict[str, Any]:
    """Return the account that a file's text holds."""
    if not text:
        return {"spent": dict.fromkeys(UNITS, 0), "reserved": {}, "grants": 0}
    try:
        account = json.loads(text)
        for stored_amounts in (account["spent"], *account["reserved"].values()):
            valid_amounts(stored_amounts)
        account["grants"] = int(account.get("grants", 0))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not what this program wrote ({error}); restore it, or delete it to count from nothing"
        ) from None
    return dict(account)


def valid_amounts(amounts_read: Any) -> Amounts:
    """Return amounts that were read from a file; raise ValueError unless they are one number for each unit."""
    if set(amounts_read) != set(UNITS) or not all(type(value) in (int, float) for value in amounts_read.values()):
        raise ValueError(f"{amounts_read} are no amounts")
    return dict(amounts_read)


def check_limits(limits: Limits, spent: Mapping[str, float], call_amounts: Mapping[str, float]) -> None:
    """Raise BudgetReached if the amounts spent leave less than the next call may take."""
    for which, limit in limits._asdict().items():
        if limit is not None and spent[which] + call_amounts[which] > limit + TINY:
            raise BudgetReached(
                f"models.budget_{which}={limit:g} is reached: {spent[which]:.6g} {UNITS[which]} are spent and "
                f"the next call may take {call_amounts[which]:.6g}; raise it and run the same command again"
            )


def amounts(usage: Usage) -> Amounts:
    """Return the limited amounts of a usage: USD, calls and seconds."""
    return {unit: getattr(usage, unit) for unit in UNITS}


def plus(first: Mapping[str, float], second: Mapping[str, float], sign: int = 1) -> Amounts:
    """Return the sum, or with `sign` = -1 the difference."""
    return {unit: first[unit] + sign * second[unit] for unit in UNITS}


def _alive(holder: str) -> bool:
    """Return whether the process `PID:START` still runs; the start time distinguishes a later process with the same
    PID."""
    pid, _, start_time = holder.partition(":")
    return pid.isdigit() and _start_time(int(pid)) == start_time


def _start_time(pid: int) -> str:
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
