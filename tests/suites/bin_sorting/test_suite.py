"""What the suite declares, held against what its tasks do; and runs of it."""

import pytest

from guidebench import results
from guidebench.harness.plan import matrix
from guidebench.suites.bin_sorting import BinSorting
from tests.refusals import check_refused


@pytest.mark.parametrize(
    "setting",
    [{"rebuild": 0}, {"length": 0}, {"observation": "state", "start": "lifted"}, {"cameras": "wrist"}],
)
def test_settings_out_of_range_are_refused(setting):
    check_refused(f"suite.{list(setting)[-1]}=", BinSorting, **setting)


def test_the_protocol_is_the_papers():
    (cell,) = matrix.plan(["suite=bin_sorting"]).cells
    suite, evaluation = cell.section("suite"), cell.section("evaluation")
    assert (cell.names.task, suite.observation) == ("sorting", "images")
    assert (suite.horizon("sorting"), suite.rebuild) == (40, 125)
    assert evaluation.episodes == 20 and suite.spaces("sorting")[1].shape == (7,)
    assert suite.spaces("sorting")[0].parts["side"].shape == (100, 100, 3)


SMALL = ("suite=bin_sorting", "method=random", "training.steps=1", "evaluation.every=1", "seeds=[0]")


@pytest.fixture(scope="module")
def whole(train_once):
    return train_once(*SMALL, packs=[(0,)])


@pytest.mark.slow
def test_evaluations_tell_what_became_of_the_blocks(whole):
    rows = results.load(whole, log="outcomes")
    assert {"lifted", "wrong_bin", "out_of_reach", "put_back"} <= set(rows["outcome"])
    assert results.load(whole)["length"].unique().tolist() == [40]
