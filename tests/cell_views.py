"""Views of cells, for tests of parts that say whether they fit a cell."""

from collections.abc import Mapping
from typing import Any

from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import CellView

VECTOR = Observations((4,), "float32")
CHOICE = Actions(count=2)


def cell_view(
    parts: Mapping[str, Any] | None = None,
    task: str = "",
    observations: Observations = VECTOR,
    actions: Actions = CHOICE,
) -> CellView:
    """Return the view of a cell with these parts (section -> built configuration), on a task with these spaces."""
    return CellView(parts or {}, task, observations, actions)
