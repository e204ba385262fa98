"""A study's spending on its models: the accounts under which its cassette records each request, and their sums.

Every request counts, from the moment before it is sent: also one that failed, one whose answer a run never used because
it was stopped or killed, and one that a kill cut off, of which only the number is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.calls.base import PROBES
from guidebench.harness.models.cassette import files
from guidebench.harness.models.cassette_file import faults_of, opened

FIRST_CALL = "before training"
"""Name of the account of the call that is made to each model before training begins."""
Purpose = Literal["runs", "first calls", "probes"]
PURPOSES: tuple[Purpose, ...] = ("runs", "first calls", "probes")
ATTEMPTS = 5
"""Most times that a study's files are read if others are merged and removed meanwhile."""


class Account(NamedTuple):
    """The run and role that made a call, and its purpose."""

    run: str
    """`CELL/SEED`; "" for a call that belongs to no run."""
    role: str
    """Role of the model in the cell; "" in records that were made before roles were recorded."""
    purpose: Purpose


def read_account(text: str) -> Account:
    """Parse the name of an account (`Ticket.account`).

    >>> read_account("cell/3 planner"), read_account("before training").purpose
    (Account(run='cell/3', role='planner', purpose='runs'), 'first calls')
    """
    if text == FIRST_CALL:
        return Account("", "", "first calls")
    run, role, *rest = [*text.split(" "), "", ""]
    return Account(run, role, "probes" if PROBES in rest else "runs")


def spent(directory: Path, runs: Collection[str] = ()) -> dict[Account, Usage]:
    """Return account -> usage spent, read from the cassettes in a study's folder of recorded answers. If `runs`
    (CELL/SEED) are given, return only their accounts. Another study's cassette that this one reads is not counted."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _spent(directory, runs)
        except UserError:
            if all(path.is_file() for path in files(directory)):
                raise  # else a shard was merged and removed between the listing and the look
    return _spent(directory, runs)


def _spent(directory: Path, runs: Collection[str]) -> dict[Account, Usage]:
    sums = ", ".join(f"SUM({name})" for name in Usage._fields)
    usage_of_account: dict[Account, Usage] = {}
    for path in files(directory):
        with closing(opened(path)) as db, faults_of(path):
            for text, *took in db.execute(f"SELECT run, {sums} FROM spent GROUP BY run"):
                account = read_account(str(text))
                if not runs or account.run in runs:
                    usage_of_account[account] = usage_of_account.get(account, Usage()).plus(Usage(*took))
    return usage_of_account


def by_purpose(accounts: Mapping[Account, Usage]) -> dict[Purpose, Usage]:
    """Return the sums for the answers of runs, for first calls and for probes; purposes without any are left out."""
    usage_of_purpose = {purpose: Usage() for purpose in PURPOSES}
    for account, usage in accounts.items():
        usage_of_purpose[account.purpose] = usage_of_purpose[account.purpose].plus(usage)
    return {purpose: usage for purpose, usage in usage_of_purpose.items() if any(usage)}
