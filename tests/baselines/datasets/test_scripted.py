"""Episodes of a suite's scripted policy, of any quality, and runs that learn from them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.baselines.datasets.scripted import ENTROPY, Scripted
from guidebench.baselines.storage import Storage
from guidebench.harness import registry
from guidebench.harness.episodes import datasets
from guidebench.harness.episodes.datasets import Dataset, DatasetSpec
from guidebench.harness.errors import Stopped
from guidebench.harness.interfaces import Build
from guidebench.harness.loop import build as loop_build
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates
from guidebench.harness.run.study import ring_bytes
from guidebench.harness.streams import Streams
from guidebench.harness.trajectories import Trajectory
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.baselines.datasets.fed_guide import GUIDE
from tests.refusals import check_refused

SUITE = MiniGridDoorKey()
CORRIDOR = Path(__file__).parents[2] / "harness" / "corridor.py"
TINY = (
    "method=feeding", "task=5x5", "offline=scripted", "offline.episodes=4", "training.steps=200",
    "evaluation.every=50", "evaluation.episodes=2", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=40", "training.capacity=2000",
)  # fmt: skip


def request(**settings: Any) -> DatasetSpec:
    return DatasetSpec("offline", Scripted(**settings), SUITE, "5x5")


@pytest.fixture(scope="module")
def noisy() -> Dataset:
    return datasets.obtain(request(episodes=6, noise=0.8))


def test_without_noise_each_episode_is_the_policys_own() -> None:
    dataset = datasets.obtain(request(episodes=3, noise=0.0))
    assert len(dataset.episodes) == 3 and all(episode.success[-1] for episode in dataset.episodes)
    assert all(episode.terminated[-1] and not episode.truncated[-1] for episode in dataset.episodes)


def test_with_noise_failures_stay_in_and_every_episode_is_one_of_its_task(noisy: Dataset) -> None:
    lengths = [episode.length for episode in noisy.episodes]
    better = datasets.obtain(request(episodes=6, noise=0.0))
    assert sum(lengths) > better.length and max(lengths) > max(episode.length for episode in better.episodes)
    wandering = datasets.obtain(request(episodes=2, noise=1.0))
    assert not wandering.episodes[0].success.any() and wandering.episodes[0].truncated[-1]
    for episode in noisy.episodes:
        np.testing.assert_array_equal(episode.observation[1:], episode.next_observation[:-1])
        assert np.flatnonzero(episode.terminated | episode.truncated).tolist() == [episode.length - 1]
        assert episode.task == "5x5"


def test_a_dataset_is_gathered_once_to_the_same_bytes_and_another_is_kept_apart(
    noisy: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Scripted, "gather", None)
    assert datasets.obtain(request(episodes=6, noise=0.8)).digest == noisy.digest
    monkeypatch.undo()
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    assert datasets.obtain(request(episodes=6, noise=0.8)).digest == noisy.digest
    assert datasets.obtain(request(episodes=6, noise=0.7)).digest != noisy.digest
    assert len(list(tmp_path.glob("datasets/offline/*.json"))) == 2


def test_a_dataset_is_gathered_again_where_the_suite_shows_something_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A suite under development keeps its version while the cache holds records of other observations."""
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    assert datasets.obtain(request(episodes=2)).episodes[0].observation.dtype == np.uint8
    (space, actions), make = SUITE.spaces("5x5"), MiniGridDoorKey.make
    floats = replace(space, dtype="float32", categories=None)
    monkeypatch.setattr(MiniGridDoorKey, "spaces", lambda self, task: (floats, actions))
    monkeypatch.setattr(MiniGridDoorKey, "make", lambda self, task: InFloats(make(self, task)))
    assert datasets.obtain(request(episodes=2)).episodes[0].observation.dtype == np.float32


class InFloats:
    """A task that shows the observations of another one as floats."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def reset(self, seed: int | None = None) -> Any:
        return self.task.reset(seed).astype(np.float32)

    def step(self, action: Any) -> Any:
        step = self.task.step(action)
        return step._replace(observation=step.observation.astype(np.float32))


def test_an_episode_tells_the_state_in_which_it_began(noisy: Dataset) -> None:
    task = SUITE.make("5x5")
    for number, episode in enumerate(noisy.episodes):
        layout = np.random.SeedSequence(ENTROPY, spawn_key=(number,)).spawn(2)[0]
        np.testing.assert_array_equal(task.reset(int(layout.generate_state(1)[0] >> 1)), episode.observation[0])
        assert episode.opening is not None
        np.testing.assert_array_equal(task.snapshot(), episode.opening)


def test_an_episode_whose_observations_do_not_follow_each_other_is_refused(noisy: Dataset) -> None:
    first = noisy.episodes[0]
    jumps = first._replace(next_observation=np.concatenate([first.next_observation[:2], first.observation[2:]]))
    step = int(np.argwhere(jumps.next_observation[:-1] != first.observation[1:])[0][0])
    assert step >= 2
    check_refused(
        f"episode 0: next_observation of step {step} is not the observation of step", datasets.check, [jumps], request()
    )


SOME, SHORT = np.zeros(8, np.uint8), np.zeros(7, np.uint8)
OPENINGS = {
    "other lengths": ([SOME, SHORT], r"episode 1: opening is uint8 of shape \(7,\); expected a snapshot, uint8"),
    "another type": ([SOME, SOME.astype(float)], r"episode 1: opening is float64 of shape \(8,\); expected a snapshot"),
    "one left out": ([SOME, None], "episode 1 has no opening and episode 0 has one; give the snapshot"),
    "one too many": ([None, SOME], "episode 1 has an opening and episode 0 has none; give the snapshot"),
    "no vector": ([SOME[None]], r"episode 0: opening is uint8 of shape \(1, 8\); expected a snapshot"),
}


@pytest.mark.parametrize("case", OPENINGS)
def test_openings_that_are_no_snapshots_of_one_length_are_refused(noisy: Dataset, case: str) -> None:
    openings, says = OPENINGS[case]
    episodes = [replaced(episode, opening) for episode, opening in zip(noisy.episodes, openings, strict=False)]
    check_refused(says, datasets.check, episodes, request())


def replaced(episode: Trajectory, opening: Any) -> Trajectory:
    return episode._replace(opening=opening)


def test_openings_are_kept_or_unknown_to_all(noisy: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(Scripted, "gather", lambda *_: [replaced(episode, None) for episode in noisy.episodes])
    without = datasets.obtain(request())
    assert without.digest != noisy.digest and all(episode.opening is None for episode in without.episodes)
    for ours, theirs in zip(without.episodes, noisy.episodes, strict=True):
        np.testing.assert_array_equal(ours.observation, theirs.observation)


@pytest.fixture
def corridor(plugin: Callable[..., Path]) -> Any:
    """Return a suite whose observations are records."""
    plugin("corridor", CORRIDOR.read_text(), {"suite": "seen_corridor"})
    return registry.get("suite", "seen_corridor")()


def test_episodes_of_several_tasks_name_their_task_and_have_to_share_its_spaces(corridor: Any) -> None:
    both = DatasetSpec("offline", Scripted(episodes=2, tasks=("steps", "stairs")), corridor, "steps")
    assert [episode.task for episode in datasets.obtain(both).episodes] == ["steps", "steps", "stairs", "stairs"]
    other = DatasetSpec("offline", Scripted(episodes=2, tasks=("5x5", "6x6")), SUITE, "5x5")
    check_refused(r"dataset 'offline' \(Scripted\), episode 2 is of task '6x6', whose spaces", datasets.obtain, other)


def test_records_come_back_as_they_were_and_are_stored(corridor: Any, tmp_path: Path) -> None:
    observations, actions = corridor.spaces("steps")
    dataset = datasets.obtain(DatasetSpec("offline", Scripted(episodes=3, noise=0.5), corridor, "steps"))
    assert dataset.episodes[0].observation.dtype == observations.numpy
    build = Build(
        seeds=(0, 1), observations=observations, actions=actions, steps=10, horizon=50, events=(), device="cpu",
        streams=[Streams(0), Streams(1)], directories=(tmp_path / "0", tmp_path / "1"), capacity=500, slots=600,
    )  # fmt: skip
    store = Storage(build)
    for transition in datasets.transitions([dataset, dataset], 0):
        store.append(transition)
    batch = store.gather(np.arange(dataset.length)[None].repeat(2, 0))
    for row in (0, 1):
        np.testing.assert_array_equal(batch.observation[row], np.concatenate([e.observation for e in dataset.episodes]))
        following = np.concatenate([episode.next_observation for episode in dataset.episodes])
        np.testing.assert_array_equal(batch.next_observation[row], following)


@pytest.fixture
def feeding(plugin: Callable[..., Path]) -> None:
    plugin("feeding_module", GUIDE, {"guide": "feeding", "method": "feeding"})


def cell(*overrides: str) -> Any:
    words = {word.partition("=")[0]: word for word in (*TINY, *overrides)}
    (planned,) = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", *words.values()]).cells
    return planned


@pytest.mark.parametrize("first", ["dataset", "environment"])
def test_a_phase_stores_the_dataset_once_and_learns_from_it(
    feeding: None, train: Callable[..., Path], first: str
) -> None:
    """Every seed stores all of the dataset's transitions, each followed by its own successor, wherever they come:
    before the environment's, or while its episodes are under way, which go on after it."""
    study = train(*TINY, f"guide.first={first}", "seeds=[0,1]", packs=[(0, 1)])
    (dataset,) = datasets.loading(cell(f"guide.first={first}"), [0])["offline"]()
    rows = results.load(study, log="fed").sort_values("step")
    for seed in (0, 1):
        phases = rows[rows["seed"] == seed][["step", "stored", "reward", "astray"]].to_numpy().tolist()
        assert [row[3] for row in phases] == [0, 0, 0]
        if first == "dataset":
            assert [row[:2] for row in phases] == [
                [1, dataset.length],
                [31, dataset.length + 1],
                [171, dataset.length + 140],
            ]
            assert phases[0][2] == pytest.approx(sum(float(episode.reward.sum()) for episode in dataset.episodes))
        else:
            assert [row[:2] for row in phases] == [[1, 1], [141, dataset.length + 140], [171, dataset.length + 140]]
    run = json.loads(next(study.glob("**/seed-1/run.json")).read_text())
    assert run["provenance"]["datasets"] == {"offline": dataset.digest} and run["status"] == "finished"


def test_a_store_that_is_smaller_than_the_dataset_is_refused(feeding: None, train: Callable[..., Path]) -> None:
    says = r"training.capacity=20 is smaller than dataset 'offline' \(Scripted\), which holds [\d,]+ transitions: raise"
    check_refused(says, train, *TINY[:-1], "training.capacity=20", "seeds=[0]", packs=[(0,)])


def test_a_dataset_that_changed_within_a_run_is_refused(
    feeding: None, train: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*TINY, "guide.first=environment", "seeds=[0]")
    calls = iter(range(1, 1000))
    with pytest.raises(Stopped):
        train(*more, packs=[(0,)], directory=tmp_path / "parts", stop=lambda: next(calls) == 100)
    monkeypatch.setattr("guidebench.baselines.datasets.scripted.ENTROPY", 22)
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    check_refused(
        r"began with another dataset 'offline' \(.{10}\) than the present one",
        train,
        *more,
        packs=[(0,)],
        directory=tmp_path / "parts",
    )


def test_a_judged_replay_is_refused_beside_a_dataset(feeding: None, train: Callable[..., Path]) -> None:
    says = "phase 'pretrain' takes the dataset 'offline', which holds no snapshots and no events"
    check_refused(says, train, *TINY, "replay=vlm_rb", "judge=oracle", "seeds=[0]", packs=[(0,)])


def test_a_ring_has_room_for_a_dataset_between_two_checkpoints_and_a_disk_for_what_it_holds(feeding: None) -> None:
    planned = cell()
    assert (
        loop_build.ring_slots(planned) == 2000 + 10_001 + 2000
        and loop_build.checkpoint_spacing(planned, 20_000) == 20_000
    )
    long = cell("training.steps=20000")
    assert loop_build.checkpoint_spacing(long, 20_000) == 5_000
    assert ring_bytes(planned, 300) == (200 + 300) * (5 * 5 * 3 + 2 + 7)


def test_the_role_is_part_of_the_cell(feeding: None) -> None:
    check_refused("the suite has no task '7x7x7'", cell, "offline.tasks=[7x7x7]")
    assert cell().id != cell("offline.noise=0.5").id
    assert cell().names.part("offline") == "scripted"


def test_a_run_with_a_dataset_is_timed(feeding: None, tmp_path: Path) -> None:
    assert estimates.measure(cell(), (0,), "cpu", 0.2, tmp_path / "scratch").training > 0
