"""The pages of papers: what can be run, by which command, and at what cost."""

import json
import re

import pytest

from docs.generated import papers
from guidebench.harness.commands import cli
from guidebench.harness.plan import contents
from guidebench.reports.papers.catalogue import paper
from guidebench.results import published

EXPERIMENTS = [each for about in papers.ABOUT.values() for each in about.experiments]


def test_a_number_can_be_run_where_its_suite_tasks_and_method_are() -> None:
    """LaGEA's method, baselines and tasks are all here; KAGI's tables are of a robot."""
    lagea = [number for number in published.load("lagea").itertuples() if papers.possible(number)]
    assert {number.table for number in lagea} == {"1", "2", "3", "7"}
    assert len(lagea) == 7 * 11 + 4 * 11 + 2 * 7 + 6 * 6 == len(published.load("lagea"))
    assert not any(map(papers.possible, published.load("kagi").itertuples()))
    assert all(map(papers.possible, published.load("vlm_rb").itertuples()))
    assert "171" in papers.pages()["papers/lagea.md"]


def test_every_table_and_figure_of_a_paper_that_stands_is_made_by_a_command() -> None:
    for name, about in papers.ABOUT.items():
        made = {word for each in about.experiments for word in re.findall(r"\b\d+[a-c]?\b", each.makes)}
        layout = paper(name)
        tables = set() if name == "kagi" else {each.table for each in layout.layouts}  # KAGI's are of a real robot
        wanted = tables | {each.figure for each in layout.figures}
        assert about.experiments and wanted <= made, f"{name}: {sorted(wanted - made)}"


@pytest.mark.parametrize("command", [each.command for each in EXPERIMENTS])
def test_the_cost_of_a_command_is_what_its_dry_run_tells(command: str, tmp_path, monkeypatch, capsys) -> None:
    """Hours are rounded to four places per row there, and models are told per run."""
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command.split()[1:], "device=cpu", "pack=1", "--dry-run", "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    planned = papers.plan(command)
    ids = [None if contents.waits_for(cell) else cell.id for cell in planned.trained]  # weights that are not here
    assert ids == [cell["cell"] for cell in told["cells"]]
    hours = sum(cell["hours"] for cell in told["cells"])
    assert papers.core_hours(planned) == pytest.approx(hours, abs=1e-4 * len(planned.trained))
    totals: dict[str, float] = {}
    for each in told["models"]:
        totals[each["model"]] = totals.get(each["model"], 0.0) + len(planned.seeds) * each["usd"]
    assert {model: usd for model, (_, usd) in papers.asked(planned).items()} == pytest.approx(totals)


def test_what_is_said_of_measured_numbers_is_what_the_stored_report_has() -> None:
    page = papers.pages()["papers/rl_sallm_f.md"]
    assert "They give 4 of the 84 numbers" in page
    assert (
        "| 4 | `button-press` | `rl_sallm_f` | success percent | 83.1 | 43.33 \\[0, 100\\] | not comparable |" in page
    )
