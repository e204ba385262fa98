"""DSADF's numbers agree with its counts of runs, with each other and with its prose, or a note says where not."""

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pandas as pd
import pytest

from guidebench.results import published

TIMES = "seconds"
OBJECTS = {"task11": 7, "task12": 5, "task13": 7}
"""Housekeep task -> number of objects that appendix A.1.1 lists."""
SAME = {
    ("dsadf", "ablation=no_planner"): ("sparse", "pretraining=ellm"),
    ("dsadf", "ablation=no_rl_agent"): ("qwen2_5_vl", "planner=gpt-4o"),
    ("dsadf", "ablation=performer_only"): ("qwen2_5_vl", ""),
    ("dsadf", "pretraining=ellm"): ("dsadf", ""),
}
"""(method, variant) -> (method, variant) of the same system according to the paper (§5.1, §5.3.2, §5.3.3)."""
FOLLOWS, TIES, FAILS = "", "ties: ", "does not follow: "
"""How a claim's note begins, by what the tables make of the claim."""

System = tuple[str, str]


@pytest.fixture(scope="module")
def numbers() -> pd.DataFrame:
    return published.load("dsadf")


@pytest.fixture(scope="module")
def claims() -> pd.DataFrame:
    return published.claims("dsadf")


def _possible(value: float, step: float) -> bool:
    return f"{round(value / step) * step:.2f}" == f"{value:.2f}"


def _step(row: Any) -> float:
    """Return what one more success in 60 runs, or one more object in 100 trials, adds to a rate in percent."""
    return 100 / 60 if row.suite == "crafter_ood" else 100 / (100 * OBJECTS[row.task])


def test_a_rate_that_no_count_of_runs_gives_names_its_neighbours(numbers: pd.DataFrame) -> None:
    for row in numbers[numbers["metric"] != TIMES].itertuples():
        step, steps = _step(row), math.floor(row.value / _step(row))
        expected = [] if _possible(row.value, step) else [(f"{steps * step:.2f}", f"{(steps + 1) * step:.2f}")]
        assert re.findall(r"give (\S+) or (\d+\.\d\d)", row.note) == expected, row


def test_every_printed_number_has_a_row_and_which_tables_have_rates_that_no_count_of_runs_gives(
    numbers: pd.DataFrame, claims: pd.DataFrame
) -> None:
    shapes = {"3": 10 * 8, "4": 7 * 7, "5": 3 * 6, "6": 4 * 7, "7": 4 * 7, "8": 6 * 8, "9": 6 * 7 - 6, "10": 5 * 3}
    assert numbers["table"].value_counts(sort=False).to_dict() == shapes
    assert claims[claims["formula"] == "none"]["note"].ne("").all(), "what runs cannot test says why"
    notes = claims.set_index("claim")["note"]
    rates = numbers[numbers["metric"] != TIMES]
    odd = {row.table for row in rates.itertuples() if not _possible(row.value, _step(row))}
    assert odd == {"4", "6", "8", "9", "10"}
    assert "tables 3 and 5 have only multiples of 100/60, tables 4, 6, 8 and 9 others too" in notes["test_runs"]
    assert not any(_possible(row.value, _step(row)) for row in rates[rates["table"] == "10"].itertuples())
    assert "no printed share is possible" in notes["housekeep_trials"]


def test_numbers_printed_twice_agree_or_name_each_other(numbers: pd.DataFrame) -> None:
    def system(row: Any) -> System:
        named_system = SAME.get((row.method, row.variant), (row.method, row.variant))
        return SAME.get(named_system, named_system)

    rows = list(numbers.itertuples())
    for first, second in product(rows, rows):
        places = [(row.task, row.metric, *system(row)) for row in (first, second)]
        if first.table == second.table or places[0] != places[1]:
            continue
        rounding = 0.05 + 1e-9 if first.metric == TIMES else 0  # a time may be printed to one decimal
        named = re.search(rf"tables? [^;]*\b{second.table}\b[^;]* (has|have) {second.value}", first.note) is not None
        assert named == (abs(first.value - second.value) > rounding), (first, second)


def test_table_7_and_the_text_on_it_number_their_tasks_one_too_low(numbers: pd.DataFrame, claims: pd.DataFrame) -> None:
    printed_tasks = numbers["note"].str.extract(r"printed as task (\d+)")[0]
    assert (printed_tasks.notna() == (numbers["table"] == "7")).all()
    printed, ours = printed_tasks.dropna().astype(int), numbers["task"].str.removeprefix("task").astype(int)
    assert (printed + 1 == ours[printed.index]).all()
    full = numbers[(numbers["method"] == "dsadf") & (numbers["variant"] == "")].set_index(["table", "task", "metric"])
    for task, metric in product(["task5", "task6", "task7"], ["success_percent", TIMES]):
        assert full.value["7", task, metric] == full.value["9", task, metric]
    for claim in claims[claims["where"].str.endswith("table 7")].itertuples():
        ours = [int(task.removeprefix("task")) for task in claim.task.split(",")]
        words = f"task{'s' if len(ours) > 1 else ''} {' and '.join(str(task - 1) for task in ours)}"
        assert f"the text says {words}" in claim.note


def test_a_time_without_any_success_and_a_missing_time_are_noted(numbers: pd.DataFrame) -> None:
    times = numbers[numbers["metric"] == TIMES].set_index(["table", "task", "method", "variant"])
    for row in numbers[numbers["metric"] == "success_percent"].itertuples():
        place = (row.table, row.task, row.method, row.variant)
        assert ("dash" in row.note) == (place not in times.index), row
        if place in times.index:
            assert ("no run succeeds, yet a time" in times.note[place]) == (row.value == 0), row


def test_a_time_in_bold_that_is_not_the_shortest_names_the_one_that_is(numbers: pd.DataFrame) -> None:
    noted = numbers[numbers["note"].str.contains("in bold as the shortest")]
    assert len(noted) == 2
    for row in noted.itertuples():
        column = numbers[(numbers["table"] == row.table) & (numbers["task"] == row.task) & (numbers["metric"] == TIMES)]
        assert column["value"].min() < row.value and f"in bold as the shortest; {column['value'].min()} " in row.note


def test_no_time_reaches_the_cap_on_steps(numbers: pd.DataFrame, claims: pd.DataFrame) -> None:
    cap = claims.set_index("claim").loc["evaluation_cap"]
    longest = numbers[numbers["metric"] == TIMES].sort_values("value").iloc[-1]
    assert longest.value < cap.value and f"the longest being {longest.value} s (table {longest.table})" in cap.note


def _outcome(claim: Any, printed: Mapping[str, Mapping[System, float]]) -> tuple[str, set[float]]:
    """Return whether a claim follows from the tables, and their numbers; `printed`: task -> system -> value."""

    def others(cells: Mapping[System, float]) -> list[float]:
        """Return the baselines' numbers, under the claim's variant if they have it; without a baseline, all but the
        method's own."""
        if not claim.baseline:
            return [value for system, value in cells.items() if system != (claim.method, claim.variant)]
        shared = "" if claim.baseline == claim.method else claim.variant
        return [cells[name, shared if (name, shared) in cells else ""] for name in claim.baseline.split(",")]

    ours = [printed[task][claim.method, claim.variant] for task in claim.task.split(",")]
    theirs = [others(printed[task]) for task in claim.task.split(",")]
    pairs = [(own_number, rival) for own_number, rivals in zip(ours, theirs, strict=True) for rival in rivals]
    decimals = len(repr(claim.value).split(".")[-1])
    sign = -1 if claim.metric == TIMES else 1
    match claim.formula:
        case "best":
            worst = min(sign * (method - rival) for method, rival in pairs)
            rivals = {rival for method, rival in pairs if sign * (method - rival) <= 0}
            return FOLLOWS if worst > 0 else TIES if worst == 0 else FAILS, rivals
        case "wins":
            won = sum(sign * (method - rival) > 0 for method, rival in pairs)
            return FOLLOWS if (won, len(pairs)) == (claim.value, claim.high) else FAILS, {float(won)}
        case "ordering":
            return FOLLOWS if all(list(row) == sorted(row, reverse=True) for row in theirs) else FAILS, set()
        case "range":
            attained = {min(ours), max(ours)} == {claim.value, claim.high}
            loose = "less than" in claim.statement or "over" in claim.statement
            inside = claim.value < min(ours) <= max(ours) < claim.high
            return FOLLOWS if attained or (loose and inside) else FAILS, {min(ours), max(ours)}
        case "level":
            derived = ours
        case "difference":
            derived = [method - rival for method, rival in pairs]
        case "relative_gain":
            derived = [100 * (method - rival) / rival for method, rival in pairs]
        case "relative_saving":
            derived = [100 * (rival - method) / rival for method, rival in pairs]
        case formula:
            raise AssertionError(formula)
    high = claim.value if math.isnan(claim.high) else claim.high
    return FOLLOWS if all(claim.value <= round(value, decimals) <= high for value in derived) else FAILS, set(derived)


def _names(note: str, values: set[float]) -> bool:
    """Return whether a note contains one of the values, rounded to the decimals that it writes."""
    numbers = re.findall(r"\d+\.\d+|\d+(?= %)", note)
    rounded = {(text, f"{abs(value):.{len(text.partition('.')[2])}f}") for text in numbers for value in values}
    return any(text == value for text, value in rounded)


def test_a_claim_follows_from_its_table_or_says_what_does(numbers: pd.DataFrame, claims: pd.DataFrame) -> None:
    for claim in claims[claims["formula"] != "none"].itertuples():
        if (table := re.search(r"table (\d+)$", claim.where)) is None:
            assert claim.where.startswith("figure") and claim.note == "drawn without numbers", claim
            continue
        rows = numbers[(numbers["table"] == table[1]) & (numbers["metric"] == claim.metric)]
        printed: dict[str, dict[System, float]] = {task: {} for task in rows["task"]}
        for row in rows[rows["suite"] == claim.suite].itertuples():
            printed[row.task][row.method, row.variant] = row.value
        outcome, instead = _outcome(claim, printed)
        began = next(begin for begin in (TIES, FAILS, FOLLOWS) if claim.note.startswith(begin))
        assert began == outcome, (claim, instead)
        assert outcome == FOLLOWS or _names(claim.note, instead), (claim, instead)


def test_a_number_in_prose_repeats_the_note_of_its_row(numbers: pd.DataFrame, claims: pd.DataFrame) -> None:
    rows = numbers.set_index(["table", "task", "method", "variant", "metric"])["note"]
    for claim in claims[claims["formula"] == "level"].itertuples():
        section, table = claim.where.split(", table ")
        if claim.note.startswith(FAILS):
            assert rows[table].str.contains(section).any(), claim
            continue
        for task in claim.task.split(","):
            parts = rows[table, task, claim.method, claim.variant, claim.metric].split("; ")
            assert all(part in claim.note for part in parts if " give " in part or " has " in part), claim


def test_without_reflection_is_the_nearest_ablation_by_the_points_named(
    numbers: pd.DataFrame, claims: pd.DataFrame
) -> None:
    rows = numbers[(numbers["table"] == "9") & (numbers["metric"] == "success_percent")]
    table = rows.pivot(index="task", columns="variant", values="value")
    ablations = table.drop(columns="")
    assert (ablations.idxmax(axis=1) == "ablation=no_reflection").all()
    assert [f"{points:g}" for points in (table[""] - ablations.max(axis=1)).round(2)] == ["3.33", "8.33", "0"]
    assert "3.33, 8.33 and 0 points below" in claims.set_index("claim").note["no_reflection_nearest"]
