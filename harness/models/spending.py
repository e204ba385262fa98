"""What a study has spent on its models: the accounts under which its cassette records each request, and their sums.

Every request counts, from the moment before it is sent: those that failed, those whose answers a run never used because
it was stopped or killed, and those that a kill cut off, of which nothing but their number is known.
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
    """Who asked, and what for."""

    run: str
    """`CELL/SEED`; "" for a call that belongs to no run."""
    role: str
    """Role of the model in the cell; "" in records that were made before roles were recorded."""
    purpose: Purpose


def read_account(text: str) -> Account:
    """Return what an account's name says (`Asker.account`).

    >>> read_account("cell/3 planner"), read_account("before training").purpose
    (Account(run='cell/3', role='planner', purpose='runs'), 'first calls')
    """
    if text == FIRST_CALL:
        return Account("", "", "first calls")
    run, role, *rest = [*text.split(" "), "", ""]
    return Account(run, role, "probes" if PROBES in rest else "runs")


def spent(directory: Path, runs: Collection[str] = ()) -> dict[Account, Usage]:
    """Return what was spent by account, by the cassettes in a study's folder of recorded answers; only by `runs`
    (CELL/SEED), if some are given. Another study's cassette that this one reads has accounts of its own."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _spent(directory, runs)
        except UserError:
            if all(path.is_file() for path in files(directory)):
                raise  # else a shard was merged and removed between the listing and the look
    return _spent(directory, runs)


def _spent(directory: Path, runs: Collection[str]) -> dict[Account, Usage]:
    sums = ", ".join(f"SUM({name})" for name in Usage._fields)
    found: dict[Account, Usage] = {}
    for path in files(directory):
        with closing(opened(path)) as db, faults_of(path):
            for text, *took in db.execute(f"SELECT run, {sums} FROM spent GROUP BY run"):
                account = read_account(str(text))
                if not runs or account.run in runs:
                    found[account] = found.get(account, Usage()).plus(Usage(*took))
    return found


def by_purpose(accounts: Mapping[Account, Usage]) -> dict[Purpose, Usage]:
    """Return the sums for the answers of runs, for first calls and for probes; purposes without any are left out."""
    found = {purpose: Usage() for purpose in PURPOSES}
    for account, usage in accounts.items():
        found[account.purpose] = found[account.purpose].plus(usage)
    return {purpose: usage for purpose, usage in found.items() if any(usage)}
