"""The arithmetic of verdicts: a replay beside its record, and success on new layouts beside what is reported."""

import pytest

from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.loop.evaluation import Result
from guidebench.results.verification import replaying
from guidebench.results.verification.record import Tally
from guidebench.results.verification.replaying import RecordedEpisode, Replay

RECORDED = {0: RecordedEpisode(1.0, True, 5, 1.0), 1: RecordedEpisode(0.0, False, 9, 0.0)}
AGAIN = [Result(0, 0, 1.0, True, 5, 1.0), Result(0, 1, 0.0, False, 9, 0.0)]


def test_a_replay_tells_successes_from_returns_and_lengths() -> None:
    same = replaying.compare(RECORDED, AGAIN)
    assert same == ((), (), (), (), 2, "")
    assert replaying.compare(RECORDED, [AGAIN[0]._replace(ret=1.00001), AGAIN[1]]) == same  # rounding
    other = replaying.compare(RECORDED, [AGAIN[0]._replace(length=6), AGAIN[1]._replace(success=True)])
    assert (other.successes, other.others) == ((1,), (0,))
    assert other.first == (
        "episode 0 is recorded as a success of 5 steps, return 1, and is a success of 6 steps, return 1"
    )


ELSEWHERE = "made on A, played on B"


def replay(successes: int, others: int) -> Replay:
    """Return a replay of 20 episodes, of which `successes` differ in success and `others` in return or length alone."""
    numbers = tuple(range(20))
    return Replay(numbers[:successes], numbers[10:][:others], (), (), 20, "episode 0" if successes + others else "")


@pytest.mark.parametrize(
    ("machines", "successes", "others", "tolerance", "passed"),
    [
        # every episode counts where everything is as it was
        ("", 0, 0, 0.0, True), ("", 1, 0, 0.0, False), ("", 0, 1, 0.0, False), ("", 1, 1, 0.1, True),
        ("", 1, 2, 0.1, False),
        (ELSEWHERE, 0, 5, 0.0, True),  # a quarter of the returns
        (ELSEWHERE, 0, 6, 0.0, False), (ELSEWHERE, 0, 6, 0.3, True), (ELSEWHERE, 1, 5, 0.0, None),
        (ELSEWHERE, 2, 0, 0.0, None),  # a tenth of the successes
        (ELSEWHERE, 3, 0, 0.0, False), (ELSEWHERE, 1, 6, 0.0, False), (ELSEWHERE, 2, 0, 0.1, True),
        (ELSEWHERE, 3, 0, 0.1, False), (ELSEWHERE, 3, 0, 0.15, True),
    ],
)  # fmt: skip
def test_elsewhere_a_few_successes_settle_nothing_and_many_returns_fail(
    machines: str, successes: int, others: int, tolerance: float, passed: bool | None
) -> None:
    check = replaying.judged(3, replay(successes, others), machines, tolerance)
    assert check.passed is passed and machines in check.detail and ("--tolerance" in check.detail) == (passed is None)


def test_one_episode_of_a_short_evaluation_is_within_what_may_differ_elsewhere() -> None:
    replay_ = replaying.compare(RECORDED, [AGAIN[0]._replace(success=False), AGAIN[1]])
    assert replaying.judged(3, replay_, "made on A, played on B", 0.0).passed is None
    replay_ = replaying.compare(RECORDED, [AGAIN[0]._replace(length=6), AGAIN[1]])
    assert replaying.judged(3, replay_, "made on A, played on B", 0.0).passed is True


def test_fisher_s_exact_test_on_a_small_table() -> None:
    # 3 of 3 beside 0 of 3: of the 20 ways to place three successes, two are as extreme
    assert replaying.p_value(Tally(3, 3), Tally(0, 3)) == pytest.approx(2 / 20)
    assert replaying.p_value(Tally(3, 4), Tally(6, 8)) == pytest.approx(1.0)
    assert replaying.p_value(Tally(0, 0), Tally(6, 8)) == 1.0


def test_holm_counts_cells_that_are_not_there_yet_as_ones_that_will_hold() -> None:
    assert replaying.holm({"a": 0.04, "b": 0.01, "c": 0.5}, 3) == pytest.approx({"b": 0.03, "a": 0.08, "c": 0.5})
    assert replaying.holm({"a": 0.04}, 3) == pytest.approx({"a": 0.12})
    assert replaying.holm({"a": 0.01, "b": 0.01}, 2) == pytest.approx({"a": 0.02, "b": 0.02})


@pytest.mark.parametrize("reported", [Tally(20, 20), Tally(11, 20), Tally(0, 20), Tally(2, 4)])
@pytest.mark.parametrize("level", [0.01, 0.001])
def test_the_smallest_noticeable_difference_is_that_of_trying_all(reported: Tally, level: float) -> None:
    rate = reported.successes / reported.episodes
    tried = [abs(k / 50 - rate) for k in range(51) if replaying.p_value(reported, Tally(k, 50)) < level]
    assert replaying.noticeable(reported, 50, level) == (min(tried) if tried else None)


def test_a_success_that_new_layouts_do_not_bear_out_fails_and_says_how_small_a_one_would_have() -> None:
    check = replaying.renewal(Tally(20, 20), Tally(10, 32), 1e-6, 2)
    assert check.passed is False
    assert "success 0.312 (10 of 32 episodes), reported 1.000 (20 of 20 episodes)" in check.detail
    assert "noticed from a difference of 0.344 on" in check.detail
    assert replaying.renewal(Tally(20, 20), Tally(31, 32), 1.0, 2).passed is True


@pytest.mark.parametrize(
    ("reported", "renewed", "cells", "passed"),
    [
        (Tally(4, 4), Tally(1, 1), 1, None),  # no difference could be significant
        (Tally(4, 4), Tally(64, 64), 1, None),  # only a difference of .72 could
        (Tally(15, 30), Tally(48, 96), 100, True),  # one of .36 could
        (Tally(15, 30), Tally(48, 96), 1_000, None),
        (Tally(4, 4), Tally(0, 64), 1, False),  # a significant difference counts however small the sample
    ],
)
def test_new_layouts_that_could_show_little_count_for_nothing_unless_they_fail(
    reported: Tally, renewed: Tally, cells: int, passed: bool | None
) -> None:
    check = replaying.renewal(reported, renewed, min(1.0, cells * replaying.p_value(reported, renewed)), cells)
    assert check.passed is passed and ("0.4 must be: there are too few episodes" in check.detail) == (passed is None)


def test_without_success_the_episodes_above_the_median_are_counted() -> None:
    cost = Score("cost", "lower")
    recorded = [RecordedEpisode(0.0, False, 5, value) for value in (1.0, 2.0, 3.0)]
    renewed = [Result(0, number, 0.0, False, 5, value) for number, value in enumerate((3.0, 8.0, 9.0))]
    assert replaying.outcomes(cost, recorded, renewed) == ([True, True, False], [False, False, False])
    recorded_outcomes, renewed_outcomes = replaying.outcomes(SUCCESS, list(RECORDED.values()), AGAIN)
    assert recorded_outcomes == renewed_outcomes == [True, False]
    check = replaying.renewal(Tally(30, 32), Tally(2, 32), 1e-6, 1, replaying.counted(cost))
    assert check.passed is False and check.detail.startswith("cost better than the median episode's 0.062 (2 of 32")
