"""What a verification found, as a file of a leaderboard: verifications/DIGEST.json.

DIGEST is the SHA-256 of the submission's manifest.json, which names every other file by its own: a record says nothing
of any other bytes. Reading is strict, since such a file may be handed around too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import write_json

SCHEMA = 1
FOLDER = "verifications"
"""Of a leaderboard's directory."""
LARGEST = 2**25
"""Bytes of a record."""
LONGEST = 4_000
"""Characters of a text in it."""
MOST = 100_000
"""Entries of a mapping or list in it."""

Standing = Literal["verified", "disputed", "self-reported"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    passed: bool | None
    """None: it could not be made, and `detail` says why."""
    detail: str


@dataclass(frozen=True)
class Tally:
    """Successes of a cell's runs together, in `episodes` greedy episodes."""

    successes: int
    episodes: int


@dataclass(frozen=True)
class CellVerdict:
    """What became of one cell."""

    standing: Standing
    reason: str
    """Why it is not verified; empty for one that is."""
    checks: tuple[Check, ...]
    reported: Tally
    """Of the final evaluations on record, of the runs that were played on new layouts."""
    renewed: Tally
    """Of the same checkpoints on new layouts."""


@dataclass(frozen=True)
class Verification:
    """A submission as it was verified: settings, program and machine, and the verdict on each cell.

    A cell that is not in it has not been looked at; one whose standing is `self-reported` could not be.
    """

    digest: str
    cells: Mapping[str, CellVerdict]
    """Cell id -> verdict."""
    seed: int
    """Of the new layouts and of what was sampled; drawn for this verification unless the verifier named it."""
    episodes: int
    """On new layouts, of each run."""
    calls: int
    """Recorded model calls to be asked again, of each cell."""
    runs: int | None
    """Most runs of a cell that were played; None: all."""
    tolerance: float
    """Share of a run's final episodes that may come out otherwise."""
    commit: str
    dirty: bool
    """Whether the program differed from that commit."""
    packages: Mapping[str, str]
    hardware: Mapping[str, str | int]
    schema: int = SCHEMA


def path_of(leaderboard: Path, digest: str) -> Path:
    """Where the verification of a submission lies; UserError for what is no SHA-256."""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UserError(f"{digest[:80]!r} is no digest of a submission; expected 64 hexadecimal digits")
    return leaderboard / FOLDER / f"{digest}.json"


def write(verification: Verification, leaderboard: Path) -> Path:
    """Write it into a leaderboard's directory, over an earlier one of the same submission; where."""
    path = path_of(leaderboard, verification.digest)
    write_json(path, asdict(verification))
    return path


def read(leaderboard: Path, digest: str) -> Verification | None:
    """The verification of a submission, None where nobody verified it.

    UserError naming the file, and what in it `write` would not have written.
    """
    path = path_of(leaderboard, digest)
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, more than {LARGEST:,}")
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
    """The entries of an object that has exactly the fields of a dataclass."""
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
