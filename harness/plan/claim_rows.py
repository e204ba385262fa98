"""Plans the study of a file of claims: the cells of every row, and the seeds that follow from the claims' digest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from guidebench.harness import claims, registry, settings
from guidebench.harness.capabilities import HasOutcomes
from guidebench.harness.claims import Claim, Claims, Row, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution, Models
from guidebench.harness.plan import config, difficulties, matrix
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
    check_settings(record.settings, [*plans.values()])
    for number, claim in enumerate(record.claims):
        for row in claim.rows:
            _check_cells(number, claim, row, plans[key_of(row)])
            for cell in plans[key_of(row)].cells:
                _check_score(number, claim.score, cell)
    _check_difficulty(record, {cell.names.suite for row in plans.values() for cell in row.cells})
    rows = {name: tuple(cell.id for cell in row.cells) for name, row in plans.items()}
    if repeated := next((name for name, ids in rows.items() if [*rows.values()].count(ids) > 1), None):
        raise UserError(f"claims={path}: the row {repeated!r} has the same cells as another row; it compares nothing")
    return replace(
        joined([*plans.values()]), command=("bench", "run", *overrides), claims=PlannedClaims(record, path, rows)
    )


def joined(plans: Sequence[Plan]) -> Plan:
    """Return one plan of the cells of several with the same seeds, each once, so that workers stay busy over all."""
    cells = {cell.id: cell for plan in plans for cell in plan.cells}
    return replace(plans[0], cells=tuple(cells.values()))


def row_plan(shared: Sequence[str], row: Row, seeds: Sequence[int], others: Sequence[str], folder: Path) -> Plan:
    """Return the plan of one row. `shared`: words of all rows, whose settings apply where a cell has them and which the
    row's own words replace; `others`: execution words; `folder`: where the paths of the row begin."""
    layer = settings_of(shared)
    names = [word for word in shared if word.partition("=")[0] not in layer]
    row_keys = {word.partition("=")[0] for word in row}
    words = [word for word in names if word.partition("=")[0] not in row_keys]
    seed_word = f"seeds=[{','.join(map(str, seeds))}]"
    return matrix.plan(
        [*words, *(_placed(word, folder) for word in row), seed_word, *others],
        {key: layer[key] for key in layer.keys() - row_keys},
    )


def settings_of(shared: Sequence[str]) -> dict[str, object]:
    """Return the settings among shared words, `section.field` -> value. Raise UserError for one that is given twice or
    sweeps, and for a word that says how a study is executed."""
    overrides = parse(shared)
    layer: dict[str, object] = {}
    for override in overrides:
        if sum(other.key == override.key for other in overrides) > 1:
            raise UserError(f"{override.key}= is there twice among the settings of all rows; write it once")
        if override.sweep:
            raise UserError(f"{override.key}= has several values, but the settings of all rows are one each")
        if is_execution_word(override.key):
            raise UserError(f"{override.key}= says how a study is executed; give it to bench run, beside claims=")
        if "." in override.key and not override.key.startswith(matrix.PREFIX):
            layer[override.key] = override.values[0]
    return layer


def check_settings(shared: Sequence[str], plans: Sequence[Plan]) -> None:
    """Raise UserError for a shared setting that no cell of any row has, unless it is one of a named part, such as
    `learner.td3.hidden`, which holds where that part is used."""
    layer = settings_of(shared)
    cells = [cell for row in plans for cell in row.trained]
    for key in layer:
        if not any(cell.settings.keys() & config.targets(cell.names, layer, key) for cell in cells):
            if _of_a_named_part(key):
                continue
            raise UserError(
                f"{key}= is among the settings of all rows, but no row has it; `bench show` prints settings"
            )


def _of_a_named_part(key: str) -> bool:
    """Return whether a key is KIND.PART.SETTING of a registered part that has the setting."""
    kind, _, rest = key.partition(".")
    part, _, name = rest.partition(".")
    return kind in registry.KINDS and part in registry.names(kind) and name in settings.fields(registry.get(kind, part))


def _placed(word: str, folder: Path) -> str:
    """Return a word of a row whose path, if it has one, begins at the present directory."""
    key, _, text = word.partition("=")
    if key != ANSWERS and not key.endswith(".source"):
        return word
    path = Path(text).expanduser()
    return f"{key}={path if path.is_absolute() else folder / path}"


def _seeds(record: Claims, look: Override | None) -> tuple[int, ...]:
    if look is None:
        return record.seeds
    if record.looks < 2:
        raise UserError("look= is given, but the claims declare one look (looks: 1); leave it out")
    if look.values != (1,):
        raise UserError(f"{LOOK}={settings.show(look.values[0])}: expected 1, the look at half of the seeds")
    return record.first_look


def _check_cells(number: int, claim: Claim, row: Row, plan: Plan) -> None:
    """Raise UserError for a trend of fewer than three values on a task, for a row of a comparison that has several
    cells on a task, and for an area under a curve of one evaluation."""
    tasks = Counter((cell.names.suite, cell.names.task) for cell in plan.cells)
    if claim.second is None and min(tasks.values()) < 3:
        raise UserError(f"claims.{number} is a trend of {key_of(row)!r}, which sweeps fewer than three values")
    if claim.second is not None and max(tasks.values()) > 1:
        raise UserError(f"claims.{number} compares {key_of(row)!r}, which sweeps a setting; name one value")
    for cell in plan.cells:
        every = int(cell.settings["evaluation.every"].value)
        if claim.score.startswith("area") and every >= cell.steps:
            raise UserError(
                f"claims.{number} is on {claim.score!r}, but evaluation.every={every} leaves one evaluation of "
                f"{key_of(row)!r} in {cell.steps} steps, which has no area; evaluate more often"
            )


def _check_difficulty(record: Claims, suites: set[str]) -> None:
    """Raise UserError for a difficulty that the suite lacks, or whose words are not among the settings."""
    if not record.difficulty:
        return
    keys = {word.partition("=")[0] for word in record.settings}
    for suite in suites:
        for key, cited in difficulties.content(suite, record.difficulty).items():
            if key not in keys:
                word = f"{key}={settings.show(cited.value)}"
                raise UserError(
                    f"the claims name the difficulty {record.difficulty!r}, whose word {word} is not among their "
                    f"settings; add it, or set difficulty to an empty text"
                )


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
