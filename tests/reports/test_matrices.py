"""Rows beside their reference, with numbers worked by hand."""

from __future__ import annotations

import pytest
from rich.console import Console

import results
from harness.errors import UserError
from reports import export, figures, matrices, page, summary, tables
from reports.summary import Summary
from results import Study
from tests.reports.conftest import Writer

FULL = {0: {100: [0, 0, 0, 0], 200: [1, 1, 1, 1]}, 1: {100: [0, 0, 0, 0], 200: [1, 1, 0, 0]}}
LESS = {0: {100: [0, 0, 0, 0], 200: [1, 0, 0, 0]}, 1: {100: [0, 0, 0, 0], 200: [1, 1, 0, 0]}}
SPRITE = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}


def role(kind: str, name: str, reference: str = "full") -> dict[str, str]:
    return {"kind": kind, "name": name, "reference": reference}


def opened(writer: Writer) -> tuple[Study, Summary]:
    study = results.study(writer.finish())
    return study, summary.summarise(study, results.load(study), reps=2_000)


@pytest.fixture
def ablated(writer: Writer) -> Writer:
    """The reference stands second in the record, as after an earlier `bench run` of the other cell."""
    less = role("ablation", "lambda_max=1")
    writer.cell("less", LESS, steps=200, variant="lambda_max=1", matrix=less, **SPRITE)
    full = role("ablation", "full: lambda_max=0.5")
    writer.cell("full", FULL, steps=200, variant="full: lambda_max=0.5", matrix=full, **SPRITE)
    return writer


def test_differences_from_the_reference_of_a_worked_example(ablated: Writer) -> None:
    _, found = opened(ablated)
    (matrix,) = found.matrices
    first, second = matrix.lines
    assert (first.name, second.name) == ("full: lambda_max=0.5", "lambda_max=1")
    assert first.difference is None and second.difference is not None
    # final success 1 and .5 against .25 and .5; one resample in 16 takes the worst of one and the best of the other
    assert [float(value) for value in second.difference] == pytest.approx([0.375 - 0.75, 0.25 - 1.0, 0.5 - 0.5])
    # pooled s = sqrt((.125 + .03125) / 2), t = 4.30265 + 1.06066 at 2 degrees of freedom, sqrt(1/2 + 1/2) = 1
    assert second.detectable == pytest.approx(5.36331 * 0.279508, rel=1e-5)


def test_the_reference_comes_first_and_rows_keep_the_name_of_the_ablation(ablated: Writer) -> None:
    _, found = opened(ablated)
    assert [row.label for row in found.rows] == [
        "vlm_rb (full: lambda_max=0.5) · sprite · quick",
        "vlm_rb (lambda_max=1) · sprite · quick",
    ]


def test_terminal_latex_page_and_json_give_name_difference_and_detectable_difference(ablated: Writer) -> None:
    study, found = opened(ablated)
    console = Console(width=140, color_system=None)
    with console.capture() as capture:
        console.print(tables.terminal(found)[-1])
    (line,) = (line for line in capture.get().splitlines() if line.strip().startswith("lambda_max=1"))
    assert " ".join(line.split()) == "lambda_max=1 0.38 [0.25, 0.50] -0.38 [-0.75, 0.00] 1.50 2"
    (line,) = (line for line in tables.latex(found).splitlines() if r"\textnormal{lambda\_max=1}" in line)
    assert line.endswith(r" & $-$0.38 {\scriptsize [$-$0.75, 0.00]} & 1.50 & 2 \\")
    text = page.render(study, found, [figures.Gallery("Learning curves", "", figures.learning_curves(found.rows))], [])
    assert '<th scope="row">lambda_max=1</th>' in text and "<td>1.50</td><td>2</td>" in text
    assert "[-0.75, 0.00]" in text
    assert "the smallest that so many seeds could have shown" in text
    assert "Smaller differences than 1.50 could not have been shown here." in text
    (plain,) = export.plain(found)["matrices"]
    assert plain["kind"] == "ablation"
    assert [row["name"] for row in plain["rows"]] == ["full: lambda_max=0.5", "lambda_max=1"]
    assert plain["rows"][1]["difference"]["estimate"] == -0.375
    assert plain["rows"][0]["difference"] is None and plain["rows"][0]["detectable_difference"] is None


def test_rows_without_a_role_stand_below_on_their_own_task_only(writer: Writer) -> None:
    for task in ("easy", "hard"):
        for name in ("standard", "texture"):
            place = role("perturbation", name, f"{task}-standard")
            writer.cell(f"{task}-{name}", FULL, steps=200, task=task, variant=name, matrix=place, **SPRITE)
        writer.cell(f"{task}-per", LESS, steps=200, task=task, method="per")
    _, found = opened(writer)
    assert [[line.name for line in matrix.lines] for matrix in found.matrices] == [
        ["standard", "texture", "per · quick"]
    ] * 2
    assert [{line.row.cell.task for line in matrix.lines} for matrix in found.matrices] == [{"easy"}, {"hard"}]


@pytest.mark.parametrize(("backend", "said"), [("scripted", True), ("transformers", False)])
def test_a_scripted_judge_under_perturbation_is_an_instrument_check(writer: Writer, backend: str, said: bool) -> None:
    identity = {**SPRITE, "backend": backend}
    writer.cell("full", FULL, variant="standard", matrix=role("perturbation", "standard"), **identity)
    writer.cell("other", LESS, variant="texture", matrix=role("perturbation", "texture"), **identity)
    _, found = opened(writer)
    words = "is a check of the instrument, not a finding about any model"
    assert any(words in note for note in found.notes) is said
    assert (words in tables.latex(found)) is said


def test_an_ablation_with_a_scripted_judge_is_no_instrument_check(ablated: Writer) -> None:
    _, found = opened(ablated)
    assert matrices.remarks(found.matrices) == []


def test_rows_at_different_steps_have_no_difference(writer: Writer) -> None:
    writer.cell("full", FULL, variant="full", matrix=role("ablation", "full"), **SPRITE)
    early = {seed: {100: curve[100]} for seed, curve in LESS.items()}
    state = {0: "running", 1: "running"}
    writer.cell("less", early, variant="less", matrix=role("ablation", "less"), status=state, **SPRITE)
    _, found = opened(writer)
    assert found.matrices[0].lines[1].difference is None


def test_a_reference_without_evaluations_makes_no_matrix(writer: Writer) -> None:
    writer.cell("full", {}, planned=[0], variant="full", matrix=role("ablation", "full"), **SPRITE)
    writer.cell("less", LESS, variant="less", matrix=role("ablation", "less"), **SPRITE)
    assert opened(writer)[1].matrices == ()


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
