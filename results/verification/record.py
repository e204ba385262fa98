"""The result of a verification, stored in a leaderboard as verifications/DIGEST.json.

DIGEST is the SHA-256 of the submission's manifest.json, which contains the SHA-256 of every other file, so a record
applies only to exactly these bytes. Reading is strict, because a record may come from someone else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.files import write_json

SCHEMA = 1
FOLDER = "verifications"
"""Folder in a leaderboard's directory."""
LARGEST = 2**25
"""Most bytes of a record."""
LONGEST = 4_000
"""Most characters of a text in a record."""
MOST = 100_000
"""Most entries of a mapping or list in a record."""

Standing = Literal["verified", "disputed", "self-reported"]


@dataclass(frozen=True)
class Check:
    """One check of a verification."""

    what: str
    passed: bool | None
    """None if the check could not be made; `detail` says why."""
    detail: str


UNVERIFIED = "pictures not verified"
"""Label of a gallery whose episodes were not played again with the same actions and pictures."""


def gallery_check(seed: int) -> str:
    """Return the name of the check of a run's gallery."""
    return f"seed {seed}: pictures"


def is_of_gallery(check: Check) -> bool:
    """Return whether a check is one of a gallery, which says nothing of a run's numbers."""
    return check.what.endswith(": pictures")


@dataclass(frozen=True)
class Tally:
    """Successes in `episodes` greedy episodes, summed over a cell's runs."""

    successes: int
    episodes: int


@dataclass(frozen=True)
class CellVerdict:
    """Verdict on one cell."""

    standing: Standing
    reason: str
    """Why the cell is not verified; empty if it is."""
    checks: tuple[Check, ...]
    reported: Tally
    """Tally of the recorded final evaluations of the runs that were evaluated on new layouts."""
    renewed: Tally
    """Tally of the same checkpoints on new layouts."""


@dataclass(frozen=True)
class Verification:
    """A verification of a submission: settings, program and machine, and the verdict on each cell.

    A cell that is absent has not been checked; one with the standing `self-reported` could not be checked.
    """

    digest: str
    cells: Mapping[str, CellVerdict]
    """Cell id -> verdict."""
    seed: int
    """Seed of new layouts and samples, drawn for this verification unless the verifier chose it."""
    episodes: int
    """Episodes per run on new layouts"""
    calls: int
    """Recorded calls to repeat per model and cell"""
    runs: int | None
    """Most runs evaluated per cell; None means all."""
    tolerance: float
    """Share of a run's final episodes that may differ"""
    commit: str
    dirty: bool
    """Whether the working tree had uncommitted changes."""
    packages: Mapping[str, str]
    hardware: Mapping[str, str | int]
    schema: int = SCHEMA


def path_of(leaderboard: Path, digest: str) -> Path:
    """Return the path of a submission's verification; raise UserError if `digest` is not a SHA-256."""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UserError(f"{digest[:80]!r} is no digest of a submission; expected 64 hexadecimal digits")
    return leaderboard / FOLDER / f"{digest}.json"


def write(verification: Verification, leaderboard: Path) -> Path:
    """Write a verification into a leaderboard's directory, replacing an earlier one; return its path."""
    path = path_of(leaderboard, verification.digest)
    write_json(path, asdict(verification))
    return path


def read(leaderboard: Path, digest: str) -> Verification | None:
    """Return the verification of a submission, or None if there is none.

    Raises UserError naming the file and the content that `write` would not have written.
    """
    path = path_of(leaderboard, digest)
    if not path.is_file():
        return None
    return reader_process.call(f"{path}: reading it", reader_process.SECONDS, _read, path, digest, LARGEST)


def _read(path: Path, digest: str, most: int) -> Verification:
    try:
        if path.stat().st_size > most:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, more than {most:,}")
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_not_finite)
        found = _verification(content)
        if found.digest != digest:
            raise ValueError(f"it is of {found.digest}")
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(
            f"{path} is no record of `bench verify` ({str(error)[:300]}); remove it, and verify the submission anew"
        ) from None
    return found


def _verification(content: Any) -> Verification:
    values = _object(content, Verification)
    if values["schema"] != SCHEMA:
        raise ValueError(f"its schema is {values['schema']!r}, this version reads {SCHEMA}")
    runs = values["runs"]
    return Verification(
        digest=_text(values["digest"]),
        cells={_text(id): _verdict(verdict) for id, verdict in _mapping(values["cells"]).items()},
        seed=_count(values["seed"]),
        episodes=_count(values["episodes"]),
        calls=_count(values["calls"]),
        runs=None if runs is None else _count(runs),
        tolerance=_share(values["tolerance"]),
        commit=_text(values["commit"]),
        dirty=_truth(values["dirty"]),
        packages={_text(name): _text(version) for name, version in _mapping(values["packages"]).items()},
        hardware={
            _text(name): _count(value) if type(value) is int else _text(value)
            for name, value in _mapping(values["hardware"]).items()
        },
    )


def _verdict(content: Any) -> CellVerdict:
    values = _object(content, CellVerdict)
    if values["standing"] not in get_args(Standing):
        raise ValueError(f"standing is {values['standing']!r}; expected one of {', '.join(get_args(Standing))}")
    checks = values["checks"]
    if not isinstance(checks, list) or len(checks) > MOST:
        raise ValueError("checks are no list")
    reported, renewed = _tally(values["reported"]), _tally(values["renewed"])
    return CellVerdict(values["standing"], _text(values["reason"]), tuple(map(_check, checks)), reported, renewed)


def _check(content: Any) -> Check:
    values = _object(content, Check)
    passed = None if values["passed"] is None else _truth(values["passed"])
    return Check(_text(values["what"]), passed, _text(values["detail"]))


def _tally(content: Any) -> Tally:
    values = _object(content, Tally)
    found = Tally(_count(values["successes"]), _count(values["episodes"]))
    if found.successes > found.episodes:
        raise ValueError(f"{found.successes} successes in {found.episodes} episodes")
    return found


def _object(content: Any, kind: type) -> dict[str, Any]:
    """Return a JSON object that has exactly the fields of a dataclass; raise ValueError otherwise."""
    wanted = {field.name for field in fields(kind)}
    if not isinstance(content, dict) or content.keys() != wanted:
        raise ValueError(f"expected an object with {', '.join(sorted(wanted))}")
    return content


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MOST:
        raise ValueError(f"expected an object of at most {MOST:,} entries")
    return value


def _expect(fits: Callable[[Any], bool], words: str) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"{repr(value)[:80]}: expected {words}")
        return value

    return checked


_text = _expect(
    lambda value: isinstance(value, str) and value.isprintable() and len(value) <= LONGEST,
    f"printable text of at most {LONGEST:,} characters",
)
_count = _expect(lambda value: type(value) is int and 0 <= value < 2**63, "a whole number of at least 0")
_share = _expect(lambda value: type(value) in (int, float) and 0 <= value <= 1, "a number in [0, 1]")
_truth = _expect(lambda value: type(value) is bool, "true or false")


def _not_finite(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
