"""Metrics of mean curves against values worked by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.interfaces import SUCCESS
from guidebench.reports.papers import equivalence
from guidebench.reports.papers.estimates import Estimator, Setting
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.papers.measures import WORKED
from guidebench.reports.summary import scoring
from guidebench.reports.summary.rows import ReportRow

OURS = {0: {100: 0.2, 200: 0.6, 300: 0.8}, 1: {100: 0.4, 200: 0.8, 300: 1.0}}  # means .3 .7 .9
THEIRS = {0: {100: 0.3, 200: 0.4, 300: 0.5}, 1: {100: 0.3, 200: 0.4, 300: 0.7}}  # means .3 .4 .6


@pytest.fixture
def setting(add: Callable[..., None], shelf: Callable[..., Shelf]) -> Callable[..., Setting]:
    def build(ours: Any = OURS, theirs: Any = THEIRS) -> Setting:
        add("ours", ours, method="vlm_rb")
        add("theirs", theirs, method="per")
        shelf_ = shelf()
        method_row, baseline_row = (
            shelf_.row("minigrid_doorkey", "8x8", name, "dqn", {}) for name in ("vlm_rb", "per")
        )
        assert method_row is not None
        return Setting(method_row, baseline_row)

    return build


def estimator(seconds: float = 1.0) -> Estimator:
    def measured(row: ReportRow, metric: str) -> np.ndarray[Any, Any]:
        pace = 1.12 * seconds if row.cell.method == "vlm_rb" else seconds
        return np.full(len(row.seeds), pace if metric == WORKED else np.nan)

    return Estimator(400, measured)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("success_rate", 0.9),
        ("success_percent", 90.0),
        ("success_rate_sd", 0.1 * 2**0.5),
        ("best_success_rate", 0.9),
        ("area_under_curve", 0.65),  # ((.3 + .7)/2 + (.7 + .9)/2) / 2
        ("steps_to_baseline_best", 200.0),  # .7 is the first mean of at least .6
        ("gain_percent", 50.0),  # (.9 - .6) / .6
        ("step_saving_percent", 100 / 3),  # (300 - 200) / 300
        ("time_saving_percent", 100 * (300 - 1.12 * 200) / 300),
    ],
)
def test_point_estimates(metric: str, expected: float, setting: Callable[..., Setting]) -> None:
    assert float(estimator()(metric, [setting()]).interval.estimate) == pytest.approx(expected)


def test_the_baselines_own_steps_lead_to_its_own_best(setting: Callable[..., Setting]) -> None:
    baseline = setting().baseline
    assert baseline is not None
    assert float(estimator()("steps_to_baseline_best", [Setting(baseline)]).interval.estimate) == 300


@pytest.mark.parametrize("apart", [0, 5])
def test_a_mean_has_the_standard_error_and_degrees_of_its_seeds(apart: int, setting: Callable[..., Setting]) -> None:
    ours = dict(enumerate({100: score} for score in (0.5, 0.6, 0.8, 0.4, 0.7)))
    theirs = {seed + apart: curve for seed, curve in enumerate({100: score} for score in (0.4, 0.6, 0.7, 0.4, 0.4))}
    both = setting(ours, theirs)
    estimate = Estimator(reps=50_000)
    alone = estimate("success_rate", [Setting(both.row)]).tested
    deviation = np.std([0.5, 0.6, 0.8, 0.4, 0.7], ddof=1)
    assert alone.error.tolist() == pytest.approx([deviation / np.sqrt(5)], rel=0.02)
    assert alone.freedom.tolist() == pytest.approx([4]) and alone.seeds == 5
    low, high = equivalence.ends(alone)
    assert [low, high] == pytest.approx(
        equivalence.ends(equivalence.of_seeds(np.array([0.5, 0.6, 0.8, 0.4, 0.7]))), rel=0.02
    )
    gap = estimate("success_rate", [both], "difference").tested
    # Welch and Satterthwaite of variances .025 and .02, whether or not the seeds are the same
    assert gap.error.tolist() == pytest.approx([np.sqrt(0.045 / 5)], rel=0.02)
    assert gap.freedom.tolist() == pytest.approx([4 * 0.045**2 / (0.025**2 + 0.02**2)], rel=0.02)


def test_a_target_that_resamples_miss_is_infinitely_far(setting: Callable[..., Setting]) -> None:
    weak = {0: {100: 0.1, 200: 0.2, 300: 0.4}, 1: {100: 0.2, 200: 0.4, 300: 0.8}}
    steps = estimator()("steps_to_baseline_best", [setting(ours=weak)])
    assert float(steps.interval.estimate) == 300 and np.isinf(float(steps.interval.high))
    assert np.isinf(steps.tested.error[0]), "some reach it and some do not: nothing is decided"
    hopeless = {0: {100: 0.1, 300: 0.2}, 1: {100: 0.1, 300: 0.2}}
    never = estimator()("steps_to_baseline_best", [setting(ours=hopeless)]).tested
    assert np.isinf(never.value[0]) and never.error[0] == 0, "never, in every resample"


def test_a_row_at_a_bound_is_read_with_one_more_seed_at_the_other(setting: Callable[..., Setting]) -> None:
    ones = {seed: {100: 0.0, 200: 1.0} for seed in range(5)}
    estimated_rate = estimator()("success_rate", [setting(ours=ones)])
    assert estimated_rate.tested.value.tolist() == pytest.approx([1, 5 / 6])
    assert estimated_rate.tested.error.tolist() == pytest.approx([0, 1 / 6], rel=0.1)
    assert float(estimated_rate.interval.high) == 1 and 0.3 < float(estimated_rate.interval.low) < 0.5
    both = estimator()("time_saving_percent", [setting(ours=ones, theirs=ones)]).tested
    assert len(both.value) == 3, "one in the method's row, one in the baseline's"


def test_an_interval_ends_where_no_value_can_be(setting: Callable[..., Setting]) -> None:
    """The row with one more seed, which never succeeds, may miss its target, so nothing bounds the saving from
    below."""
    ones = {seed: {100: 0.0, 200: 1.0} for seed in range(4)}
    mixed = {0: {100: 0.0, 200: 0.8}, 1: {100: 0.0, 200: 0.1}, 2: {100: 0.0, 200: 0.9}, 3: {100: 0.0, 200: 0.6}}
    saving = estimator()("step_saving_percent", [setting(ours=ones, theirs=mixed)]).interval
    assert float(saving.high) == 100 and np.isneginf(float(saving.low))
    assert float(estimator()("gain_percent", [setting(ours=ones, theirs=mixed)]).interval.low) >= -100


def test_several_settings_are_averaged_before_they_are_compared(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    for learner, ours, theirs in (("dqn", 1.0, 0.4), ("iqn", 0.6, 0.2)):
        add(f"{learner}-ours", {0: {100: ours}, 1: {100: ours}}, method="vlm_rb", learner=learner)
        add(f"{learner}-theirs", {0: {100: theirs}, 1: {100: theirs}}, method="uer", learner=learner)
    rows = shelf()
    settings = []
    for learner in ("dqn", "iqn"):
        ours, theirs = (rows.row("minigrid_doorkey", "8x8", name, learner, {}) for name in ("vlm_rb", "uer"))
        assert ours is not None
        settings.append(Setting(ours, theirs))
    # means .8 and .3, not the mean of 150 % and 200 %
    assert float(estimator()("gain_percent", settings).interval.estimate) == pytest.approx(100 * 0.5 / 0.3)


def test_one_seed_has_no_interval_and_a_baseline_without_success_no_gain(setting: Callable[..., Setting]) -> None:
    gain = estimator()("gain_percent", [setting(theirs={0: {100: 0.0, 300: 0.0}})])
    assert np.isnan(gain.interval.estimate) and np.isnan(gain.interval.low)


def test_a_gain_and_a_difference_have_the_interval_of_the_one_test(setting: Callable[..., Setting]) -> None:
    ours = dict(enumerate({100: score} for score in (0.9, 0.8, 0.85, 0.95, 0.9)))
    theirs = dict(enumerate({100: score} for score in (0.5, 0.6, 0.4, 0.55, 0.45)))
    both = setting(ours=ours, theirs=theirs)
    assert both.baseline is not None
    samples = [scoring.sample(SUCCESS, row.success, row.variances, row.counts) for row in (both.row, both.baseline)]
    gain, factors = estimator()("gain_percent", [both]).interval, statistics.ratio(*samples)
    assert [*map(float, gain)] == pytest.approx([min(100 * (float(part) - 1), 100) for part in factors]), "cut at 1"
    saving = estimator()("success_rate", [both], "saving").interval
    savings = [max(100 * (1 - float(factors[place])), -100) for place in (0, 2, 1)]
    assert [*map(float, saving)] == pytest.approx(savings)
    apart = estimator()("success_percent", [both], "difference").interval
    shifts = statistics.interval(*samples)
    assert [*map(float, apart)] == pytest.approx([100 * float(part) for part in shifts])
    steps = estimator()("step_saving_percent", [both])
    assert np.isfinite(float(steps.interval.estimate)), "of a mean curve alone, so no seed has a number of its own"
