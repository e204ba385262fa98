"""DSADF's tables and figures from the cells that its page's commands plan, and from small runs of these commands."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from docs.generated import papers
from guidebench import results
from guidebench.harness import registry
from guidebench.harness.plan.config import Cell
from guidebench.reports.papers import dsadf, report
from guidebench.reports.papers.report import PaperReport
from guidebench.results import published
from tests.reports.papers.planned_studies import as_if_run, unrendered_module

__all__ = ["unrendered_module"]
TABLES = {
    experiment.makes.split(",")[0].removeprefix("table "): experiment.command
    for experiment in papers.ABOUT["dsadf"].experiments
}
"""Table -> the command of the page that makes it."""
Numbers = Mapping[tuple[str, ...], Mapping[str, Any]]


def numbers(paper_report: PaperReport, table: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return (task, method, metric, values of the variant) -> number of one table of a paper's report."""
    (layout,) = (layout for layout in report.plain(paper_report)["tables"] if layout["table"] == table)
    return {
        (number["task"], number["method"], number["metric"], *number["variant"].values()): number
        for number in layout["numbers"]
    }


def worth(cell: Cell) -> float:
    """Return a completion rate that differs from cell to cell."""
    return int(cell.id[:4], 16) / 0xFFFF


@pytest.fixture(scope="module")
def planned_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[PaperReport, list[Cell]]:
    """Return the report on as-if-run studies of all commands of the page in the paper's own profile, and their
    cells."""
    studies, cells = [], []
    for table, command in TABLES.items():
        plan = papers.plan(command)
        studies.append(as_if_run(plan, tmp_path_factory.mktemp(f"table-{table}") / "study", worth))
        cells += plan.trained
    return report.report([results.study(study) for study in studies], "dsadf", {}, reps=200), cells


@pytest.mark.parametrize("table", TABLES)
def test_a_command_runs_without_a_model_in_smoke_with_hand_written_parts(table: str) -> None:
    """In the smoke profile, ablations that differ only in a model equal the method itself."""
    command, only, names = TABLES[table].partition(" --only")
    plan = papers.plan(f"{command} profile=smoke models=scripted{only}{names}")
    backends = {cell.section(part.role).backend for cell in plan.trained for part in cell.models}
    assert backends <= {"scripted"}


def of(number: Mapping[str, Any]) -> str:
    """Return TASK METHOD of the one run directory of a number, without the cell's id."""
    (directory,) = {path.rsplit("/", 1)[0] for path in number["runs"]}
    _suite, task, name = directory.split("/")
    return f"{task} {name.rpartition('-')[0]}"


def cell_of(number: Mapping[str, Any], cells: list[Cell]) -> Cell:
    (directory,) = {path.rsplit("/", 1)[0] for path in number["runs"]}
    return next(cell for cell in cells if cell.directory == directory)


def test_tasks_stages_and_models_have_the_names_that_are_registered() -> None:
    aliases = {**registry.get("suite", "crafter_ood").aliases, **registry.get("suite", "housekeep").aliases}
    assert dict(dsadf.TASKS) == aliases
    assert {*dsadf.STAGES.values(), *dsadf.BASELINES, dsadf.FULL, dsadf.TRANSFER, "transfer"} <= {
        *registry.names("method")
    }
    assert {*dsadf.ROLES} <= {*registry.roles()}


def test_every_number_of_a_table_is_filled_by_its_command_but_for_what_is_not_served(
    planned_report: tuple[PaperReport, list[Cell]],
) -> None:
    paper_report, _ = planned_report
    empty = {
        table: {(key[1], *key[3:]) for key, number in numbers(paper_report, table).items() if number["ours"] is None}
        for table in TABLES
    }
    assert empty.pop("4") == {("minigpt_4",), ("minigpt_4", "gpt-4o")}, "nobody serves MiniGPT-4"
    assert empty.pop("7") == {("dsadf", "minigpt-4-7b")}
    assert not any(empty.values()), empty


@pytest.mark.parametrize(
    ("table", "key", "cell", "has"),
    [
        ("3", ("task2", "linvit", "success_percent", "apt"), "mine_iron linvit", {"stages": ["apt_exploration"]}),
        ("3", ("task4", "dsadf", "seconds", "ellm"), "deforestation dsadf", {"stages": ["ellm_exploration"]}),
        ("4", ("task5", "llava_1_5", "success_percent"), "mine_diamond model_as_agent", {"performer": "llava-1.5"}),
        ("4", ("task7", "qwen2_5_vl", "survival_percent"), "attack_cow_zombies model_as_agent",
         {"performer": "qwen2_5_vl_7b"}),
        ("4", ("task6", "llava_1_5", "seconds", "gpt-4o"), "iron_sword model_with_planner",
         {"performer": "llava-1.5", "planner": "gpt-4o"}),
        ("4", ("task5", "dsadf", "success_percent"), "mine_diamond dsadf_transfer",
         {"performer": "qwen2_5_vl_7b", "planner": "gpt-4o", "stages": ["ellm_exploration", "dsadf"]}),
        ("5", ("task8", "gpt_4o", "success_percent"), "mine_diamond_short model_as_agent", {"performer": "gpt-4o"}),
        ("5", ("task10", "qwen2_5", "seconds"), "wood_sword model_as_agent", {"performer": "qwen2.5-72b"}),
        ("6", ("task6", "dsadf", "success_percent", "deepseek"), "iron_sword dsadf_transfer",
         {"planner": "deepseek", "reflector": "deepseek", "scorer": "gpt-4o"}),
        ("7", ("task5", "dsadf", "success_percent", "llama-3.1"), "mine_diamond dsadf_transfer",
         {"performer": "Llama-3.1-8B-Instruct", "planner": "gpt-4o"}),
        ("8", ("task1", "dsadf", "success_percent", "no_planner"), "stone_sword sparse",
         {"stages": ["ellm_exploration"]}),
        ("8", ("task1", "dsadf", "success_percent", "no_performer"), "stone_sword dsadf", {"agent.router": "rl"}),
        ("8", ("task1", "dsadf", "success_percent", "no_rl_agent"), "stone_sword model_with_planner", {}),
        ("8", ("task1", "dsadf", "success_percent", "performer_only"), "stone_sword model_as_agent", {}),
        ("8", ("task1", "dsadf", "success_percent", "no_reflection"), "stone_sword dsadf",
         {"agent.reflect": False, "agent.router": "both"}),
        ("8", ("task1", "dsadf", "success_percent"), "stone_sword dsadf",
         {"agent.reflect": True, "agent.router": "both"}),
        ("9", ("task7", "dsadf", "success_percent", "no_planner"), "attack_cow_zombies transfer",
         {"stages": ["ellm_exploration", "sparse"]}),
        ("9", ("task7", "dsadf", "survival_percent", "no_performer"), "attack_cow_zombies dsadf_transfer",
         {"agent.router": "rl"}),
        ("10", ("task11", "gpt_4o", "object_success_percent"), "adjustment_1 model_as_agent",
         {"performer": "gpt-4o"}),
        ("10", ("task13", "sparse", "object_success_percent"), "adjustment_3 sparse", {"stages": []}),
    ],
)  # fmt: skip
def test_a_number_is_that_of_the_cell_which_it_is_about(
    table: str, key: tuple[str, ...], cell: str, has: Mapping[str, Any], planned_report: tuple[PaperReport, list[Cell]]
) -> None:
    paper_report, cells = planned_report
    number = numbers(paper_report, table)[key]
    assert of(number) == cell
    number_cell = cell_of(number, cells)
    for name, setting in has.items():
        if name == "stages":
            assert [stage.names.method for stage in number_cell.stages] == setting
        elif "." in name:
            assert number_cell.settings[name].value == setting
        else:
            assert number_cell.section(name).model.rpartition("/")[2] == setting
    ours = number["ours"]["estimate"]
    expected_values = {"success_percent": 50, "survival_percent": 50, "seconds": 8 / 2}
    expected = 100 * worth(number_cell) if key[2] == "object_success_percent" else expected_values[key[2]]
    assert ours == pytest.approx(expected)
    assert number.get("beside") == ({"evaluation_steps": 200.0} if key[2] == "seconds" else None)


def test_equal_rows_of_several_tables_are_the_same_cells(planned_report: tuple[PaperReport, list[Cell]]) -> None:
    paper_report, _ = planned_report

    def runs(table: str, *key: str) -> list[str]:
        return [path.rpartition("/")[0] for path in numbers(paper_report, table)[key]["runs"]]

    for task in ("task1", "task2", "task3", "task4"):
        assert runs("8", task, "dsadf", "success_percent", "no_planner") == runs(
            "3", task, "sparse", "success_percent", "ellm"
        )
        assert runs("8", task, "dsadf", "success_percent") == runs("3", task, "dsadf", "success_percent", "ellm")
    for task in ("task5", "task6", "task7"):
        alone, led = (runs("9", task, "dsadf", "success_percent", name) for name in ("performer_only", "no_rl_agent"))
        assert alone == runs("4", task, "qwen2_5_vl", "success_percent")
        assert led == runs("4", task, "qwen2_5_vl", "success_percent", "gpt-4o")
        full = runs("4", task, "dsadf", "success_percent")
        assert full == runs("6", task, "dsadf", "success_percent") == runs("9", task, "dsadf", "success_percent")


def test_what_differs_is_said_and_only_that(planned_report: tuple[PaperReport, list[Cell]]) -> None:
    paper_report, _ = planned_report
    sparse = numbers(paper_report, "3")["task1", "sparse", "success_percent", "apt"]
    assert sparse["reasons"] == ["fewer than five seeds"] and sparse["verdict"] == "inconclusive"
    goals = "goals qwen2_5_vl_7b in ellm_exploration; the paper names none"
    assert numbers(paper_report, "3")["task1", "sparse", "success_percent", "ellm"]["reasons"] == [
        goals,
        "prompts of our own",
    ]
    assert numbers(paper_report, "3")["task1", "sparse", "seconds", "apt"]["reasons"] == ["measured on other hardware"]
    full = numbers(paper_report, "4")["task5", "dsadf", "success_percent"]
    assert full["reasons"] == [goals, "prompts of our own"], "it learnt on the paper's four tasks, in turn"
    for table, task, model in (
        ("6", "task5", "deepseek"),
        ("7", "task6", "llama-3.1"),
    ):  # the stage has the paper's own
        assert numbers(paper_report, table)[task, "dsadf", "success_percent", model]["reasons"] == full["reasons"]
    tidy = numbers(paper_report, "10")["task11", "sparse", "object_success_percent"]
    assert tidy["reasons"] == [dsadf.UNSTAGED, "a symbolic room of this project; the paper used Housekeep's simulator"]


def test_figures_3_to_6_are_drawn_with_all_their_curves_and_bars(
    planned_report: tuple[PaperReport, list[Cell]],
) -> None:
    paper_report, cells = planned_report
    drawings = {drawing.name: drawing for drawing in paper_report.figures.drawings}
    assert set(drawings) == {f"figure-{name}" for name in ("3", "3-2", "4", "4-4", "5", "5-6", "6")}
    assert not paper_report.figures.missing
    for name, stage in (("4", "ELLM"), ("4-4", "APT")):
        assert f"from {stage}'s policies" in drawings[f"figure-{name}"].caption
        assert "task3, attack_cow: dsadf ends at 0.50, sparse ends at 0.50" in drawings[f"figure-{name}"].alt
        assert "not run" not in drawings[f"figure-{name}"].caption
    (cell,) = {cell.id: cell for cell in cells if (cell.names.task, cell.names.method) == ("attack_cow", "curiosity")
               and cell.stage and cell.stage.names.method == "apt_exploration"}.values()  # fmt: skip
    assert (
        "task3: dsadf" in drawings["figure-5-6"].alt
        and f"curiosity {100 * worth(cell):.2f}".rstrip("0") in drawings["figure-5-6"].alt
    )
    assert "(not run: minigpt_4 with GPT-4o, minigpt_4)" in drawings["figure-6"].caption
    assert "task10: dsadf" in drawings["figure-6"].alt and "qwen2_5_vl with GPT-4o" in drawings["figure-6"].alt


def test_slips_of_the_paper_are_told_below_its_tables(planned_report: tuple[PaperReport, list[Cell]]) -> None:
    stream = io.StringIO()
    report.show(planned_report[0], Console(width=200, file=stream))
    output = " ".join(stream.getvalue().split())
    assert "68.33 (task5 dsadf, success percent): §5.3.2 has 58.33" in output
    assert "60 test runs give 48.33 or 50.00; table 9 has 48.33" in output
    assert "1,279.9 (task7 dsadf, seconds): tables 6, 7 and 9 have 679.9" in output
    assert "Its tasks 4 to 6, as printed, are read as 5 to 7" in output
    assert "The paper's times never exceed the cap of 15,000 steps" in output


def test_claims_are_tested_against_the_rows_that_they_name(planned_report: tuple[PaperReport, list[Cell]]) -> None:
    outcomes = {outcome.claim.claim: outcome for outcome in planned_report[0].claims}
    assert {finding.of for finding in outcomes["in_domain_success_apt"].findings} == {
        f"dsadf pretraining=apt beside {name} pretraining=apt" for name in dsadf.BASELINES
    }
    assert [finding.of.partition(" beside ")[2] for finding in outcomes["planner_task5_success"].findings] == [
        f"dsadf planner={name}" for name in ("deepseek", "qwen2.5-72b", "llama-3.1-405b")
    ]
    assert outcomes["ood_success"].verdict == "not run", "MiniGPT-4 is among what the claim compares with"
    not_run = {name for name, outcome in outcomes.items() if outcome.verdict == "not run"}
    unserved = {
        "unseen_tasks",
        "ood_success",
        "ood_time",
        *(name for name in outcomes if name.startswith("performer_")),
    }
    tidying = {"rearrangement", "housekeep_over_90"}
    assert not_run <= unserved | tidying, not_run - unserved - tidying


def test_every_slip_that_the_claims_contradict_is_noted() -> None:
    claims = published.claims("dsadf").set_index("claim")["note"]
    for name, word in (
        ("task_count", "13"), ("training_tasks", "stone sword"), ("stone_sword_time", "1648.1"),
        ("situation_1_success", "68.33"), ("performer_success_task5", "task 4"), ("planner_task7_time_level", "1279.9"),
    ):  # fmt: skip
        assert word in claims[name]
