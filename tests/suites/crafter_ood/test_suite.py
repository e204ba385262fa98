"""The suite's declarations, and runs of it."""

import pytest

pytest.importorskip("crafter")

from guidebench import results
from guidebench.harness.plan import matrix
from guidebench.suites.crafter_ood import CrafterOod
from tests.refusals import check_refused


def test_the_papers_profile_trains_in_domain_on_four_grey_pictures():
    plan = matrix.plan(["suite=crafter_ood", "profile=paper", "seeds=1"])
    assert [cell.names.task for cell in plan.cells] == ["trained"]
    observations, actions = plan.cells[0].section("suite").spaces("trained")
    picture = observations.parts["picture"]
    assert (picture.shape, picture.stack, actions.count) == ((84, 84, 4), 4, 28)


def test_tasks_can_be_named_by_the_papers_numbers():
    (cell,) = matrix.plan(["suite=crafter_ood", "task=task8", "profile=smoke", "seeds=1"]).cells
    assert cell.names.task == "mine_diamond_short"


def test_evaluation_episodes_have_a_length_of_their_own():
    suite = CrafterOod(length=3, test_length=5)
    for played, length in ((suite, 3), (suite.in_evaluation(), 5)):
        task = played.make("deforestation")
        task.reset(0)
        assert [task.step(0).truncated for _ in range(length)] == [False] * (length - 1) + [True]
        assert played.horizon("deforestation") == length and played.spaces("wood_sword") == suite.spaces("wood_sword")
    assert (CrafterOod().length, CrafterOod().in_evaluation().length) == (10_000, 15_000)


def test_a_masked_run_takes_no_impossible_action_and_one_without_a_mask_does(train):
    """Episodes are truncated after 12 steps in training and 9 in evaluation, unless the player dies or succeeds."""
    impossible_counts = {}
    for kind in ("masked", "counted"):
        words = ["suite=crafter_ood", "method=random", "seeds=[0]", "suite.area=16", "suite.length=12"]
        words += ["training.steps=20", "evaluation.every=10", "evaluation.episodes=2", "suite.test_length=9"]
        study = train(*words, f"suite.impossible={kind}", packs=[(0,)])
        rows = results.load(study, log="outcomes")
        assert rows["outcome"].unique().tolist() == ["completion", "alive", "impossible actions"]
        impossible_counts[kind] = rows[rows["outcome"] == "impossible actions"]["value"]
        assert (results.load(study)["length"] == 9).all()
    assert impossible_counts["masked"].tolist() == [0.0] * 4 and impossible_counts["counted"].max() > 0


def test_coordinates_are_refused_where_nothing_reads_the_text() -> None:
    """Else they would change the id of a cell whose results they cannot change."""
    words = ["suite=crafter_ood", "task=wood_sword", "profile=smoke", "seeds=1"]
    directions = ["suite.directions=true"]
    check_refused(
        "directions=true .* suite.observation=symbols nothing in this cell reads it; set suite.observation=text",
        matrix.plan, [*words, "method=uer", *directions],
    )  # fmt: skip
    for more in (["method=ellm_exploration"], ["method=model_as_agent"]):
        ids = [matrix.plan([*words, *more, *also]).cells[0].id for also in ([], directions)]
        assert ids[0] != ids[1]
