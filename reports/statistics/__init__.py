"""Statistics of runs as tables of pandas, and by the library rliable; the functions of arrays are in
`guidebench.harness.statistics`."""

from guidebench.reports.statistics.ranking import ranks
from guidebench.reports.statistics.tables import aggregate

__all__ = ["aggregate", "ranks"]
