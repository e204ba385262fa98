"""The published tables are read whole and typed, and a file that does not fit names its line."""

import csv
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from guidebench.harness.errors import UserError
from guidebench.results import published

NUMBER = {
    "paper": "vlm_rb",
    "table": "1",
    "suite": "minigrid_doorkey",
    "task": "8x8",
    "method": "uer",
    "variant": "baseline=uer; learner=dqn",
    "metric": "success_rate",
    "value": "0.62",
}
CLAIM = {
    "paper": "vlm_rb",
    "claim": "more",
    "where": "§1",
    "statement": "More than before.",
    "formula": "relative_gain",
    "method": "vlm_rb",
    "baseline": "uer,per",
    "metric": "success_rate",
    "value": "11",
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """`write(published.NUMBERS, row, row)` writes a file of VLM-RB with these rows and returns its path; fields that a
    row lacks are empty."""

    def write_file(columns: dict[str, tuple[str, str]], *rows: dict[str, str], header: list[str] | None = None) -> Path:
        path = tmp_path / ("vlm_rb_claims.csv" if columns is published.CLAIMS else "vlm_rb.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header or columns)
            writer.writerows([row.get(name, "") for name in columns] for row in rows)
        return path

    return write_file


def test_each_paper_has_its_numbers_and_claims_and_without_a_name_all_follow_one_another() -> None:
    for load, columns in ((published.load, published.NUMBERS), (published.claims, published.CLAIMS)):
        together = load()
        assert list(together["paper"].unique()) == list(published.PAPERS) and together.index.is_unique
        for paper in published.PAPERS:
            paper_rows = load(paper)
            assert list(paper_rows) == list(columns) and set(paper_rows["paper"]) == {paper}
            assert columns is published.CLAIMS or paper_rows["value"].notna().all()
        with pytest.raises(UserError, match="unknown paper 'laega'; did you mean 'lagea'"):
            load("laega")


@pytest.mark.parametrize("paper", published.PAPERS)
def test_the_files_are_plain_csv_with_quotes_only_where_needed(paper: str, tmp_path: Path) -> None:
    for name in (f"{paper}.csv", f"{paper}_claims.csv"):
        text = Path(published.__file__).with_name(name).read_bytes().decode("utf-8")
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(csv.reader(text.splitlines()))
        assert (tmp_path / name).read_bytes().decode("utf-8") == text


def test_missing_text_is_empty_and_missing_numbers_are_missing(write: Callable[..., Path]) -> None:
    complete = {**NUMBER, "task": "6x6", "error": "0.05", "error_kind": "sd", "seeds": "5"}
    bare, full = published.read(write(published.NUMBERS, NUMBER, complete), published.NUMBERS).itertuples(index=False)
    assert (bare.note, bare.error_kind, bare.value) == ("", "", 0.62) and pd.isna(bare.error) and bare.seeds is pd.NA
    assert (full.error, full.error_kind, full.seeds) == (0.05, "sd", 5)
    claim = published.read(write(published.CLAIMS, CLAIM), published.CLAIMS).iloc[0]
    assert claim["value"] == 11 and pd.isna(claim["high"]) and claim["note"] == ""
    types = published.read(write(published.NUMBERS), published.NUMBERS).dtypes  # of an empty table
    assert (str(types["value"]), str(types["seeds"]), str(types["note"])) == ("float64", "Int64", "object")


MISFITS: list[tuple[dict[str, tuple[str, str]], dict[str, str], dict[str, str], str]] = [
    *((published.NUMBERS, NUMBER, {"task": "6x6", **change}, message) for change, message in (
        ({"value": "62 %"}, "column 'value' holds '62 %'; expected a plain number"),
        ({"value": ""}, "column 'value'"),
        ({"value": "nan"}, "column 'value'"),
        ({"method": "VLM-RB"}, "column 'method'"),
        ({"metric": "success rate"}, "column 'metric'"),
        ({"seeds": "0"}, "column 'seeds'"),
        ({"note": " so"}, "column 'note'"),
        ({"variant": "learner"}, "column 'variant'"),
        ({"variant": "learner=dqn; baseline=uer"}, "not sorted"),
        ({"variant": "learner=dqn; learner=iqn"}, "not distinct"),
        ({"error": "0.1"}, "needs its kind"),
        ({"error_kind": "sd"}, "needs its kind"),
        ({"error": "0.1", "error_kind": "iqr"}, "column 'error_kind'"),
        ({"paper": "kagi"}, "named for"),
        ({"task": "8x8", "value": "0.63"}, "the same number as line 2"),
        ({"task": "6x6", "variant": ""}, ""),
    )),
    *((published.CLAIMS, CLAIM, {"claim": "other", **change}, message) for change, message in (
        ({"formula": "more"}, "column 'formula'"),
        ({"formula": "wins"}, "needs a high"),
        ({"formula": "range"}, "needs a high"),
        ({"value": ""}, "needs a value"),
        ({"high": "10"}, "expected a value of at most high"),
        ({"formula": "best", "value": "", "high": "1"}, "value missing"),
        ({"claim": "more"}, "the same number as line 2"),
        ({"formula": "best", "value": ""}, ""),
        ({"high": "52"}, ""),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "good", "change", "message"), MISFITS)
def test_a_number_or_claim_that_does_not_fit_is_named(
    columns: dict[str, tuple[str, str]], good: dict[str, str], change: dict[str, str], message: str,
    write: Callable[..., Path],
) -> None:  # fmt: skip
    path = write(columns, good, {**good, **change})
    if not message:
        assert len(published.read(path, columns)) == 2
        return
    with pytest.raises(UserError, match="line 3: ") as caught:
        published.read(path, columns)
    assert str(path) in str(caught.value) and message in str(caught.value)


def test_other_columns_and_short_rows_are_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="line 1: the columns are paper,table; expected paper,table,suite"):
        published.read(write(published.NUMBERS, header=["paper", "table"]), published.NUMBERS)
    path = write(published.NUMBERS)
    path.write_text(path.read_text() + "vlm_rb,1\n")
    with pytest.raises(UserError, match="line 2: 2 fields; expected 12"):
        published.read(path, published.NUMBERS)


def test_a_variant_is_read_as_a_dictionary() -> None:
    assert published.variant("") == {}
    assert published.variant("learner=sac,td3; replay.lambda_max=null") == {
        "learner": "sac,td3",
        "replay.lambda_max": "null",
    }
    with pytest.raises(UserError, match="'learner' is not key=value pairs"):
        published.variant("learner")
