"""A paper's printed numbers, exact and by what identifies them, for tests that recompute what the paper derives from
them."""

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from guidebench.results import published


class PrintedNumbers:
    """The numbers of one paper, looked up by table, task, method, variant and metric, and its claims by name."""

    def __init__(self, paper: str) -> None:
        self.rows: list[Any] = list(published.load(paper).itertuples())
        self.claims: dict[str, Any] = {row.claim: row for row in published.claims(paper).itertuples()}
        self._values = {(r.table, r.task, r.method, r.variant, r.metric): Decimal(str(r.value)) for r in self.rows}

    def __call__(
        self, table: str, task: str, method: str, variant: str = "", metric: str = "success_percent"
    ) -> Decimal:
        """Return the one number with this table, task, method, variant and metric."""
        return self._values[table, task, method, variant, metric]

    def averages(self) -> list[Any]:
        """Return the rows that are averages of other rows."""
        return [row for row in self.rows if _several(row) and self.parts(row)]

    def parts(self, row: Any) -> list[Decimal]:
        """Return the numbers that a row averages: those of its table's single-task rows that differ from it only in
        task and goal."""
        return [
            Decimal(str(part.value))
            for part in self.rows
            if not _several(part)
            and (part.table, part.method, part.metric) == (row.table, row.method, row.metric)
            and _without_goal(part) == _without_goal(row)
        ]


def _several(row: Any) -> bool:
    return row.task == "all" or "," in row.task


def _without_goal(row: Any) -> dict[str, str]:
    return {key: value for key, value in published.variant(row.variant).items() if key != "goal"}


def mean(values: Iterable[Decimal]) -> Decimal:
    numbers = list(values)
    return sum(numbers, Decimal(0)) / len(numbers)


def round_half_up(value: Decimal, places: int = 2) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def list_of_numbers(values: Iterable[Decimal | int]) -> str:
    """Numbers as a note lists them.

    >>> listed([30, -5, 0])
    '30, −5 and 0'
    """
    *first, last = (f"{Decimal(v).normalize():f}".replace("-", "−") for v in values)
    return f"{', '.join(first)} and {last}" if first else last


def follows(row: Any, derived: Decimal, places: int) -> None:
    """Check that a printed number is the derived one, rounded, or that its note states what its parts give."""
    noted = re.search(r" give (-?[\d.]+)", row.note)
    value, expected = Decimal(str(row.value)), round_half_up(derived, places)
    assert expected == (Decimal(noted[1]) if noted else value) and (not noted or expected != value)
