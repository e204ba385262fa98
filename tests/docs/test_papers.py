"""The pages of papers: what can be run, by which command, and at what cost."""

import json
import re

import pytest

from docs.generated import papers
from guidebench.harness.commands import cli
from guidebench.harness.plan import contents
from guidebench.reports.papers.catalogue import paper
from guidebench.results import published

EXPERIMENTS = [experiment for about in papers.ABOUT.values() for experiment in about.experiments]


def test_a_number_can_be_run_where_its_suite_tasks_and_method_are() -> None:
    """LaGEA's method, baselines and tasks are all registered; KAGI's tables are of a robot."""
    lagea = [number for number in published.load("lagea").itertuples() if papers.possible(number)]
    assert {number.table for number in lagea} == {"1", "2", "3", "7"}
    assert len(lagea) == 7 * 11 + 4 * 11 + 2 * 7 + 6 * 6 == len(published.load("lagea"))
    assert not any(map(papers.possible, published.load("kagi").itertuples()))
    assert all(map(papers.possible, published.load("vlm_rb").itertuples()))
    assert "171" in papers.pages()["papers/lagea.md"]


def test_every_table_and_figure_of_a_paper_that_stands_is_made_by_a_command() -> None:
    for name, about in papers.ABOUT.items():
        made_by_commands = {
            word for experiment in about.experiments for word in re.findall(r"\b\d+[a-c]?\b", experiment.makes)
        }
        layout = paper(name)
        tables = set() if name == "kagi" else {table.table for table in layout.layouts}  # KAGI's are of a real robot
        printed = tables | {figure.figure for figure in layout.figures}
        assert about.experiments and printed <= made_by_commands, f"{name}: {sorted(printed - made_by_commands)}"


@pytest.mark.parametrize("command", [experiment.command for experiment in EXPERIMENTS])
def test_the_cost_of_a_command_is_what_its_dry_run_tells(command: str, tmp_path, monkeypatch, capsys) -> None:
    """The dry run rounds hours to four places per row and prints the cost of models per run."""
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command.split()[1:], "device=cpu", "pack=1", "--dry-run", "--json"]) in (0, 1)
    dry_run = json.loads(capsys.readouterr().out)
    planned = papers.plan(command)
    ids = [None if contents.waits_for(cell) else cell.id for cell in planned.trained]  # weights that are not here
    assert ids == [cell["cell"] for cell in dry_run["cells"]]
    hours = sum(cell["hours"] for cell in dry_run["cells"])
    assert papers.core_hours(planned) == pytest.approx(hours, abs=1e-4 * len(planned.trained))
    totals: dict[str, float] = {}
    for model_cost in dry_run["models"]:
        totals[model_cost["model"]] = totals.get(model_cost["model"], 0.0) + len(planned.seeds) * model_cost["usd"]
    assert {model: usd for model, (_, usd) in papers.model_calls(planned).items()} == pytest.approx(totals)


def test_what_is_said_of_measured_numbers_is_what_the_stored_report_has() -> None:
    page = papers.pages()["papers/rl_sallm_f.md"]
    assert "They give 4 of the 84 numbers" in page
    assert (
        "| 4 | `button-press` | `rl_sallm_f` | success percent | 83.1 | 43.33 \\[0, 100\\] | not comparable |" in page
    )
