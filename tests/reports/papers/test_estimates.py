"""Metrics of mean curves against values worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reports.papers.estimates import Estimator, Setting
from reports.papers.matching import Shelf

OURS = {0: {100: 0.2, 200: 0.6, 300: 0.8}, 1: {100: 0.4, 200: 0.8, 300: 1.0}}  # means .3 .7 .9
THEIRS = {0: {100: 0.3, 200: 0.4, 300: 0.5}, 1: {100: 0.3, 200: 0.4, 300: 0.7}}  # means .3 .4 .6


@pytest.fixture
def setting(add: Callable[..., None], shelf: Callable[..., Shelf]) -> Callable[..., Setting]:
    def made(ours: Any = OURS, theirs: Any = THEIRS) -> Setting:
        add("ours", ours, method="vlm_rb")
        add("theirs", theirs, method="per")
        found = shelf()
        one, other = (found.row("minigrid_doorkey", "8x8", name, "dqn", {}) for name in ("vlm_rb", "per"))
        assert one is not None
        return Setting(one, other)

    return made


def estimator(seconds: float = 1.0) -> Estimator:
    return Estimator(lambda row: 1.12 * seconds if row.cell.method == "vlm_rb" else seconds, reps=400)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("success_rate", 0.9),
        ("success_percent", 90.0),
        ("best_success_rate", 0.9),
        ("area_under_curve", 0.65),  # ((.3 + .7)/2 + (.7 + .9)/2) / 2
        ("steps_to_baseline_best", 200.0),  # .7 is the first mean of at least .6
        ("gain_percent", 50.0),  # (.9 - .6) / .6
        ("step_saving_percent", 100 / 3),  # (300 - 200) / 300
        ("time_saving_percent", 100 * (300 - 1.12 * 200) / 300),
    ],
)
def test_point_estimates(metric: str, expected: float, setting: Callable[..., Setting]) -> None:
    assert float(estimator()(metric, [setting()]).estimate) == pytest.approx(expected)


def test_the_baselines_own_steps_lead_to_its_own_best(setting: Callable[..., Setting]) -> None:
    baseline = setting().baseline
    assert baseline is not None
    assert float(estimator()("steps_to_baseline_best", [Setting(baseline)]).estimate) == 300


def test_the_same_seeds_are_drawn_together(setting: Callable[..., Setting]) -> None:
    found = estimator()("gain_percent", [setting()])
    # both seed 0: .8 beside .5; both seed 1: 1.0 beside .7
    assert [float(found.low), float(found.high)] == pytest.approx([100 * 0.3 / 0.7, 60.0])


def test_other_seeds_are_drawn_apart(setting: Callable[..., Setting]) -> None:
    found = estimator()("gain_percent", [setting(theirs={seed + 5: curve for seed, curve in THEIRS.items()})])
    # .8 beside .7 and 1.0 beside .5 each come up in one resample of sixteen
    assert [float(found.low), float(found.high)] == pytest.approx([100 * 0.1 / 0.7, 100.0])


def test_a_target_that_resamples_miss_is_infinitely_far(setting: Callable[..., Setting]) -> None:
    weak = {0: {100: 0.1, 200: 0.2, 300: 0.4}, 1: {100: 0.2, 200: 0.4, 300: 0.8}}
    found = estimator()("steps_to_baseline_best", [setting(ours=weak)])
    assert float(found.estimate) == 300 and np.isinf(float(found.high))


def test_several_settings_are_averaged_before_they_are_compared(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    for learner, ours, theirs in (("dqn", 1.0, 0.4), ("iqn", 0.6, 0.2)):
        add(f"{learner}-ours", {0: {100: ours}, 1: {100: ours}}, method="vlm_rb", learner=learner)
        add(f"{learner}-theirs", {0: {100: theirs}, 1: {100: theirs}}, method="uer", learner=learner)
    found = shelf()
    settings = []
    for learner in ("dqn", "iqn"):
        ours, theirs = (found.row("minigrid_doorkey", "8x8", name, learner, {}) for name in ("vlm_rb", "uer"))
        assert ours is not None
        settings.append(Setting(ours, theirs))
    # means .8 and .3, not the mean of 150 % and 200 %
    assert float(estimator()("gain_percent", settings).estimate) == pytest.approx(100 * 0.5 / 0.3)


def test_one_seed_has_no_interval_and_a_baseline_without_success_no_gain(setting: Callable[..., Setting]) -> None:
    found = estimator()("gain_percent", [setting(theirs={0: {100: 0.0, 300: 0.0}})])
    assert np.isnan(found.estimate) and np.isnan(found.low)
