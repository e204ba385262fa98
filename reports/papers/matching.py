"""Find the rows of ours that a published number is about."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from guidebench.reports.papers import estimates, verdicts
from guidebench.reports.papers.comparisons import baseline_of
from guidebench.reports.papers.estimates import Setting
from guidebench.reports.papers.layouts import Paper, Reading
from guidebench.reports.papers.measures import OF_MACHINES, OFFLINE, SECONDS
from guidebench.reports.summary.records import value_of
from guidebench.reports.summary.rows import ReportRow

RELATIVE = "baseline"
"""Variant key of what a number is relative to; the other keys describe the method's own run."""
DATA = "data"
"""Variant key of the data, apart from training, on which a number was taken; it becomes part of the metric."""
HARDWARE = "hardware"
"""Variant key of the machine on which a number was taken; ours differs."""
ALL = "all"
"""Name of tasks that a paper does not specify."""
ABLATION, PRETRAINING = "ablation", "pretraining"
MODEL = "model"
EVALUATED = "evaluated"
"""Variant key of the method whose policy a transfer evaluates elsewhere."""
NONE = "none"
"""Value of `pretraining` for a run without a stage."""
REACHED = (
    "base_url", "key_variable", "price_in", "price_out", "in_flight", "timeout", "attempts", "device", "batch_size",
)  # fmt: skip
"""Settings of a model that say how it is reached, and so change no answer."""
_MEANT = ("command line", ABLATION, "perturbation")
"""Layers in which a user or a matrix sets a value."""


class Number(NamedTuple):
    """A published number from `guidebench.results.published`, with its variant parsed."""

    table: str
    suite: str
    task: str
    method: str
    variant: Mapping[str, str]
    metric: str
    value: float
    error: float
    error_kind: str
    seeds: int | None
    note: str


class Match(NamedTuple):
    """Our rows for a published number, by task and learner, and the reasons why they are not what the paper ran."""

    settings: tuple[Setting, ...]
    reasons: tuple[str, ...]


class Missing(NamedTuple):
    """A configuration that no chosen study has, in words: method, task, learner and settings."""

    configuration: str


def metric(name: str, variant: Mapping[str, str]) -> str:
    """Return a metric's name, with a prefix if the number was taken on offline data instead of in training."""
    return f"{OFFLINE}_{name}" if variant.get(DATA) == OFFLINE else name


def of_machines(metric: str) -> list[str]:
    """Return the reason why a metric that depends on the machine cannot be the paper's; empty for other metrics."""
    name = estimates.measured_by(metric)
    return ["measured on other hardware"] if name == SECONDS or name.startswith(OF_MACHINES) else []


def unnamed(tasks: Iterable[str]) -> str:
    """Return the reason why our mean over these tasks may not be the paper's, which names no tasks."""
    return f"mean over {', '.join(tasks)}; the paper names no tasks"


class Shelf:
    """The rows of the chosen studies, looked up by a published number's properties.

    `stand_ins` maps a task of the paper to the task of ours that is shown instead where the paper's has no run.
    """

    def __init__(self, rows: Sequence[ReportRow], paper: Paper, stand_ins: Mapping[str, str]) -> None:
        self.paper = paper
        self._rows, self._stand_ins = rows, stand_ins

    def match(self, number: Number) -> Match | Missing:
        """Return our rows for a published number, or the first configuration that it needs and that no study has."""
        settings, reasons = [], of_machines(metric(number.metric, number.variant))
        learners = number.variant.get("learner", "").split(",")
        variant = {key: value for key, value in number.variant.items() if key not in (RELATIVE, HARDWARE, "learner")}
        baseline = number.variant.get(RELATIVE, "")
        tasks = number.task.split(",")
        if tasks == [ALL]:
            tasks = self.tasks(number.suite, number.method, variant) or tasks
            reasons.append(unnamed(tasks))
        for task, task_variant in self._spanned(tasks, variant):
            for learner in learners:
                row = self.row(number.suite, task, number.method, learner, task_variant)
                if row is None:
                    return Missing(_words(number.method, task, learner, task_variant))
                reasons += self.reasons(row, task, number.method, task_variant)
                if not baseline or baseline == number.method:
                    settings.append(Setting(row))
                    continue
                method, its = baseline, dict[str, str]()
                if MODEL in variant:  # the same method with another model
                    method, its = number.method, {**variant, MODEL: baseline}
                beside = self.row(number.suite, task, method, learner, its)
                if beside is None:
                    return Missing(_words(method, task, learner, its))
                reasons += self.reasons(beside, task, method, its)
                settings.append(Setting(row, beside))
        return Match(tuple(settings), tuple(dict.fromkeys(reasons)))

    def baseline(self, row: ReportRow) -> ReportRow | None:
        """Return the baseline with which a report compares a row; None if the row is the baseline."""
        return baseline_of(row, self._rows)

    def span(self, variant: Mapping[str, str]) -> tuple[str, Mapping[str, tuple[str, ...]]]:
        """Return the setting over whose values a number of this variant is a mean, with each value's tasks; ("", {}) if
        it is no such mean."""
        for key, text in variant.items():
            if values := self.paper.spans.get(f"{key}={text}"):
                return key, values
        return "", {}

    def _spanned(self, tasks: Sequence[str], variant: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
        """Return the (task, variant) pairs over which a published number is a mean."""
        key, values = self.span(variant)
        if not key:
            return [(task, variant) for task in tasks]
        return [
            (task, {**variant, key: value}) for value, covered in values.items() for task in tasks if task in covered
        ]

    def tasks(self, suite: str, method: str, variant: Mapping[str, str]) -> list[str]:
        """Return our tasks of a suite on which a method with this variant has a row."""
        suite_tasks = dict.fromkeys(row.cell.task for row in self._rows if row.cell.suite == suite)
        return [task for task in suite_tasks if self.row(suite, task, method, "", variant)]

    def row(self, suite: str, task: str, method: str, learner: str, variant: Mapping[str, str]) -> ReportRow | None:
        """Return the row with the fewest settings beyond those of `variant`, then the most seeds; None if there is
        none. Of several readings of method and variant, the first that has a row counts.

        A number without suite or task matches any.
        """
        our_task, instead = (self.paper.tasks.get(name, name) for name in (task, self._stand_ins.get(task, task)))
        for name, reading in itertools.product(
            dict.fromkeys([our_task, instead]), self._readings(task, method, variant)
        ):
            matches = [
                row
                for row in self._rows
                if suite in ("", row.cell.suite)
                and name in ("", row.cell.task)
                and learner in ("", row.cell.learner)
                and self._is(row, reading)
            ]
            if matches:
                return min(matches, key=lambda row: (len(self._strays(row, reading.variant)), -len(row.seeds)))
        return None

    def reasons(self, row: ReportRow, task: str, method: str, variant: Mapping[str, str]) -> list[str]:
        """Return the reasons why a row is not what the paper ran on `task` by `method` with `variant`; empty if it
        is."""
        reading = next(candidate for candidate in self._readings(task, method, variant) if self._is(row, candidate))
        meant = reading.variant
        strays = [stray for stray in self._strays(row, meant) if not stray.startswith("training.steps=")]
        if row.cell.method in self.paper.transfers:
            strays += self._learnt_otherwise(row)
        models = [meant["model"], row.cell.model] if "model" in meant else self.paper.models
        role_models = {role: meant.get(f"{role}.model", model) for role, model in self.paper.roles.items()}
        our_task = self.paper.tasks.get(task, task)
        differences = verdicts.reasons(row, self.paper, our_task, models, ", ".join(strays), role_models)
        return [*([reading.reason] if reading.reason else []), *differences]

    def _learnt_otherwise(self, row: ReportRow) -> list[str]:
        """Return the command-line settings of the stage whose policy a transfer row evaluates, as texts. Left out are
        its length, which has a reason of its own, settings of evaluations, and settings that the row has too."""
        return [
            f"{PRETRAINING}.{name}={json.dumps(value_of(setting))}"
            for stage in row.cell.stages[-1:]
            for name, setting in stage.settings.items()
            if _layer(setting).startswith(_MEANT[0])
            and name not in self.paper.unnamed
            and name != "training.steps"
            and not name.startswith("evaluation.")
            and not (name in row.cell.settings and value_of(row.cell.settings[name]) == value_of(setting))
        ]

    def _readings(self, task: str, method: str, variant: Mapping[str, str]) -> Sequence[Reading]:
        """Return which of our configurations a number's method and variant may mean, in order of preference."""
        if self.paper.reads is None:
            return [Reading(method, self._our_variant(variant))]
        theirs = {key: value for key, value in variant.items() if key not in (DATA, HARDWARE)}
        return self.paper.reads(self.paper.tasks.get(task, task), method, theirs)

    def _is(self, row: ReportRow, reading: Reading) -> bool:
        """Return whether a row is the configuration of a reading, and no ablation or perturbation beyond it."""
        variant = reading.variant
        if row.cell.method != reading.method or not all(self._has(row, *setting) for setting in variant.items()):
            return False
        return not (row.cell.matrix and (self._strays(row, variant, _MEANT[1:]) or _ablated(row, variant)))

    def _has(self, row: ReportRow, key: str, text: str) -> bool:
        """Return whether a row's configuration has one setting of a variant."""
        role, _, name = key.rpartition(".")
        if name == MODEL and role in self.paper.roles:
            return self._answers(row, role, text)
        if key == MODEL:
            return verdicts.same(row.cell.model, text)
        if key == ABLATION:
            place = row.cell.matrix
            return bool(place and place.kind == ABLATION and text in place.name.rpartition("full: ")[2].split(", "))
        if key == PRETRAINING:
            return self._pretraining_of(row) == text
        if key == EVALUATED:
            return [stage.method for stage in row.cell.stages[-1:]] == [text]
        return key in row.cell.settings and bool(value_of(row.cell.settings[key]) == _parsed(text))

    def _answers(self, row: ReportRow, role: str, model: str) -> bool:
        """Return whether this model answers in a role of the row. A hand-written or privileged part also counts where
        the paper always has this model in the role."""
        part = row.cell.parts.get(role)
        if part is None:
            return False
        stands_in = part.backend in ("", *verdicts.SCRIPTED) and part.backend != "placebo"
        usual = self.paper.roles[role] == model and stands_in
        return usual or verdicts.same(part.model, model)

    def _pretraining_of(self, row: ReportRow) -> str:
        """Return the method of a row's pre-training, or `NONE`; the stage whose policy a transfer evaluates is no
        pre-training."""
        before = row.cell.stages[:-1] if row.cell.method in self.paper.transfers else row.cell.stages
        return before[-1].method if before else NONE

    def _strays(self, row: ReportRow, variant: Mapping[str, str], layers: Sequence[str] = _MEANT) -> list[str]:
        """Return the settings of a row from these layers, and its pre-training, that the variant does not name,
        directly or through an ablation; as texts."""
        ablation_layer = f"{ABLATION} {variant[ABLATION]}" if ABLATION in variant else None
        model_settings = {"chat.model", "judge.model"} if "model" in variant else set()
        pretraining = self._pretraining_of(row)
        staged = [] if PRETRAINING in variant or pretraining == NONE else [f"{PRETRAINING}={pretraining}"]
        return staged + [
            f"{name}={json.dumps(value_of(setting))}"
            for name, setting in row.cell.settings.items()
            if _layer(setting).startswith(tuple(layers))
            and _layer(setting) != ablation_layer
            and name not in {*variant, *model_settings, *self.paper.unnamed}
            and not _reaches(row, name)
        ]

    def _our_variant(self, variant: Mapping[str, str]) -> dict[str, str]:
        """Return a paper's variant with our names of settings and values, without its data and hardware."""
        settings = {}
        for key, value in variant.items():
            if key not in (DATA, HARDWARE):
                pair = self.paper.means.get(f"{key}={value}", "") or f"{self.paper.means.get(key, key)}={value}"
                name, _, setting_value = pair.partition("=")
                settings[name] = setting_value
        return settings


def _ablated(row: ReportRow, variant: Mapping[str, str]) -> bool:
    """Return whether a row is an ablation that the variant does not name."""
    place = row.cell.matrix
    if place is None or place.kind != ABLATION or place.reference == row.cell.id:
        return False
    named_settings = [setting for name, setting in row.cell.settings.items() if name in variant]
    return ABLATION not in variant and not any(_layer(setting).startswith(ABLATION) for setting in named_settings)


def _reaches(row: ReportRow, name: str) -> bool:
    """Return whether a setting only says how the model of a role is reached (`REACHED`)."""
    role, _, field = name.partition(".")
    part = row.cell.parts.get(role)
    return field in REACHED and part is not None and part.kind in ("judge", "chat", "embedder")


def _layer(setting: Any) -> str:
    """Return the layer that set a recorded setting; "" if it has none."""
    return str(setting.get("layer", "")) if isinstance(setting, Mapping) else ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _words(method: str, task: str, learner: str, variant: Mapping[str, str]) -> str:
    further = [f"{key}={value}" for key, value in variant.items()]
    return " ".join(part for part in [method, f"on {task}" if task else "", learner, *further] if part)
