"""What KAGI says of its three tables, recomputed; where a claim does not follow, its note says what does."""

from decimal import Decimal

import pytest

from tests.results.published.printed_numbers import PrintedNumbers, list_of_numbers, mean, round_half_up

PRINTED = PrintedNumbers("kagi")
CLAIMS = PRINTED.claims
TASKS = ("cloth_covering", "almond_sweeping", "spatula_pick_place", "cube_stacking")
TUNED, FEW, FEW_TUNED = (
    "fine_tuning_steps=30000",
    "demonstrations=5x_fewer",
    "demonstrations=5x_fewer; fine_tuning_steps=45000",
)
COLUMNS = {
    "I": (("bc", ""), ("offline_rl", ""), ("robofume", TUNED), ("kagi", TUNED)),
    "II": (("offline_rl", FEW), ("robofume", FEW_TUNED), ("kagi", FEW_TUNED)),
    "III": (("moka", "resets=precise"), ("moka", "resets=imprecise"), ("kagi", TUNED)),
}


def column(table: str, method: str, variant: str) -> list[Decimal]:
    """Return the success of a method on the four tasks, in percent."""
    return [PRINTED(table, task, method, variant) for task in TASKS]


BC, OFFLINE, ROBOFUME, KAGI = (column("I", *of) for of in COLUMNS["I"])
OFFLINE_FEW, ROBOFUME_FEW, KAGI_FEW = (column("II", *of) for of in COLUMNS["II"])
PRECISE, IMPRECISE, KAGI_AGAIN = (column("III", *of) for of in COLUMNS["III"])


def minus(first: list[Decimal], second: list[Decimal]) -> list[Decimal]:
    return [a - b for a, b in zip(first, second, strict=True)]


def test_every_results_table_is_there_whole() -> None:
    for table, columns in COLUMNS.items():
        rows = [r for r in PRINTED.rows if r.table == table]
        assert {(r.task, r.method, r.variant) for r in rows} == {(t, *c) for t in TASKS for c in columns}
        assert len(rows) == 4 * len(columns)
    assert len(PRINTED.rows) == 40 and {r.suite for r in PRINTED.rows} == {"real_robot"}


def test_every_value_is_a_number_of_20_trials_and_table_3_repeats_table_1_s_kagi() -> None:
    assert all(r.value % 5 == 0 and r.note.startswith("20 trials") for r in PRINTED.rows)
    assert "the caption speaks of three tasks, the table has four" in PRINTED.rows[0].note
    assert sum(BC) == 100, "the column that no claim uses adds up as on the page"
    assert KAGI_AGAIN == KAGI
    assert all("the same as in table I" in r.note for r in PRINTED.rows if (r.table, r.method) == ("III", "kagi"))
    learners = (BC, OFFLINE, ROBOFUME, KAGI, OFFLINE_FEW, ROBOFUME_FEW, KAGI_FEW)
    assert all(min(values[:-1]) > values[-1] for values in learners), "cube stacking is hardest for every learner"


@pytest.mark.parametrize(
    ("claim", "ours", "theirs"),
    [
        ("robofume_over_offline_rl_with_fewer_demonstrations", ROBOFUME_FEW, OFFLINE_FEW),
        ("robust_to_fewer_demonstrations", KAGI_FEW, ROBOFUME_FEW),
        ("moka_with_precise_resets_over_kagi", PRECISE, KAGI),
        ("kagi_over_moka_with_imprecise_resets", KAGI, IMPRECISE),
    ],
)
def test_wins_on_every_task(claim: str, ours: list[Decimal], theirs: list[Decimal]) -> None:
    by = minus(ours, theirs)
    assert sum(v > 0 for v in by) == CLAIMS[claim].value == CLAIMS[claim].high == 4
    assert f"by {list_of_numbers(by)} points" in CLAIMS[claim].note


@pytest.mark.parametrize(
    ("claim", "better", "worse"),
    [
        ("offline_rl_needs_demonstrations", OFFLINE, OFFLINE_FEW),
        ("robofume_needs_demonstrations", ROBOFUME, ROBOFUME_FEW),
        ("moka_needs_precise_resets", PRECISE, IMPRECISE),
    ],
)
def test_what_each_method_loses(claim: str, better: list[Decimal], worse: list[Decimal]) -> None:
    by = minus(better, worse)
    assert min(by) > 0 and f"by {list_of_numbers(by)} points" in CLAIMS[claim].note


def test_robofume_s_gain_over_offline_rl_is_in_points() -> None:
    claim, by = CLAIMS["robofume_over_offline_rl"], minus(ROBOFUME, OFFLINE)
    assert (min(by), max(by)) == (claim.value, claim.high) and f"points: {list_of_numbers(by)}" in claim.note
    relative = [round_half_up(100 * gain / base, 0) for gain, base in zip(by, OFFLINE, strict=True)]
    assert f"relative gains are {min(relative)} to {max(relative)} %" in claim.note


def test_robofume_s_average_rises_by_half_with_few_demonstrations() -> None:
    few, all_, (few_tuned, tuned) = mean(OFFLINE_FEW), mean(OFFLINE), map(mean, (ROBOFUME_FEW, ROBOFUME))
    note = CLAIMS["robofume_over_offline_rl_with_fewer_demonstrations"].note
    assert few_tuned / few == Decimal("1.5")
    averages = [f"{round_half_up(v, 1)}" for v in (few, few_tuned, all_, tuned)]
    assert "by half, from {} to {} (table I: {} to {})".format(*averages) in note


def test_kagi_is_never_below_robofume() -> None:
    by, note = minus(KAGI, ROBOFUME), CLAIMS["no_worse_than_robofume"].note
    assert by[0] == 0 and "equal on cloth covering" in note and f"by {list_of_numbers(by[1:])} points" in note
    assert f"{round_half_up(mean(KAGI), 1)} against {round_half_up(mean(ROBOFUME), 1)} on average" in note


def test_kagi_loses_little_with_few_demonstrations() -> None:
    by = minus(KAGI_FEW, KAGI)
    assert f"differ by {list_of_numbers(by)} points" in CLAIMS["similar_with_fewer_demonstrations"].note
    lost = minus(ROBOFUME, ROBOFUME_FEW)
    sentence = f"it loses at most {-min(by):.0f} against table I, RoboFuME {min(lost):.0f} to {max(lost):.0f}"
    assert sentence in CLAIMS["robust_to_fewer_demonstrations"].note


def test_moka_s_range_and_what_kagi_recovers_of_its_loss() -> None:
    claim = CLAIMS["moka_with_precise_resets"]
    assert (min(PRECISE), max(PRECISE)) == (claim.value, claim.high)
    gains, losses = minus(KAGI, IMPRECISE), minus(PRECISE, IMPRECISE)
    shares = [round_half_up(100 * gain / loss, 0) for gain, loss in zip(gains, losses, strict=True)]
    assert f"{list_of_numbers(shares)} % of it" in CLAIMS["kagi_recovers_mokas_loss"].note
    short = [r for r in PRINTED.rows if "what MOKA loses" in r.note]
    assert [r.task for r in short] == [t for t, share in zip(TASKS, shares, strict=True) if share < 50]
    assert f"{min(shares)} % of what MOKA loses" in short[0].note
