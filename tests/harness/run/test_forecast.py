"""The hours of a study in words, before it begins and as its cells are timed."""

import pytest

from guidebench.harness.launchers import local
from guidebench.harness.plan import matrix
from guidebench.harness.run import forecast
from guidebench.harness.run.estimates import Cost
from guidebench.harness.run.forecast import Forecast


def test_hours_are_those_of_the_steps_that_are_left_and_corrected_once_cells_are_timed() -> None:
    """Two cells with equal counts: one recorded at an hour and half done, and one scaled by it. The second takes two
    hours at the pace of its learning steps."""
    plan = matrix.plan(
        ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "learner.lr=0.1,0.2", "seeds=1",
         "workers=1"]
    )  # fmt: skip
    first, second = (cell.id for cell in plan.cells)
    places = local.Local().slots(plan.execution)
    prediction = Forecast(plan, places, {first: Cost(3600.0, 0.0, "recorded")}, {first: 0.5})
    assert prediction.hours.hours == prediction.core_hours == pytest.approx(1.5)
    assert prediction.sentence().startswith(
        "about 1.5 hours on this machine with 1 worker (cpu), likely between 54 minutes"
    )
    assert prediction.sentence().endswith(
        "1 cell by runs of it that were recorded here; 1 cell by operation counts and the timing of others"
    )
    correction = prediction.time(second, 7200.0)
    assert (
        correction.startswith("corrected: about 2.5 hours on") and "some of its own updates, timed here" in correction
    )
    assert prediction.time(second, 7300.0) == "", "too little has changed"
    assert prediction.time(first, 7200.0).startswith("corrected: about 3.0 hours")


def test_what_estimates_rest_on_is_told_of_one_cell_and_of_several() -> None:
    sentence = forecast.rests_on(["timed", "timed", "scaled"])
    assert sentence.startswith("2 cells by some of their own updates, timed here; 1 cell by operation counts")
    assert forecast.rests_on(["timed", "recorded"]).endswith("1 cell by some of its own updates, timed here")
    assert forecast.rests_on(["recorded"] * 2) == "estimated by runs of these cells that were recorded here"


def test_a_study_of_seconds_is_not_said_to_take_no_minutes() -> None:
    assert [forecast.in_words(seconds / 3600) for seconds in (0, 20, 120, 7200)] == [
        "1 second", "20 seconds", "2 minutes", "2.0 hours"
    ]  # fmt: skip
