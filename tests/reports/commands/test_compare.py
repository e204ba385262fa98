from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from guidebench import results
from guidebench.harness.commands import cli
from tests.reports.conftest import Writer

SMOKE = ("suite=classic", "method=uer", "profile=smoke", "seeds=1", "report=false")


def ends(low: int, high: int) -> dict[int, dict[int, list[int]]]:
    return {0: {300: [low, high]}, 1: {300: [high, high]}}


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """Write a study of vlm_rb and one of uer and per on the same task; return their directories."""
    for name, methods in (("mine", ["vlm_rb"]), ("theirs", ["uer", "per"])):
        writer = Writer(tmp_path / name)
        for method in methods:
            writer.cell(method, ends(int(method == "vlm_rb"), 1), method=method)
        writer.finish()
    return str(tmp_path / "mine"), str(tmp_path / "theirs")


def compare(*words: str) -> int:
    return cli.main(["compare", *words, "--resamples", "200"])


def test_the_comparison_is_printed_and_written_beside_the_report(
    two: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = two
    assert compare(mine, "--against", theirs) == 0
    out = capsys.readouterr().out
    assert "grid/8x8: beside uer " in out and "grid/8x8: beside per " in out
    assert "0.25 (2 seeds cannot tell)" in out and "Seeds needed: the fewest a side" in " ".join(out.split())
    files = {path.name for path in (Path(mine) / "comparison").iterdir()}
    assert files == {"comparison.json", "table.tex", "curves-grid-8x8.png", "curves-grid-8x8.pdf"}
    assert all(str(Path(mine) / "comparison" / name) in out for name in files)
    assert r"\begin{table}" in (Path(mine) / "comparison" / "table.tex").read_text()


def test_rows_say_what_differs_and_what_all_share_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("mine", "0.1"), ("theirs", "0.2")):
        writer = Writer(tmp_path / name)
        words = f"learner.rate={rate}, learner.batch=8"
        settings = {key: {"value": value} for key, value in (("learner.rate", rate), ("learner.batch", 8))}
        writer.cell(name, ends(0, 1), variant=words, record={"settings": settings})
        writer.finish()
    assert compare(str(tmp_path / "mine"), str(tmp_path / "theirs"), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    (table,) = document["tables"]
    labels = [row["label"] for row in (table["reference"], *table["rows"])]
    assert labels == ["uer (learner.rate=0.1)", "uer (learner.rate=0.2)"]
    assert document["shared"] == ["learner.batch=8"]


def test_methods_and_tasks_narrow_both_sides(two: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    mine, theirs = two
    assert compare(mine, "--against", theirs, "--method", "vlm_rb,per", "--task", "grid/8x8", "--json") == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["reference"]["cell"] == "per" and [row["cell"] for row in table["rows"]] == ["vlm_rb"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "per"], "no runs match --method and --task in MINE; it has grid/8x8 (vlm_rb; quick)"),
        (["--task", "5x5"], "no runs match --method and --task in MINE"),
        (["--against", "nowhere"], "no study at nowhere"),
        ([], "nothing to compare"),
        (["--against", "measured"], "no runs match: MINE has grid/8x8"),
    ],
)
def test_what_cannot_be_compared_is_told(
    two: tuple[str, str], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(two[0], *words) == 2 and says.replace("MINE", two[0]) in capsys.readouterr().err


def test_profiles_are_mixed_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for profile in ("quick", "paper"):
        writer = Writer(tmp_path / profile)
        writer.cell(profile, ends(0, 1), profile=profile)
        writer.finish()
    names = str(tmp_path / "quick"), str(tmp_path / "paper")
    assert compare(*names) == 2
    assert "profile paper beside quick; `bench compare --mixed-profiles`" in capsys.readouterr().err
    assert compare(*names, "--mixed-profiles") == 0
    assert "profiles paper and quick stand side by side, as asked for" in capsys.readouterr().out


def test_a_value_that_is_no_number_is_refused_with_its_place(
    two: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(two[0]) / "grid/8x8/vlm_rb-vlm_rb/seed-0/evaluations.parquet"
    pd.read_parquet(path).assign(**{"return": float("nan")}).to_parquet(path, index=False)
    assert compare(two[0], "--against", two[1]) == 2
    assert "seed-0/evaluations.parquet, row 1, column 'return': nan" in capsys.readouterr().err


def test_measured_studies_are_compared_from_anywhere_and_not_with_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare("measured", "--task", "5x5", "--json") == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["reference"]["label"] == "uer" and table["reference"]["studies"] == ["measured/doorkey_5x5"]
    assert (tmp_path / "comparison" / "comparison.json").is_file()
    study = str(Path(results.__file__).parent / "measured" / "doorkey_6x6_lambda_max")
    assert compare(study, *["--against", "measured", "--task", "6x6", "--output", str(tmp_path), "--json"]) == 0
    references = [table["reference"]["studies"] for table in json.loads(capsys.readouterr().out)["tables"]]
    assert references and all("measured/doorkey_6x6_perturbed" in studies for studies in references)
    assert not any("measured/doorkey_6x6_lambda_max" in studies for studies in references)


def test_a_run_that_could_be_compared_with_nothing_does_not_start(
    two: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    for against, says in (
        (two[1], f"no runs match: this command has classic/CartPole-v1 (uer; smoke); {two[1]} has grid/8x8"),
        ("nowhere", "no study at nowhere"),
        ("measured", "this command and measured cannot be compared as they are: classic/CartPole-v1: not compared: "),
    ):
        assert cli.main(["run", *SMOKE, f"output={output}", f"against={against}"]) == 2
        assert says in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.slow
def test_a_run_ends_with_its_comparison_and_its_cells_do_not_depend_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, new = tmp_path / "stored", tmp_path / "new"
    assert cli.main(["run", *SMOKE, f"output={stored}"]) == 0
    capsys.readouterr()
    words = ["run", "suite=classic", "method=uer,per", "profile=smoke", "seeds=1", "report=false"]
    assert cli.main([*words, f"output={new}", f"against={stored}"]) == 0
    out = capsys.readouterr().out
    assert "classic/CartPole-v1: beside uer" in out and "its runs are pooled" in out
    assert (new / "comparison" / "comparison.json").is_file()
    uer = next(path.parent.name for path in stored.glob("*/*/uer-*/cell.json"))
    assert (new / "classic" / "CartPole-v1" / uer).is_dir(), "what it is compared with is no part of a cell"
