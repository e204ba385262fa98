from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results.evaluations import evaluations
from tests.reports.conftest import Writer

CURVES = {0: {100: [1, 0, 0, 1], 200: [1, 1, 1, 0]}, 3: {100: [0, 0], 200: [1, 0]}}


@pytest.mark.parametrize("status", [{}, {0: "running", 3: "stopped"}], ids=["packed", "growing"])
def test_success_rates_mean_returns_and_episodes_of_each_evaluation_by_hand(
    writer: Writer, status: dict[int, str]
) -> None:
    writer.cell("a", CURVES, status=status)
    writer.cell("b", {}, planned=[0, 1], method="per")
    by_run = evaluations(results.study(writer.finish()))
    assert list(by_run) == [("a", 0), ("a", 3)]
    first = by_run["a", 0]
    assert first.steps.tolist() == [100, 200] and first.episodes.tolist() == [4, 4]
    assert first.success.tolist() == [0.5, 0.75] and first.returns.tolist() == [0.25, 0.375]
    assert by_run["a", 3].success.tolist() == [0.0, 0.5]
    # of the scores 1, 0, 0, 1 the variance is 1/3, of their mean a quarter of that
    assert first.variances == pytest.approx([1 / 12, 1 / 16]) and by_run["a", 3].variances == pytest.approx([0, 1 / 4])


def test_one_episode_has_no_variance(writer: Writer) -> None:
    writer.cell("a", {0: {100: [1]}})
    assert np.isnan(evaluations(results.study(writer.finish()))["a", 0].variances).all()


def test_evaluations_agree_with_the_rows_that_are_loaded(tmp_path: Path) -> None:
    for name in ("doorkey_5x5", "pendulum_sac_td3"):
        study = results.study(Path(results.__file__).parent / "measured" / name)
        by_run = evaluations(study)
        rows = results.load(study).groupby(["cell", "seed", "step"])[["success", "return"]].mean()
        assert len(by_run) == len(study.runs)
        for (cell, seed), run_evaluations in by_run.items():
            theirs = rows.loc[cell, seed]
            assert run_evaluations.steps.tolist() == theirs.index.tolist()
            assert run_evaluations.success == pytest.approx(
                theirs["success"]
            ) and run_evaluations.returns == pytest.approx(theirs["return"])


def test_an_account_tells_whether_two_tell_the_same(tmp_path: Path) -> None:
    accounts = []
    for name, last in (("a", [1, 0]), ("b", [1, 0]), ("c", [0, 1])):
        writer = Writer(tmp_path / name)
        writer.cell("a", {0: {100: [1, 1], 200: last}})
        accounts.append(evaluations(results.study(writer.finish()))["a", 0].account.tolist())
    assert accounts[0] == accounts[1] and accounts[0][0] == accounts[2][0] and accounts[0][1] != accounts[2][1]


def test_a_last_line_that_was_cut_short_is_forgiven_and_what_does_not_fit_named_as_in_rows(writer: Writer) -> None:
    path = writer.cell("a", CURVES, status={0: "running"}) / "seed-0" / "evaluations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(path.read_text()[:-20])
    with pytest.warns(UserWarning, match="cut short"):
        by_run = evaluations(results.study(writer.finish()))
    assert by_run["a", 0].episodes.tolist() == [4, 3]
    rows[2]["return"] = float("nan")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=r"evaluations\.jsonl, row 3, column 'return': nan"):
        evaluations(results.study(writer.finish()))
