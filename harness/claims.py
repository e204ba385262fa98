"""The claims of a study: what its runs are to show, written down before they run.

`claims.json` holds the claims, the settings of their rows, and the number of seeds. The seeds follow from a digest of
this content, so nobody can choose seeds that suit a claim, nor change a claim after seeing the runs of its seeds. The
study's directory holds a copy of the file, and study.json the cells of each row.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import content_of
from guidebench.harness.statistics import permutation
from guidebench.harness.statistics.curves import Timing

CLAIMS = "claims.json"
"""Name of the file in a study's directory."""
LARGEST = 2**20
"""Most bytes of the file."""
FIRST_SEED = 20_000
"""Seeds below are for development (to 9,999), and for pilots and tuning (from 10,000)."""
PILOT_SEEDS = 10_000
"""First seed of pilots and tuning."""
SEED_RANGE = 2_000_000_000
LEVELS = {1: 0.05, 2: 0.0294}
"""Number of looks at the runs -> level of the test at each of them, for an error of 5 % in all (Pocock 1977)."""
MOST_SEEDS = 100
"""Most seeds of a row."""
DIGESTED = ("claims", "difficulty", "settings", "n", "delta", "alpha", "looks", "pilot")
"""Fields whose digest gives the seeds."""

_WORDS = {
    "type": "array",
    "minItems": 1,
    "maxItems": 100,
    "items": {"type": "string", "minLength": 1, "maxLength": 400},
}
_ROW = {"anyOf": [_WORDS, {"type": "null"}]}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_SEEDS}
_AMOUNT = {"type": "number", "minimum": 0}
_CLAIM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["first", "second", "placebo", "score", "direction", "primary"],
    "properties": {
        "first": _WORDS,
        "second": _ROW,
        "placebo": _ROW,
        "score": {"type": "string", "pattern": f"^({'|'.join(get_args(Timing))}) .{{1,60}}$"},
        "direction": {"enum": ["higher", "lower"]},
        "primary": {"type": "boolean"},
    },
}
_GRID = {"type": "array", "minItems": 1, "maxItems": 100, "items": _WORDS}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": [*DIGESTED, "sigma", "hours"],
    "properties": {
        "claims": {"type": "array", "minItems": 1, "maxItems": 100, "items": _CLAIM},
        "difficulty": {"type": "string", "maxLength": 100},
        "settings": _WORDS,
        "n": _COUNT | {"minimum": 4},
        "delta": {"type": "number", "exclusiveMinimum": 0},
        "sigma": _AMOUNT,
        "alpha": {"const": 0.05},
        "looks": {"enum": [*LEVELS]},
        "pilot": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
        "hours": _AMOUNT,
        "tuning": {
            "type": "object",
            "additionalProperties": False,
            "required": ["seeds", "score", "grids", "chosen"],
            "properties": {
                "seeds": _COUNT,
                "score": {"type": "string"},
                "grids": {"type": "object", "minProperties": 1, "maxProperties": 20, "additionalProperties": _GRID},
                "chosen": {"type": "object", "additionalProperties": _WORDS},
            },
        },
    },
}
"""JSON schema of the file."""


class ClaimScore(NamedTuple):
    """A number of a run about which a claim speaks."""

    timing: Timing
    """Which evaluations count (`harness.statistics.evaluation_weights`)."""
    quantity: str
    """`score` (the task's score), `success`, `return`, or the name of an outcome that the task counts."""

    def __str__(self) -> str:
        return f"{self.timing} {self.quantity}"


def claim_score(text: str) -> ClaimScore:
    """Return the score that a text names, such as `late success`. Raise UserError for any other text.

    >>> claim_score("area success")
    ClaimScore(timing='area', quantity='success')
    """
    word, _, quantity = text.partition(" ")
    timings: tuple[Timing, ...] = get_args(Timing)
    timing = next((timing for timing in timings if timing == word), None)
    if timing is None or not quantity.strip():
        raise UserError(
            f"score {text!r}: expected one of {', '.join(timings)}, and a number of an evaluation episode (score, "
            f"success, return or an outcome of the task), such as 'late success'"
        )
    return ClaimScore(timing, quantity)


Row = tuple[str, ...]
"""Words of a command that describe a row, beyond the settings that all rows share."""


@dataclass(frozen=True)
class Claim:
    """One statement about rows: `first` differs from `second`, or a trend over the values that `first` sweeps."""

    first: Row
    second: Row | None
    """None for a trend."""
    placebo: Row | None
    """The row of `first` whose models answer without information, or None."""
    score: str
    """Text that `claim_score` reads."""
    direction: Literal["higher", "lower"]
    """The direction expected of `first`, or of the slope of a trend. Tests are two-sided all the same."""
    primary: bool

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for row in (self.first, self.second, self.placebo) if row is not None)


@dataclass(frozen=True)
class Tuning:
    """Grids of settings that were tried for some rows on tuning seeds, before any seed of the study ran."""

    seeds: int
    score: str
    grids: Mapping[str, tuple[Row, ...]]
    """Row, its words joined by a space -> the words that were tried for it."""
    chosen: Mapping[str, Row]
    """Row -> the words of its grid that did best; {} before `bench tune`."""

    @property
    def runs(self) -> int:
        """Return the number of runs that tuned each row."""
        return self.seeds * max(map(len, self.grids.values()))


@dataclass(frozen=True)
class Claims:
    """The content of claims.json."""

    claims: tuple[Claim, ...]
    difficulty: str
    """Name of the suite's difficulty whose words are among `settings`; "" if none."""
    settings: tuple[str, ...]
    """Words of a command that hold for all rows: suite, task, profile, settings."""
    n: int
    """Seeds of each row."""
    delta: float
    """A difference that `n` seeds find in 80 % of studies."""
    sigma: float
    """Upper bound of the deviation between seeds that `n` rests on."""
    pilot: str
    """Digest of the pilot's record (`harness/run/pilot.py`); "" without a pilot."""
    hours: float
    """Estimated hours of the study on the machine of the pilot."""
    alpha: float = 0.05
    looks: int = 1
    """2 if the runs are also looked at after half of the seeds."""
    tuning: Tuning | None = None

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the fields that the seeds follow from, as canonical JSON."""
        fields = self.as_json()
        digested = {name: fields[name] for name in DIGESTED}
        return hashlib.sha256(json.dumps(digested, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the `n` seeds of each row: seed i is 20,000 plus the first eight hexadecimal digits of
        SHA-256("digest:i") modulo 2,000,000,000."""
        hashes = (hashlib.sha256(f"{self.digest}:{i}".encode()).hexdigest() for i in range(self.n))
        return tuple(FIRST_SEED + int(digits[:8], 16) % SEED_RANGE for digits in hashes)

    @property
    def first_look(self) -> tuple[int, ...]:
        """Return the seeds of the first of two looks."""
        return self.seeds[: (self.n + 1) // 2]

    @property
    def level(self) -> float:
        """Return the error allowed to all claims together at one look."""
        return LEVELS[self.looks]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows of all claims without repetition, in the order of the claims."""
        return tuple(dict.fromkeys(row for claim in self.claims for row in claim.rows))

    def as_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        fields: dict[str, Any] = _with_lists(asdict(self))
        if self.tuning is None:
            del fields["tuning"]
        return fields


def key_of(row: Row) -> str:
    """Return the text under which records name a row.

    >>> key_of(("method=vlm_rb", "replay.lambda_max=0.5"))
    'method=vlm_rb replay.lambda_max=0.5'
    """
    return " ".join(row)


def read(path: Path) -> Claims:
    """Return the claims in a file. Raise UserError, with the place of the fault, for a file that does not fit."""
    try:
        text = content_of(path, LARGEST)
    except OSError as error:
        raise UserError(
            f"claims={path} cannot be read ({error.strerror}); name a file that bench pilot wrote"
        ) from None
    return parsed(text, str(path))


def parsed(text: bytes, subject: str) -> Claims:
    """Return the claims that a JSON text holds. Raise UserError, naming `subject`, if it does not fit the schema."""
    import jsonschema

    try:
        decoded = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{subject} is not JSON ({str(error)[:200]})") from None
    fault = next(jsonschema.Draft202012Validator(SCHEMA).iter_errors(decoded), None)
    if fault is not None:
        place = ".".join(map(str, fault.absolute_path)) or "the file"
        raise UserError(f"{subject}: {place} does not fit: {fault.message[:300]}")
    tuning = decoded.pop("tuning", None)
    claims = tuple(
        Claim(**{**claim, **{name: _row(claim[name]) for name in ("first", "second", "placebo")}})
        for claim in decoded.pop("claims")
    )
    record = Claims(**{**decoded, "claims": claims, "settings": tuple(decoded["settings"])})
    if tuning is not None:
        grids = {name: tuple(map(tuple, grid)) for name, grid in tuning["grids"].items()}
        chosen = {name: tuple(words) for name, words in tuning["chosen"].items()}
        record = replace(record, tuning=Tuning(tuning["seeds"], tuning["score"], grids, chosen))
    _check(record, subject)
    return record


def _with_lists(fields: Any) -> Any:
    """Return a JSON value with lists in place of tuples."""
    if isinstance(fields, dict):
        return {name: _with_lists(member) for name, member in fields.items()}
    return [_with_lists(member) for member in fields] if isinstance(fields, list | tuple) else fields


def _row(words: list[str] | None) -> Row | None:
    return None if words is None else tuple(words)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def _check(record: Claims, subject: str) -> None:
    """Raise UserError for claims that contradict each other or cannot be tested."""
    numbers = {"n": record.n, "looks": record.looks}
    if fractional := next((name for name, number in numbers.items() if type(number) is not int), None):
        raise UserError(f"{subject}: {fractional} is {numbers[fractional]!r}; write a whole number without a point")
    amounts = {"delta": record.delta, "sigma": record.sigma, "hours": record.hours}
    if vast := next((name for name, amount in amounts.items() if not math.isfinite(amount)), None):
        raise UserError(f"{subject}: {vast} is {amounts[vast]!r}; write a finite number")
    if not any(claim.primary for claim in record.claims):
        raise UserError(f"{subject}: no claim is primary; mark the claim that the study is made for with primary: true")
    words = [record.difficulty, *record.settings, *(word for row in record.rows for word in row)]
    if unprintable := next((word for word in words if not word.isprintable()), None):
        raise UserError(f"{subject}: {unprintable!r} holds characters that cannot be printed; write plain text")
    for number, claim in enumerate(record.claims):
        claim_score(claim.score)
        if len(set(claim.rows)) < len(claim.rows):
            raise UserError(f"{subject}: claims.{number} compares {key_of(claim.first)!r} with itself")
        if claim.second is None and claim.placebo is not None:
            raise UserError(f"{subject}: claims.{number} is a trend (second: null), which has no placebo")
    _check_seeds(record, subject)
    if record.tuning is not None:
        _check_tuning(record, record.tuning, subject)


def _check_seeds(record: Claims, subject: str) -> None:
    """Raise UserError if so few seeds could show nothing at the level of a primary claim, at any look."""
    level = record.level / sum(claim.primary for claim in record.claims)
    fewest = min(record.n, len(record.first_look)) if record.looks > 1 else record.n
    smallest = permutation.smallest_p(fewest, fewest)
    if smallest > level + permutation.ROUNDING:
        look = " of the first look" if record.looks > 1 else ""
        raise UserError(
            f"{subject}: n={record.n} cannot show a primary claim: {fewest} seeds a row{look} have no p value below "
            f"{smallest:.3g}, and a claim needs {level:.3g}; raise n, or lower the number of primary claims or looks"
        )


def _check_tuning(record: Claims, tuning: Tuning, subject: str) -> None:
    """Raise UserError for grids of unequal size, for equal entries, for those of a row that no claim has, and for a row
    that is tuned while the row that it is compared with is not. After `bench tune`, rows hold the chosen words."""
    claim_score(tuning.score)
    rows = {key_of(row) for row in record.rows}
    tuned_rows = {name: key_of((name, *tuning.chosen.get(name, ()))) for name in (*tuning.grids, *tuning.chosen)}
    if strange := next((name for name, row in tuned_rows.items() if row not in rows), None):
        raise UserError(f"{subject}: tuning has {strange!r}, which is no row of a claim ({', '.join(sorted(rows))})")
    sizes = {name: len(grid) for name, grid in tuning.grids.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise UserError(
            f"{subject}: the grids of tuning have unequal sizes ({listed}); give each row as many runs as the others"
        )
    if repeated := next((name for name, grid in tuning.grids.items() if len(set(grid)) < len(grid)), None):
        raise UserError(f"{subject}: the grid of {repeated!r} has an entry twice; write each entry once")
    with_grids = {tuned_rows[name] for name in tuning.grids}
    for claim in record.claims:
        sides = [key_of(row) for row in (claim.first, claim.second) if row is not None]
        if lacking := [side for side in sides if side not in with_grids and not with_grids.isdisjoint(sides)]:
            raise UserError(
                f"{subject}: tuning has no grid for {lacking[0]!r}, which is compared with a row that is tuned; give "
                f"it a grid of as many entries"
            )


def rows_of(recorded: object, record: Claims, subject: str) -> dict[str, tuple[str, ...]]:
    """Return row -> ids of its cells from the entry `claims` of study.json. Raise UserError, naming `subject`, for an
    entry of other claims and for one that lacks a row."""
    fields = recorded if isinstance(recorded, dict) else {}
    if fields.get("digest") != record.digest:
        raise UserError(
            f"{subject} records claims with the digest {str(fields.get('digest'))[:64]!r}, and its {CLAIMS} has "
            f"{record.digest}; restore the file that the study ran with"
        )
    ids = fields.get("rows")
    rows: dict[str, tuple[str, ...]] = {}
    for row in record.rows:
        cells = ids.get(key_of(row)) if isinstance(ids, dict) else None
        if not isinstance(cells, list) or not cells or not all(isinstance(cell, str) for cell in cells):
            raise UserError(f"{subject} names no cells of the row {key_of(row)!r} of its claims; type the same command")
        rows[key_of(row)] = tuple(cells)
    return rows
