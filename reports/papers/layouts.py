"""Types of a paper's tables and figures: how each is laid out, without numbers."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from guidebench.reports.sections.training import Panel

Named = tuple[str, str, Mapping[str, str]]
"""(name, method, variant) of a row; the name is the one in the figure."""


class Reading(NamedTuple):
    """One of our configurations that a paper's method and variant may mean."""

    method: str
    variant: Mapping[str, str]
    """Settings; `ROLE.model`, the model that answers in a role; `pretraining`, the method of the stage, or "none";
    `evaluated`, the method whose policy a transfer evaluates."""
    reason: str = ""
    """How it differs from what the paper ran; "" if it does not."""


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


@dataclass(frozen=True)
class Figure:
    """A figure: what is drawn (`kind`) of which methods and variants on which tasks."""

    figure: str
    title: str
    suite: str
    tasks: tuple[str, ...]
    rows: tuple[Named, ...]
    """Methods and variants in the order of the legend."""
    kind: Literal["curves", "reference", "labels", "rewards", "imagined", "paths", "metrics", "tasks", "training"] = (
        "curves"
    )
    """`curves`: over training or over the steps of a test, a panel per task and learner. `reference`: the judge's score
    beside the critic along a reference episode, a drawing per task. `labels`: label accuracy and return over training.
    `rewards`: learned rewards beside the task's own along its reference episode. `imagined`: rewards of imagined
    segments beside those of preferred ones, a group of bars per task. `paths`: imagined paths beside those that were
    shown to the teacher, a drawing per task. `metrics`: bars of some metrics on one task, an axis per metric. `tasks`:
    bars of one metric, a group per task. `training`: what runs recorded over training, a drawing per task."""
    learners: tuple[str, ...] = ("",)
    reference: str = ""
    """Of curves: the method of which only the final level is drawn, as a dashed line."""
    arrows: bool = False
    """Of curves: whether to mark how much sooner and higher the first one is than the best baseline."""
    of: Literal["success", "return", "tests"] = "success"
    """Of curves: success or return over training, or the share of test episodes that have succeeded within so many
    steps, at the last evaluation."""
    least: int = 1
    """Minimum number of curves in a panel."""
    schedule: bool = False
    """Of curves: whether to also draw the share λ of draws over training."""
    metrics: tuple[str, ...] = ()
    """Metrics of bars."""
    panels: tuple[Panel, ...] = ()
    """Panels over training, one below the other."""

    @property
    def about(self) -> str:
        """Return the title as part of a sentence."""
        return f"{self.title[0].lower()}{self.title[1:]}"

    def caption(self, drawn: Container[str] | None = None, *places: str) -> str:
        """Return the caption of a drawing. `drawn`: names of the rows that it shows, None for all; `places`: words that
        say of what it is, such as a task."""
        missing = [name for name, _, _ in self.rows if drawn is not None and name not in drawn]
        without = f" (not run: {', '.join(missing)})" if missing else ""
        return ", ".join([f"Figure {self.figure}", f"{self.about}{without}", *places])


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
    suites: Mapping[str, str] = field(default_factory=dict)
    """Suite -> how ours differs from the one that the paper used."""
    robots: tuple[str, ...] = ("real_robot",)
    """Suites that are not simulated."""
    privileged: tuple[str, ...] = ()
    """Methods that, in the paper too, see the task's own reward, through a scripted teacher."""
    means: Mapping[str, str] = field(default_factory=dict)
    """Variant key of the paper's table, or a pair key=value -> name of the variant in this benchmark."""
    spans: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For numbers that are means over several values of a setting: KEY=VALUES of their variant -> value -> the tasks
    that the mean includes under it."""
    unclear: Mapping[str, str] = field(default_factory=dict)
    """Metric -> what the paper leaves undefined, so that our numbers cannot be tested against it."""
    figures: tuple[Figure, ...] = ()
    tasks: Mapping[str, str] = field(default_factory=dict)
    """The paper's name of a task -> ours, where they differ."""
    reads: Callable[[str, str, Mapping[str, str]], Sequence[Reading]] | None = None
    """Function from a number's task, method and variant to our configurations that it may mean, in order of preference;
    None if the paper uses our names."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role -> the model that the paper has in it, "" for one that it does not name. If there are roles, the models of
    a row are compared by role instead of by `models`."""
    transfers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joint: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Task of ours that is several in turn -> these."""
    """Method that evaluates the policy of its last stage on another task -> the tasks on which the paper trained that
    policy."""
    unnamed: tuple[str, ...] = ()
    """Settings that the paper does not specify, so that no value of them counts as a difference from it."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Metric -> another metric of ours that is shown beside it."""
    samples: str = ""
    """The figure that shows frames as a judge sees them."""
