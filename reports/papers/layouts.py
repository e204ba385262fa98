"""Types of a paper's tables and figures: how each is laid out, without numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Named = tuple[str, str, Mapping[str, str]]
"""(name, method, variant) of a row; the name is the one in the figure."""


class Reading(NamedTuple):
    """One of our configurations that a paper's method and variant may mean."""

    method: str
    variant: Mapping[str, str]
    """Settings; `ROLE.model`, the model that answers in a role; `pretraining`, the method of the stage, or "none";
    `evaluated`, the method whose policy a transfer evaluates."""
    reason: str = ""
    """What it lacks of what the paper ran; "" for nothing."""


class JoinedColumn(NamedTuple):
    """A column with several numbers per line, as in "+61.3% (1.00/0.62)"; the verdict is that of the first."""

    title: str
    numbers: tuple[tuple[str, str], ...]
    """(metric, whose): whose is "method", or "baseline" for the baseline's own value."""


@dataclass(frozen=True)
class Layout:
    """A table: which properties of a number identify its line, and which its column.

    A property is suite, task, method, metric, or a key of the variant.
    """

    table: str
    title: str
    lines: tuple[str, ...] = ("task",)
    columns: tuple[str, ...] = ("method",)
    composed: tuple[JoinedColumn, ...] = ()
    """Columns that hold several numbers each; used instead of `columns`."""
    note: str = ""
    """Definitions, chosen here, of what the paper leaves open."""


class Panels(NamedTuple):
    """A figure of learning curves: a panel per task and learner, a curve per method and variant."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    curves: tuple[Named, ...]
    """Curves in the order of the legend."""
    learners: tuple[str, ...] = ("",)
    reference: str = ""
    """Method of which only the final level is drawn, as a dashed line."""
    arrows: bool = False
    """Whether to mark how much sooner and higher the first curve is than the best baseline."""
    of: Literal["success", "return"] = "success"
    least: int = 1
    """Minimum number of curves in a panel."""
    schedule: bool = False
    """Whether to also draw the share λ of draws over training."""


class ReferenceFigure(NamedTuple):
    """A figure of the judge's score beside the critic along a reference episode, in a method's default
    configuration."""

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
    """A figure of the rewards of imagined segments beside those of preferred ones, with a group of bars per task."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    method: str


class Trajectories(NamedTuple):
    """A figure of imagined paths beside the paths that were shown to the teacher, with a drawing per task."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    method: str


class BarFigure(NamedTuple):
    """A figure of some metrics on one task, with an axis per metric and a bar per method and variant."""

    figure: str
    title: str
    suite: str
    task: str
    bars: tuple[Named, ...]
    metrics: tuple[str, ...]


class Training(NamedTuple):
    """A figure of what runs recorded over training, with a drawing per task: panels one below the other, in each a line
    per method and variant, and per metric where a panel has several."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    curves: tuple[Named, ...]
    panels: tuple[tuple[str, Mapping[str, str]], ...]
    """(axis, metric -> its name in the legend) of each panel; the metric "" is the success rate."""


class TestSteps(NamedTuple):
    """A figure of the share of test episodes that have succeeded within so many steps, at the last evaluation, with a
    panel per task."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    curves: tuple[Named, ...]


class TaskBars(NamedTuple):
    """A figure of one metric, with a group of bars per task and a bar per method and variant."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    bars: tuple[Named, ...]
    metric: str


Figure = (
    Panels | ReferenceFigure | Labels | Rewards | Imagined | Trajectories | BarFigure | Training | TestSteps | TaskBars
)


@dataclass(frozen=True)
class Paper:
    """What a report on one paper contains, and how its names map to ours."""

    title: str
    layouts: tuple[Layout, ...]
    models: tuple[str, ...] = ()
    """The foundation models that it used, by this project's names."""
    seeds: int | None = None
    """Number of runs assumed where the paper states none for a number; None if it states no count at all."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Suite -> environment steps of a run."""
    robots: tuple[str, ...] = ("real_robot",)
    """Suites that are not simulated."""
    privileged: tuple[str, ...] = ()
    """Methods that, in the paper too, see the task's own reward, through a scripted teacher."""
    means: Mapping[str, str] = field(default_factory=dict)
    """Variant key of the paper's table, or a pair key=value -> name of the variant in this benchmark."""
    spans: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Pair key=values of a mean over several values of a setting -> each value, and the tasks that the mean has under
    it."""
    unclear: Mapping[str, str] = field(default_factory=dict)
    """Metric -> what the paper leaves undefined, so that our numbers cannot be tested against it."""
    figures: tuple[Figure, ...] = ()
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The paper's name of a task -> ours, where they differ."""
    reads: Callable[[str, str, Mapping[str, str]], Sequence[Reading]] | None = None
    """Function from a number's task, method and variant to what it means here, the best first; None if all three have
    our names."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role -> the model that the paper has in it, "" for one that it does not name. If there are roles, the models of
    a row are compared by role instead of by `models`."""
    transfers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Method whose last stage is not pre-training but what it evaluates elsewhere -> the tasks on which the paper
    trained that."""
    unnamed: tuple[str, ...] = ()
    """Settings by which we read what the paper does not specify: no value of them differs from it."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Metric -> another metric of ours that is shown beside it."""
    samples: str = ""
    """The figure that shows frames as a judge sees them."""
