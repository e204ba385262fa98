"""A study's budget for its models, spent by processes on several machines that share a disk but no locks.

    FOLDER/NUMBER         a grant: amounts that one process may spend, and who that process is
    FOLDER/NUMBER.spent   what was spent of it, once the process has ended it
    FOLDER/HOLDER/        the lease of a process, which shows whether it lives

Grants are numbered without gaps and made by `link`, which a file system grants to one process alone, so nobody is
granted what another one has got. A process spends its grant without asking the disk; it ends it when it is spent, at
each checkpoint of its runs, and when it ends. All that a grant gives counts as spent until it is ended. If its process
dies, it counts as spent for good, since nobody knows how much of it was.
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
from guidebench.harness.models.budget import TINY, UNITS, Amounts, Budget, Limits, amounts, checked, plus, reached
from guidebench.harness.models.calls import Usage
from guidebench.harness.records import leases
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.leases import Lease

FOLDER = "grants"
SHARE = 64
"""Part of what is left that one grant gives at most (choice: few grants, and little that a dead machine keeps)."""
AT_ONCE = 8
"""Number of calls, each as large as the next one may be, for which a grant suffices if there is enough."""
LOOK, SELDOM = 1.0, 16.0
"""Seconds between the first two looks at the disk of a process that waits until others end their grants, which double
up to the second number."""
NOTHING: Amounts = dict.fromkeys(UNITS, 0.0)


class _Grant(NamedTuple):
    """A grant as others see it."""

    holder: str
    given: Amounts
    spent: Amounts | None
    """None until its process has ended it."""


class Grants:
    """One process's access to the study's budget; as `Budget`, without a lock."""

    def __init__(self, folder: Path, account: Path, limits: Limits) -> None:
        """`folder`: of the grants, made if missing; `account`: file of what was spent before. Raises UserError if one
        of them is not what this program wrote."""
        self._folder, self._limits = folder, limits
        self._before, self._counted = budget.spent(account)
        self._me = uuid.uuid4().hex
        self._lease = Lease(folder / self._me, "budget")
        self._lease.acquire()
        self._number, self._given, self._spent, self._reserved = 0, NOTHING, NOTHING, NOTHING
        self._known: dict[int, _Grant] = {}
        """Grants that were ended, which do not change any more."""
        self._look_at, self._wait = 0.0, LOOK
        self._resting = False
        """Whether the grant is to be ended once no call is under way."""

    def reserve(self, estimate: Usage) -> bool:
        """Reserve an upper bound of a call's usage; return False while it is not known whether there is enough, since
        other calls, here or elsewhere, have not been settled.

        Raises BudgetReached if the amount already spent leaves too little.
        """
        if not self._lease.held():
            raise UserError(
                "this process could give no sign of life for long, so its part of the budget counts as spent; run the "
                "same command again"
            )
        wanted = amounts(estimate)
        enough = self._number and self._within(plus(plus(self._spent, self._reserved), wanted), self._given)
        if self._resting or not enough:
            if any(amount > TINY for amount in self._reserved.values()):
                return False  # the grant is ended when its calls have been settled
            self.rest()
            if not self._take(wanted):
                return False
        self._reserved = plus(self._reserved, wanted)
        return True

    def begin(self) -> None:
        """Do nothing, because all that a grant gives counts as spent until it is ended."""

    def settle(self, estimate: Usage, took: Usage, begun: int = 0) -> None:
        """Release a call's reservation and add its actual usage to the amount spent; `begun` is as in `Budget`."""
        self._reserved = plus(self._reserved, amounts(estimate), -1)
        self._spent = plus(self._spent, amounts(took))
        if self._resting or not self._within(plus(self._spent, dict.fromkeys(UNITS, 2 * TINY)), self._given):
            self.rest()  # nothing is left of it, which others need not wait to hear

    def rest(self) -> None:
        """End the grant, so that others may have what is left of it, as soon as no call is under way."""
        self._resting = bool(self._number)
        if self._number and not any(amount > TINY for amount in self._reserved.values()):
            self._resting = False
            write_json(self._folder / f"{self._number}.spent", self._spent)
            self._number, self._given, self._spent, self._reserved = 0, NOTHING, NOTHING, NOTHING

    def close(self) -> None:
        self.rest()
        self._lease.release()

    def _within(self, one: Mapping[str, float], other: Mapping[str, float]) -> bool:
        limits = self._limits._asdict()
        return all(limits[each] is None or one[each] <= other[each] + TINY for each in UNITS)

    def _take(self, wanted: Amounts) -> bool:
        """Make a grant for at least `wanted`. Return False if others have too much of the budget at present."""
        if time.monotonic() < self._look_at:
            return False
        while True:
            spent, open_ = dict(self._before), dict(NOTHING)
            number = self._counted + 1
            while (grant := self._read(number)) is not None:
                if grant.spent is not None or leases.holder(self._folder / grant.holder) is None:
                    spent = plus(spent, grant.spent or grant.given)
                else:
                    open_ = plus(open_, grant.given)
                number += 1
            reached(self._limits, spent, wanted)
            left = {each: (limit or 0) - spent[each] - open_[each] for each, limit in self._limits._asdict().items()}
            if not self._within(wanted, left):
                self._look_at, self._wait = time.monotonic() + self._wait, min(2 * self._wait, SELDOM)
                return False
            given = {
                each: min(left[each], max(AT_ONCE * wanted[each], left[each] / SHARE))
                if getattr(self._limits, each) is not None else 0.0
                for each in UNITS
            }  # fmt: skip
            if self._link(number, given):
                self._number, self._given, self._spent = number, given, dict(NOTHING)
                self._wait = LOOK
                return True

    def _read(self, number: int) -> _Grant | None:
        """Return a grant, or None if there is none of this number."""
        if number not in self._known:
            found = _read(self._folder, number)
            if found is None or found.spent is None:
                return found
            self._known[number] = found
        return self._known[number]

    def _link(self, number: int, given: Amounts) -> bool:
        """Make the file of a grant. Return False if another process was faster."""
        beside = self._folder / self._me / "grant.json"
        write_json(beside, {"holder": self._me, **given})
        try:
            os.link(beside, self._folder / str(number))
        except FileExistsError:  # a repeated request may be told that its own link exists
            found = _read(self._folder, number)
            return found is not None and found.holder == self._me
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
    known = budget.spent(account)[1]
    number, found = known, NOTHING
    while (grant := _read(folder, number + 1)) is not None:
        number, found = number + 1, plus(found, grant.spent or grant.given)
    if number > known:
        counting = Budget(account, Limits())
        counting.count(number, found)
        counting.close()
    shutil.rmtree(folder, ignore_errors=True)
    return True


def spent_and_granted(folder: Path, account: Path) -> Amounts:
    """Return what is spent, and granted at present."""
    found, number = budget.spent(account)
    while (grant := _read(folder, number + 1)) is not None:
        number, found = number + 1, plus(found, grant.spent or grant.given)
    return found


def _read(folder: Path, number: int) -> _Grant | None:
    path = folder / str(number)
    if not path.exists():
        return None
    content, ended = read_json(path), path.with_name(f"{number}.spent")
    try:
        holder = str(uuid.UUID(content.pop("holder")).hex)
        return _Grant(holder, checked(content), checked(read_json(ended)) if ended.exists() else None)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path} is not what this program wrote ({error}); restore it, or delete {folder} and set the spent "
            f"amounts in {folder.parent / 'budget.json'}"
        ) from None
