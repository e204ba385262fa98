"""The suite's offline data: its episodes, their outcomes, and what is refused."""

from typing import Any

import numpy as np
import pytest

from guidebench.harness.commands import cli
from guidebench.harness.episodes import datasets
from guidebench.harness.episodes.datasets import Dataset, DatasetSpec
from guidebench.harness.plan import matrix, variations
from guidebench.suites.bin_sorting import BinSorting, BinSortingData, offline
from tests.refusals import check_refused

from .conftest import STATE


def obtain_dataset(suite: Any = STATE, **counts: Any) -> Dataset:
    return datasets.obtain(DatasetSpec("offline", BinSortingData(**counts), suite, "sorting"))


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return obtain_dataset(demonstrations=2, failures=6, others=2)


def test_demonstrations_come_first_then_failures_then_other_tasks(dataset):
    tasks = [episode.task for episode in dataset.episodes]
    assert tasks == ["forward"] * 2 + ["backward"] * 2 + ["forward", "backward"] * 3 + ["other"] * 2
    assert [bool(episode.success[-1]) for episode in dataset.episodes] == [True] * 4 + [False] * 6 + [True] * 2
    assert not any(episode.success.any() for episode in dataset.episodes[4:10])
    assert {episode.length for episode in dataset.episodes} == {40} and dataset.length == 480


def test_rewards_are_the_true_sparse_ones_and_a_time_limit_ends_every_episode(dataset):
    for episode in dataset.episodes:
        np.testing.assert_array_equal(episode.reward, episode.success.astype(np.float32))
        assert episode.truncated.nonzero()[0].tolist() == [39] and not episode.terminated.any()


def test_a_tail_cuts_successful_episodes_soon_after_success_and_failures_never(dataset):
    short = obtain_dataset(demonstrations=2, failures=6, others=2, tail=3)
    for number, (episode, original) in enumerate(zip(short.episodes, dataset.episodes, strict=True)):
        solved = 36 if 4 <= number < 10 else int(np.flatnonzero(~original.success)[-1]) + 1
        assert episode.length == solved + 4, "the first solved step and three more"
        assert episode.truncated.nonzero()[0].tolist() == [solved + 3] and not episode.terminated.any()
        np.testing.assert_array_equal(episode.action, original.action[: solved + 4])
        np.testing.assert_array_equal(episode.next_observation, original.next_observation[: solved + 4])


def test_the_grippers_action_has_the_size_that_is_set(dataset):
    assert {round(float(abs(grip)), 6) for episode in dataset.episodes for grip in episode.action[:, 6]} == {0.7}
    full = obtain_dataset(demonstrations=1, failures=0, others=0, grip=1.0)
    np.testing.assert_array_equal(full.episodes[0].observation, dataset.episodes[0].observation)
    np.testing.assert_array_equal(full.episodes[0].action[:, 6], np.sign(dataset.episodes[0].action[:, 6]))
    check_refused(r"offline.grip=0.5", matrix.plan, ["suite=bin_sorting", "method=bc", "offline.grip=0.5"])


def test_an_episode_begins_as_its_opening_says(dataset, tasks):
    openings = {episode.opening.tobytes() for episode in dataset.episodes}
    assert len(openings) == len(dataset.episodes), "no layout is played twice"
    task = tasks("backward")
    for number, episode in enumerate(dataset.episodes[2:4]):
        observation = task.reset(offline._seed(1, number))
        np.testing.assert_array_equal(observation, episode.observation[0])
        np.testing.assert_array_equal(task.snapshot(), episode.opening)


def test_the_three_ways_to_fail_take_turns_in_both_directions(dataset, tasks):
    """The final position of the named block tells the failure: it stays where it was, lies between tray and arm, or
    lies in the other bin."""
    for number, episode in enumerate(dataset.episodes[4:10]):
        first, last = (episode.observation[step, 13:16] / 5 for step in (0, 39))  # of the named block, from its centre
        moved = float(np.linalg.norm(last[:2] - first[:2]))
        if number < 2:
            assert moved < 0.03
        elif number < 4:
            assert last[0] < -0.11 and abs(last[1]) < 0.05
        else:
            assert moved > 0.1 and abs(last[1]) > 0.15


def test_fewer_demonstrations_are_the_first_of_more_and_change_nothing_else(dataset):
    fewer = obtain_dataset(demonstrations=1, failures=6, others=2)
    expected = [dataset.episodes[number] for number in (0, 2, *range(4, 12))]
    for episode, original in zip(fewer.episodes, expected, strict=True):
        assert episode.task == original.task
        np.testing.assert_array_equal(episode.observation, original.observation)
        np.testing.assert_array_equal(episode.action, original.action)


def test_every_method_of_the_quick_profile_has_the_same_data_and_normalisation():
    words = ["suite=bin_sorting", "method=bc,cal_ql,robofume,kagi", "profile=quick", "models=oracle"]
    cells = matrix.plan(words).cells
    assert len(cells) == 4
    assert len({cell.section("offline") for cell in cells}) == 1
    episodes = cells[0].section("offline")
    assert episodes.failures == 0 and 20 <= episodes.demonstrations <= 50 and episodes.tail < 10
    assert all(cell.section("agent").normalise and not cell.section("training").demonstrations for cell in cells)
    assert cells[0].id != matrix.plan([*words[:1], "method=bc", "profile=quick", "agent.normalise=false"]).cells[0].id


def test_the_papers_numbers_are_the_defaults_and_its_reductions_are_ablations():
    for method in ("bc", "cal_ql"):
        plan = variations.ablations(matrix.plan(["suite=bin_sorting", f"method={method}"]), ["demos"])
        datasets = [cell.section("offline") for cell in plan.cells]
        assert [dataset.demonstrations for dataset in datasets] == [20, 10, 4]
        assert {(dataset.failures, dataset.others) for dataset in datasets} == {(30, 200)}
        assert all(cell.section("training").demonstrations == 0 for cell in plan.cells)
        assert len({cell.id for cell in plan.cells}) == 3


@pytest.mark.parametrize("name", ["demonstrations", "failures", "others"])
def test_a_count_below_nothing_is_refused(name):
    check_refused(f"offline.{name}=-1", matrix.plan, ["suite=bin_sorting", "method=bc", f"offline.{name}=-1"])


def test_unknown_settings_and_other_suites_are_refused():
    check_refused(
        r"demonstratons.*demonstrations", matrix.plan, ["suite=bin_sorting", "method=bc", "offline.demonstratons=3"]
    )
    check_refused(
        "it holds episodes of the suite bin_sorting alone",
        matrix.plan,
        ["suite=point_maze", "task=umaze", "method=bc", "offline=bin_sorting"],
    )


def test_an_episode_too_short_to_succeed_is_told_by_its_length():
    short = BinSorting(observation="state", length=3)
    check_refused(
        r"0 of 5 attempts gave demonstrations of forward and 1 are needed: raise",
        obtain_dataset,
        short,
        demonstrations=1,
        failures=0,
        others=0,
    )


def test_data_without_a_success_are_refused_before_training(tmp_path, capsys):
    words = ["suite=bin_sorting", "method=cal_ql", "profile=smoke", f"output={tmp_path / 'study'}"]
    assert cli.main(["run", *words, "offline.demonstrations=0", "offline.failures=2", "offline.others=0"]) == 2
    captured = capsys.readouterr()
    assert "none of the 2 episodes of the dataset 'offline' has a success on 'sorting'" in captured.err + captured.out
    assert cli.main(["run", *words, *(f"offline.{name}=0" for name in ("demonstrations", "failures", "others"))]) == 2
    assert "holds no episode" in capsys.readouterr().err
