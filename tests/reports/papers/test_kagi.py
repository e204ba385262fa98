"""KAGI's figure 5 from the cells that its page's command plans, and from small runs of this command."""

import pytest

from docs.generated import papers
from guidebench import results
from guidebench.harness.plan.config import Cell
from guidebench.reports.papers import kagi, report, verdicts
from guidebench.reports.papers.report import PaperReport
from tests.reports.papers.planned_studies import as_if_run, unrendered_module

__all__ = ["unrendered_module"]
(FIGURE_5,) = papers.ABOUT["kagi"].experiments
UNTESTED = (verdicts.NOT_RUN, verdicts.PUBLISHED_ONLY)
SCRIPTED = "segmenter=scripted waypoints=scripted classifier=oracle"


@pytest.fixture(scope="module")
def planned_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[PaperReport, list[Cell]]:
    """Return the report on an as-if-run study of the command in the paper's own profile, and its cells."""
    plan = papers.plan(FIGURE_5.command)
    study = as_if_run(plan, tmp_path_factory.mktemp("figure-5") / "study", lambda cell: 0.5)
    return report.report([results.study(study)], "kagi", {}, reps=200), plan.trained


def test_one_command_makes_the_nine_rows_of_figure_5(planned_report: tuple[PaperReport, list[Cell]]) -> None:
    _, cells = planned_report
    rows = {
        (
            cell.names.method,
            getattr(cell.section("guide"), "formulation", "sparse"),
            cell.section("offline").demonstrations,
        )
        for cell in cells
    }
    rewards = (("robofume", "sparse"), ("kagi", "both"), ("kagi", "dense"))
    assert len(cells) == 9 and rows == {(*reward, count) for reward in rewards for count in (20, 10, 4)}
    assert {
        (part.demonstrations, cell.section("offline").demonstrations)
        for cell in cells
        if (part := cell.section("classifier")) is not None
    } == {(20, 20), (10, 10), (4, 4)}


def test_each_curve_of_figure_5_finds_its_row_and_its_orderings_are_tested(
    planned_report: tuple[PaperReport, list[Cell]],
) -> None:
    paper_report, _ = planned_report
    assert len([figure for figure in kagi.PAPER.figures if figure.figure == "5"]) == 3
    outcomes = {outcome.claim.claim: outcome for outcome in paper_report.claims}
    for name in ("dense_and_sparse_over_sparse", "dense_alone_is_worst"):
        assert outcomes[name].verdict not in UNTESTED, outcomes[name]
    assert [finding.of for finding in outcomes["dense_and_sparse_over_sparse"].findings] == ["of 3 settings"]


def test_sparse_reward_alone_is_robofume_or_kagi_with_it() -> None:
    names = [(reading.method, dict(reading.variant)) for reading in kagi.readings("sorting", "robofume", {})]
    assert names == [("robofume", {}), ("kagi", {"guide.formulation": "sparse"})]
    (dense,) = kagi.readings("sorting", "kagi", {"ablation": "dense_only", "demonstrations": "5x_fewer"})
    assert dict(dense.variant) == {"guide.formulation": "dense", "ablation": "demos=5x"}
    (both,) = kagi.readings("sorting", "kagi", {"demonstrations": "standard"})
    assert dict(both.variant) == {"guide.formulation": "both"}
