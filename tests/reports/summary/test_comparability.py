from __future__ import annotations

import itertools

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Score
from guidebench.harness.plan import matrix
from guidebench.reports.summary.comparability import UNMIXED, Mixing, Place, obstacle, place, planned, require

QUICK = Place("grid/8x8", "uer", "quick", 1, 300)


@pytest.mark.parametrize(
    ("other", "allowing", "reason"),
    [
        (
            QUICK._replace(profile="paper"),
            Mixing(profiles=True),
            "profile quick beside paper; `bench compare --mix",
        ),
        (QUICK._replace(steps=600), Mixing(profiles=True), "300 beside 600 steps; `bench compare --mixed-profiles`"),
        (
            QUICK._replace(conditions=(("suite.goal", '"hidden"'), ("training.demonstrations", "5"))),
            Mixing(protocols=True),
            "the suite's own settings beside goal=hidden, demonstrations=5; `bench compare --mixed-protocols`",
        ),
        (QUICK._replace(version=2), Mixing(protocols=True), "protocol version 1 beside 2; `bench compare --mixed-prot"),
    ],
)
def test_what_differs_stands_in_the_way_until_it_is_asked_for(other: Place, allowing: Mixing, reason: str) -> None:
    assert obstacle(QUICK, other, UNMIXED).startswith(reason) and obstacle(QUICK, other, allowing) == ""


def test_what_make_run_does_can_be_compared_with_what_was_measured() -> None:
    """`make run` trains the very cells that were measured, so whoever runs it sees them pooled, not beside each
    other."""
    plan = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "method=uer,per,vlm_rb", "profile=quick", "seeds=3"])
    stored = results.opened("measured")["measured/doorkey_5x5"].cells
    assert {cell.id for cell in plan.cells} == {cell.id for cell in stored}
    for cell, other in itertools.product(map(record, plan.cells), stored):
        assert obstacle(planned(cell), place(other), UNMIXED) == ""


def test_runs_of_different_scores_are_never_compared_and_a_protocol_that_is_not_on_record_stands_in_no_way() -> None:
    assert obstacle(QUICK, QUICK._replace(score=Score("return")), Mixing(True, True)).startswith(
        "scored by success beside return"
    )
    assert obstacle(QUICK, QUICK._replace(version=None), UNMIXED) == ""


def housekeep_comparability(*words: str) -> Place:
    (cell,) = matrix.plan(["suite=housekeep", "task=task12", "profile=smoke", *words]).cells
    return planned(record(cell))


def test_where_a_table_lies_is_no_condition_and_which_it_is_is_one() -> None:
    first, second = (
        housekeep_comparability("method=sparse", f"suite.preferences={name}.csv", "suite.table=file-abc")
        for name in ("one", "other")
    )
    assert first == second and first.conditions == (("suite.table", '"file-abc"'),)
    assert first != housekeep_comparability("method=sparse")


def test_studies_whose_task_cannot_be_compared_are_refused_and_no_match_tells_what_there_is() -> None:
    stored = [QUICK._replace(profile="paper")]
    with pytest.raises(
        UserError, match=r"mine and theirs cannot be compared as they are: grid/8x8: .*--mixed-profiles"
    ):
        require([QUICK], stored, UNMIXED, ("mine", "theirs"))
    assert require([QUICK], stored, Mixing(profiles=True), ("mine", "theirs")) == []
    with pytest.raises(UserError, match=r"no runs match: mine has grid/8x8 \(uer; quick\); theirs has grid/5x5 \(per"):
        require([QUICK], [QUICK._replace(task_id="grid/5x5", method="per")], UNMIXED, ("mine", "theirs"))


def test_one_task_that_fits_is_enough_of_a_pool_but_not_of_a_study() -> None:
    ours = [QUICK, QUICK._replace(task_id="grid/5x5")]
    stored = [QUICK, QUICK._replace(task_id="grid/5x5", version=2)]
    (note,) = require(ours, stored, UNMIXED, ("mine", "measured"), strict=False)
    assert note.startswith("grid/5x5: not compared: protocol version 1 beside 2")
    with pytest.raises(UserError, match="grid/5x5"):
        require(ours, stored, UNMIXED, ("mine", "theirs"))
    with pytest.raises(UserError, match="cannot be compared"):
        require(ours[1:], stored, UNMIXED, ("mine", "measured"), strict=False)


def test_a_form_of_observation_that_a_method_chooses_itself_is_no_condition() -> None:
    plain = housekeep_comparability("method=sparse")._replace(method="")
    assert housekeep_comparability("method=linvit", "prior=scripted")._replace(method="") == plain
    chosen = housekeep_comparability("method=linvit", "prior=scripted", "suite.observation=text")._replace(method="")
    assert chosen.conditions == (("suite.observation", '"text"'),) and obstacle(plain, chosen, UNMIXED)
