"""A study's budget for its models, spent by processes on several machines that share a disk but no locks.

    FOLDER/NUMBER         a grant: amounts that one process may spend, and who that process is
    FOLDER/NUMBER.spent   what was spent of it, once the process has ended it
    FOLDER/HOLDER/        the lease of a process, which shows whether it lives

Grants are numbered without gaps and made by `link`, which succeeds for one process only, so no amount is granted twice.
A process spends its grant without accessing the disk. It ends the grant when it is used up, at each checkpoint of its
runs, and when the process ends. The whole grant counts as spent until it is ended, and for good if its process dies,
because the part that was really spent is unknown then.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models import budget
from guidebench.harness.models.budget import (
    TINY,
    UNITS,
    Amounts,
    Budget,
    Limits,
    amounts,
    check_limits,
    plus,
    valid_amounts,
)
from guidebench.harness.models.calls import Usage
from guidebench.harness.records import leases
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.leases import Lease

FOLDER = "grants"
SHARE = 64
"""One grant gives at most 1 / SHARE of the rest of the budget, but see AT_ONCE (choice: few grants, and a dead machine
wastes little)."""
AT_ONCE = 8
"""Number of calls, each as large as the next one may be, for which a grant suffices if there is enough."""
LOOK, SELDOM = 1.0, 16.0
"""Seconds until a process that waits for others to end their grants looks at the disk again: the first pause, which
doubles up to the second number."""
NOTHING: Amounts = dict.fromkeys(UNITS, 0.0)


class _Grant(NamedTuple):
    """A grant as its files describe it."""

    holder: str
    amounts: Amounts
    spent: Amounts | None
    """None until its process has ended it."""


class Grants:
    """One process's access to the study's budget, with the methods of `Budget` but without a lock."""

    def __init__(self, folder: Path, account: Path, limits: Limits) -> None:
        """`folder`: of the grants, made if missing; `account`: file of what was spent before. Raises UserError if one
        of them is not what this program wrote."""
        self._folder, self._limits = folder, limits
        self._before, self._counted = budget.spent(account)
        self._me = uuid.uuid4().hex
        self._lease = Lease(folder / self._me, "budget")
        self._lease.acquire()
        self._number, self._granted, self._spent, self._reserved = 0, NOTHING, NOTHING, NOTHING
        self._ended: dict[int, _Grant] = {}
        """Grants that were ended, which do not change any more."""
        self._look_at, self._wait = 0.0, LOOK
        self._resting = False
        """Whether the grant is to be ended once no call is under way."""

    def reserve(self, estimate: Usage) -> bool:
        """Reserve an upper bound of a call's usage; return False while the budget may be too small for it because calls
        of this or of other processes are not settled.

        Raises BudgetReached if the amount already spent leaves too little.
        """
        if not self._lease.held():
            raise UserError(
                "this process could give no sign of life for long, so its part of the budget counts as spent; run the "
                "same command again"
            )
        call_amounts = amounts(estimate)
        enough = self._number and self._within(plus(plus(self._spent, self._reserved), call_amounts), self._granted)
        if self._resting or not enough:
            if any(amount > TINY for amount in self._reserved.values()):
                return False  # the grant is ended when its calls have been settled
            self.rest()
            if not self._take(call_amounts):
                return False
        self._reserved = plus(self._reserved, call_amounts)
        return True

    def begin(self) -> None:
        """Do nothing, because the whole grant counts as spent until it is ended."""

    def settle(self, estimate: Usage, took: Usage, begun: int = 0) -> None:
        """Release a call's reservation and add its actual usage to the amount spent; `begun` is as in `Budget`."""
        self._reserved = plus(self._reserved, amounts(estimate), -1)
        self._spent = plus(self._spent, amounts(took))
        if self._resting or not self._within(plus(self._spent, dict.fromkeys(UNITS, 2 * TINY)), self._granted):
            self.rest()  # the grant is used up, so others need not wait for its end

    def rest(self) -> None:
        """End the grant as soon as no call is under way, which releases its rest to other processes."""
        self._resting = bool(self._number)
        if self._number and not any(amount > TINY for amount in self._reserved.values()):
            self._resting = False
            write_json(self._folder / f"{self._number}.spent", self._spent)
            self._number, self._granted, self._spent, self._reserved = 0, NOTHING, NOTHING, NOTHING

    def close(self) -> None:
        self.rest()
        self._lease.release()

    def _within(self, amount: Mapping[str, float], limit: Mapping[str, float]) -> bool:
        limits = self._limits._asdict()
        return all(limits[unit] is None or amount[unit] <= limit[unit] + TINY for unit in UNITS)

    def _take(self, call_amounts: Amounts) -> bool:
        """Make a grant of at least `call_amounts`. Return False if the open grants of others leave too little."""
        if time.monotonic() < self._look_at:
            return False
        while True:
            spent, granted = dict(self._before), dict(NOTHING)
            number = self._counted + 1
            while (grant := self._read(number)) is not None:
                if grant.spent is not None or leases.holder(self._folder / grant.holder) is None:
                    spent = plus(spent, grant.spent or grant.amounts)
                else:
                    granted = plus(granted, grant.amounts)
                number += 1
            check_limits(self._limits, spent, call_amounts)
            remaining = {
                unit: (limit or 0) - spent[unit] - granted[unit] for unit, limit in self._limits._asdict().items()
            }
            if not self._within(call_amounts, remaining):
                self._look_at, self._wait = time.monotonic() + self._wait, min(2 * self._wait, SELDOM)
                return False
            grant_amounts = {
                unit: min(remaining[unit], max(AT_ONCE * call_amounts[unit], remaining[unit] / SHARE))
                if getattr(self._limits, unit) is not None else 0.0
                for unit in UNITS
            }  # fmt: skip
            if self._link(number, grant_amounts):
                self._number, self._granted, self._spent = number, grant_amounts, dict(NOTHING)
                self._wait = LOOK
                return True

    def _read(self, number: int) -> _Grant | None:
        """Return a grant, or None if there is none of this number."""
        if number not in self._ended:
            grant = _read(self._folder, number)
            if grant is None or grant.spent is None:
                return grant
            self._ended[number] = grant
        return self._ended[number]

    def _link(self, number: int, grant_amounts: Amounts) -> bool:
        """Make the file of a grant. Return False if another process was faster."""
        grant_file = self._folder / self._me / "grant.json"
        write_json(grant_file, {"holder": self._me, **grant_amounts})
        try:
            os.link(grant_file, self._folder / str(number))
        except FileExistsError:  # a repeated request may be told that its own link exists
            existing = _read(self._folder, number)
            return existing is not None and existing.holder == self._me
        except OSError as error:
            raise UserError(
                f"{self._folder} cannot hold the budget of several machines ({error.strerror}): its file system makes "
                f"no hard links; choose another output=…, or launcher=local"
            ) from None
        return True


def settle(folder: Path, account: Path) -> bool:
    """Count all grants in the account of the study and delete them. Return False, and do nothing, if a process is still
    spending. If killed, the next call completes it."""
    if not folder.is_dir():
        return True
    if any(leases.holder(path) is not None for path in folder.iterdir() if path.is_dir()):
        return False
    last_counted_grant = budget.spent(account)[1]
    number, spent = last_counted_grant, NOTHING
    while (grant := _read(folder, number + 1)) is not None:
        number, spent = number + 1, plus(spent, grant.spent or grant.amounts)
    if number > last_counted_grant:
        counting = Budget(account, Limits())
        counting.count(number, spent)
        counting.close()
    shutil.rmtree(folder, ignore_errors=True)
    return True


def spent_and_granted(folder: Path, account: Path) -> Amounts:
    """Return the amounts that are spent, or granted and not ended."""
    total, number = budget.spent(account)
    while (grant := _read(folder, number + 1)) is not None:
        number, total = number + 1, plus(total, grant.spent or grant.amounts)
    return total


def _read(folder: Path, number: int) -> _Grant | None:
    path = folder / str(number)
    if not path.exists():
        return None
    content, ended = read_json(path), path.with_name(f"{number}.spent")
    try:
        holder = str(uuid.UUID(content.pop("holder")).hex)
        return _Grant(holder, valid_amounts(content), valid_amounts(read_json(ended)) if ended.exists() else None)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path} is not what this program wrote ({error}); restore it, or delete {folder} and set the spent "
            f"amounts in {folder.parent / 'budget.json'}"
        ) from None
