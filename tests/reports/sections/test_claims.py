"""The section of claims: verdicts on the drawn seeds, what is missing, and what stands beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.claims import Claim, Claims, Tuning, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Score
from tests.reports.conftest import Reported, Writer

pytestmark = pytest.mark.usefixtures("unrendered")

GUIDED, BASE, PLACEBO = ("method=vlm_rb",), ("method=uer",), ("method=vlm_rb", "models=placebo")
CLAIM = Claim(GUIDED, BASE, PLACEBO, "late success", "higher", True)
SECONDARY = Claim(("method=per",), BASE, None, "final return", "lower", False)
CLAIMS = Claims((CLAIM,), "hard", ("suite=grid", "task=8x8"), n=5, delta=0.2, sigma=0.1, pilot="", hours=1.0)
Report = Callable[..., Reported]


def curve(successes: Sequence[int]) -> dict[int, list[int]]:
    """Return step -> episodes of one run: nothing at step 0, then so many of ten episodes at the steps 100, 200, …."""
    steps = {100 * (index + 1): [1] * of + [0] * (10 - of) for index, of in enumerate(successes)}
    return {0: [0] * 10, **steps}


def curves(claims: Claims, level: int, runs: int | None = None) -> dict[int, dict[int, list[int]]]:
    """Return curves of the drawn seeds whose last three evaluations have `level` of ten successes on average, the third
    and fifth seed one more."""
    return {
        seed: curve([0, level - 1, level, level + 1 + 3 * (index in (2, 4))])
        for index, seed in enumerate(claims.seeds[:runs])
    }


def write(writer: Writer, claims: Claims = CLAIMS, runs: int | None = None, placebo: int = 1, **more: Any) -> Path:
    """Write runs of a guided row at 6 of 10, its base row at 1 and its placebo."""
    scripted = {"method": "vlm_rb", "backend": "scripted", "model": "sprite", "parts": {"judge": "sprite"}}
    writer.cell("guided", curves(claims, 6, runs), steps=400, planned=claims.seeds, **scripted, **more)
    writer.cell("base", curves(claims, 1, runs), steps=400, planned=claims.seeds)
    answers = scripted | {"backend": "placebo", "model": "placebo", "parts": {"judge": "placebo"}}
    writer.cell("placebo", curves(claims, placebo, runs), steps=400, variant="p", planned=claims.seeds, **answers)
    names = {key_of(GUIDED): ["guided"], key_of(BASE): ["base"], key_of(PLACEBO): ["placebo"]}
    return writer.claim(claims, {key_of(row): names.get(key_of(row), [row[0]]) for row in claims.rows})


def first_verdict(report: Reported) -> Mapping[str, Any]:
    verdict: Mapping[str, Any] = report.json()["claims"]["claims"][0]["verdict"]
    return verdict


def test_a_claim_is_tested_on_the_mean_of_the_last_three_evaluations(writer: Writer, report: Report) -> None:
    """Rows of .6 and .1, two of five seeds .1 higher: a difference of .5, and all runs of one above the others."""
    reported = report(write(writer))
    assert reported.code == 0
    verdict = first_verdict(reported)
    assert verdict["finding"] == "shown" and verdict["differs_from_placebo"]
    assert verdict["difference"]["estimate"] == pytest.approx(0.5) and verdict["level"] == 0.05
    # the episodes of a run at .6: variances of .5, .6 and .7 (or 1) of ten; the runs' p is 2 / 252 and the larger
    assert verdict["p"] == pytest.approx(2 / 252)
    page = reported.text()
    assert page.index("<h2>Claims</h2>") < page.index("<h2>Summary</h2>")
    assert "late success of vlm_rb exceeds that of uer" in page
    assert "supports or contradicts no paper" in page and "everything else in this report is exploratory" in page
    assert "Difficulty hard. 5 seeds a row" in page and "No row was tuned." in page
    assert reported.out.index("late success of vlm_rb") < reported.out.index("final success")
    assert "1. late success of vlm_rb exceeds that of uer" not in reported.text("table.tex")
    assert "late success of vlm\\_rb exceeds that of uer: shown" in reported.text("table.tex").replace(
        "\\allowbreak{}", ""
    )


def test_a_row_that_does_not_differ_from_its_placebo_shows_a_mechanism(writer: Writer, report: Report) -> None:
    reported = report(write(writer, placebo=6))
    assert first_verdict(reported)["finding"] == "the mechanism, not the guidance, helps"
    assert "the mechanism, not the guidance, helps" in reported.text()


def test_runs_of_other_seeds_are_named_and_left_out(writer: Writer, report: Report) -> None:
    """A sixth run of the base row that is better than all others would close the gap."""
    directory = write(writer)
    base = curves(CLAIMS, 1) | {7: curve([10, 10, 10, 10])}
    writer.cell("base", base, steps=400)
    writer.claim(CLAIMS, {key_of(GUIDED): ["guided"], key_of(BASE): ["base"], key_of(PLACEBO): ["placebo"]})
    reported = report(directory)
    assert first_verdict(reported)["difference"]["estimate"] == pytest.approx(0.5)
    assert "left out of the tests: uer: 7." in reported.text()
    assert reported.json()["claims"]["rows"][1]["other_seeds"] == [7]


def test_an_unfinished_study_tests_no_claim_and_says_what_is_missing(writer: Writer, report: Report) -> None:
    reported = report(write(writer, runs=3))
    claims_json = reported.json()["claims"]
    assert claims_json["look"] == "none" and claims_json["claims"][0]["verdict"] is None
    missing = CLAIMS.seeds[3:]
    assert f"uer: 2 of 5 seeds (waiting {missing[0]}, {missing[1]})" in reported.text()
    assert "no claim is tested before all runs of the study are finished" in reported.text()


def test_the_first_of_two_looks_takes_half_of_the_seeds_at_its_level(writer: Writer, report: Report) -> None:
    """Four of eight seeds a side: p is 2 / 70 = .0286, below .0294."""
    claims = replace(CLAIMS, n=8, looks=2)
    reported = report(write(writer, claims, runs=4))
    claims_json = reported.json()["claims"]
    assert claims_json["look"] == "first" and claims_json["seeds"] == list(claims.seeds[:4])
    assert claims_json["claims"][0]["verdict"]["p"] == pytest.approx(2 / 70)
    assert claims_json["claims"][0]["verdict"]["finding"] == "shown"
    assert "those of the first look, at 4 seeds" in reported.text()


def test_tuning_runs_are_counted(writer: Writer, report: Report) -> None:
    strengths = tuple((f"replay.lambda_max={strength}",) for strength in (0.25, 0.5))
    grids = {key_of(GUIDED): strengths, key_of(BASE): (("learner.lr=1e-4",), ("learner.lr=1e-3",))}
    reported = report(write(writer, replace(CLAIMS, tuning=Tuning(3, "late success", grids, {}))))
    assert "6 runs tuned each of vlm_rb (2 settings), uer (2 settings), by late success" in reported.text()
    assert reported.json()["claims"]["tuning_runs"] == 6


def test_secondary_claims_speak_of_returns_and_outcomes(writer: Writer, report: Report) -> None:
    """The return of an episode is half of its success; its outcome `items` is 3 for one row and 1 for the other."""
    placed = replace(SECONDARY, score="final items", direction="higher")
    missing = replace(SECONDARY, score="final gold")
    claims = replace(CLAIMS, claims=(CLAIM, SECONDARY, placed, missing))

    def outcomes(number: float) -> dict[str, dict[int, list[dict[str, Any]]]]:
        rows = [
            {"step": step, "episode": episode, "outcome": "items", "value": number + index / 10}
            for index, step in enumerate((100, 200, 300, 400))
            for episode in range(10)
        ]
        return {"outcomes": {seed: rows for seed in claims.seeds}}

    writer.cell("method=per", curves(claims, 0 + 1), steps=400, method="per", rows=outcomes(3))
    write(writer, claims)
    writer.cell("base", curves(claims, 1), steps=400, rows=outcomes(1))
    reported = report(write_names(writer, claims))
    _, returns, of_items, gold = reported.json()["claims"]["claims"]
    # .2 or .5 of ten episodes succeed at the end, with half of that as return, in both rows
    assert returns["verdict"]["difference"]["estimate"] == pytest.approx(0)
    assert of_items["verdict"]["difference"]["estimate"] == pytest.approx(2)
    assert of_items["verdict"]["finding"] == "shown" and not of_items["primary"]
    assert gold["verdict"] is None and "its outcomes are items" in gold["note"]
    assert "(secondary)" in reported.text()


def write_names(writer: Writer, claims: Claims) -> Path:
    names = {key_of(GUIDED): ["guided"], key_of(BASE): ["base"], key_of(PLACEBO): ["placebo"]}
    return writer.claim(claims, {key_of(row): names.get(key_of(row), [row[0]]) for row in claims.rows})


def test_a_trend_is_tested_over_the_values_of_its_setting(writer: Writer, report: Report) -> None:
    """Five equal runs at each of 0, 1 and 3, at .1, .4 and .7. About their means (4/3, .4) Σ (x - 4/3)(y - .4) = .9 and
    Σ (x - 4/3)² = 14/3: a slope of .193, so the line rises by .579 over the range."""
    trend = Claim(("method=vlm_rb", "replay.lambda_max=0,1,3"), None, None, "late success", "higher", True)
    claims = replace(CLAIMS, claims=(trend,))
    for strength, level in ((0, 1), (1, 4), (3, 7)):
        settings = {"replay.lambda_max": {"value": strength}, "learner.lr": {"value": 1e-4}}
        scored = {seed: curve([0, level - 1, level, level + 1]) for seed in claims.seeds}
        writer.cell(f"at{strength}", scored, steps=400, settings=settings, method="vlm_rb", variant=f"l={strength}")
    reported = report(writer.claim(claims, {key_of(trend.first): ["at0", "at1", "at3"]}))
    claims_json = reported.json()["claims"]["claims"][0]
    assert claims_json["statement"] == "late success of vlm_rb rises with replay.lambda_max over 0, 1, 3"
    assert claims_json["verdict"]["difference"]["estimate"] == pytest.approx(3 * 0.9 / (14 / 3))
    assert claims_json["verdict"]["finding"] == "shown"


def test_rows_stand_beside_the_baseline_of_the_primary_claim(writer: Writer, report: Report) -> None:
    """It is neither the first row nor one of the usual baselines."""
    base = ("method=sparse",)
    claims = replace(CLAIMS, claims=(Claim(("method=per",), GUIDED, None, "late success", "higher", False),
                                     Claim(GUIDED, base, None, "late success", "higher", True)))  # fmt: skip
    for name, level in (("per", 3), ("vlm_rb", 6), ("sparse", 1)):
        writer.cell(name, curves(claims, level), steps=400, method=name)
    rows = {key_of(row): [row[0].partition("=")[2]] for row in claims.rows}
    directory = writer.claim(claims, rows)
    (matrix,) = report(directory).json()["matrices"]
    assert matrix["heading"].endswith("beside sparse") and matrix["rows"][0]["cell"] == "sparse"
    assert results.join({"study": results.study(directory)}).baselines == ("sparse",)


def test_a_study_without_claims_has_no_such_section(two: Writer, report: Report) -> None:
    reported = report(two.finish())
    assert reported.json()["claims"] is None
    assert "<h2>Claims</h2>" not in reported.text() and "exploratory" not in reported.out


def test_a_score_of_the_task_is_claimed_by_its_name_or_as_score(writer: Writer, report: Report) -> None:
    """A task's own score has no success; `score` and its name are the same number."""
    score = Score("reward_sum", low=0.0, high=10.0)
    claims = replace(
        CLAIMS,
        claims=(
            replace(CLAIM, placebo=None, score="area score"),
            replace(CLAIM, placebo=None, score="area reward_sum"),
        ),
    )
    for name, method, number in (("guided", "vlm_rb", 4.0), ("base", "uer", 1.0)):
        runs = {seed: {100: [0.0, 0.0], 200: [number, number + index / 10]} for index, seed in enumerate(claims.seeds)}
        writer.cell(name, runs, steps=200, score=score, method=method)
    reported = report(writer.claim(claims, {key_of(GUIDED): ["guided"], key_of(BASE): ["base"]}))
    by_score, by_name = (claim["verdict"] for claim in reported.json()["claims"]["claims"])
    assert by_score == by_name and by_score["difference"]["estimate"] == pytest.approx(1.5)
    assert by_score["level"] == 0.025


def test_a_cell_of_another_method_than_its_row_is_refused(writer: Writer) -> None:
    write(writer, CLAIMS)
    with pytest.raises(UserError, match="has method=uer, and the claims have method=vlm_rb"):
        results.study(writer.claim(CLAIMS, {key_of(row): ["base"] for row in CLAIMS.rows}))
