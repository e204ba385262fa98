"""The statements of docs/error_rates.md, with fewer studies and fixed seeds: each count is tested against the stated
error by the one-sided exact binomial test at 5 %."""

import re
from pathlib import Path

import pytest

from benchmarks import error_rates
from guidebench.harness.statistics import coverage

STUDIES = 3_000
DOCUMENT = Path(__file__).parents[2] / "docs" / "error_rates.md"


@pytest.mark.parametrize("kind", error_rates.EQUAL)
@pytest.mark.parametrize("runs", error_rates.RUNS)
def test_equal_methods_differ_in_at_most_five_percent_of_studies(kind: str, runs: int) -> None:
    draw = error_rates.EQUAL[kind]
    assert error_rates.exceeds(error_rates.rejections(draw, draw, runs, STUDIES, seed=1), STUDIES) > 0.05


@pytest.mark.parametrize("kind", error_rates.ONLY_MEANS)
@pytest.mark.parametrize("runs", error_rates.RUNS)
def test_methods_of_equal_means_alone_differ_in_at_most_eight_percent(kind: str, runs: int) -> None:
    count = error_rates.rejections(*error_rates.ONLY_MEANS[kind], runs, STUDIES, seed=1)
    assert error_rates.exceeds(count, STUDIES, error_rates.MEANS_ERROR) > 0.05


@pytest.mark.parametrize("kind", error_rates.EQUAL)
def test_some_of_two_to_ten_equal_rows_is_bold_in_at_most_five_percent_of_tables(kind: str) -> None:
    counts = error_rates.bold(kind, 5, STUDIES, seed=1)
    assert len(counts) == 9 and all(error_rates.exceeds(count, STUDIES) > 0.05 for count in counts)


def test_some_interval_of_four_equal_methods_leaves_out_0_in_at_most_five_percent() -> None:
    for kind in error_rates.EQUAL:
        assert error_rates.exceeds(error_rates.left_out(kind, 4, 5, STUDIES, seed=1), STUDIES) > 0.05


def test_the_binomial_test_notices_an_error_of_eight_percent() -> None:
    """At 8 % there are 240 errors of 3,000 where 150 are expected, with a standard deviation of 12."""
    assert error_rates.exceeds(240, STUDIES) < 1e-9 and error_rates.exceeds(150, STUDIES) > 0.4


def test_a_method_that_is_better_is_found() -> None:
    """This tests power, so that no test holds its error rate by never rejecting: two standard deviations, five
    seeds."""
    normal = error_rates.EQUAL["normal"]
    count = error_rates.rejections(lambda rng, shape: normal(rng, shape) + 2, normal, 5, STUDIES)
    assert 0.75 < count / STUDIES < 0.85


def test_the_document_has_a_number_for_every_kind_and_none_above_its_bound() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    first = text[: text.index("## Tables of equal rows")].splitlines()
    for kind in (*error_rates.EQUAL, *error_rates.ONLY_MEANS):
        (line,) = (line for line in first if line.startswith(f"| {kind} | "))
        most, *shares = (float(number) for number in re.findall(r"([\d.]+) %", line))
        assert len(shares) == len(error_rates.RUNS) and max(shares) <= most + 0.5, line
    last = text[text.index("## Coverage") :]
    for runs, share in coverage.NORMAL.items():
        (percent,) = re.findall(rf"^\| {runs} \| ([\d.]+) %", last, re.MULTILINE)
        assert float(percent) == pytest.approx(100 * share, abs=1)
