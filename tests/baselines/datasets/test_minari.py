"""A dataset that Minari wrote is learnt from, and one that is not what the task has is refused."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.datasets.minari import Minari
from guidebench.harness.commands import cli
from guidebench.harness.episodes import datasets
from guidebench.harness.episodes.datasets import DatasetSpec
from guidebench.harness.plan import matrix
from guidebench.harness.run import readiness
from guidebench.suites.classic import Classic
from tests.baselines.datasets.fed_guide import GUIDE
from tests.refusals import check_refused

minari = pytest.importorskip("minari")
EpisodeBuffer = pytest.importorskip("minari.data_collector").EpisodeBuffer
h5py = pytest.importorskip("h5py")
gymnasium = pytest.importorskip("gymnasium")

CARTPOLE, PENDULUM = "cartpole/random-v0", "pendulum/random-v0"


def collect(name: str, id: str, episodes: int, most: int) -> None:
    """Write a Minari dataset of random episodes, some of them incomplete; a step succeeds if the first number of the
    next state is within .05 of 0."""
    env = gymnasium.make(name)
    env.action_space.seed(0)
    buffers = []
    for number in range(episodes):
        observation, _ = env.reset(seed=number)
        observations, steps = [observation], []
        while len(steps) < most and not (steps and (steps[-1][2] or steps[-1][3])):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            observations.append(observation)
            steps.append((action, reward, terminated, truncated))
        actions, rewards, terminations, truncations = map(list, zip(*steps, strict=True))
        infos = {"success": [abs(state[0]) < 0.05 for state in observations]}
        buffers.append(
            EpisodeBuffer(number, number, None, observations, actions, rewards, terminations, truncations, infos)
        )
    minari.create_dataset_from_buffers(
        id, buffers, env=env, eval_env=env.spec, algorithm_name="random", author="a test", author_email="a@b.c",
        code_permalink="none", description="a test",
    )  # fmt: skip


@pytest.fixture(scope="module")
def minari_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the directory of two datasets."""
    with pytest.MonkeyPatch.context() as patched:
        path = tmp_path_factory.mktemp("minari")
        patched.setenv("MINARI_DATASETS_PATH", str(path))
        collect("CartPole-v1", CARTPOLE, 6, 40)
        collect("Pendulum-v1", PENDULUM, 2, 30)
        yield path


@pytest.fixture
def copied(minari_store: Path, tmp_path: Path) -> Path:
    """Return a copy of the CartPole dataset that a test may damage."""
    return Path(shutil.copytree(minari_store / CARTPOLE, tmp_path / "copied"))


def obtained(task: str = "CartPole-v1", **settings: Any) -> datasets.Dataset:
    return datasets.obtain(DatasetSpec("offline", Minari(**settings), Classic(), task))


def test_episodes_are_those_that_minari_reads(minari_store: Path) -> None:
    dataset = obtained(id=CARTPOLE)
    theirs = list(minari.load_dataset(CARTPOLE).iterate_episodes())
    assert len(dataset.episodes) == len(theirs) == 6
    for ours, episode in zip(dataset.episodes, theirs, strict=True):
        np.testing.assert_array_equal(ours.observation, episode.observations[:-1])
        np.testing.assert_array_equal(ours.next_observation, episode.observations[1:])
        np.testing.assert_array_equal(ours.action, episode.actions)
        np.testing.assert_array_equal(ours.reward, np.float32(episode.rewards))
        np.testing.assert_array_equal(ours.success, episode.infos["success"][1:])
        assert (ours.terminated | ours.truncated)[-1] and not (ours.terminated | ours.truncated)[:-1].any()
    assert any(episode.success.any() for episode in dataset.episodes)


def test_its_hash_is_that_of_its_content_wherever_it_lies(minari_store: Path, copied: Path) -> None:
    assert obtained(id=CARTPOLE).digest == obtained(path=str(copied)).digest
    assert obtained(path=str(copied / "data")).digest == obtained(id=CARTPOLE).digest
    assert obtained(id=CARTPOLE, episodes=2).digest != obtained(id=CARTPOLE).digest
    assert len(obtained(id=CARTPOLE, episodes=2).episodes) == 2


def test_a_cell_is_identified_by_its_content_wherever_it_lies(minari_store: Path, copied: Path, plugin: Any) -> None:
    plugin("feeding", GUIDE, {"guide": "feeding", "method": "feeding"})

    def planned(*words: str) -> Any:
        (cell,) = matrix.plan(
            ["suite=classic", "task=CartPole-v1", "method=feeding", "offline=minari", "profile=smoke", *words]
        ).cells
        return cell

    first, other = planned(f"offline.id={CARTPOLE}"), planned(f"offline.path={copied}")
    assert first.id == other.id and first.settings["offline.digest"].value == Minari(id=CARTPOLE).content()
    altered(copied, lambda file: file["episode_0/rewards"].write_direct(np.full_like(file["episode_0/rewards"], 7.0)))
    assert planned(f"offline.path={copied}").id != first.id
    check_refused(rf"path={copied}: its files have the digest", other.section("offline").ready)


def test_vectors_of_actions_are_scaled_from_their_range(minari_store: Path) -> None:
    """Pendulum takes torques in [-2, 2], the task here actions in [-1, 1]."""
    theirs = list(minari.load_dataset(PENDULUM).iterate_episodes())
    for ours, episode in zip(obtained("Pendulum-v1", id=PENDULUM).episodes, theirs, strict=True):
        np.testing.assert_allclose(ours.action, episode.actions / 2, atol=1e-7)
        assert ours.truncated[-1] and ours.length == 30


def test_nothing_of_the_metadata_is_built(minari_store: Path, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = copied / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    spec = {**json.loads(metadata["env_spec"]), "entry_point": "antigravity:Nothing"}
    file.write_text(json.dumps({**metadata, "env_spec": json.dumps(spec)}))
    monkeypatch.setattr(gymnasium, "make", None)
    assert obtained(path=str(copied)).digest == obtained(id=CARTPOLE).digest


def altered(path: Path, change: Callable[[Any], Any]) -> None:
    with h5py.File(path / "data" / "main_data.hdf5", "r+") as file:
        change(file)


def put(name: str, values: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]
        file[name] = values

    return change


def poisoned(name: str, index: Any, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file[name][index] = value

    return change


def linked(file: Any) -> None:
    del file["episode_1/rewards"]
    file["episode_1/rewards"] = h5py.ExternalLink("other.hdf5", "/rewards")


def dropped(file: Any) -> None:
    del file["episode_2"]


BAD: dict[str, tuple[Callable[[Any], None], str]] = {
    "NaN in rewards": (poisoned("episode_1/rewards", 3, np.nan), "episode 1: reward of step 3 holds nan, which is"),
    "NaN in observations": (
        poisoned("episode_2/observations", (4, 0), np.nan), "episode 2: observation of step 4 holds nan, which is"
    ),
    "an action that the task has not": (
        poisoned("episode_0/actions", 2, 7), r"episode 0: action is from 0 to 7; the task has choices 0 to 1"
    ),
    "other observations": (
        put("episode_0/observations", np.zeros((9, 7), np.float32)),
        r"episode_0: observations are float32 of shape \(7,\); the task's are float32 of shape \(4,\)",
    ),
    "observations of another kind": (
        put("episode_0/observations", np.zeros((9, 4), np.uint8)),
        r"observations are uint8 of shape \(4,\); the task's are float32 of shape \(4,\)",
    ),
    "too few rewards": (
        put("episode_0/rewards", np.zeros(3)), r"episode_0 has \d+ observations and 3 rewards; expected one observation"
    ),
    "objects": (
        put("episode_0/rewards", np.array([b"a", b"b"])), r"episode_0: rewards is \|S1 of shape \(2,\); expected"
    ),
    "a link": (linked, r"episode_1/rewards lies elsewhere; a dataset holds its own arrays"),
    "an episode that is not there": (dropped, r"has no episode_2; Minari counts episodes from 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_a_run_cannot_store_is_refused_by_file_and_episode(copied: Path, case: str) -> None:
    change, says = BAD[case]
    altered(copied, change)
    check_refused(says, obtained, path=str(copied))


def test_other_spaces_are_refused(minari_store: Path) -> None:
    says = r"pendulum/random-v0/data/main_data.hdf5, episode_0: observations are float32 of shape \(3,\); the task's"
    check_refused(says, obtained, id=PENDULUM)
    check_refused(
        r"does not tell the range of actions of shape \(1,\), which the task takes",
        obtained,
        "Pendulum-v1",
        id=CARTPOLE,
    )


def test_files_that_are_missing_or_damaged_are_named(copied: Path, tmp_path: Path) -> None:
    arrays, metadata = copied / "data" / "main_data.hdf5", copied / "data" / "metadata.json"
    content = arrays.read_bytes()
    arrays.write_bytes(content[: len(content) // 3])
    check_refused(
        r"main_data.hdf5 is damaged, or not what Minari writes \(.*\); restore it", obtained, path=str(copied)
    )
    arrays.unlink()
    check_refused(r"main_data.hdf5 is not there; restore it", obtained, path=str(copied))
    arrays.write_bytes(content)
    words = metadata.read_text()
    metadata.write_text(words[:40])
    check_refused(r"metadata.json cannot be read as JSON \(.*\); restore it", obtained, path=str(copied))
    metadata.write_text(json.dumps({**json.loads(words), "data_format": "arrow"}))
    check_refused("has data_format='arrow', and only hdf5 is read", obtained, path=str(copied))
    check_refused(
        r"no Minari dataset is in .*nowhere: data/metadata.json is not there$", obtained, path=str(tmp_path / "nowhere")
    )
    check_refused(r"; `minari download no/such-v1` fetches it", obtained, id="no/such-v1")


def test_settings_that_name_no_dataset_are_refused() -> None:
    check_refused(r"name it with dataset.id=… or dataset.path=…", obtained)
    check_refused("is no name of a Minari dataset", Minari, id="../../secret-v0")
    check_refused("name two datasets", Minari, id=CARTPOLE, path="x")


def test_too_many_episodes_are_refused(minari_store: Path) -> None:
    check_refused(r"dataset.episodes=7, and .* holds 6 episodes", obtained, id=CARTPOLE, episodes=7)


def test_episodes_that_come_in_parts_are_the_same(minari_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = obtained(id=CARTPOLE, episodes=5).digest
    keeping_nothing(monkeypatch)
    monkeypatch.setattr("guidebench.baselines.dataset_reading.TOGETHER", 2_000)
    assert obtained(id=CARTPOLE, episodes=5).digest == digest


def keeping_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the dataset gathered again although it is in the cache."""
    load, calls = datasets.files.read, []

    def missing_once(file: Path, names: Any) -> Any:
        calls.append(file)
        return None if len(calls) == 1 else load(file, names)

    monkeypatch.setattr(datasets.files, "read", missing_once)


def sharing(file: Any) -> None:
    """Forty groups, each of which holds the next one twice."""
    group = file["episode_1/infos"].create_group("level_0")
    for _ in range(39):
        inside = group.create_group("a")
        group["b"] = inside
        group = inside


def within_itself(file: Any) -> None:
    file["episode_1/infos/again"] = file["episode_1"]


def of_one_episode(file: Any) -> None:
    for number in range(6, 600):
        file[f"episode_{number}"] = file["episode_1"]


def replaced(name: str, **changes: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]
        file.create_dataset(name, **changes)

    return change


BOMBS: dict[str, tuple[Callable[[Any], None], str]] = {
    "links that share": (sharing, "is linked to twice; write the dataset anew, each array once$"),
    "an episode within itself": (within_itself, "episode_1/infos/again is linked to twice"),
    "one episode of many names": (of_one_episode, "episode_6 is linked to twice"),
    "infos of 2^30 entries": (
        replaced("episode_0/infos", shape=(2**30,), dtype="u1", chunks=(2**20,)),
        r"bytes and its arrays up to episode_0 declare 1,073,\d+,\d+; at most",
    ),
    "infos of four entries": (replaced("episode_0/infos", data=np.zeros(4)), r"infos is float64 of shape \(4,\); exp"),
    "infos of one number": (replaced("episode_0/infos", data=1.0), r"infos is float64 of shape \(\); expected a group"),
    "rewards of nothing": (replaced("episode_0/rewards", dtype=h5py.Empty("f4").dtype, data=h5py.Empty("f4")),
        "rewards is float32 of shape None; expected an array of numbers"),
    "rewards of two axes": (replaced("episode_0/rewards", data=np.zeros((4, 2))), r"rewards have shape \(4, 2\)"),
    "an episode that is an array": (replaced("episode_0", data=np.zeros(4)), "episode_0: rewards is not there"),
    "packed zeros": (
        replaced("episode_0/rewards", shape=(2**26,), dtype="f8", chunks=(2**20,), compression="gzip"), "; at most"
    ),
    "one number in a vast chunk": (
        replaced("episode_0/rewards", shape=(1,), maxshape=(None,), dtype="f8", chunks=(2**28,), compression="gzip"),
        r"episode_0 declare 2,147,\d+,\d+; at most",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BOMBS)
def test_what_declares_more_than_it_holds_is_refused_soon(copied: Path, case: str) -> None:
    change, says = BOMBS[case]
    altered(copied, change)
    started = time.monotonic()
    check_refused(says, obtained, path=str(copied))
    assert time.monotonic() - started < 20


COMMAND = (
    "suite=classic", "task=CartPole-v1", "method=feeding", "offline=minari", f"offline.id={CARTPOLE}",
    "training.steps=200", "evaluation.every=100", "evaluation.episodes=2", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=100", "training.capacity=500", "profile=smoke",
)  # fmt: skip


def test_a_study_does_not_go_on_with_another_dataset(
    copied: Path, plugin: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin("feeding_module", GUIDE, {"guide": "feeding", "method": "feeding"})
    words = [word for word in COMMAND if not word.startswith("offline.id")]
    command = ["run", *words, f"offline.path={copied}", f"output={tmp_path / 'study'}", "report=false"]
    assert cli.main([*command, "seeds=1"]) == 0
    altered(copied, poisoned("episode_1/rewards", 3, 0.5))
    capsys.readouterr()
    assert cli.main([*command, "seeds=2"]) == 2
    assert re.search(r"holds runs of offline\.path=.* whose files had the digest", capsys.readouterr().err)


def test_a_missing_dataset_is_told_with_the_plan(
    minari_store: Path, plugin: Callable[..., Path], tmp_path: Path
) -> None:
    plugin("feeding_module", GUIDE, {"guide": "feeding", "method": "feeding"})
    words = [word for word in COMMAND if not word.startswith("offline.id")]
    plan = matrix.plan([*words, "offline.id=no/such-v1"])
    (message,) = readiness.missing(plan, tmp_path / "study")
    assert "no Minari dataset is in" in message and "minari download no/such-v1" in message
