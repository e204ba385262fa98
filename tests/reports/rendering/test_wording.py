"""What a paper's tables are called: names are found by their start, and what is in no table is refused."""

import re
from collections.abc import Callable, Sequence

import pytest

from guidebench.harness.errors import UserError
from guidebench.reports.rendering import latex, wording
from guidebench.reports.rendering.latex import Style
from guidebench.reports.rendering.wording import Wording
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer

CURVES = {seed: {100: [0, 1], 200: [1, 1]} for seed in (0, 1)}
ROW = "vlm_rb (replay.alpha=0.5) · sprite"


def judged(writer: Writer) -> Summary:
    writer.judged_beside(CURVES, uer={0: {100: [0, 0], 200: [0, 1]}, 1: {100: [0, 0], 200: [1, 1]}})
    return writer.summary(200)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return judged(Writer(tmp_path_factory.mktemp("two") / "study"))


def text(summary: Summary, words: Wording) -> str:
    return latex.latex(summary, Style(wording=wording.resolved(words, summary))).replace(r"\allowbreak{}", "")


def test_caption_label_names_and_columns_are_those_that_were_asked_for(two: Summary) -> None:
    names = ["vlm_rb=Ours & more", "uer=Uniform", "grid/8x8=DoorKey", "auc=Area", "row=Method"]
    words = wording.wording({"results": "Success in 100% of_it."}, "tab:main", names, ["auc", "score", "seeds"])
    table = text(two, words)
    assert r"\caption{Success in 100\% of\_it.}\label{tab:main}" in table
    assert r"Method & {Area} & {\shortstack[r]{Final \\ success}} & {Seeds} \\" in table
    assert r"\emph{DoorKey}" in table and "quick profile" not in table
    # the line of uer from (0, 0) to (.25, 1): .375; its finals .5 and 1
    assert r"Uniform & 0.38 & 0.75\ {\scriptsize [0.50, 1.00]} & 2 \\" in table
    assert r"Ours \& more & 0.75 &" in table and "AUC: area" in table and "Steps to best" not in table
    note = text(two, wording.wording(names={"uer": "Uniform"}))
    assert "reaches the best of Uniform." in note, "what a note says of a row has its new name"


@pytest.mark.parametrize(
    ("name", "full"),
    [("vlm_rb", ROW), ("vlm_rb (replay.alpha=0.5)", ROW), (ROW, ROW), ("grid/8x8", "grid/8x8, quick profile")],
)
def test_the_start_of_a_name_is_enough_and_a_name_may_have_an_equals_sign(two: Summary, name: str, full: str) -> None:
    for words in (wording.wording(names=[f"{name}=Ours (a=1)"]), wording.wording(names={name: "Ours (a=1)"})):
        assert wording.resolved(words, two).names == {full: "Ours (a=1)"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["score", "acu"]}, r"unknown column 'acu'; did you mean 'auc'.*known: auc, best"),
        ({"columns": ["auc", "auc"]}, "'auc' is chosen twice"),
        ({"label": r"tab:a}\input{x"}, "LaTeX cannot refer to the label"),
        ({"names": ["uer"]}, "'uer' gives no new name"),
        ({"names": ["vlmrb=Ours"]}, r"unknown row, task or column 'vlmrb'.*known:.*uer"),
        ({"names": ["uer=Ours", "vlm_rb=Ours"]}, "would both be called 'Ours'"),
        ({"names": ["uer=A", "uer=B"]}, "two names, 'A' and 'B'"),
        ({"captions": {"aggregates": "x"}}, r"unknown table 'aggregates'.*known: differences, results\)"),
    ],
)
def test_a_mistake_names_the_value_and_what_there_is(two: Summary, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        wording.resolved(wording.wording(**arguments), two)  # type: ignore[arg-type]


def test_a_start_that_several_rows_have_is_refused(writer: Writer) -> None:
    writer.cell("a", CURVES, steps=200, variant="replay.alpha=0.5")
    writer.cell("b", CURVES, steps=200, variant="replay.alpha=0.6")
    with pytest.raises(UserError, match=r"'uer' names 2 rows or tasks; give one in full: 'uer \(replay.alpha=0.5\)"):
        wording.resolved(wording.wording(names={"uer": "Uniform"}), writer.summary())


def test_captions_name_their_table_before_the_equals_sign() -> None:
    captions = wording.captions(["With a = 1.", "aggregates=Over tasks", "differences-2=Second"])
    assert captions == {"results": "With a = 1.", "aggregates": "Over tasks", "differences-2": "Second"}
    with pytest.raises(UserError, match="two captions are given for the table 'results'"):
        wording.captions(["one", "results=two"])
    with pytest.raises(UserError, match="the caption of 'results' is empty"):
        wording.captions(["results="])


@pytest.mark.waits
def test_a_worded_table_compiles_and_each_table_can_be_referred_to(
    writer: Writer, typeset: Callable[[str, Sequence[str]], str]
) -> None:
    place = {"kind": "perturbation", "reference": "full"}
    for name in ("full", "less"):
        writer.cell(name, CURVES, steps=200, variant=name, method="vlm_rb", matrix={**place, "name": name})
    writer.cell("hard", CURVES, steps=200, variant="full", method="vlm_rb", task="hard")
    table = latex.typeset(
        writer.finish(),
        caption={"results": r"100 % of \input{x} & λ", "aggregates": "Over tasks."},
        label="tab:main_1",
        rename={"full": "Ours_1", "less": "Half #2", "p": "$p$"},
        columns=wording.COLUMNS,
        spread="pm",
        siunitx=True,
        resamples=200,
    )
    labels = re.findall(r"\\label\{(.*)\}", table)
    assert labels == ["tab:main_1", "tab:main_1-aggregates", "tab:main_1-differences"]
    pdflatex_output = typeset(
        table + "".join(rf"\ref{{{label}}}" for label in labels), ["booktabs", "tabularx", "siunitx"]
    )
    assert "multiply defined" not in pdflatex_output


def test_the_python_function_writes_what_the_command_writes(writer: Writer) -> None:
    judged(writer)
    table = latex.typeset(writer.directory, caption="Mine", rename={"vlm_rb": "Ours"}, resamples=200)
    assert r"\caption{Mine.}" in table and "\nOurs & " in table
    with pytest.raises(UserError, match="unknown spread 'std'"):
        latex.typeset(writer.directory, spread="std")
