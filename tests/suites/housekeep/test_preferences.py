"""The placement rule worked by hand, and tables that are refused."""

import pandas as pd
import pytest

from guidebench.suites.housekeep import TABLE, Housekeep
from guidebench.suites.housekeep.preferences import Votes, ours, read
from tests.refusals import check_refused


@pytest.mark.parametrize(
    ("positive", "raters", "correct"),
    [
        (10, 10, True),
        (6, 10, True),  # Housekeep: at least 6 of 10
        (5, 10, False),
        (0, 10, False),
        (3, 5, True),  # the same share of fewer raters
        (2, 4, False),
        (2, 3, True),  # .67
        (1, 2, False),
        (1, 1, True),
        (0, 1, False),
    ],
)
def test_a_receptacle_is_correct_for_six_of_ten_raters(positive, raters, correct):
    assert Votes(positive, raters).correct == correct


@pytest.mark.parametrize(
    ("thing", "receptacles"),
    [
        ("sponge", ("sink",)),
        ("soap_dispenser", ("counter", "sink")),
        ("pan", ("bottom cabinet", "cooktop", "oven", "stove")),
        ("mustard_bottle", ("fridge", "table", "top cabinet")),
    ],
)
def test_our_table_says_where_things_belong(thing, receptacles):
    assert ours().correct("kitchen", thing) == receptacles


def test_our_table_is_named_by_its_content_and_is_the_default():
    assert ours().name == TABLE == Housekeep().table


def test_a_table_is_the_same_in_any_order_and_format(table):
    path = table()
    original = read(path)
    assert original.name.startswith("file-") and original.name[5:] == TABLE[5:]
    turned = path.with_name("turned.parquet")
    pd.read_csv(path).iloc[::-1].to_parquet(turned, index=False)
    assert read(turned).name == original.name and read(turned).votes == original.votes


def change_cell(at, value, thing="mug", receptacle="sink"):
    """Return a change of one column in the row of one object and receptacle."""

    def change(row):
        if row[1:3] == [receptacle, thing]:
            row[at] = value
        return row

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_cell(3, "2"), r"positive is 2 of 1 raters"),
        (change_cell(4, "0"), r"positive is 0 of 0 raters; expected at least one"),
        (change_cell(3, "-1"), r"positive is '-1'; expected a whole number"),
        (change_cell(3, "0.5"), r"positive is '0.5'; expected a whole number"),
        (change_cell(2, ""), r"object is ''; expected a name"),
        (change_cell(2, "m" * 61), r"object is 'm+'; expected a name of at most 60"),
        (change_cell(2, "plate"), r"has 'plate' on kitchen\|sink twice"),
        (lambda row: None if row[1:3] == ["sink", "mug"] else row, r"lacks 'mug' on kitchen\|sink"),
        (lambda row: row[:4], r"row 1: 4 values; expected 5"),
        (lambda row: None, r"has 0 rows"),
    ],
)
def test_a_table_of_another_shape_is_refused_by_name(table, change, message):
    check_refused(message, read, table(change))


def test_other_columns_and_files_are_refused(table, tmp_path):
    check_refused(
        r"has the columns room, place.*; a table of preferences has room, receptacle",
        read,
        table(columns=("room", "place", "object", "positive", "raters")),
    )
    check_refused(r"ends in '\.txt'; a table of preferences ends in \.csv or \.parquet", read, table(name="table.txt"))
    check_refused(r"is no file; give a CSV or Parquet file", read, tmp_path / "none.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no table PAR1")
    check_refused(r"broken\.parquet: reading its preferences fails", read, tmp_path / "broken.parquet")


def test_a_table_has_to_be_named_by_its_content(table):
    path = table(change_cell(3, "1"))
    name = read(path).name
    check_refused(
        rf"holds the table {name}.*: set suite\.table={name}", Housekeep(preferences=str(path)).ready, "adjustment_1"
    )
    check_refused(
        rf"suite\.table={name} names a table .*suite\.preferences=", Housekeep(table=name).ready, "adjustment_1"
    )
    task = Housekeep(preferences=str(path), table=name).make("adjustment_3")
    assert task.rules.correct.sum() == Housekeep().make("adjustment_3").rules.correct.sum() + 1


def test_an_item_needs_a_correct_and_an_incorrect_receptacle(table):
    for value, problem in (("0", "no receptacle.*cannot be placed"), ("1", "every receptacle.*cannot be misplaced")):
        path = table(lambda row, value=value: [*row[:3], value, "1"] if row[2] == "fork" else row)
        check_refused(
            rf"item 'fork' of task 'adjustment_1' belongs on {problem}; choose another",
            Housekeep(preferences=str(path), table=read(path).name).ready,
            "adjustment_1",
        )


def test_unknown_names_of_a_table_are_refused(table):
    def refused(change, message, task="adjustment_1", **settings):
        path = table(change)
        check_refused(message, Housekeep(preferences=str(path), table=read(path).name, **settings).ready, task)

    refused(lambda row: [row[0], row[1].replace("sink", "pond"), *row[2:]], "receptacle 'pond' .*none of Housekeep's")
    refused(lambda row: None if row[2] == "fork" else row, "unknown object of the table table.csv: 'fork'")
    refused(lambda row: row if row[1] < "d" else None, "there are 7 receptacles .*choose a suite.room with 8 to 16")
    refused(lambda row: row, "suite.room= 'kitchn'; did you mean 'kitchen'", room="kitchn")
    rare = ("spatula", "plate", "fork", "peppermint", "salt_shaker", "blender_jar", "pressure_cooker", "mug")
    refused(lambda row: row if row[2] in rare else None, "distractors=4, but 1 other objects .*at most 1")


def test_objects_that_can_start_in_one_place_only_do_not_overfill_it(table):
    """Seven items and five distractors fill the twelve slots of a receptacle; a sixth is refused before the run."""
    items = {"spatula", "pressure_cooker", "peppermint", "plate", "fork", "blender_jar", "salt_shaker"}
    receptacle = min(Housekeep().preferences_table().receptacles("kitchen"))

    def change(row):
        return [*row[:3], "1" if (row[1] == receptacle) != (row[2] in items) else "0", "1"]

    path = table(change)
    settings = {"preferences": str(path), "table": read(path).name}
    check_refused(
        r"distractors=6, and 'spatula' and \d+ other .*on .* only .*at most 5",
        Housekeep(distractors=6, **settings).ready,
        "adjustment_1",
    )
    task = Housekeep(distractors=5, **settings).make("adjustment_1")
    for seed in range(5):
        task.reset(seed)
