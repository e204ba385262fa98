"""The contents of a leaderboard as data: the page shows a `Board`, and `leaderboard.json` is its JSON form.

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
    "scripted": "a hand-written model, an oracle, a placebo or equal probabilities answer: the first two know the "
    "task, and the others nothing of the question, so these check the instrument",
    "smoke": "seconds of training: shows that it runs, and nothing else",
    "other": "profiles of other names, as of runs made elsewhere; none of them is ranked",
}
"""Tab -> what its rows have in common, in display order."""
Pictures = Literal["", "pictures verified", "pictures not verified"]


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of its 95 % interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Measure:
    """The definition of a score: `guidebench.harness.interfaces.Score`, as the suite names it."""

    name: str
    direction: str
    """The better direction: "higher" or "lower"."""
    low: float | None
    """Ends of the score's range; null where unknown."""
    high: float | None


SUCCESS = Measure("success", "higher", 0.0, 1.0)


@dataclass(frozen=True)
class Entry:
    """One configuration on one suite, which is one row of the table."""

    id: str
    """Id, unique on the board, of letters, digits and `-`; used in links."""
    suite: str
    tab: Tab
    profile: str
    label: str
    """Row name, including model and profile."""
    method: str
    learner: str
    backend: str
    model: str
    score: Estimate
    """IQM of the final score over runs and tasks."""
    mean: Estimate
    board: str
    """The only task that the row is ranked on; empty if all of the suite's tasks count, and for an unranked row."""
    rank: int | None
    """1 + the number of ranked rows that are better by the test at 5 %; equal ranks are ties. None for an unranked
    row."""
    rank_low: int | None
    """Best possible rank within the 95 % interval, which is corrected for the number of rows."""
    rank_high: int | None
    apart: str
    """Why it is not ranked; empty for a ranked row."""
    seeds: tuple[int, ...]
    """Seeds that every task has."""
    tasks: tuple[str, ...]
    steps: int
    """Environment steps of a run on the longest task."""
    episodes: int
    """Fewest episodes in the final evaluation of a run."""
    calls: int | None
    """Calls to foundation models over all runs, counted as if none had been cached; None if it calls no model."""
    usd: float | None
    hardware: tuple[str, ...]
    standing: Standing
    protocol: str
    """Version of the suite in the record."""
    source: str
    """Name of the study or submission that it comes from."""
    measure: Measure = SUCCESS
    """Definition of its score. Different scores of several tasks are rescaled to 0 (worst) to 1 (best)."""
    conditions: str = ""
    """Suite settings and demonstrations that differ from the suite's and profile's defaults; rows are ranked only among
    rows with the same conditions."""
    beneath: str = ""
    """Id of the row of the same configuration that holds the rank; empty for any other row."""
    relation: str = ""
    """What it is to that row: "replication" (repeated with other code, packages or machine) or "further seeds"."""
    pictures: Pictures = ""
    """Whether a verification has played all episodes that the row shows again; empty for a row that shows none, and for
    one of a study here, whose pictures nobody handed in."""
    name: str = ""
    """Name in its table, which says only what differs between the rows there; empty where that is the label."""
    shared: str = ""
    """Overrides that all rows of its table have and neither their names nor `conditions` repeat."""

    def table(self, home: Entry | None) -> tuple[object, ...]:
        """Return what the rows of one table of the page have in common, (whether they are ranked, …). `home`: the row
        that this one stands beneath, if any."""
        head = home or self
        if head.rank is None:
            return False, self.suite, self.tab
        return True, head.suite, head.tab, head.profile, head.board, head.measure, head.conditions


@dataclass(frozen=True)
class Curve:
    """IQM over runs and tasks of the score at each of `x`, in `unit`."""

    unit: str
    x: tuple[float, ...]
    value: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    of: str = "success rate"
    """Label of the axis."""
    share: bool = True
    """Whether values lie between 0 and 1."""

    @property
    def key(self) -> str:
        """Id of shared axes; curves with the same id share their axes."""
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
    error: float | None = None
    """Standard error of `score` from episodes alone; None where it is not known."""


@dataclass(frozen=True)
class Variation:
    """An ablation or perturbation of an entry, on one task."""

    kind: str
    """"ablation" or "perturbation"."""
    name: str
    task: str
    score: Estimate
    difference: Estimate
    """Its final score minus the entry's."""


@dataclass(frozen=True)
class Setting:
    """A value of the configuration and the layer that set it."""

    name: str
    value: str
    layer: str


@dataclass(frozen=True)
class Frames:
    """A sample of the frames that a model saw."""

    caption: str
    png: str
    """PNG in base64."""


@dataclass(frozen=True)
class Film:
    """An animated episode of the final policy."""

    title: str
    """How it ended."""
    about: str
    """Task, seed, episode, return, and how many of its frames are drawn."""
    words: tuple[tuple[int, str], ...]
    """Steps of the episode, and what models said from there on."""
    left_out: int
    """Captions left out for lack of room."""
    webp: str
    """WebP in base64, encoded anew by this program."""


@dataclass(frozen=True)
class Films:
    """Episodes of the final policy, failures first."""

    told: tuple[str, ...]
    """Which evaluations they were chosen from, and of how many episodes; one text for each run."""
    films: tuple[Film, ...]
    pictures: Pictures = ""
    """As in `Entry`."""
    verification: tuple[str, ...] = ()
    """What a verification says of the pictures of a submission; one text for each run."""


@dataclass(frozen=True)
class Origin:
    """Software and hardware of some of the runs."""

    commit: str
    packages: str
    hardware: str
    runs: int


@dataclass(frozen=True)
class Details:
    """The part of a row that the page shows once the row is opened."""

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
    """Findings of its verification; empty for a row that was not verified."""
    episodes: Films | None = None
    """None for a row without a gallery, or without room for it."""
    error: float | None = None
    """Standard error of the entry's score from episodes alone; None where it is not known."""


@dataclass(frozen=True)
class Suite:
    """A suite that has rows."""

    name: str
    title: str
    version: int


@dataclass(frozen=True)
class Refused:
    """A source, or a part of one, that the board does not show, and why."""

    source: str
    reason: str


@dataclass(frozen=True)
class Board:
    """The whole content of the leaderboard's page."""

    title: str
    commit: str
    """Version of the program that made it."""
    minimum: str
    """Text on what a row needs to be ranked."""
    few: str
    """Text on how few seeds affect ranks."""
    suites: tuple[Suite, ...]
    entries: tuple[Entry, ...]
    details: Mapping[str, Details]
    """Entry id -> its details."""
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    without_episodes: int = 0
    """Rows whose episodes are left out for lack of room."""
    schema: int = field(default=BOARD_VERSION)


def claim(row: Entry) -> tuple[object, ...]:
    """Return the sort key of the order in which rows get room for episodes: ranked rows first, by rank, then by tab,
    suite and id."""
    return row.rank is None, row.rank or 0, list(TABS).index(row.tab), row.suite, row.id


def plain(board: Board) -> dict[str, Any]:
    """Return the board as JSON data."""
    return asdict(board)
