"""Speed and remaining time of runs, compared with numbers worked by hand."""

import pytest

from guidebench.harness.errors import count
from guidebench.harness.records.formatting import count_statuses
from guidebench.harness.run import pace
from guidebench.harness.run.pace import Pace, Standing


def test_a_pace_is_that_of_the_last_minute() -> None:
    now = 0.0
    tell = Pace(clock=lambda: now)
    assert tell(1_000) is None  # resumed at step 1,000
    paces = []
    for second in range(1, 201):  # 100 steps/s for 100 seconds, then 10 steps/s
        now = float(second)
        paces.append(tell(1_000 + 100 * min(second, 100) + 10 * max(0, second - 100)))
    assert paces[0] == paces[99] == 100.0 and paces[129] == pytest.approx((30 * 100 + 30 * 10) / 60)
    assert paces[199] == pytest.approx(10.0)


def test_random_steps_say_nothing_about_the_pace() -> None:
    """1,000 steps a second up to step 5,000, where gradient steps begin, and 10 from there on."""
    now = 0.0
    tell = Pace(clock=lambda: now, since=5_000)
    paces = []
    for second, step in enumerate((0, 1_000, 2_000, 3_000, 4_000, 5_000, 5_010, 5_020)):
        now = float(second)
        paces.append(tell(step))
    assert paces == [None] * 6 + [10.0, 10.0]


def test_the_time_left_counts_what_waits_and_the_slowest_that_goes() -> None:
    going = [Standing("running", 50, 100, rate=10.0), Standing("running", 0, 100, rate=5.0)]
    assert going[0].seconds_left == 5.0 and going[1].seconds_left == 20.0
    assert pace.seconds_left(going) == 20.0  # the second alone takes longer than both together at 15 steps/s
    assert pace.seconds_left([*going, Standing("waiting", 0, 300)]) == pytest.approx((50 + 100 + 300) / 15)
    assert pace.seconds_left([*going, Standing("failed", 10, 300), Standing("finished", 9, 9)]) == 20.0
    # One that has just begun is taken to be as fast as the others.
    assert pace.seconds_left([going[0], Standing("running", 0, 200)]) == 20.0
    assert pace.seconds_left([Standing("waiting", 0, 300)]) is None


def test_a_study_in_words() -> None:
    runs = [Standing("finished", 100, 100), Standing("running", 50, 100, rate=10.0), Standing("waiting", 0, 100)]
    assert count_statuses(run.status for run in runs) == "1 of 3 runs finished, 1 waiting, 1 running"
    assert pace.ahead(runs) == "50% of all steps, 10 steps/s, about 15 s left"
    assert pace.ahead([Standing("waiting", 0, 100)]) == "0% of all steps"
    assert count_statuses(["finished"]) == "1 of 1 run finished"


def test_a_count_of_one_is_singular() -> None:
    assert [count(number, "run") for number in (0, 1, 2, 1_234)] == ["0 runs", "1 run", "2 runs", "1,234 runs"]
