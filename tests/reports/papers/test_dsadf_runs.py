"""Small runs of the commands that make DSADF's tables and figures, and their places in the paper's report.

A server on loopback answers in the name of each model: behind it sit the hand-written chats, which read what the server
was sent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.loop.job import Job
from guidebench.harness.models.calls import Message
from guidebench.harness.plan import matrix, variations
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study
from guidebench.harness.run.worker import work
from guidebench.methods.dsadf import prompts
from guidebench.reports.papers import report
from guidebench.reports.papers.report import PaperReport
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.reports.papers.planned_studies import entries, unrendered_module
from tests.reports.papers.test_dsadf import TABLES, numbers

__all__ = ["unrendered_module"]
pytest.importorskip("crafter")
require("openai")
pytestmark = pytest.mark.release
ROLES = ("planner", "reflector", "performer", "scorer", "goals")
SMALL = (
    "profile=smoke", "models=paper", "seeds=1", "training.steps=24", "training.capacity=100", "evaluation.every=24",
    "evaluation.episodes=1", "learner.trunk=[8]", "learner.hidden=[8]", "learner.batch_size=8",
    "learner.learning_starts=16",
)  # fmt: skip
IN_CRAFTER = ("suite.area=24", "suite.length=30", "suite.test_length=12")
STAGED = ("pretraining.training.steps=24", "pretraining.evaluation.every=24")
EMBEDDED = ("text_embedder=scripted", "text_embedder.width=384")


@pytest.fixture(scope="module")
def addresses() -> Iterator[Callable[..., list[str]]]:
    """`addresses("planner", …)` returns the command words that point these roles to the server."""
    readers = {role: registry.get("chat", f"scripted_{role}")().spawn(None, "") for role in ROLES}

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        talk = tuple(Message(message["role"], (message["content"],)) for message in body["messages"])
        return 200, completion(readers[role_of(body["messages"][0]["content"])](talk))

    with serving(answers) as url:  # roles of one model at one address share a process
        yield lambda *roles: [f"{role}.base_url={url}" for role in roles]


@pytest.fixture(scope="module")
def run_table(addresses: Callable[..., list[str]], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`run_table(table, "task=task4", …)` runs a table's command of the page with these words in place of its own."""

    def run(table: str, *words: str, only: str = "") -> Path:
        _, kind, *arguments = TABLES[table].split()
        if "--only" in arguments:
            at = arguments.index("--only")
            arguments = arguments[:at] + arguments[at + 2 :]
        output = tmp_path_factory.mktemp(f"table-{table}") / "study"
        instead = {word.partition("=")[0]: word for word in (*arguments, *SMALL, *words, f"output={output}")}
        plan = matrix.plan([word for word in instead.values() if not word.endswith("=")])
        plan = variations.ablations(plan, only.split(",")) if kind == "ablate" else plan
        directory = StudyDirectory(study.directory_of(plan))
        directory.write(plan.name, [*plan.command], entries(plan, plan.seeds))
        for cell in plan.trained:  # in this process: starting one takes longer than such a run
            write_cell(directory, cell)
            job = Job(study=plan.name, directory=str(output), cell=record(cell), seeds=plan.seeds)
            work(job, lambda event: None, lambda: False)
        return output

    return run


@pytest.fixture(scope="module")
def trained_task(run_table: Callable[..., Path], addresses: Callable[..., list[str]]) -> Path:
    """Run the command of tables 3 and 8 on one training task; return the study's directory."""
    words = ("method=dsadf,sparse", "pretraining=ellm_exploration", "task=task4", *IN_CRAFTER, *STAGED, *EMBEDDED)
    return run_table(
        "8", *words, *addresses("planner", "reflector", "performer", "scorer", "goals"), only="variation=V"
    )


@pytest.fixture(scope="module")
def unseen(run_table: Callable[..., Path], addresses: Callable[..., list[str]]) -> Path:
    """Run the command of tables 4, 6, 7 and 9 on one task, from a randomly initialised stage; return the study's
    directory."""
    words = ("task=task7", "pretraining.task=task4", "pretraining.pretraining=", *IN_CRAFTER, *STAGED, *EMBEDDED)
    only = "planner=deepseek,performer=Llama-3.1-8B-Instruct,variation=II"
    return run_table("9", *words, *addresses("planner", "reflector", "performer", "scorer"), only=only)


def role_of(prompt: str) -> str:
    """Return the role whose prompt this is, by its first sentence."""
    openings = {"planner": prompts.PLANNER, "reflector": prompts.REFLECTOR, "performer": prompts.PERFORMER,
                "scorer": prompts.SCORER}  # fmt: skip
    return next((role for role, opening in openings.items() if prompt.startswith(opening)), "goals")


def paper_report(*studies: Path) -> PaperReport:
    return report.report([results.study(study) for study in studies], "dsadf", {}, reps=100)


def filled_keys(paper: PaperReport, table: str) -> set[tuple[str, ...]]:
    """Return the keys (see `numbers`) of the numbers of a table that our runs give."""
    return {key for key, number in numbers(paper, table).items() if number["ours"] is not None}


def every(task: str, *rows: tuple[str, ...], survival: bool = False) -> set[tuple[str, ...]]:
    metrics = ("success_percent", "seconds", *(("survival_percent",) if survival else ()))
    return {(task, method, metric, *variant) for method, *variant in rows for metric in metrics}


def test_tables_3_and_8_and_figures_3_to_5_show_small_runs_of_their_command(trained_task: Path) -> None:
    paper = paper_report(trained_task)
    assert filled_keys(paper, "3") == every("task4", ("dsadf", "ellm"), ("sparse", "ellm"))
    assert filled_keys(paper, "8") == every("task4", ("dsadf",), ("dsadf", "no_planner"), ("dsadf", "no_reflection"))
    full = numbers(paper, "3")["task4", "dsadf", "seconds", "ellm"]
    assert full["verdict"] == "not comparable" and full["reasons"][0] == "measured on other hardware"
    assert {"profile smoke", "text_embedder scripted, scripted"} <= {*full["reasons"]}
    assert not any("gpt-4o" in reason for reason in full["reasons"]), "the paper's own model answers"
    assert 1 <= full["beside"]["evaluation_steps"] <= 12
    assert {drawing.name for drawing in paper.figures.drawings} == {"figure-3", "figure-4", "figure-5"}


def test_tables_4_6_7_and_9_and_figure_6_show_small_runs_of_their_command(unseen: Path) -> None:
    paper = paper_report(unseen)
    three = {"survival": True}
    assert filled_keys(paper, "4") == every("task7", ("dsadf",), ("qwen2_5_vl",), ("qwen2_5_vl", "gpt-4o"), **three)
    assert filled_keys(paper, "6") == every("task7", ("dsadf",), ("dsadf", "deepseek"), **three)
    assert filled_keys(paper, "7") == every("task7", ("dsadf",), ("dsadf", "llama-3.1"), **three)
    variations = ("no_planner", "no_performer", "no_rl_agent", "performer_only")
    nine = every("task7", ("dsadf",), *(("dsadf", name) for name in variations), **three)
    assert filled_keys(paper, "9") == {key for key in nine if key[2] == "success_percent" or key[3:] != ("no_planner",)}
    reasons = numbers(paper, "4")["task7", "dsadf", "survival_percent"]["reasons"]
    assert "no pre-training; the paper's begins from ELLM's policy" in reasons
    assert any(reason.startswith("learnt on deforestation; the paper's learnt on stone_sword") for reason in reasons)
    swapped = numbers(paper, "6")["task7", "dsadf", "success_percent", "deepseek"]["reasons"]
    assert not any("deepseek" in reason for reason in swapped), "it is the model that the table names"
    assert [drawing.name for drawing in paper.figures.drawings] == ["figure-6"]


def test_table_5_shows_models_that_act_alone_and_no_other_in_their_place(
    run_table: Callable[..., Path], addresses: Callable[..., list[str]]
) -> None:
    words = ("method=model_as_agent", "task=task8", "pretraining.task=", "pretraining.pretraining=", *IN_CRAFTER)
    small = [f"{word.partition('=')[0]}=" for word in SMALL if word.startswith("learner.")]
    paper = paper_report(run_table("5", *words, *small, *addresses("performer"), only="performer=gpt-4o"))
    assert filled_keys(paper, "5") == every("task8", ("gpt_4o",)), (
        "its reference, Qwen-2.5-VL 7B, is no row of this table"
    )


def test_table_10_shows_small_runs_in_housekeep(
    run_table: Callable[..., Path], addresses: Callable[..., list[str]]
) -> None:
    roles = ("planner", "reflector", "scorer")
    words = ("task=task12", "suite.length=12", "prior=scripted", *EMBEDDED)
    paper = paper_report(run_table("10", *words, *addresses("performer", *roles), only="performer=gpt-4o"))
    methods = ("sparse", "linvit", "gpt_4o", "dsadf")
    assert filled_keys(paper, "10") == {("task12", method, "object_success_percent") for method in methods}


def test_the_command_prints_and_writes_the_paper(trained_task: Path, unseen: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = [str(trained_task), str(unseen), "--paper", "dsadf", "--resamples", "100", "--output", str(tmp_path)]
    assert cli.main(["report", *arguments]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "Table 9: Ablations on unseen tasks" in output and "Of the printed numbers:" in output
    page = (tmp_path / "dsadf.html").read_text()
    assert "60 test runs give 6.67 or 8.33" in page and "steps)" in page
    assert "the text says task 4" in page, "slips of the claims"
