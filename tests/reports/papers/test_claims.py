"""Claims of the text, tested on studies whose curves are chosen by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from guidebench import results
from guidebench.harness.statistics import Array
from guidebench.reports.papers import claims, equivalence, text, verdicts
from guidebench.reports.papers.claims import Outcome
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.papers.measures import Measured
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import published
from tests.reports.conftest import Writer
from tests.reports.papers.conftest import Papers, shelf_of

END = 1_000_000


def claim(formula: str, **changes: Any) -> pd.DataFrame:
    row = {
        **dict.fromkeys(published.CLAIMS, ""),
        **{"paper": "vlm_rb", "claim": "c", "formula": formula, "method": "vlm_rb", "suite": "minigrid_doorkey"},
        **{
            "task": "8x8",
            "variant": "learner=dqn",
            "metric": "success_rate",
            "value": float("nan"),
            "high": float("nan"),
        },
        **changes,
    }
    return pd.DataFrame([row])


FINALS: Mapping[str, tuple[float, ...]] = {
    "vlm_rb": (0.8, 0.8, 0.7, 0.8, 0.8),
    "uer": (0.5,) * 5,
    "per": (0.7, 0.8, 0.7, 0.8, 0.7),
    "relo": tuple(0.59 + 0.0685 * place for place in (-1.0, -0.5, 0.0, 0.5, 1.0)),
    "sac": (0.5,) * 5,
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Return a shelf on which the mean final success of five seeds is vlm_rb .78, uer .5, per .74, relo .59 and sac .5;
    aer has .72 from its first evaluation on."""
    writer = Writer(tmp_path_factory.mktemp("claims") / "study")
    for method, ends in FINALS.items():
        curves = {seed: {100: 0.0, END: end} for seed, end in enumerate(ends)}
        Papers(writer).add(method, curves, method=method)
    sooner = {seed: {100: rate, END: rate} for seed, rate in enumerate((0.7, 0.7, 0.8, 0.7, 0.7))}
    Papers(writer).add("aer", sooner, method="aer")
    return shelf_of(writer)


@pytest.fixture
def tested(rows: Shelf) -> Callable[..., Outcome]:
    """`tested("level", value=0.75)` returns the outcome of a claim with this formula."""

    def test(formula: str, **changes: Any) -> Outcome:
        row = claim(formula, **changes)
        (outcome,) = claims.test(row, published.load("vlm_rb"), rows, Estimator(reps=400))
        return outcome

    return test


BEFORE = {"method": "uer", "baseline": "per"}
NEVER = {"method": "relo", "value": 0.0}
VERDICTS: list[tuple[str, dict[str, Any], str]] = [
    ("level", {"value": 0.75}, verdicts.REPRODUCED),
    ("level", {"value": 0.5}, verdicts.NOT_REPRODUCED),
    ("range", {"value": 0.5, "high": 0.8}, verdicts.REPRODUCED),
    ("range", {"value": 0.1, "high": 0.5}, verdicts.NOT_REPRODUCED),
    ("relative_gain", {"baseline": "uer", "value": 241.7}, verdicts.SAME_DIRECTION),
    ("relative_gain", {"baseline": "uer", "value": 11.0, "high": 60.0}, verdicts.REPRODUCED),
    ("relative_gain", {"baseline": "uer", "value": 2.0, "high": 10.0}, verdicts.SAME_DIRECTION),
    ("relative_gain", {**BEFORE, "value": 20.0}, verdicts.NOT_REPRODUCED),
    ("wins", {"baseline": "uer", "value": 1, "high": 1}, verdicts.REPRODUCED),
    ("wins", {**BEFORE, "value": 1, "high": 1}, verdicts.NOT_REPRODUCED),
    ("wins", {**BEFORE, "value": 0, "high": 1}, verdicts.REPRODUCED),
    # One gain of .09 ± .085 at 95 % (t(4) 2.776), ± .107 at the 97.5 % that two comparisons have each (3.495).
    ("wins", {**NEVER, "baseline": "sac", "high": 1}, verdicts.NOT_REPRODUCED),
    ("wins", {**NEVER, "baseline": "sac,per", "high": 2}, verdicts.INCONCLUSIVE),
    ("best", {"baseline": "uer"}, verdicts.REPRODUCED),
    ("best", {"baseline": "uer,per"}, verdicts.INCONCLUSIVE),
    ("ordering", {"method": "per", "baseline": "uer"}, verdicts.REPRODUCED),
    ("ordering", BEFORE, verdicts.NOT_REPRODUCED),
    # fewer steps are better
    ("wins", {"method": "aer", "baseline": "uer", "metric": "steps_to_baseline_best", "value": 1, "high": 1},
     verdicts.REPRODUCED),
    ("level", {"metric": "dollars", "value": 1}, verdicts.NOT_RUN),
    ("none", {}, verdicts.PUBLISHED_ONLY),
]  # fmt: skip


def of_studies(writer: Writer, name: str, paper: str = "rl_sallm_f") -> Outcome:
    """Return the outcome of a paper's claim on the cells written so far."""
    rows, shelf = published.claims(paper), shelf_of(writer, paper)
    study = results.study(writer.directory)
    estimator = Estimator(400, Measured(lambda _: study))
    (outcome,) = claims.test(rows[rows["claim"] == name], published.load(paper), shelf, estimator)
    return outcome


@pytest.fixture
def of_paper(writer: Writer) -> Callable[..., Outcome]:
    return lambda *names: of_studies(writer, *names)


@pytest.mark.parametrize(("formula", "changes", "verdict"), VERDICTS)
def test_a_claim_is_put_to_the_rows_that_it_names(
    tested: Callable[..., Outcome], formula: str, changes: dict[str, Any], verdict: str
) -> None:
    assert tested(formula, **changes).verdict == verdict


def test_a_gain_is_compared_in_size_and_beside_every_baseline(tested: Callable[..., Outcome]) -> None:
    outcome = tested("relative_gain", baseline="uer", value=50.0)
    assert outcome.verdict == verdicts.REPRODUCED
    assert float(outcome.findings[0].ours.estimate) == pytest.approx(100 * 0.28 / 0.5)
    both = tested("relative_gain", baseline="uer,per", value=50.0)
    assert [finding.verdict for finding in both.findings] == [verdicts.REPRODUCED, verdicts.NOT_REPRODUCED]
    assert both.verdict == verdicts.NOT_REPRODUCED


def test_wins_are_those_shown_and_at_most_those_not_refuted_and_what_could_not_be_shown_is_said(
    tested: Callable[..., Outcome],
) -> None:
    outcome = tested("wins", baseline="uer,per", value=2, high=2)
    assert [float(number) for number in outcome.findings[0].ours] == [2, 1, 2] and outcome.findings[
        0
    ].of == "of 2 settings"
    assert outcome.verdict == verdicts.INCONCLUSIVE and outcome.reasons == ("too few settings show who is better",)
    assert tested("best", baseline="uer,per").reasons == (equivalence.UNDECIDED,)
    assert tested("relative_gain", baseline="per", value=15.0).reasons == (equivalence.NO_SIGN,)
    outcome = tested("best", baseline="ero")
    assert outcome.verdict == verdicts.NOT_RUN and outcome.reasons == ("ero on 8x8 dqn",)


def test_values_of_a_variant_are_compared_the_first_with_each_other(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    for value, final in ((0.5, 0.8), (0.25, 0.4)):
        settings = {"replay.lambda_max": {"value": value, "layer": "command line", "source": ""}}
        add(
            f"l{value}",
            {seed: {END: final} for seed in range(5)},
            method="vlm_rb",
            variant=str(value),
            settings=settings,
        )
    row = claim("best", variant="learner=dqn; replay.lambda_max=0.5,0.25")
    (outcome,) = claims.test(row, published.load("vlm_rb"), shelf(), Estimator(reps=100))
    assert outcome.verdict == verdicts.REPRODUCED and outcome.findings[0].of == "replay.lambda_max=0.5 beside 0.25"


def test_claims_of_labels_are_tested_on_what_teachers_said_and_runs_without_the_log_are_named(
    taught: Callable[..., None], of_paper: Callable[[str], Outcome], tmp_path: Path
) -> None:
    taught("full", (4, 4))
    taught("llm", (1, 1), method="pebble_llm")
    missing = of_paper("double_check_gain")
    assert missing.verdict == verdicts.NOT_RUN
    assert missing.reasons == ("rl_sallm_f ablation=no_self_augmentation on button-press",)
    taught("n", (2, 3), ablation="no_self_augmentation")
    gain = of_paper("double_check_gain").findings[0]
    assert (
        gain.of == "rl_sallm_f ablation=no_self_augmentation beside pebble_llm"
        and gain.verdict == verdicts.INCONCLUSIVE
    )
    assert float(gain.ours.estimate) == pytest.approx(62.5 - 25)
    assert float(of_paper("label_accuracy").findings[0].ours.estimate) == 100
    bare = Writer(tmp_path / "bare")
    Papers(bare).add("bare", {0: {100: 0.5}}, suite="metaworld_pbrl", task="button-press", method="rl_sallm_f")
    outcome = of_studies(bare, "label_accuracy")
    assert outcome.reasons == ("label accuracy percent of no run of rl_sallm_f · paper on button-press",)


def test_several_settings_beside_a_named_baseline_are_each_put_beside_it(
    taught: Callable[..., None], of_paper: Callable[[str], Outcome]
) -> None:
    taught("full", (4, 4))
    for name, share in (("no_double_check", 3), ("no_llm_labels", 4)):
        taught(name, (share, share), ablation=name)
    assert of_paper("ablations_cost_less").reasons == ("no task has all of its runs",)
    taught("last", (2, 2), ablation="no_self_augmentation")
    outcome = of_paper("ablations_cost_less")
    assert outcome.findings[0].of == "of 3 settings" and float(outcome.findings[0].ours.estimate) == 2
    assert outcome.findings[0].verdict == verdicts.INCONCLUSIVE
    assert "mean over button-press; the paper names no tasks" in outcome.reasons


def test_a_metric_of_offline_pairs_is_that_of_the_learned_reward(
    taught: Callable[..., None], of_paper: Callable[[str], Outcome]
) -> None:
    for task in ("drawer-open", "door-open", "button-press"):
        taught(f"full-{task}", (3, 3), task=task)
        taught(f"without-{task}", (2, 2), task=task, ablation="no_self_augmentation", full=f"full-{task}")
    outcome = of_paper("more_accurate_offline")
    assert float(outcome.findings[0].ours.estimate) == pytest.approx(25.0)
    assert "pairs of our own, not of a public data set" in outcome.reasons


def test_a_mechanism_is_looked_at_on_each_task_that_has_the_runs(
    add: Callable[..., None], shelf: Callable[..., Shelf]
) -> None:
    for method in ("aer", "uer", "relo"):
        for task in ("6x6", "8x8") if method != "relo" else ("8x8",):
            add(f"{method}-{task}", {seed: {END: 0.5} for seed in range(5)}, method=method, task=task)

    def measured(row: ReportRow, metric: str) -> Array:
        level = {"draws_to_key_percent": {"aer": 60, "uer": 100}, "clipped_before_success_percent": {"relo": 30}}
        return np.arange(5) / 10 + level.get(metric, {}).get(row.cell.method, np.nan)

    rows = published.claims("vlm_rb").set_index("claim", drop=False)
    names = ["aer_draws_locally", "relo_is_clipped", "ero_feedback_is_zero"]
    estimator = Estimator(200, measured)
    local, clipped, none = claims.test(rows.loc[names], published.load("vlm_rb"), shelf(), estimator)
    assert [finding.of for finding in local.findings] == [
        "aer beside uer on minigrid_doorkey/6x6 dqn",
        "aer beside uer on minigrid_doorkey/8x8 dqn",
    ]
    assert local.verdict == verdicts.REPRODUCED
    assert [float(finding.ours.estimate) for finding in local.findings] == pytest.approx([40, 40]), (
        "less is what is claimed"
    )
    assert clipped.verdict == verdicts.NOT_REPRODUCED, "30 % is not most"
    assert none.verdict == verdicts.NOT_RUN
    assert text.beside(clipped)[0] == "in words, read as 50 to 100 %", "the paper prints no number"


@pytest.mark.parametrize("paper", list(published.PAPERS))
def test_every_claim_of_every_paper_can_be_put_to_a_shelf(paper: str) -> None:
    from guidebench.reports.papers import catalogue

    empty = Shelf([], catalogue.paper(paper), {})
    rows = published.claims(paper)
    outcomes = claims.test(rows, published.load(paper), empty, Estimator(reps=10))
    words_alone = (rows["formula"] == "none") | rows["suite"].isin(empty.paper.robots)
    expected = [verdicts.PUBLISHED_ONLY if alone else verdicts.NOT_RUN for alone in words_alone]
    assert [(outcome.claim.claim, outcome.verdict) for outcome in outcomes] == list(
        zip(rows["claim"], expected, strict=True)
    )
    assert not words_alone.all() and all(outcome.reasons for outcome in outcomes)


def test_a_claim_over_pairs_of_task_and_setting_is_tested_on_their_mean(
    add: Callable[..., None], of_paper: Callable[..., Outcome]
) -> None:
    """LaGEA's structured feedback has .75 and free text .5 on the six pairs of table 3; one finding compares the
    means."""
    pairs = {
        "hidden": ("push", "drawer-open", "door-open"),
        "observable": ("button-press-topdown", "drawer-open", "door-open"),
    }
    for mode, tasks in pairs.items():
        goal = {"suite.goal": {"value": mode, "layer": "command line", "source": ""}}
        for task in tasks:
            place: dict[str, Any] = {"suite": "metaworld_mt10", "task": task, "method": "lagea"}
            full = f"{mode}-{task}"
            high = 1.0 if mode == "hidden" else 0.5
            add(full, {seed: {END: high} for seed in range(3)}, **place, settings=goal)
            layer = {"guide.structured": {"value": False, "layer": "ablation feedback=freeform", "source": ""}}
            role = {"kind": "ablation", "name": "feedback=freeform", "reference": full}
            ends = {seed: {END: 0.5} for seed in range(3)}
            add(f"{full}-free", ends, **place, variant="x", settings={**goal, **layer}, matrix=role)
    (finding,) = of_paper("structured_feedback_beats_free_form", "lagea").findings
    assert float(finding.ours.estimate) == pytest.approx(25)
    assert finding.of == "lagea beside lagea ablation=free_form_feedback"
