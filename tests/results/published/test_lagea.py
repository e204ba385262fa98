"""What LaGEA's tables derive from one another, recomputed; where a claim does not follow, its note says what does."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations_with_replacement
from statistics import mean as average
from statistics import pstdev, stdev
from typing import Any

import pytest

from tests.results.published.printed_numbers import PrintedNumbers, follows, list_of_numbers, mean, round_half_up

PRINTED = PrintedNumbers("lagea")
CLAIMS = PRINTED.claims
TASKS = (
    *("button-press-topdown", "door-open", "drawer-close", "drawer-open", "peg-insert-side"),
    *("pick-place", "push", "reach", "window-close", "window-open"),
)
TABLE_1 = ("sac", "liv", "liv_proj", "relay", "furl_no_goal", "furl", "lagea")
FIXED, RANDOM = "goal=hidden_fixed", "goal=observable_random"
PAIRS = (
    *((task, RANDOM) for task in ("button-press-topdown", "drawer-open", "door-open")),
    *((task, FIXED) for task in ("push", "drawer-open", "door-open")),
)
"""Tasks and goals of the ablations, in the order of tables 3 and 7."""
ABLATIONS = (
    *("no_feedback_alignment", "free_form_feedback", "no_adaptive_rho"),
    *("only_adaptive_rho", "no_key_frames", "no_delta_reward"),
)


def ablated(ablation: str, table: str = "7") -> list[Decimal]:
    """Return an ablation's values over `PAIRS`, exact, as means of three seeds with ten episodes each, which the table
    rounds."""
    values = [PRINTED(table, task, "lagea", f"ablation={ablation}; {goal}") for task, goal in PAIRS]
    return [10 * Decimal(round(3 * value / 10)) / 3 for value in values]


FULL = [PRINTED("3", task, "lagea", goal) for task, goal in PAIRS]


def above_furl(table: str, goal: str) -> dict[str, Decimal]:
    """Return task -> LaGEA's number minus FuRL's."""
    return {t: PRINTED(table, t, "lagea", goal) - PRINTED(table, t, "furl", goal) for t in TASKS}


def test_every_results_table_is_there_whole() -> None:
    def of(table: str) -> set[tuple[str, str, str, int]]:
        return {(r.task, r.method, r.variant, r.seeds) for r in PRINTED.rows if r.table == table}

    assert of("1") == {(t, m, FIXED, 5) for t in [*TASKS, "all"] for m in TABLE_1}
    assert of("2") == {(t, m, RANDOM, 5) for t in [*TASKS, "all"] for m in ("sac", "relay", "furl", "lagea")}
    assert of("7") == {(t, "lagea", f"ablation={a}; {g}", 3) for t, g in PAIRS for a in ABLATIONS}
    both = [("button-press-topdown,drawer-open,door-open,push", "goal=hidden_fixed,observable_random"), *PAIRS]
    assert of("3") == {(t, "lagea", v + g, 3) for t, g in both for v in ("", "ablation=free_form_feedback; ")}
    assert {(r.table, r.error_kind) for r in PRINTED.rows if r.error_kind and r.task != "all"} == {
        ("2", "population_sd"), ("7", "sd"),
    }  # fmt: skip
    assert {(r.table, r.error_kind) for r in PRINTED.rows if r.error_kind and r.task == "all"} == {("2", "unknown")}
    unlike = [r for r in PRINTED.rows if r.table in "27" and not r.error_kind]
    assert [(r.table, r.task, r.method) for r in unlike] == [("2", "peg-insert-side", "lagea")] and unlike[0].note


def test_averages_are_those_of_their_tasks() -> None:
    assert [row.table for row in PRINTED.averages()] == ["1"] * 7 + ["2"] * 4 + ["3"] * 2
    for row in PRINTED.averages():
        assert len(PRINTED.parts(row)) == (6 if row.table == "3" else 10)
        follows(row, mean(PRINTED.parts(row)), 2 if row.table == "3" else 1)


def test_table_1_is_of_one_episode_for_each_of_five_seeds_but_where_noted() -> None:
    odd = [r for r in PRINTED.rows if r.table == "1" and r.task != "all" and r.value % 20]
    assert [(r.task, r.method) for r in odd] == [("door-open", "sac")] and "multiple of 20" in odd[0].note


def attainable(seeds: int, deviation: Any) -> set[tuple[float, float]]:
    """Return the pairs (mean, deviation) that `seeds` seeds with ten episodes each can have, rounded as the tables
    round."""
    places = 1 if seeds == 5 else 2
    runs = combinations_with_replacement(range(0, 101, 10), seeds)
    return {(round(average(r), places), round(deviation(r), places)) for r in runs}


def test_errors_of_table_2_are_population_deviations_and_of_table_7_sample_deviations() -> None:
    def of(table: str) -> Iterator[tuple[float, float]]:
        return ((r.value, r.error) for r in PRINTED.rows if r.table == table and r.task != "all" and r.error_kind)

    assert set(of("2")) <= attainable(5, pstdev) and set(of("7")) <= attainable(3, stdev)
    assert not {pair for pair in of("2") if pair[1]} & attainable(5, stdev)
    assert "population standard deviation" in next(r.note for r in PRINTED.rows if r.table == "2")


def test_an_average_s_error_is_at_most_the_mean_of_its_tasks_errors() -> None:
    rows = [r for r in PRINTED.rows if r.table == "2"]
    for row in (r for r in rows if r.task == "all"):
        errors = [r.error for r in rows if r.method == row.method and r.task != "all" and r.error_kind]
        assert 0 < row.error < sum(errors) / 10


def test_table_3_s_full_method_is_that_of_tables_1_and_2_but_where_noted_and_its_other_column_table_7_s() -> None:
    assert ablated("free_form_feedback", "3") == ablated("free_form_feedback")
    for (task, goal), value in zip(PAIRS, FULL, strict=True):
        row = next(r for r in PRINTED.rows if (r.table, r.task, r.method, r.variant) == ("3", task, "lagea", goal))
        five = PRINTED("1" if goal == FIXED else "2", task, "lagea", goal)
        assert (f"table 2 has {five.normalize():f} over five" in row.note) == (five != value)


@pytest.mark.parametrize(
    ("claim", "table", "goal"), [("random_goal_gain", "2", RANDOM), ("fixed_goal_gain", "1", FIXED)]
)
def test_average_gains_are_relative(claim: str, table: str, goal: str) -> None:
    averages = {r.method: r.value for r in PRINTED.rows if (r.table, r.task) == (table, "all")}
    assert sorted(averages, key=averages.__getitem__)[-2:] == ["furl", "lagea"] and CLAIMS[claim].variant == goal
    ours, furl = (PRINTED(table, "all", method, goal) for method in ("lagea", "furl"))
    gain = 100 * (ours - furl) / furl
    assert round_half_up(gain, 1) == Decimal(str(CLAIMS[claim].value))
    assert f"{ours - furl} points, {round_half_up(gain)} %" in CLAIMS[claim].note
    assert CLAIMS[claim.replace("gain", "level")].value == float(ours)


@pytest.mark.parametrize(("name", "table", "goal"), [("random", "2", RANDOM), ("fixed", "1", FIXED)])
def test_what_the_text_counts_beside_furl(name: str, table: str, goal: str) -> None:
    by = above_furl(table, goal)
    claim, notable = CLAIMS[f"above_furl_with_{name}_goals"], CLAIMS[f"notable_{name}_goal_tasks"]
    more, same = sum(v > 0 for v in by.values()), sum(v == 0 for v in by.values())
    assert more + same == 10 == claim.value == claim.high
    assert f"table {table} has it above on {more} of 10 tasks and equal on {same}" in claim.note
    tasks = notable.task.split(",")
    assert sum(by[t] > 0 for t in tasks) == notable.value == len(tasks)
    assert f"by {list_of_numbers(by[t] for t in tasks) if name == 'random' else '20 points each'}" in notable.note
    assert name == "random" or {by[t] for t in tasks} == {Decimal(20)}


def test_furl_and_sac_succeed_where_the_text_denies_it() -> None:
    claim = CLAIMS["only_success_on_hardest_tasks"]
    tasks = claim.task.split(",")
    for method in claim.method.split(","):
        for table, goal in (("1", FIXED), ("2", RANDOM)):
            values = [PRINTED(table, t, method, goal) for t in tasks]
            assert list_of_numbers(values) in claim.note and max(values) > claim.high
    assert all(PRINTED("1", "peg-insert-side", m, FIXED) == 0 for m in TABLE_1)
    assert PRINTED("2", "peg-insert-side", "lagea", RANDOM) == CLAIMS["peg_insertion_unsolved"].value == 0
    picked = [PRINTED(table, "pick-place", "lagea", goal).normalize() for table, goal in (("1", FIXED), ("2", RANDOM))]
    assert "pick-place, shown as solved in figure 14, has {} in table 1 and {} in table 2".format(*picked) in (
        CLAIMS["peg_insertion_unsolved"].note
    )


def test_the_synergy_gain_is_in_points_beside_the_best_reward_ablation() -> None:
    claim = CLAIMS["reward_synergy_gain"]
    full, reward = (
        round_half_up(mean(FULL)),
        [round_half_up(mean(ablated(a))) for a in ("no_adaptive_rho", "no_delta_reward")],
    )
    assert round_half_up(full - max(reward), 0) == claim.value and reward[0] == max(reward)
    assert f"{full} (table 3) − {reward[0]} (mean of table 7's column) = {full - reward[0]}" in claim.note
    assert f"relative {round_half_up(100 * (full - reward[0]) / reward[0])} %" in claim.note
    averages = {a: round_half_up(mean(ablated(a))) for a in ABLATIONS}
    best = max(averages, key=averages.__getitem__)
    assert best == "no_feedback_alignment"
    assert f"{averages[best]}, which leaves {full - averages[best]} points" in claim.note


def test_every_ablation_is_worse_on_average_though_many_values_are_equal() -> None:
    claim = CLAIMS["every_component_counts"]
    averages = [round_half_up(mean(ablated(a))) for a in ABLATIONS]
    assert max(averages) < round_half_up(mean(FULL)) and f"ablation={','.join(ABLATIONS)}; " in claim.variant
    assert f"{', '.join(map(str, averages))} against {round_half_up(mean(FULL))}" in claim.note
    assert f"{sum(ablated(a).count(Decimal(100)) for a in ABLATIONS)} of its 36 values are 100" in claim.note


def test_the_key_frame_ablation_does_not_fail_in_table_7() -> None:
    random, fixed = (
        PRINTED("7", "drawer-open", "lagea", f"ablation=no_key_frames; {goal}") for goal in (RANDOM, FIXED)
    )
    assert f"{random} % with random goals and in {fixed.normalize():f} % with fixed" in CLAIMS["key_frames_needed"].note
    assert fixed == PRINTED("1", "drawer-open", "lagea", FIXED)
    noted = [r for r in PRINTED.rows if r.table == "7" and "figure 4" in r.note]
    assert {(r.task, r.value) for r in noted} == {("drawer-open", float(random)), ("drawer-open", float(fixed))}


def test_structured_feedback_gains_on_half_of_the_pairs() -> None:
    gains = [round_half_up(full - free) for full, free in zip(FULL, ablated("free_form_feedback", "3"), strict=True)]
    note = CLAIMS["structured_feedback_beats_free_form"].note
    assert f"by {round_half_up(mean(gains))} points" in note and gains.count(Decimal(0)) == 3
    assert f"by {list_of_numbers(sorted((g for g in gains if g), reverse=True))}, the other three equal" in note
