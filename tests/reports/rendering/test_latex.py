"""LaTeX tables: what they say, and that they fit a column of 3.3 inches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from guidebench.reports.rendering import latex
from guidebench.reports.rendering.latex import Style, TableCell
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer

HIGH = {seed: {100: [0, 1, 1, 1], 200: [1, 1, 1, 1]} for seed in (0, 1)}
LOW = {0: {100: [0, 0, 0, 0], 200: [0, 0, 0, 1]}, 1: {100: [0, 0, 0, 0], 200: [0, 0, 1, 1]}}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    writer = Writer(tmp_path_factory.mktemp("two") / "study")
    writer.judged_beside(HIGH, uer=LOW)
    return writer.summary(500, "a_study & more")


def _plain(text: str) -> str:
    """Return LaTeX without the marks of possible line breaks."""
    return text.replace(r"\allowbreak{}", "")


def _lines(text: str) -> list[str]:
    return [line for line in _plain(text).splitlines() if line.endswith(r"\\")]


def test_the_best_is_bold_and_every_name_escaped(two: Summary) -> None:
    text = _plain(latex.latex(replace(two, rows=(two.rows[0], replace(two.rows[1], leading=True)))))
    _, _, uer, vlm_rb, *_ = _lines(text)
    # finals .25 and .5; AUC of a line from 0 to them, and from .75 to 1; vlm_rb is above uer's best at once
    assert uer == r"uer & 0.38\ {\scriptsize [0.25, 0.50]} & 0.19 & 0.38 & 200 \\"
    name = r"vlm\_rb (replay.alpha=0.5) \textperiodcentered{} sprite"
    assert vlm_rb == rf"{name} & \textbf{{1.00}}\ {{\scriptsize [1.00, 1.00]}} & 0.88 & 1.00 & 100 \\"
    assert r"study a\_study \& more" in text and text.count(r"\toprule") == text.count(r"\bottomrule") == 2


def test_plus_minus_is_the_standard_error_and_siunitx_columns_hold_the_widest_number(two: Summary) -> None:
    text = _plain(latex.latex(two, Style("pm")))
    # s = .25 / sqrt(2), s / sqrt(2) = .125
    assert r"& 0.38 {\scriptsize$\pm$\,0.12} &" in text and r"& 1.00 {\scriptsize$\pm$\,0.00}" in text
    error = r"\ensuremath{\pm} its standard error, the standard deviation between seeds by the root of their number"
    assert error in text and "in brackets" not in text
    text = _plain(latex.latex(two, Style("pm", siunitx=True)))
    assert text.startswith(r"% needs \usepackage{booktabs}\usepackage{tabularx}\usepackage{siunitx}")
    assert "S[table-format=1.2(2)]S[table-format=1.2]S[table-format=1.2]S[table-format=3.0]" in text
    assert r"& 0.38 +- 0.12 & 0.19 & 0.38 & 200 \\" in text and r"& 1.00 +- 0.00 &" in text


@pytest.mark.parametrize(
    ("cell", "plain", "siunitx"),
    [
        (TableCell(""), "---", "{---}"),
        (TableCell("-0.38", bold=True), r"\textbf{$-$0.38}", r"\bfseries -0.38"),
        (TableCell("150000", before=r"$>$\,"), r"$>$\,150,000", r"{$>$\,} 150000"),
        (TableCell("0.50", after=r"\ [0.1, 0.9]"), r"0.50\ [0.1, 0.9]", r"0.50 {\mdseries\ [0.1, 0.9]}"),
    ],
)
def test_cells_as_text_and_for_an_s_column(cell: TableCell, plain: str, siunitx: str) -> None:
    assert (cell.plain(), cell.siunitx()) == (plain, siunitx)


def test_the_iqm_has_a_column_only_where_it_is_not_the_mean_and_a_budget_that_did_not_suffice_is_more_than_it(
    writer: Writer, two: Summary, tmp_path: Path
) -> None:
    assert "IQM" not in latex.latex(two) and "interquartile mean is the mean" in latex.latex(two)
    writer.cell("a", {seed: {200: [1 if seed < 3 else 0]} for seed in range(4)}, steps=200)
    # mean .75; without the highest and the lowest of four 1
    assert r"& 0.75\ {\scriptsize [0.25, 1.00]} & 1.00 & --- &" in _lines(latex.latex(writer.summary(500)))[2]
    short = Writer(tmp_path / "short")
    short.cell("a", HIGH, steps=200)
    short.cell("b", LOW, steps=200, method="per")
    assert _lines(latex.latex(short.summary(500)))[3].endswith(r" & $>$\,200 \\")


def test_more_rows_than_a_page_holds_go_on_in_another_table() -> None:
    groups = {name: [(f"{name}{number}", [TableCell("1")]) for number in range(30)] for name in ("a", "b", "c")}
    texts = list(latex.table("Long", ["n"], groups, "", Style()))
    assert [("(part" in text, text.count("& 1 ")) for text in texts] == [(True, 30)] * 3
    texts = list(
        latex.table("Long", ["n"], {"a": [(str(number), [TableCell("1")]) for number in range(100)]}, "", Style())
    )
    assert [text.count("& 1 ") for text in texts] == [43, 43, 14] and all(r"\emph{a}" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a_b&c%d#e$f", r"a\_b\&c\%d\#e\$f"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("<script>^~", r"\ensuremath{<}script\ensuremath{>}\textasciicircum{}\textasciitilde{}"),
        ('a|"b"', r"a\textbar{}''b''"),
        ("λ=½ 中", r"\ensuremath{\lambda}=\textonehalf{} [U+4E2D]"),
        ("Łukasz é −1 ≥ ∞", r"\L{}ukasz \'e \ensuremath{-}1 \ensuremath{\geq} \ensuremath{\infty}"),
        ("– … †", r"\textendash{} \textellipsis{} \textdagger{}"),
    ],
)
def test_escaped_text_has_no_character_that_tex_obeys(text: str, escaped: str) -> None:
    assert latex.escape(text) == escaped


@pytest.mark.waits
@pytest.mark.parametrize("siunitx", [False, True])
def test_every_table_compiles_and_fits_a_column(
    writer: Writer, typeset: Callable[[str, Sequence[str]], str], siunitx: bool
) -> None:
    sprite = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}
    seeds = {seed: LOW[seed % 2] for seed in range(5)}
    for name, curves, variant in (
        ("full", HIGH, "full; training.steps=50000"), ("lambda_max=0.25", seeds, "lambda_max=0.25")
    ):  # fmt: skip
        place = {"kind": "perturbation", "reference": "full", "name": name}
        writer.cell(name, curves, steps=200, variant=variant, matrix=place, **sprite)
    for task in ("8x8", "hard"):
        writer.cell(f"uer-{task}", seeds, steps=150_000, task=task, method="uer")
    writer.cell("behind", {0: {100: [0, 1]}}, task="hard", method="per", status={0: "running"}, planned=[0, 1])
    styles = [Style(spread, siunitx) for spread in ("interval", "pm")]
    texts = [latex.latex(writer.summary(500), style) for style in styles]
    assert all(text.count(r"\begin{table}") == 3 and r"$^{\dagger}$" in text for text in texts)
    assert "Overfull" not in typeset("".join(texts), styles[0].packages)


def test_source_to_paste_has_no_penalty_and_no_hash(two: Summary) -> None:
    named = replace(two, study="minigrid_doorkey-uer+vlm_rb-quick-c6066f")
    text = latex.latex(named)
    assert r"\penalty" not in text and "c6066f" not in text and "vlm\\_rb-quick" in _plain(text)
    assert latex.without_hash("a-1b2c3d + b-00ff00 + mine") == "a + b + mine"
    (table,) = latex.table("Short", ["n"], {"": [("crafter_ood/attack_cow_zombies", [TableCell("1")])]}, "", Style())
    assert r"crafter\_\allowbreak{}ood/\allowbreak{}attack\_\allowbreak{}cow\_\allowbreak{}zombies & 1" in table
