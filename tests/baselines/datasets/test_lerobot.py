"""Datasets that LeRobot 0.4.4 wrote are learnt from, ours come back from its format, and what does not fit is refused.

`lerobot/with_lerobot.py` wrote the fixture, and loaded ours: `lerobot/log.txt`.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.baselines.datasets.lerobot import LeRobot, writing
from guidebench.baselines.datasets.scripted import Scripted
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.episodes import datasets
from guidebench.harness.episodes.datasets import Dataset, DatasetSpec
from guidebench.harness.plan import config, matrix
from guidebench.harness.trajectories import Trajectory
from guidebench.suites.classic import Classic
from tests.refusals import check_refused

FIXTURE = Path(__file__).parent / "lerobot" / "fixture"
DATA, INDEX = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
INFO, STATS = "meta/info.json", "meta/stats.json"


def suite_of(name: str, **settings: Any) -> Any:
    return registry.get("suite", name)(**settings)


def obtained(suite: Any = None, task: str = "Pendulum-v1", **settings: Any) -> Dataset:
    return datasets.obtain(DatasetSpec("offline", LeRobot(**settings), suite or Classic(), task))


def test_what_lerobot_wrote_is_read() -> None:
    """The second of three episodes is done at its end; of the others the last row only follows the one before."""
    episodes = obtained(path=str(FIXTURE)).episodes
    assert [episode.length for episode in episodes] == [4, 5, 4]
    for number, episode in enumerate(episodes):
        rows = np.arange(episode.length)
        state = np.stack([np.full(episode.length, number), rows, rows / 10], 1).astype(np.float32)
        np.testing.assert_array_equal(episode.observation, state)
        np.testing.assert_array_equal(episode.action, np.float32(rows - 2)[:, None] / 2)
        np.testing.assert_array_equal(episode.reward, -rows)
        ended = (rows == 4) & (number == 1)
        np.testing.assert_array_equal(episode.terminated, ended)
        np.testing.assert_array_equal(episode.success, ended)
        np.testing.assert_array_equal(episode.truncated, (rows == 3) & (number != 1))
        np.testing.assert_array_equal(episode.next_observation[:3], state[1:4])
    assert [float(episode.next_observation[-1, 1]) for episode in episodes] == [4, 4, 4]


def test_images_and_choices_are_read() -> None:
    settings = {"observation": "observation.image", "action": "choice"}
    episodes = obtained(suite_of("crafter", observation="pixels"), "game", path=str(FIXTURE), **settings).episodes
    assert episodes[1].observation.shape == (5, 64, 64, 3)
    np.testing.assert_array_equal(episodes[1].observation[:, 63, 0], [(1, row, 7) for row in range(5)])
    np.testing.assert_array_equal(episodes[1].action, np.arange(1, 6))


def test_actions_are_scaled_from_a_named_range() -> None:
    first = obtained(path=str(FIXTURE), action_range=(-4.0, 4.0), episodes=1).episodes
    assert len(first) == 1 and first[0].action[:, 0].tolist() == [-0.5, -0.25, 0, 0.25]
    says = r"episode 0: action is from -2 to 1; the task has actions in \[-1, 1\]"
    check_refused(says, obtained, path=str(FIXTURE), action_range=(-1.0, 1.0), episodes=1)


def pixels(length: int, terminated: bool) -> Trajectory:
    frames = np.random.default_rng(length).integers(0, 256, (length + 1, 64, 64, 3), np.uint8)
    last = np.arange(length) == length - 1
    return Trajectory(
        "game", frames[:-1], np.arange(length) % 17, np.float32(last), last & terminated, last & (not terminated), last,
        frames[1:],
    )  # fmt: skip


def written(kind: str) -> tuple[Dataset, Any, str, dict[str, Any]]:
    if kind == "images":
        dataset = Dataset((pixels(3, True), pixels(4, False)), "")
        return dataset, suite_of("crafter", observation="pixels"), "game", {"observation": "observation.image"}
    name, task, range_ = {
        "codes": ("minigrid_doorkey", "5x5", ()), "records": ("housekeep", "adjustment_1", ()),
        "vectors": ("point_maze", "umaze", (-1.0, 1.0)),
    }[kind]  # fmt: skip
    suite = suite_of(name)
    return (
        datasets.obtain(DatasetSpec("offline", Scripted(episodes=2), suite, task)),
        suite,
        task,
        {"action_range": range_},
    )


@pytest.mark.parametrize("kind", ["codes", "images", "records", "vectors"])
def test_what_is_written_comes_back_but_for_the_last_step_before_a_time_limit(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LARGEST", 2_000)  # so that each episode has a file of its own
    dataset, suite, task, settings = written(kind)
    root = writing.write(dataset, suite, task, tmp_path / "mine")
    assert len([*root.glob("data/*/*.parquet")]) == 2
    back = obtained(suite, task, path=str(root), **settings)
    for ours, theirs in zip(back.episodes, dataset.episodes, strict=True):
        assert ours.task == theirs.task and ours.length == theirs.length - (not theirs.terminated[-1])
        for name in ("observation", "action", "reward", "success"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name)[: ours.length], err_msg=name)
        np.testing.assert_array_equal(ours.next_observation[:-1], theirs.next_observation[: ours.length - 1])
    check_refused("mine is there already", writing.write, dataset, suite, task, root)


def test_a_command_writes_one_below_the_directory_of_lerobot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    command = ["dataset", "suite=point_maze", "task=umaze", "method=bc", "offline.episodes=2", "--lerobot"]
    assert cli.main([*command, "me/maze"]) == 0
    assert f"written to {tmp_path / 'me' / 'maze'}" in capsys.readouterr().out
    read = obtained(suite_of("point_maze"), "umaze", id="me/maze", action_range=(-1.0, 1.0))
    assert [episode.task for episode in read.episodes] == ["umaze", "umaze"]
    for id, says in (("me/maze", "is there already"), ("../maze", "'../maze' is no name of a dataset")):
        assert cli.main([*command, id]) == 2
        assert says in capsys.readouterr().err


WORDS = ("suite=classic", "task=Pendulum-v1", "profile=smoke", "offline=lerobot", f"offline.path={FIXTURE}", "seeds=1")


def test_a_plan_says_how_actions_are_scaled(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["run", *WORDS, "method=bc", "--dry-run", f"output={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert f"offline: actions of {FIXTURE} from -2 to 2 (meta/stats.json) become -1 to 1\n" in printed


def test_cloning_needs_no_reward_and_learners_of_rewards_are_refused() -> None:
    def check(*words: str) -> None:
        (cell,) = matrix.plan([*WORDS, *words]).cells
        view = config.cell_view(cell)
        view["agent"].ready(view)

    check("method=bc", "offline.reward=absent")
    check("method=cal_ql")
    says = "learns from the reward of each step, and the dataset 'offline' has none in 'absent'; name the feature"
    check_refused(says, check, "method=cal_ql", "offline.reward=absent")
    says = "learns from the success of each step"
    check_refused(says, check, "method=bc", "offline.success=absent", "learner.successes_only=true")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of the fixture that a test may damage."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "copied"))


def documented(file: str, **changes: Any) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        document = json.loads((root / file).read_text())
        (root / file).write_text(json.dumps({**document, **changes}))

    return change


def column(file: str, name: str, alter: Callable[[list[Any]], Any]) -> Callable[[Path], None]:
    """Replace a column by what `alter` makes of its values."""

    def change(root: Path) -> None:
        table = pq.read_table(root / file)
        numbers = alter(table.column(name).to_pylist())
        array = numbers if isinstance(numbers, pa.Array) else pa.array(numbers)
        pq.write_table(table.set_column(table.schema.get_field_index(name), name, array), root / file)

    return change


def put(at: int, number: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda numbers: [*numbers[:at], number, *numbers[at + 1 :]]


def cut(root: Path) -> None:
    document = (root / DATA).read_bytes()
    (root / DATA).write_bytes(document[: len(document) // 2])


def declaring_much(root: Path) -> None:
    """Rows of equal values take next to no bytes."""
    table = pq.read_table(root / DATA)
    rows = 40_000_000
    name = "next.reward"
    array = pa.array(np.zeros(rows, np.float32))
    empty = {other: pa.nulls(rows, table.schema.field(other).type) for other in table.schema.names if other != name}
    pq.write_table(pa.table({name: array, **empty}), root / DATA)
    column(INDEX, "length", lambda numbers: [rows, *numbers[1:]])(root)
    column(INDEX, "dataset_from_index", lambda numbers: [0, rows, rows + 5])(root)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "version 2.1": (documented(INFO, codebase_version="v2.1"), r"is of version 'v2\.1', and v3\.0 is read"),
    "a template that reaches into objects": (
        documented(INFO, data_path="{chunk_index.__class__}"), r"has data_path='\{chunk_index\.__class__\}'; expected"
    ),
    "a template that leaves the folder": (documented(INFO, video_path="../../{video_key}"), r"has video_path='\.\./"),
    "features of nothing": (documented(INFO, features={"action": {"dtype": "float32"}}), "'action' has no dtype"),
    "no mapping": (lambda root: (root / INFO).write_text("[1]"), "holds no mapping"),
    "cut": (cut, r"file-000\.parquet is damaged, or no Parquet file \(.*\); restore it"),
    "no data": (lambda root: (root / DATA).unlink(), "is not there, and the index names it; restore it"),
    "no index": (lambda root: (root / INDEX).unlink(), "describes no episode"),
    "another row": (
        column(DATA, "frame_index", put(7, 4)), "episode 1: the rows that the index names are of another episode"
    ),
    "too few rows": (column(INDEX, "length", put(2, 6)), "has 15 rows, and the index names row 16; restore it"),
    "an index out of order": (
        column(INDEX, "episode_index", put(1, 5)), "episode 1 is described as number 5 of 5 rows from row 5 in chunk 0"
    ),
    "a chunk below 0": (column(INDEX, "data/chunk_index", put(2, -1)), "in chunk -1, file 0; restore it"),
    "missing numbers": (column(DATA, "next.reward", put(3, None)), r"holds double of shape \(\) with missing values"),
    "texts": (
        column(DATA, "action", lambda numbers: ["a"] * len(numbers)), r"action holds string of shape \(\); the metadata"
    ),
    "uneven lists": (
        column(DATA, "observation.state", lambda numbers: pa.array(put(0, [1.0])(numbers), pa.list_(pa.float32()))),
        r"rows of observation.state have lengths \[1, 3\]; expected equal ones",
    ),
    "NaN": (column(DATA, "next.reward", put(6, np.nan)), "episode 1: reward of step 1 holds nan"),
    "an end within": (column(DATA, "next.done", put(1, True)), "episode 0 ends at step 1 and has 4 steps; cut it"),
    "no range": (documented(STATS, action={"min": [1]}), r"does not tell min and max of 'action' as \(1,\) numbers"),
    "a range of nothing": (documented(STATS, action={"min": [2], "max": [-2]}), "expected finite numbers"),
    "rows of nothing": (declaring_much, r"; at most [\d,]+ are read"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_learnt_from_is_refused_by_file(copied: Path, case: str) -> None:
    change, says = BAD[case]
    change(copied)
    check_refused(says, obtained, path=str(copied))


def a_picture(png: bytes | None) -> Callable[[Path], None]:
    return column(DATA, "observation.image", put(2, {"bytes": png, "path": "elsewhere.png"}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (a_picture(b"GIF89a"), "observation.image, row 2: a picture cannot be decoded as PNG"),
        (a_picture(None), "the image of row 2 is not in the file"),
        (a_picture(writing._png(np.zeros((8, 8, 3), np.uint8))), r"row 2 has shape \(8, 8, 3\); the metadata have"),
    ],
)
def test_images_that_are_none_are_refused(change: Callable[[Path], None], says: str, copied: Path) -> None:
    change(copied)
    suite = suite_of("crafter", observation="pixels")
    check_refused(says, obtained, suite, "game", path=str(copied), observation="observation.image", action="choice")


def test_features_are_named_where_they_do_not_fit(copied: Path) -> None:
    check_refused(
        "unknown feature of .*info.json 'acton'; did you mean 'action'", obtained, path=str(copied), action="acton"
    )
    check_refused(
        r"images 'observation.image' are uint8 of shape \(64, 64, 3\); the task's are float32 of shape \(3,\)",
        obtained, path=str(copied), observation="observation.image",
    )  # fmt: skip
    check_refused(
        "no feature for the part '.*' of the task's observations; expected one of", obtained, suite_of("housekeep"),
        "adjustment_1", path=str(copied), action="choice",
    )  # fmt: skip
    features = json.loads((copied / INFO).read_text())["features"]
    features["observation.image"]["dtype"] = "video"
    documented(INFO, features=features)(copied)
    assert obtained(path=str(copied)).length == 13, "a video that nothing names is ignored"
    says = "the feature 'observation.image' is a video, which loses what its codec leaves out, and is not read"
    check_refused(says, obtained, path=str(copied), observation="observation.image")


def test_settings_that_name_no_dataset_are_refused(tmp_path: Path) -> None:
    check_refused(r"name it with dataset.id=… or dataset.path=…", obtained)
    check_refused("name two datasets", LeRobot, id="a/b", path="x")
    check_refused("is no name of a LeRobot dataset", LeRobot, id="../../secret")
    check_refused(r"action_range=\[1, -1\]: expected two finite numbers", LeRobot, path="x", action_range=(1, -1))
    check_refused("no LeRobot dataset is in .*: meta/info.json is not there", obtained, path=str(tmp_path))
    check_refused("dataset.episodes=4, and .* holds 3 episodes", obtained, path=str(FIXTURE), episodes=4)
