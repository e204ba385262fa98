"""Plans the study of a file of claims: the cells of every row, and the seeds that follow from the claims' digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from guidebench.harness import claims, settings
from guidebench.harness.capabilities import HasOutcomes
from guidebench.harness.claims import Claims, Row, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution, Models
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.grammar import Override, parse
from guidebench.harness.plan.matrix import Plan

CLAIMS, LOOK = "claims", "look"
"""Words of a command: the file of claims, and `look=1`, which runs only the seeds of the first of two looks."""
ANSWERS = "models.placebo"
"""Word of a row whose value is a path relative to the file of claims."""


@dataclass(frozen=True)
class PlannedClaims:
    """The claims of a plan, and its cells of their rows."""

    record: Claims
    path: Path
    rows: Mapping[str, tuple[str, ...]]
    """Row, its words joined by a space -> ids of its cells."""

    def as_json(self) -> dict[str, object]:
        """Return the entry of study.json."""
        return {"digest": self.record.digest, "rows": {row: list(cells) for row, cells in self.rows.items()}}


def plan(overrides: Sequence[str]) -> Plan:
    """Return the plan of a command that names `claims=FILE`, beside execution settings and perhaps `look=1`.

    Raise UserError for a file that does not fit, for a word that describes cells or seeds, which the claims fix, and
    for a row that is refused.
    """
    words = {override.key: override for override in parse(overrides)}
    if strange := next((key for key in words if not is_execution_word(key)), None):
        raise UserError(
            f"{strange}= is given beside claims=, but the claims fix what is run and its seeds; leave it out, or write "
            f"another file with bench pilot"
        )
    path = Path(str(words[CLAIMS].values[0]))
    record = claims.read(path)
    seeds = _seeds(record, words.get(LOOK))
    others = [word for word in overrides if word.partition("=")[0] not in (CLAIMS, LOOK)]
    plans = {key_of(row): row_plan(record.settings, row, seeds, others, path.parent) for row in record.rows}
    for number, claim in enumerate(record.claims):
        _check_trend(number, claim.first, claim.second, plans[key_of(claim.first)])
        for row in claim.rows:
            _check_score(number, claim.score, plans[key_of(row)].cells[0])
    cells = {cell.id: cell for row in plans.values() for cell in row.cells}
    rows = {name: tuple(cell.id for cell in row.cells) for name, row in plans.items()}
    if repeated := next((name for name, ids in rows.items() if [*rows.values()].count(ids) > 1), None):
        raise UserError(f"claims={path}: the row {repeated!r} has the same cells as another row; it compares nothing")
    first = next(iter(plans.values()))
    return replace(
        first,
        cells=tuple(cells.values()),
        command=("bench", "run", *overrides),
        claims=PlannedClaims(record, path, rows),
    )


def row_plan(shared: Sequence[str], row: Row, seeds: Sequence[int], others: Sequence[str], folder: Path) -> Plan:
    """Return the plan of one row. `shared`: words of all rows, whose settings apply where a cell has them and which the
    row's own words replace; `others`: execution words; `folder`: where the paths of the row begin."""
    names = [word for word in shared if "." not in word.partition("=")[0]]
    layer = {override.key: override.values[0] for override in parse([word for word in shared if word not in names])}
    row_keys = {word.partition("=")[0] for word in row}
    words = [word for word in names if word.partition("=")[0] not in row_keys]
    seed_word = f"seeds=[{','.join(map(str, seeds))}]"
    return matrix.plan(
        [*words, *(_placed(word, folder) for word in row), seed_word, *others],
        {key: layer[key] for key in layer.keys() - row_keys},
    )


def _placed(word: str, folder: Path) -> str:
    """Return a word of a row whose path, if it has one, begins at the present directory."""
    key, _, path = word.partition("=")
    return f"{key}={folder / path}" if key == ANSWERS and not Path(path).is_absolute() else word


def _seeds(record: Claims, look: Override | None) -> tuple[int, ...]:
    if look is None:
        return record.seeds
    if record.looks < 2:
        raise UserError("look= is given, but the claims declare one look (looks: 1); leave it out")
    if look.values != (1,):
        raise UserError(f"{LOOK}={settings.show(look.values[0])}: expected 1, the look at half of the seeds")
    return record.first_look


def _check_trend(number: int, first: Row, second: Row | None, row: Plan) -> None:
    """Raise UserError for a trend without several values, and for a row of a comparison that has several cells on a
    task."""
    several = len(row.cells) > len({(cell.names.suite, cell.names.task) for cell in row.cells})
    if second is None and len(row.cells) < 3:
        raise UserError(f"claims.{number} is a trend of {key_of(first)!r}, which sweeps fewer than three values")
    if second is not None and several:
        raise UserError(f"claims.{number} compares {key_of(first)!r}, which sweeps a setting; name one value")


def _check_score(number: int, text: str, cell: Cell) -> None:
    """Raise UserError for a claim on a number that the evaluations of a cell do not have."""
    quantity = claims.claim_score(text).quantity
    quantities = ("score", "success", "return", cell.score.name)
    if quantity in quantities:
        return
    task = cell.section("suite").make(cell.names.task)
    task.reset(0)
    outcomes = tuple(task.outcomes()) if isinstance(task, HasOutcomes) else ()
    if quantity not in outcomes:
        names = ", ".join(dict.fromkeys((*quantities, *outcomes)))
        raise UserError(
            f"claims.{number} is on {text!r}, but evaluations of {cell.names.suite}/{cell.names.task} have no "
            f"{quantity!r}; they have {names}"
        )


def is_execution_word(key: str) -> bool:
    """Return whether a word says how a study is executed."""
    section, _, name = key.partition(".")
    if section == "models":
        return name in settings.fields(Models)
    return section in matrix.NESTED.values() if name else key in (CLAIMS, LOOK, *settings.fields(Execution))
