"""Tests of a paper's claims on our runs, each by the formula that the claim's record names.

A gain, saving or difference is averaged over the tasks and learners of a suite and is tested against each baseline
separately; all of these tests must support the claim. Wins are counted over every task, learner and baseline; a range
must hold in each. A claim on a replay's draws is tested on every task of ours that has the runs. Where k comparisons
test one claim, each must support it at the 5 % level, and a comparison refutes it at 5 % / k, so that a true claim is
refuted in at most 5 % of all studies. Where the variant lists several values of a setting, the first value is compared
with each of the others instead of one method with another.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import LEVEL, Interval
from guidebench.reports.papers import equivalence, estimates, matching, verdicts
from guidebench.reports.papers.comparisons import Difference, difference
from guidebench.reports.papers.equivalence import Published
from guidebench.reports.papers.estimates import Estimated, Estimator, Setting
from guidebench.reports.papers.matching import ALL, PRETRAINING, Shelf
from guidebench.reports.papers.measures import OF_DRAWS
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import published

if TYPE_CHECKING:
    import pandas as pd

LOWER_IS_BETTER = (
    "steps_", "seconds", "evaluation_steps", "dollars", "input_tokens", "output_tokens", "discard_", "draws_",
)  # fmt: skip
"""Prefixes of metrics of which lower is better."""
BASELINE = "baseline."
"""Prefix of variant keys that describe the baseline alone; other keys hold for both sides."""
COLUMNS = {"passage": "where"}
"""Field of a claim -> its column in the published records, where the two differ."""
OF_THE_METHOD = ("ablation", "model", "prompt", "planner", "performer")
"""Variant keys that hold for the method alone."""


PRECEDENCE = (verdicts.NOT_REPRODUCED, verdicts.INCONCLUSIVE, verdicts.SAME_DIRECTION, verdicts.REPRODUCED)
"""Verdicts on a claim's numbers; the first that any of them has is the claim's: one that refutes it decides, else all
must support it."""


class Claim(NamedTuple):
    """A record of `guidebench.results.published.claims` with its variant parsed; `value` and `high` are NaN where
    absent."""

    claim: str
    passage: str
    """Where the paper makes it, such as "§4.2, table 1"; the column `where` of the records."""
    statement: str
    formula: str
    method: str
    baseline: str
    suite: str
    task: str
    variant: dict[str, str]
    metric: str
    value: float
    high: float
    unit: str
    note: str


class ClaimFinding(NamedTuple):
    """One of our numbers by which a claim is tested, with its verdict."""

    of: str
    ours: Interval
    verdict: str
    """Verdict on this number alone, whether or not it is comparable: one of `verdicts.TESTED`."""
    difference: Difference | None = None
    """Our rows less those that they are compared with, or their baselines, in the final score."""
    interval_note: str = ""
    """Text instead of the interval, where there are too few seeds for one; else ""."""


class Outcome(NamedTuple):
    """A claim with the verdict of our runs and the reasons for it."""

    claim: Claim
    findings: tuple[ClaimFinding, ...]
    verdict: str
    reasons: tuple[str, ...]


class _Side(NamedTuple):
    """A method with the settings that a claim names."""

    method: str
    variant: dict[str, str]

    def __str__(self) -> str:
        return " ".join([self.method, *(f"{key}={value}" for key, value in self.variant.items())])

    def without(self, key: str) -> _Side:
        return self._replace(variant={name: value for name, value in self.variant.items() if name != key})

    def beside(self, other: _Side) -> str:
        """Describe both sides; if they differ in one setting only, only that setting's two values."""
        differing = [
            key for key in {**self.variant, **other.variant} if self.variant.get(key) != other.variant.get(key)
        ]
        if self.method != other.method or len(differing) != 1 or not set(differing) <= self.variant.keys():
            return f"{self} beside {other}"
        (key,) = differing
        return f"{key}={self.variant[key]} beside {other.variant.get(key, 'as given')}"


class _Case(NamedTuple):
    """One comparison on one task with one learner."""

    of: str
    suite: str
    ours: ReportRow
    theirs: ReportRow | None


class _MissingRun(Exception):
    """Raised with the description of a run that a claim needs and that no chosen study has."""


_DIFFERENCES = {"difference": "difference", "relative_gain": "gain", "relative_saving": "saving"}
"""Formula of a claim -> kind of comparison (`estimates.FORMULAS`)."""


def test(claims: pd.DataFrame, numbers: pd.DataFrame, shelf: Shelf, estimator: Estimator) -> list[Outcome]:
    """Test every claim of a paper; `claims` and `numbers` are tables of `guidebench.results.published`."""
    outcomes = []
    for row in claims.itertuples(index=False):
        values: dict[str, Any] = {name: getattr(row, COLUMNS.get(name, name)) for name in Claim._fields}
        variant = published.variant(values["variant"])
        claim = Claim(**{**values, "variant": variant, "metric": matching.metric(values["metric"], variant)})
        outcomes.append(_test_claim(claim, numbers, shelf, estimator))
    return outcomes


def _test_claim(claim: Claim, numbers: pd.DataFrame, shelf: Shelf, estimator: Estimator) -> Outcome:
    if claim.formula == "none":
        return Outcome(claim, (), verdicts.PUBLISHED_ONLY, ("runs cannot test it",))
    if claim.suite in shelf.paper.robots:
        return Outcome(claim, (), verdicts.PUBLISHED_ONLY, ("real robots",))
    if not estimates.is_known(claim.metric):
        return Outcome(claim, (), verdicts.NOT_RUN, (f"{claim.metric.replace('_', ' ')} of no run",))
    try:
        cases, reasons = _cases(claim, numbers, shelf, estimator)
    except _MissingRun as missing:
        return Outcome(claim, (), verdicts.NOT_RUN, (str(missing),))
    pairs = list(_findings(claim, cases, estimator, bool(_paper_tasks(claim, numbers)), shelf))
    findings = tuple(finding for finding, _ in pairs)
    if any(np.isnan(finding.ours.estimate) for finding in findings):
        reasons = (*reasons, verdicts.UNDEFINED)
    if reasons:
        return Outcome(claim, findings, verdicts.NOT_COMPARABLE, reasons)
    verdict = next(verdict for verdict in PRECEDENCE if any(verdict == finding.verdict for finding in findings))
    undecided = [why for finding, why in pairs if finding.verdict == verdicts.INCONCLUSIVE]
    why = tuple(dict.fromkeys(itertools.chain(*undecided))) if verdict == verdicts.INCONCLUSIVE else ()
    return Outcome(claim, findings, verdict, why)


def _cases(
    claim: Claim, numbers: pd.DataFrame, shelf: Shelf, estimator: Estimator
) -> tuple[list[_Case], tuple[str, ...]]:
    """Return the rows that a claim compares, and the reasons why they are not what the paper ran. Raise _MissingRun if
    one is missing."""
    cases: list[_Case] = []
    reasons = matching.of_machines(claim.metric)
    reasons += [shelf.paper.unclear[claim.metric]] if claim.metric in shelf.paper.unclear else []

    def row(place: tuple[str, str, str], side: _Side) -> ReportRow:
        report_row = shelf.row(*place[:2], side.method, place[2], side.variant)
        if report_row is None:
            raise _MissingRun(" ".join(part for part in [str(side), f"on {place[1]}", place[2]] if part))
        if why := estimator.lacks(report_row, claim.metric):
            raise _MissingRun(why)
        reasons.extend(shelf.reasons(report_row, place[1], side.method, side.variant))
        return report_row

    pairs = _pairs(claim, numbers)
    spanned, its_tasks = shelf.span(claim.variant)
    for place in _places(claim, numbers, shelf, pairs):
        for first, second in pairs:
            if spanned and place[1] not in its_tasks[first.variant[spanned]]:
                continue
            of = first.without(spanned).beside(second.without(spanned)) if second else str(first)
            cases.append(_Case(of, place[0], row(place, first), row(place, second) if second else None))
    if not cases and not _paper_tasks(claim, numbers):
        raise _MissingRun("no task has all of its runs")
    if not cases:
        raise _MissingRun(f"{claim.task or 'its tasks'} in none of the paper's tables")
    if not _paper_tasks(claim, numbers) and claim.metric not in OF_DRAWS:
        tasks = dict.fromkeys(case.ours.cell.task for case in cases)
        reasons.append(matching.unnamed(tasks))
    return cases, tuple(dict.fromkeys(reasons))


def _pairs(claim: Claim, numbers: pd.DataFrame) -> list[tuple[_Side, _Side | None]]:
    """Return the pairs (method, baseline) that a claim compares; the baseline is None for the formulas `level` and
    `range`."""
    choices = {
        key: text.split(",")
        for key, text in claim.variant.items()
        if key not in ("learner", matching.DATA, matching.HARDWARE)
    }
    shared = {key: values[0] for key, values in choices.items() if len(values) == 1 and not key.startswith(BASELINE)}
    first = _Side(claim.method, shared)
    if claim.formula in ("level", "range"):
        return [(first, None)]
    multiple = {key: values for key, values in choices.items() if len(values) > 1 and not key.startswith(BASELINE)}
    if claim.baseline and multiple:
        return _products(claim, shared, multiple, choices)
    baselines = _baselines(claim, shared, choices)
    for key, values in multiple.items():
        first = _Side(claim.method, {**shared, key: values[0]})
        baselines += [_Side(claim.method, {**shared, key: value}) for value in values[1:]]
    pretraining = {key: value for key, value in shared.items() if key == PRETRAINING}
    baselines = baselines or [_Side(name, pretraining) for name in claim.baseline.split(",") if name]
    if claim.formula == "best" and not baselines:
        baselines = _rivals(claim, first, numbers)
    if claim.formula == "ordering":
        return list(zip([first, *baselines], baselines, strict=False))
    return [(first, other) for other in baselines]


def _rivals(claim: Claim, first: _Side, numbers: pd.DataFrame) -> list[_Side]:
    """Return the methods and variants, other than `first`, that the table named by a claim without a baseline has on
    its tasks."""
    table_match = re.search(r"table (\w+)", claim.passage)
    rival_rows = numbers[
        (numbers["table"] == (table_match[1] if table_match else "")) & (numbers["metric"] == claim.metric)
    ]
    rival_rows = rival_rows[rival_rows["task"].isin(claim.task.split(","))]
    sides = [
        _Side(method, published.variant(text))
        for method, text in zip(rival_rows["method"], rival_rows["variant"], strict=True)
    ]
    return [side for number, side in enumerate(sides) if side != first and side not in sides[:number]]


def _baselines(claim: Claim, shared: dict[str, str], choices: dict[str, list[str]]) -> list[_Side]:
    """Return the baseline under each setting that the claim's variant gives to the baseline alone (keys with the prefix
    `BASELINE`). `choices`: key of the variant -> its values."""
    both = {name: value for name, value in shared.items() if name not in OF_THE_METHOD}
    return [
        _Side(claim.baseline, {**both, key.removeprefix(BASELINE): value})
        for key, values in choices.items()
        if key.startswith(BASELINE)
        for value in values
    ]


def _products(
    claim: Claim, shared: dict[str, str], multiple: dict[str, list[str]], choices: dict[str, list[str]]
) -> list[tuple[_Side, _Side | None]]:
    """Pair the method, under each combination of several settings, with every baseline under the shared settings."""
    pairs: list[tuple[_Side, _Side | None]] = []
    for chosen in itertools.product(*multiple.values()):
        settings = {**shared, **dict(zip(multiple, chosen, strict=True))}
        shared_settings = {name: value for name, value in settings.items() if name not in OF_THE_METHOD}
        others = _baselines(claim, settings, choices) or [
            _Side(name, shared_settings) for name in claim.baseline.split(",")
        ]
        pairs += [(_Side(claim.method, settings), other) for other in others]
    return pairs


def _paper_tasks(claim: Claim, numbers: pd.DataFrame) -> list[str]:
    """Return the tasks for which the paper has numbers of the claim's metric in the claim's suites, or of any metric if
    there are none. Empty for a metric of `OF_DRAWS`, whose claims hold on any task."""
    if claim.metric in OF_DRAWS:
        return []
    suite_numbers = numbers[numbers["suite"].isin(claim.suite.split(","))]
    metrics = map(matching.metric, suite_numbers["metric"], map(published.variant, suite_numbers["variant"]))
    metric_rows = suite_numbers[[metric == claim.metric for metric in metrics]]
    tasks = metric_rows["task"] if len(metric_rows) and set(metric_rows["task"]) == {ALL} else suite_numbers["task"]
    return [task for task in dict.fromkeys(tasks) if "," not in task and task != ALL]


def _places(
    claim: Claim, numbers: pd.DataFrame, shelf: Shelf, pairs: Sequence[tuple[_Side, _Side | None]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the (suite, task, learner) on which to test a claim. "All tasks" means those in the paper's tables or, if
    these name none, those of ours that have every run."""
    for suite in claim.suite.split(","):
        suite_numbers = numbers[numbers["suite"] == suite]
        single = suite_numbers[~suite_numbers["task"].str.contains(",") & (suite_numbers["task"] != "all")]
        paper_tasks = list(dict.fromkeys(single["task"]))
        variants = map(published.variant, dict.fromkeys(suite_numbers["variant"]))
        learners = {name for variant in variants for name in variant.get("learner", "").split(",")}
        if not _paper_tasks(claim, numbers):
            sides = [side for pair in pairs for side in pair if side]
            paper_tasks = [
                task
                for task in shelf.tasks(suite, sides[0].method, sides[0].variant)
                if all(shelf.row(suite, task, side.method, "", side.variant) for side in sides)
            ]
        claim_tasks = claim.task.split(",")
        tasks = (
            paper_tasks
            if claim.task == ALL
            else [name for name in claim_tasks if name in paper_tasks or len(claim_tasks) == 1]
        )
        claimed_learners = claim.variant.get("learner", "").split(",")
        for task in tasks:
            for learner in [name for name in claimed_learners if len(claimed_learners) == 1 or name in learners]:
                yield suite, task, learner


def _findings(
    claim: Claim, cases: Sequence[_Case], estimator: Estimator, per_task: bool, shelf: Shelf
) -> Iterator[tuple[ClaimFinding, tuple[str, ...]]]:
    """Yield each number of a claim with its verdict, and the reasons why it is inconclusive, if it is. `per_task`:
    whether wins and ranges consider each task separately."""
    seeds, several_suites = shelf.paper.seeds, len({case.suite for case in cases}) > 1
    groups: dict[str, list[_Case]] = {}
    for case in cases:
        is_separate = claim.metric in OF_DRAWS or (per_task and claim.formula in ("wins", "range"))
        place = f"{case.ours.task_id} {case.ours.cell.learner}" if is_separate else case.suite if several_suites else ""
        groups.setdefault(" on ".join(part for part in (case.of, place) if part), []).append(case)
    refuting = 1 - (1 - LEVEL) / len(groups)
    compared = {of: _compared(claim, members, estimator) for of, members in groups.items()}
    if claim.formula == "wins":
        yield _wins(claim, list(compared.values()), refuting)
        return
    for of, estimated in compared.items():
        if claim.formula in ("best", "ordering"):
            verdict, why = _sided(estimated, LEVEL, refuting), equivalence.why_inconclusive(estimated.tested)
        else:
            high = claim.high if claim.high == claim.high else claim.value
            theirs = Published(claim.value, high, seeds=seeds or equivalence.UNSTATED_SEEDS)
            episodes = estimates.episodes([case.ours for case in groups[of]])
            directed = claim.formula in _DIFFERENCES
            verdict, why = equivalence.verdict(
                estimated.tested, theirs, claim.metric, claim.formula, episodes, directed, refuting
            )
        beside = difference([(case.ours, case.theirs or shelf.baseline(case.ours)) for case in groups[of]])
        yield ClaimFinding(of, estimated.interval, verdict, beside, estimated.interval_note), why


def _wins(claim: Claim, compared: Sequence[Estimated], refuting: float) -> tuple[ClaimFinding, tuple[str, ...]]:
    """Count the settings in which the method is better; the interval is from the number shown to be better to the
    number not shown to be worse.

    If the claim is that it is never better, a win refutes the claim.
    """
    levels = (LEVEL, refuting) if claim.value else (refuting, LEVEL)
    sided = [_sided(estimated, *levels) for estimated in compared]
    count = sum(float(estimated.tested.value[0]) > 0 for estimated in compared)
    wins, refuted = (sided.count(verdict) for verdict in (verdicts.REPRODUCED, verdicts.NOT_REPRODUCED))
    most = len(sided) - refuted
    bears, contradicts = (wins >= claim.value, most < claim.value) if claim.value else (most == 0, wins > 0)
    verdict = verdicts.REPRODUCED if bears else verdicts.NOT_REPRODUCED if contradicts else verdicts.INCONCLUSIVE
    few = any(estimated.tested.seeds < equivalence.FEWEST_SEEDS for estimated in compared)
    why = equivalence.why_inconclusive(compared[0].tested) if few else ("too few settings show who is better",)
    interval = Interval(*(np.asarray(float(number)) for number in (count, wins, most)))
    return ClaimFinding(f"of {len(sided)} settings", interval, verdict), why


def _sided(estimated: Estimated, better: float, worse: float) -> str:
    """Return `REPRODUCED` if the first side is better at the level `better`, `NOT_REPRODUCED` if it is worse at the
    level `worse`, else `INCONCLUSIVE`."""
    if equivalence.better(estimated.tested, level=better):
        return verdicts.REPRODUCED
    refuted = equivalence.better(estimated.tested, -1.0, worse)
    return verdicts.NOT_REPRODUCED if refuted else verdicts.INCONCLUSIVE


def _compared(claim: Claim, cases: Sequence[_Case], estimator: Estimator) -> Estimated:
    """Estimate the number of a claim over some cases; for a formula without a number of its own, by how much the first
    side is better."""
    settings = [Setting(case.ours, case.theirs) for case in cases]
    if claim.formula in ("level", "range"):
        return estimator(claim.metric, [Setting(case.ours) for case in cases])
    if claim.formula in _DIFFERENCES:
        return estimator(claim.metric, settings, _DIFFERENCES[claim.formula])
    lower = claim.metric.startswith(LOWER_IS_BETTER)
    return estimator(claim.metric, settings, "shortfall" if lower else "difference")
