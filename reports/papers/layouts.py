"""What a paper's tables and figures can be: how each is laid out, apart from any number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Named = tuple[str, str, Mapping[str, str]]
"""(name, method, variant) of a row, by the name that a figure calls it."""


class JoinedColumn(NamedTuple):
    """A column that holds several numbers of a line, as in "+61.3% (1.00/0.62)"; the verdict is that of the first."""

    title: str
    numbers: tuple[tuple[str, str], ...]
    """(metric, whose): whose is "method", or "baseline" for what the baseline itself reached."""


@dataclass(frozen=True)
class Layout:
    """A table: which properties of a number name its line, and which its column.

    A property is suite, task, method, metric, or a key of its variant.
    """

    table: str
    title: str
    lines: tuple[str, ...] = ("task",)
    columns: tuple[str, ...] = ("method",)
    composed: tuple[JoinedColumn, ...] = ()
    """Instead of `columns`, where a column holds more than one number."""
    note: str = ""
    """What ours is, where the paper leaves it open."""


class Panels(NamedTuple):
    """A figure of learning curves: a panel per task and learner, a curve per method and variant."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    curves: tuple[Named, ...]
    """In the order of the legend."""
    learners: tuple[str, ...] = ("",)
    reference: str = ""
    """A method of which only the level at the end is drawn, dashed."""
    arrows: bool = False
    """Whether to mark how much sooner and higher the first curve is than the better of the baselines."""
    of: Literal["success", "return"] = "success"
    least: int = 1
    """Fewest curves that make a panel."""
    schedule: bool = False
    """Whether to show beside it how the share λ of draws rose."""


class ReferenceFigure(NamedTuple):
    """A figure of the judge's score beside the critic along a reference episode, of a method's own configuration."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    method: str


class Labels(NamedTuple):
    """A figure of label accuracy and return over training on one task."""

    figure: str
    title: str
    suite: str
    task: str
    curves: tuple[Named, ...]


class Rewards(NamedTuple):
    """A figure of learned rewards beside the task's own along its reference episode."""

    figure: str
    title: str
    suite: str
    task: str
    curves: tuple[Named, ...]


class Imagined(NamedTuple):
    """A figure of the rewards of imagined segments beside those of preferred ones, a group of bars per task."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    method: str


class Trajectories(NamedTuple):
    """A figure of paths that were imagined, beside those that were shown, a drawing per task."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    method: str


class BarFigure(NamedTuple):
    """A figure of some metrics on one task, an axis each, a bar per method and variant."""

    figure: str
    title: str
    suite: str
    task: str
    bars: tuple[Named, ...]
    metrics: tuple[str, ...]


Figure = Panels | ReferenceFigure | Labels | Rewards | Imagined | Trajectories | BarFigure


@dataclass(frozen=True)
class Paper:
    """What a report on one paper holds."""

    title: str
    layouts: tuple[Layout, ...]
    models: tuple[str, ...] = ()
    """The foundation models it used, as this project calls them."""
    seeds: int | None = None
    """Runs behind a number that does not say how many; None where the paper does not say it anywhere."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Suite -> environment steps of a run."""
    robots: tuple[str, ...] = ("real_robot",)
    """Suites that are no simulation."""
    privileged: tuple[str, ...] = ()
    """Methods that learn from a task's own reward in the paper too, through a scripted teacher."""
    means: Mapping[str, str] = field(default_factory=dict)
    """A key of its variants, or a pair key=value, -> what it is called here."""
    unclear: Mapping[str, str] = field(default_factory=dict)
    """Metric -> what the paper leaves open about it, so that no number of ours can be held against it."""
    figures: tuple[Figure, ...] = ()
    samples: str = ""
    """The figure that shows frames as a judge sees them."""
