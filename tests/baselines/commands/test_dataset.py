"""`bench dataset`: what it tells, and a round trip through Minari's own package."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.datasets.minari import Minari
from guidebench.harness.commands import cli
from guidebench.harness.episodes import datasets
from guidebench.harness.episodes.datasets import Dataset, DatasetSpec
from guidebench.harness.interfaces import Suite
from guidebench.suites.bin_sorting import BinSorting, BinSortingData
from guidebench.suites.classic import Classic
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.refusals import check_refused

h5py = pytest.importorskip("h5py")
minari = pytest.importorskip("minari")
pytest.importorskip("ogbench")

STATE = BinSorting(observation="state")
COUNTS = {"demonstrations": 1, "failures": 1, "others": 1}
BINS = (
    "suite=bin_sorting", "method=bc", "suite.observation=state",
    *(f"offline.{name}={count}" for name, count in COUNTS.items()),
)  # fmt: skip
ID = "bins/sorting-v0"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of Minari's datasets with the exported one."""
    with pytest.MonkeyPatch.context() as patched:
        path = tmp_path_factory.mktemp("minari")
        patched.setenv("MINARI_DATASETS_PATH", str(path))
        assert cli.main(["dataset", *BINS, "--minari", ID]) == 0
        yield path


@pytest.fixture(scope="module")
def original() -> Dataset:
    return datasets.obtain(DatasetSpec("offline", BinSortingData(**COUNTS), STATE, "sorting"))


def read_back(suite: Suite = STATE, task: str = "sorting", id: str = ID) -> Dataset:
    return datasets.obtain(DatasetSpec("offline", Minari(id=id), suite, task))


def test_minaris_package_reads_what_was_written(exported: Path, original: Dataset) -> None:
    dataset = minari.load_dataset(ID)
    assert (dataset.total_episodes, dataset.total_steps) == (4, 160)
    assert dataset.spec.observation_space.shape == (35,) and dataset.spec.action_space.shape == (7,)
    for episode, ours in zip(dataset.iterate_episodes(), original.episodes, strict=True):
        assert dataset.spec.action_space.contains(episode.actions[0])
        assert dataset.spec.observation_space.contains(episode.observations[0])
        np.testing.assert_array_equal(episode.observations[:-1], ours.observation)
        np.testing.assert_array_equal(episode.observations[1:], ours.next_observation)
        np.testing.assert_array_equal(episode.actions, ours.action)
        np.testing.assert_array_equal(episode.rewards, ours.reward)
        np.testing.assert_array_equal(episode.infos["success"][1:], ours.success)
        np.testing.assert_array_equal(episode.truncations, ours.truncated)
    tasks = [metadata["task"] for metadata in dataset.storage.get_episode_metadata(range(4))]
    assert tasks == ["forward", "backward", "forward", "other"]
    instructions = [metadata["instruction"] for metadata in dataset.storage.get_episode_metadata(range(4))]
    assert instructions == [STATE.instruction_at(episode.task, episode.opening) for episode in original.episodes]
    assert instructions[1].endswith("and put it on the tray")


def test_it_comes_back_as_it_was_with_tasks_and_openings(exported: Path, original: Dataset) -> None:
    for ours, theirs in zip(read_back().episodes, original.episodes, strict=True):
        assert ours.task == theirs.task
        for name, array, expected in zip(ours._fields[1:], ours[1:], theirs[1:], strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected, err_msg=name)


def test_records_of_images_come_back_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opengl: Any) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    suite = BinSorting(length=20)
    words = ["suite=bin_sorting", "method=bc", "suite.length=20", "offline.demonstrations=0", "offline.failures=0"]
    assert cli.main(["dataset", *words, "offline.others=1", "--minari", ID]) == 0
    (episode,) = read_back(suite).episodes
    source = datasets.obtain(DatasetSpec("offline", BinSortingData(0, 0, 1), suite, "sorting")).episodes[0]
    assert episode.observation.dtype.names == ("side", "proprioception", "goal")
    np.testing.assert_array_equal(episode.observation, source.observation)
    (minari_episode,) = minari.load_dataset(ID).iterate_episodes()
    np.testing.assert_array_equal(minari_episode.observations["side"][1:], source.next_observation["side"])


def test_a_dataset_of_other_spaces_is_refused_by_file_and_episode(exported: Path) -> None:
    says = r"main_data.hdf5, episode_0, observations: side is not there; expected an array of numbers"
    check_refused(says, read_back, BinSorting())
    check_refused(
        r"does not tell the range of actions of shape \(1,\), which the task takes", read_back, Classic(), "Pendulum-v1"
    )
    with h5py.File(exported / ID / "data" / "main_data.hdf5", "r+") as file:
        file["episode_1"].move("opening", "kept")
        file["episode_1/opening"] = np.zeros(5, np.uint8)
        says = r"episode 1: opening is uint8 of shape \(5,\); expected a snapshot, uint8 of shape \(331,\)"
    check_refused(says, read_back)
    with h5py.File(exported / ID / "data" / "main_data.hdf5", "r+") as file:
        del file["episode_1/opening"]
        file["episode_1"].move("kept", "opening")


def test_a_task_that_the_suite_has_not_is_the_one_trained_on(exported: Path) -> None:
    with h5py.File(exported / ID / "data" / "main_data.hdf5", "r+") as file:
        file["episode_0"].attrs["task"] = "../elsewhere"
    assert [episode.task for episode in read_back().episodes] == ["sorting", "backward", "forward", "other"]
    with h5py.File(exported / ID / "data" / "main_data.hdf5", "r+") as file:
        file["episode_0"].attrs["task"] = "forward"


def test_it_tells_what_a_dataset_holds(original: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dataset", *BINS, "--json"]) == 0
    (summary,) = json.loads(capsys.readouterr().out)
    assert summary["tasks"] == {"forward": 2, "backward": 1, "other": 1}
    assert (summary["episodes"], summary["transitions"], summary["successes"], summary["openings"]) == (4, 160, 3, 4)
    assert summary["sha256"] == original.digest and 160 * 36 * 4 < summary["bytes"] < 160 * 2 * 35 * 4
    assert cli.main(["dataset", *BINS]) == 0
    words = capsys.readouterr().out
    assert "4 episodes (2 of forward, 1 of backward, 1 of other), 3 with a success; 160 transitions of" in words


REFUSED = {
    "no dataset": (("suite=minigrid_doorkey", "method=uer"), "no chosen method learns from a dataset (uer); name one"),
    "a bad id": (
        (*BINS, "--minari", "../bins"),
        "--minari '../bins' is no name of a dataset; expected one such",
    ),
    "two datasets": ((*BINS, "task=forward,backward", "--minari", "two-v0"), "--minari writes one dataset, and the"),
    "a taken id": ((*BINS, "--minari", ID), "is there already; choose another id, or remove it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused(exported: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = REFUSED[case]
    assert cli.main(["dataset", *words]) == 2
    assert says in capsys.readouterr().err


def test_discrete_actions_and_codes_are_described_as_minari_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from guidebench.baselines.datasets.minari import writing
    from guidebench.baselines.datasets.scripted import Scripted

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    suite = MiniGridDoorKey()
    dataset = datasets.obtain(DatasetSpec("offline", Scripted(episodes=2), suite, "5x5"))
    writing.write(dataset, suite, "5x5", tmp_path / "grid-v0", "grid-v0", "a test")
    spec = minari.load_dataset("grid-v0").spec
    assert spec.action_space.n == suite.spaces("5x5")[1].count
    assert spec.observation_space.high.max() == max(suite.spaces("5x5")[0].categories or ()) - 1
    back = read_back(suite, "5x5", "grid-v0").episodes
    for ours, theirs in zip(back, dataset.episodes, strict=True):
        np.testing.assert_array_equal(ours.action, theirs.action)
        np.testing.assert_array_equal(ours.next_observation, theirs.next_observation)
    check_refused(
        "grid-v0 is there already; choose another id, or remove it",
        writing.write,
        dataset,
        suite,
        "5x5",
        tmp_path / "grid-v0",
        "grid-v0",
        "a test",
    )
