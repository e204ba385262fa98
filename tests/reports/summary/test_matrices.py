"""Rows beside their reference, with numbers worked by hand."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports.rendering import figures, latex, page, tables
from guidebench.reports.summary import export, matrices
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer

FULL = {0: {100: [0, 0, 0, 0], 200: [1, 1, 1, 1]}, 1: {100: [0, 0, 0, 0], 200: [1, 1, 0, 0]}}
LESS = {0: {100: [0, 0, 0, 0], 200: [1, 0, 0, 0]}, 1: {100: [0, 0, 0, 0], 200: [1, 1, 0, 0]}}
SPRITE = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}


def role(kind: str, name: str, reference: str = "full") -> dict[str, str]:
    return {"kind": kind, "name": name, "reference": reference}


def terminal(summary: Summary) -> str:
    console = Console(width=140, color_system=None)
    with console.capture() as capture:
        console.print(tables.terminal(summary)[-1])
    return capture.get()


@pytest.fixture
def ablated(writer: Writer) -> Writer:
    """A writer with two cells of an ablation, whose reference comes second, as after an earlier `bench run` of the
    other cell."""
    writer.cell("less", LESS, steps=200, variant="lambda_max=1", matrix=role("ablation", "lambda_max=1"), **SPRITE)
    full = role("ablation", "full: lambda_max=0.5")
    writer.cell("full", FULL, steps=200, variant="full: lambda_max=0.5", matrix=full, **SPRITE)
    return writer


def test_differences_from_the_reference_of_a_worked_example(ablated: Writer) -> None:
    _, summary = ablated.summarised(2_000)
    names = ("full: lambda_max=0.5", "lambda_max=1")  # the reference comes first
    assert [row.label for row in summary.rows] == [f"vlm_rb ({name})" for name in names]
    assert matrices.remarks(summary.matrices) == [], "an ablation with a scripted judge is no check of the instrument"
    (matrix,) = summary.matrices
    first, second = matrix.lines
    assert (first.name, second.name) == ("full: lambda_max=0.5", "lambda_max=1")
    assert first.comparison is None and second.comparison is not None
    # 1 and .5 beside .25 and .5: of six choices of two, four are as far apart; 6 of 8 beside 3 of 8 have p = .315
    assert second.comparison.adjusted_p == second.comparison.p == pytest.approx(4 / 6)
    assert second.comparison.difference.estimate == -0.375 and np.isnan(second.comparison.difference.low)
    assert second.comparison.interval_note == "2 seeds cannot tell" and second.comparison.needed > 4


def test_p_values_are_corrected_for_every_row_that_is_compared(writer: Writer) -> None:
    """Five seeds of 1 beside five of 0 or .5 give 2 of 252 relabellings, above Fisher's p of the episodes; four rows
    are compared."""
    for name in ("full", "a", "b", "c", "d"):
        curves = {seed: {200: [1, 1] if name == "full" else [0, seed % 2]} for seed in range(5)}
        writer.cell(name, curves, steps=200, variant=name, matrix=role("ablation", name), **SPRITE)
    _, summary = writer.summarised(2_000)
    compared = [line.comparison for line in summary.matrices[0].lines[1:] if line.comparison]
    assert [comparison.p for comparison in compared] == [pytest.approx(2 / 252)] * 4
    assert [comparison.adjusted_p for comparison in compared] == [pytest.approx(8 / 252)] * 4
    assert all(-1 <= comparison.adjusted.low < comparison.adjusted.high < 0 for comparison in compared)


def test_terminal_latex_page_and_json_give_name_difference_and_seeds_needed(ablated: Writer) -> None:
    study, summary = ablated.summarised(2_000)
    compared = summary.matrices[0].lines[1].comparison
    assert compared is not None
    p, needed = f"{compared.adjusted_p:.3f}", tables.needed(compared.needed)
    (line,) = (line for line in terminal(summary).splitlines() if line.strip().startswith("lambda_max=1"))
    assert " ".join(line.split()) == f"lambda_max=1 0.38 [0.25, 0.50] -0.38 (2 seeds cannot tell) {p} {needed} 2"
    text = latex.latex(summary).replace(r"\allowbreak{}", "")
    (line,) = (line for line in text.splitlines() if line.startswith(r"lambda\_max=1 &"))
    assert line == rf"lambda\_max=1 & 0.38 & $-$0.38\ {{\scriptsize 2 seeds cannot tell}} & {p} & {needed} \\"
    assert "Final: mean over 2 seeds" in text and "is too narrow" in text
    # variances .125 and .03125 of two seeds each: sqrt(.0625 + .015625)
    assert r"& $-$0.38 {\scriptsize$\pm$\,0.28} &" in latex.latex(summary, latex.Style("pm"))
    text = page.render(
        study, summary, [figures.Gallery("Learning curves", "", figures.learning_curves(summary.rows))], []
    )
    assert '<th scope="row">lambda_max=1</th>' in text and f"<td>{p}</td><td>{needed}</td><td>2</td>" in text
    assert "(2 seeds cannot tell)" in text and "finds a difference in 80 % of 2,000 studies" in text
    assert "below .05 exactly where the interval leaves out 0" in text
    (plain,) = export.plain(summary)["matrices"]
    assert plain["kind"] == "ablation"
    assert [row["name"] for row in plain["rows"]] == ["full: lambda_max=0.5", "lambda_max=1"]
    first, second = plain["rows"]
    assert second["difference"] == {"estimate": -0.375, "low": None, "high": None}
    assert second["adjusted_p"] == compared.adjusted_p and second["seeds_needed"] == int(needed)
    assert first["difference"] is None and first["seeds_needed"] is None and first["p"] is None


def test_one_seed_has_a_difference_without_interval_and_a_reference_without_evaluations_no_matrix(
    writer: Writer, tmp_path: Path
) -> None:
    bare = Writer(tmp_path / "bare")
    bare.cell("full", {}, planned=[0], variant="full", matrix=role("ablation", "full"), **SPRITE)
    bare.cell("less", LESS, variant="less", matrix=role("ablation", "less"), **SPRITE)
    assert bare.summarised(2_000)[1].matrices == ()
    for name, rates in (("full", [1, 1]), ("less", [1, 0])):
        writer.cell(name, {0: {200: rates}}, steps=200, variant=name, matrix=role("ablation", name), **SPRITE)
    _, summary = writer.summarised(2_000)
    assert tables.compared(summary.matrices[0].lines[1]) == ["-0.50 (1 seed cannot tell)", "—", "—"]


def test_rows_without_a_role_stand_below_on_their_own_task_only(writer: Writer) -> None:
    for task in ("easy", "hard"):
        for name in ("standard", "texture"):
            place = role("perturbation", name, f"{task}-standard")
            writer.cell(f"{task}-{name}", FULL, steps=200, task=task, variant=name, matrix=place, **SPRITE)
        writer.cell(f"{task}-per", LESS, steps=200, task=task, method="per")
    _, summary = writer.summarised(2_000)
    assert [[line.name for line in matrix.lines] for matrix in summary.matrices] == [["standard", "texture", "per"]] * 2
    assert [{line.row.cell.task for line in matrix.lines} for matrix in summary.matrices] == [{"easy"}, {"hard"}]


@pytest.mark.parametrize(
    ("backend", "is_noted"), [("scripted", True), ("transformers", False), ("scripted+openai", True)]
)
def test_a_scripted_judge_under_perturbation_is_an_instrument_check(
    writer: Writer, backend: str, is_noted: bool
) -> None:
    """This holds whatever other model is asked beside the judge."""
    identity = {**SPRITE, "backend": backend}
    for name, variant, scores in (("full", "standard", FULL), ("other", "texture", LESS)):
        parts = {
            kind: {"kind": kind, "name": backend_, "backend": backend_, "model": "sprite"}
            for kind, backend_ in zip(("judge", "chat"), backend.split("+"), strict=False)
        }
        place = role("perturbation", variant)
        writer.cell(name, scores, variant=variant, matrix=place, record={"parts": parts}, **identity)
    _, summary = writer.summarised(2_000)
    words = "is a check of the instrument, not a finding about any model"
    assert any(words in note for note in summary.notes) is is_noted
    assert (words in latex.latex(summary).replace(r"\allowbreak{}", "")) is is_noted


def test_a_row_of_which_a_planned_seed_failed_early_or_that_stands_at_other_steps_has_no_difference(
    writer: Writer,
) -> None:
    writer.cell("full", FULL, steps=200, variant="full", matrix=role("ablation", "full"), **SPRITE)
    failed, early = {**LESS, 2: {}}, {seed: {100: curve[100]} for seed, curve in LESS.items()}
    for name, curves, status in (("less", failed, {2: "failed"}), ("early", early, {0: "running", 1: "running"})):
        writer.cell(name, curves, steps=200, variant=name, matrix=role("ablation", name), status=status, **SPRITE)
    study, summary = writer.summarised(2_000)
    assert [line.comparison for line in summary.matrices[0].lines] == [None] * 3
    assert "†: at an earlier step" in matrices.legend(summary.matrices) and "]† " in terminal(summary)
    assert r"0.38$^" not in latex.latex(summary) and latex.latex(summary).count(r"\dagger") >= 2
    text = page.render(
        study, summary, [figures.Gallery("Learning curves", "", figures.learning_curves(summary.rows))], []
    )
    assert text.count("†") >= 3


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (role("ablation", "less", "gone"), "compared with 'gone', which is not listed"),
        (role("abl", "less"), "matrix of kind 'abl'; expected one of ablation, perturbation"),
        (role("ablation", "le\x1bss"), "expected printable text"),
        ({"kind": "ablation", "name": "less"}, "lacks 'reference'"),
    ],
)
def test_a_damaged_role_is_named(writer: Writer, matrix: dict[str, str], words: str) -> None:
    writer.cell("full", FULL, matrix=matrix)
    with pytest.raises(UserError, match=words):
        results.study(writer.finish())
