"""Estimates of a plan: its hours on this machine, with an interval, and its calls to models.

The duration of a cell is estimated from the best available basis: a recorded run on this machine, some of its steps
timed here, or operation counts that its parts declare, scaled by the timings of other cells. Callers import this
package only, so that there is one number for each cell.
"""

from guidebench.harness.run.estimates.hours import SPREAD, Span, core_hours, elapsed, slowdown
from guidebench.harness.run.estimates.jobs import COUNTED, MANY, Cost, cached_costs, completed, costs, packed
from guidebench.harness.run.estimates.measuring import measure, timed
from guidebench.harness.run.estimates.operations import counted
from guidebench.harness.run.estimates.timings import Setup, Timing, cached, cached_timing, keep, record_run
from guidebench.harness.run.estimates.trial import Nowhere, Silent, Trial
from guidebench.harness.run.estimates.usage import all_questions, by_model, priced, questions

__all__ = [
    "COUNTED",
    "MANY",
    "SPREAD",
    "Cost",
    "Nowhere",
    "Setup",
    "Silent",
    "Span",
    "Timing",
    "Trial",
    "all_questions",
    "by_model",
    "cached",
    "cached_costs",
    "cached_timing",
    "completed",
    "core_hours",
    "costs",
    "counted",
    "elapsed",
    "keep",
    "measure",
    "packed",
    "priced",
    "questions",
    "record_run",
    "slowdown",
    "timed",
]
