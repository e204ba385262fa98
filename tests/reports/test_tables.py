from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

import results
from reports import summary, tables
from reports.summary import Summary
from tests.reports.conftest import Writer

HIGH = {seed: {100: [0, 1, 1, 1], 200: [1, 1, 1, 1]} for seed in (0, 1)}
LOW = {seed: {100: [0, 0, 0, 0], 200: [0, 0, 0, 1]} for seed in (0, 1)}


def _summary(writer: Writer) -> Summary:
    study = results.study(writer.finish("a_study & more"))
    return summary.summarise(study, results.load(study), reps=500)


@pytest.fixture
def two(writer: Writer) -> Summary:
    writer.cell("a", LOW, steps=200)
    writer.cell("b", HIGH, steps=200, method="vlm_rb", backend="scripted", model="sprite", variant="replay.alpha=0.5")
    return _summary(writer)


def _text(found: Summary, width: int = 140) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for table in tables.terminal(found):
            console.print(table)
    return capture.get()


@pytest.mark.parametrize("width", [110, 140])
def test_the_terminal_table_shows_each_number_and_marks_the_best(two: Summary, width: int) -> None:
    lines = _text(two, width).splitlines()
    (uer,) = (line for line in lines if line.strip().startswith("uer · quick"))
    assert uer.split()[3:] == [
        "0.25",
        "[0.25,",
        "0.25]",
        "0.25",
        "[0.25,",
        "0.25]",
        "0.25",
        "(0.25)",
        "200",
        "0.12",
        "2",
    ]
    (vlm_rb,) = (line for line in lines if line.strip().startswith("vlm_rb"))
    assert "1.00 [1.00, 1.00]*" in vlm_rb and "0.25 [0.25, 0.25]*" not in uer
    assert "grid/8x8, quick profile" in lines[0]


def test_brackets_in_names_are_not_taken_for_markup(writer: Writer) -> None:
    writer.cell("a", LOW, method="[bold]uer[/bold]")
    assert "[bold]uer[/bold]" in _text(_summary(writer))


def test_not_reached_is_more_than_the_budget(writer: Writer) -> None:
    writer.cell("a", HIGH, steps=200)
    writer.cell("b", LOW, steps=200, method="per")
    assert [tables.reached(row) for row in _summary(writer).rows] == ["200", "> 200"]


def test_latex_sets_the_best_in_bold_and_escapes_every_name(two: Summary) -> None:
    text = tables.latex(two)
    assert r"\textbf{1.00} {\scriptsize [1.00, 1.00]}" in text and text.count(r"\textbf") == 1
    assert r"\textnormal{vlm\_rb (replay.alpha=0.5) $\cdot$ sprite $\cdot$ quick}" in text
    assert r"study a\_study \& more" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    # 5 columns in every row of numbers
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {4}


def test_the_notes_line_names_seeds_profile_judge_and_resamples(two: Summary) -> None:
    note = tables.legend(two)
    for words in ("2 seeds", "4 episodes", "2 evaluations", "500 resamples", "Profile: quick"):
        assert words in note
    assert "Judge sprite: scripted, hand-written for this task" in note
    assert "Partial" not in note


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a_b&c%d#e$f", r"a\_b\&c\%d\#e\$f"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("<script>^~", r"\textless{}script\textgreater{}\textasciicircum{}\textasciitilde{}"),
        ("λ=½ 中", r"$\lambda$=½ [U+4E2D]"),
    ],
)
def test_escaped_text_has_no_character_that_tex_obeys(text: str, escaped: str) -> None:
    assert tables.escape(text) == escaped


@pytest.mark.parametrize(("value", "shown"), [(0.125, "0.12"), (-0.001, "0.00"), (float("nan"), "—"), (1, "1.00")])
def test_numbers_have_fixed_decimals(value: float, shown: str) -> None:
    assert tables.number(value) == shown


def test_the_latex_compiles(two: Summary, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        missing = "pdflatex is missing; install texlive-latex-base and texlive-latex-recommended"
        if os.environ.get("CI_REQUIRES_SYSTEM") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    body = tables.latex(two)
    document = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + body + "\\end{document}\n"
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
