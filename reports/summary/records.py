"""Records of logs by the cell that wrote them, and rows by their task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from guidebench.harness.grouping import grouped
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd


class CellLog(NamedTuple):
    """The records of one cell in a log, with the label of its row."""

    cell: CellRecord
    label: str
    records: pd.DataFrame

    @property
    def task_id(self) -> str:
        """Return the name SUITE/TASK."""
        return self.cell.task_id

    @property
    def runs(self) -> list[pd.DataFrame]:
        """Return the records of each run, in the order of seeds."""
        return [run for _, run in self.records.groupby("seed")]


class _OfTask(Protocol):
    @property
    def task_id(self) -> str: ...


T = TypeVar("T", bound=_OfTask)


def by_cell(cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str]) -> list[CellLog]:
    """Return the records of each cell that has any. `rows`: records of a log; `labels`: cell id -> row label."""
    logs = (CellLog(cell, labels.get(cell.id, cell.label), of_cell(rows, cell.id)) for cell in cells)
    return [log for log in logs if len(log.records)]


def of_cell(rows: pd.DataFrame, cell: str, seed: Any = None) -> pd.DataFrame:
    """Return those of some records that a cell wrote, or one run of it."""
    cell_rows = rows[rows["cell"] == cell]
    return cell_rows if seed is None else cell_rows[cell_rows["seed"] == seed]


def by_task(rows: Iterable[T]) -> dict[str, list[T]]:
    """Return task -> its rows, in the order in which tasks first occur."""
    return grouped(rows, lambda row: row.task_id)


def value_of(setting: Any) -> Any:
    """Return the value of a recorded setting, which has the layer that set it beside it."""
    return setting.get("value") if isinstance(setting, Mapping) else setting
