"""The suite's declarations, and runs of it."""

import re

from guidebench.harness.commands import cli
from guidebench.harness.plan import matrix
from guidebench.suites.housekeep import LONGEST_TEXT, NO_ADAPTER, RECEPTACLES, Housekeep
from guidebench.suites.housekeep.layouts import MOST
from guidebench.suites.housekeep.preferences import read
from guidebench.suites.housekeep.snapshots import BOXES
from guidebench.suites.housekeep.words import LONGEST
from tests.refusals import check_refused


def test_sizes_agree():
    assert RECEPTACLES == MOST == BOXES and LONGEST_TEXT == LONGEST


def test_the_papers_profile_has_all_three_tasks_and_a_hundred_trials():
    plan = matrix.plan(["suite=housekeep", "profile=paper", "seeds=1"])
    assert [cell.names.task for cell in plan.cells] == ["adjustment_1", "adjustment_2", "adjustment_3"]
    assert plan.cells[0].section("evaluation").episodes == 100 and plan.cells[0].section("suite").length == 1_000
    assert plan.cells[0].score.name == "object success"
    assert len({str(cell.section("suite").spaces(cell.names.task)) for cell in plan.cells}) == 1


def test_tasks_can_be_named_by_the_papers_numbers():
    (cell,) = matrix.plan(["suite=housekeep", "task=task13", "profile=smoke", "seeds=1"]).cells
    assert cell.names.task == "adjustment_3"


def test_settings_out_of_bounds_are_named():
    check_refused(r"suite\.distractors=18: expected int in \[0, 17\]", Housekeep, distractors=18)
    check_refused(r"suite\.layouts=0", Housekeep, layouts=0)


def test_a_tables_content_is_part_of_a_cells_id_and_its_path_is_not(table):
    words = ["suite=housekeep", "profile=smoke", "seeds=1"]
    path = table(lambda row: [*row[:3], "1", "1"] if row[1:3] == ["shelf", "sponge"] else row)
    copy = path.with_name("copy.csv")
    copy.write_bytes(path.read_bytes())
    name = read(path).name
    (default,) = matrix.plan(words).cells
    from_path, from_copy = (
        matrix.plan([*words, f"suite.preferences={p}", f"suite.table={name}"]).cells for p in (path, copy)
    )
    assert from_path[0].id == from_copy[0].id != default.id
    assert from_path[0].variant == f"suite.table={name}"  # shown in row names


def test_doctor_says_why_there_is_no_adapter(capsys):
    cli.main(["doctor", "suite=housekeep"])
    out = capsys.readouterr().out
    assert re.search(
        r"missing +habitat-sim +not used: it is published for conda alone and its maintenance has ended", out
    )
    assert re.search(r"ok +housekeep +3 tasks and their frames can be made", out)
    assert NO_ADAPTER in out
    cli.main(["doctor"])
    assert "habitat" not in capsys.readouterr().out
