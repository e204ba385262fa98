"""What a leaderboard says, as data: the page shows a `Board`, and `leaderboard.json` is one.

A score lies in the range of its `measure`; an interval's ends are null where a single run gives none. Rows of different
tabs are never ranked together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from guidebench.results.verification.record import Check, Standing

BOARD_VERSION = 1

Tab = Literal["paper", "quick", "scripted", "smoke", "other"]
TABS: Mapping[Tab, str] = {
    "paper": "the paper's budget, models asked for real",
    "quick": "shortened budgets and smaller networks, models asked for real",
    "scripted": "a hand-written model or an oracle answers: it knows the task, so these check the instrument",
    "smoke": "seconds of training: shows that it runs, and nothing else",
    "other": "profiles of other names, as of runs made elsewhere; none of them is ranked",
}
"""Tab -> what its rows have in common, in the order in which they are shown."""


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of its 95 % interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Measure:
    """What a score is: `guidebench.harness.interfaces.Score`, as the suite names it."""

    name: str
    direction: str
    """"higher" or "lower", whichever is better."""
    low: float | None
    """Ends of its range; null where they are not known."""
    high: float | None


SUCCESS = Measure("success", "higher", 0.0, 1.0)


@dataclass(frozen=True)
class Entry:
    """One configuration on one suite: a line of the table."""

    id: str
    """Unique on the board, of letters, digits and `-`; part of links."""
    suite: str
    tab: Tab
    profile: str
    label: str
    """Row name, with model and profile."""
    method: str
    learner: str
    backend: str
    model: str
    score: Estimate
    """IQM of the final score over runs and tasks."""
    mean: Estimate
    board: str
    """The task that it is ranked on alone; empty where all of the suite's tasks count, and for a row listed apart."""
    rank: int | None
    """1 + the number of ranked rows that are better by the test at 5 %; equal ranks are ties. None: listed apart."""
    rank_low: int | None
    """Best place within the 95 % interval, which is corrected for the number of rows."""
    rank_high: int | None
    apart: str
    """Why it is not ranked; empty for a ranked row."""
    seeds: tuple[int, ...]
    """Those that every task has."""
    tasks: tuple[str, ...]
    steps: int
    """Environment steps of a run (the longest task's)."""
    episodes: int
    """Of the final evaluation of a run, the fewest."""
    calls: int | None
    """Calls to foundation models, as if none had been cached, over all runs; None where none is asked."""
    usd: float | None
    hardware: tuple[str, ...]
    standing: Standing
    protocol: str
    """Version of suite and record."""
    source: str
    """The study or submission that it comes from."""
    measure: Measure = SUCCESS
    """What its score is; over tasks of different scores each is put on a scale from 0, the worst, to 1, the best."""
    conditions: str = ""
    """Settings of the suite, and demonstrations, that differ from what suite and profile say: rows are ranked only with
    those of the same."""


@dataclass(frozen=True)
class Curve:
    """IQM over runs and tasks of the score at each of `x`, in `unit`."""

    unit: str
    x: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    of: str = "success rate"
    """What the axis is called."""
    share: bool = True
    """Whether values lie between 0 and 1."""

    @property
    def key(self) -> str:
        """Curves that share it share their axes."""
        return f"{self.of} over {self.unit}"


@dataclass(frozen=True)
class TaskScore:
    """One task of an entry."""

    task: str
    score: Estimate
    mean: Estimate
    returns: Estimate
    """Mean return of the final evaluation."""
    final: tuple[float, ...]
    """Final score of each of the entry's seeds, in their order."""
    curve: Curve
    measure: Measure = SUCCESS


@dataclass(frozen=True)
class Variation:
    """An ablation or perturbation of an entry, on one task."""

    kind: str
    """"ablation" or "perturbation"."""
    name: str
    task: str
    score: Estimate
    difference: Estimate
    """Final score less the entry's own."""


@dataclass(frozen=True)
class Setting:
    """A value of the configuration and the layer that set it."""

    name: str
    value: str
    layer: str


@dataclass(frozen=True)
class Frames:
    """A sample of what a model was shown."""

    caption: str
    png: str
    """Base64."""


@dataclass(frozen=True)
class Origin:
    """What some of the runs were made with."""

    commit: str
    packages: str
    hardware: str
    runs: int


@dataclass(frozen=True)
class Details:
    """What opening a row shows."""

    tasks: tuple[TaskScore, ...]
    curve: Curve
    variations: tuple[Variation, ...]
    frames: tuple[Frames, ...]
    settings: tuple[Setting, ...]
    origins: tuple[Origin, ...]
    runs: tuple[str, ...]
    """Run directories, relative to the source."""
    bibtex: str
    checks: tuple[Check, ...]
    """Of its verification; empty for a row that nobody verified."""


@dataclass(frozen=True)
class Suite:
    """A suite that has rows."""

    name: str
    title: str
    version: int


@dataclass(frozen=True)
class Refused:
    """A source, or a part of one, that is not shown."""

    source: str
    reason: str


@dataclass(frozen=True)
class Board:
    """The whole page."""

    title: str
    commit: str
    """Of the program that made it."""
    minimum: str
    """What a row needs to be ranked, in words."""
    few: str
    """What few seeds do to ranks, in words."""
    suites: tuple[Suite, ...]
    entries: tuple[Entry, ...]
    details: Mapping[str, Details]
    """Entry id -> what opening it shows."""
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = field(default=BOARD_VERSION)


def plain(board: Board) -> dict[str, Any]:
    """The board as JSON has it."""
    return asdict(board)
