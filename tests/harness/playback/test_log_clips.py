"""Frames of training episodes, drawn from the snapshots in a run's logs, which may have been edited."""

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.logs import Column, Log, count, describes_episodes, shows_frames
from guidebench.harness.playback import log_clips
from guidebench.harness.playback.log_clips import RunLog, unpacked
from guidebench.harness.records.clips import FORMS, Clip, plain
from tests.refusals import check_refused

FRAME_LOG = Log("one frame", {"step": count("s"), "episode": count("e"), "frame": count("f"),
                         "weight": Column(float, "w"), "snapshot": Column(str, "s", optional=True)})  # fmt: skip
EPISODE_LOG = Log("one episode", {"step": count("s"), "episode": count("e"), "succeeded": Column(bool, "s"),
                           "fix": Column(str, "f"), "n": count("n")})  # fmt: skip
DECLARED = {"moments": FRAME_LOG, "told": EPISODE_LOG, "other": Log("x", {"step": count("s"), "y": Column(float, "y")})}


def pack(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def snapshots(number: int) -> list[Array]:
    """Return the snapshots of a DoorKey episode that alternately moves forward and turns left."""
    task = registry.get("suite", "minigrid_doorkey")().make("5x5")
    task.reset(1)
    states = [task.snapshot()]
    for move in range(number - 1):
        task.step((2, 0)[move % 2])
        states.append(task.snapshot())
    return states


def rows(episode: int, frames: tuple[int, ...] = (0, 2, 3), **more: Any) -> list[dict[str, Any]]:
    states = snapshots(4)
    return [
        {"step": 10 * episode, "episode": episode, "frame": frame, "weight": frame / 2,
         "snapshot": pack(states[frame].tobytes()), **more}
        for frame in frames
    ]  # fmt: skip


def episode_row(episode: int, succeeded: bool) -> dict[str, Any]:
    return {"step": 10 * episode, "episode": episode, "succeeded": succeeded, "fix": f"fix <{episode}>", "n": 3}


def write(run: Path, log: str, content: list[dict[str, Any]]) -> None:
    run.mkdir(exist_ok=True)
    (run / f"{log}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))


def draw_episodes(run: Path) -> list[Clip]:
    suite = registry.get("suite", "minigrid_doorkey")()
    return log_clips.frame_clips(RunLog(run, "moments", DECLARED, suite, suite.drawing(), "5x5"))


def test_a_log_shows_frames_by_its_columns_and_not_by_its_name() -> None:
    assert [shows_frames(log) for log in DECLARED.values()] == [True, False, False]
    assert [describes_episodes(log) for log in DECLARED.values()] == [False, True, False]
    assert not shows_frames(Log("x", {**FRAME_LOG.columns, "snapshot": Column(float, "s")}))


def test_of_the_last_episode_and_the_last_success_each_frame_is_drawn_from_its_snapshot(tmp_path: Path) -> None:
    write(tmp_path, "moments", [*rows(0), *rows(10), *rows(20), {**rows(30)[0], "snapshot": None}])
    write(
        tmp_path, "told", [episode_row(0, True), episode_row(10, True), episode_row(11, True), episode_row(20, False)]
    )
    last, success = draw_episodes(tmp_path)
    assert [(clip.episode, clip.success) for clip in (last, success)] == [(20, False), (10, True)]
    about = plain(last, FORMS["logged"])
    assert about["frames"][1] == {"file": "moments-00020-00002.png", "frame": 2, "numbers": {"weight": 1.0}}
    assert about["told"] == [{"log": "told", "name": "fix", "text": "fix <20>"}]
    suite = registry.get("suite", "minigrid_doorkey")()
    expected = suite.drawing().spawn("5x5")(np.stack(snapshots(4)))
    for picture, frame in zip(last.frames, (0, 2, 3), strict=True):
        np.testing.assert_array_equal(imageio.imread(picture.content), expected[frame])
    assert (expected[0] != expected[2]).any(), "the frames differ"


def test_a_success_that_is_the_last_episode_is_drawn_once(tmp_path: Path) -> None:
    write(tmp_path, "moments", rows(5))
    write(tmp_path, "told", [episode_row(5, True)])
    assert [clip.episode for clip in draw_episodes(tmp_path)] == [5]


def test_a_log_without_snapshots_shows_nothing(tmp_path: Path) -> None:
    write(tmp_path, "moments", [{**row, "snapshot": None} for row in rows(0)])
    assert draw_episodes(tmp_path) == [] and draw_episodes(tmp_path / "none") == []


def test_more_frames_than_a_page_shows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_clips, "FRAMES", 2)
    write(tmp_path, "moments", rows(0))
    (only,) = draw_episodes(tmp_path)
    assert (len(only.frames), only.left_out, only.success) == (2, 1, None)


PLACE = "the log 'x', episode 1, frame 2"


def test_a_snapshot_has_exactly_the_bytes_of_its_task() -> None:
    assert unpacked(pack(b"\x01\x02"), 2, PLACE).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (pack(b"a"), "its snapshot has 1 bytes; a snapshot of this task has 2"),
        (pack(bytes(2**24)), "its snapshot has more than 2 bytes"),
        (base64.b64encode(zlib.compress(b"ab") + b"more").decode(), "2 and further bytes"),
        (base64.b64encode(zlib.compress(b"ab")[:-2]).decode(), "2 and further bytes"),
        ("é", "cannot be unpacked"),
        ("not base64!", "cannot be unpacked"),
        (base64.b64encode(b"no zlib").decode(), "cannot be unpacked"),
        ("", "cannot be unpacked|0 bytes"),
    ],
)
def test_any_other_snapshot_is_refused_by_name(text: str, says: str) -> None:
    check_refused(f"^{PLACE}: .*({says})", unpacked, text, 2, PLACE)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"frame": -1}, "column 'frame': '-1'; expected a whole number of at least 0"),
        ({"episode": "1"}, "column 'episode': '1'"),
        ({"weight": float("nan")}, "column 'weight': 'nan'"),
        ({"weight": None}, "a row without the column 'weight'"),
        ({"snapshot": "a" * 10_001}, "at most 10,000 characters"),
        ({"snapshot": pack(b"abc")}, "the log 'moments', episode 0, frame 0: its snapshot has 3 bytes"),
        ({"frame": 2}, "frame 2 is there twice"),
    ],
)
def test_a_log_that_does_not_fit_is_refused(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    first, *others = rows(0)
    write(tmp_path, "moments", [{**first, **row}, *others])
    with pytest.raises(UserError) as raised:
        draw_episodes(tmp_path)
    assert says in str(raised.value)


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "moments", rows(0))
    monkeypatch.setattr(log_clips, "FILE", 100)
    check_refused("at most 100 are read", draw_episodes, tmp_path)


@pytest.mark.slow
def test_bench_eval_draws_a_method_s_key_frames_and_refuses_damaged_ones_by_name(
    train: Callable[..., Path], capsys, opengl: None
) -> None:
    from tests.methods.lagea.test_runs import command

    study = train(*command(), packs=[(0,)])
    run = next(study.glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 0
    assert "log keyframes: frames of episode 0 up to step " in capsys.readouterr().out
    about = json.loads((run / "logged" / "keyframes-00000.json").read_text())
    (reflection,) = results.load(study, log="feedback").to_dict("records")
    assert about["success"] is bool(reflection["succeeded"])
    texts = {line["name"]: line["text"] for line in about["told"]}
    assert texts["code"] == reflection["code"] and texts["summary"] == reflection["summary"]
    for frame in about["frames"]:
        assert set(frame["numbers"]) == {"weight", "similarity"}
        assert np.asarray(imageio.imread(run / "logged" / frame["file"])).shape == (32, 32, 3)
    keyframes = {"step": 500, "episode": 3, "frame": 7, "weight": 1.0, "similarity": 0.5, "snapshot": pack(b"abc")}
    (run / "keyframes.parquet").unlink()
    write(run, "keyframes", [keyframes])
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 0
    output = capsys.readouterr().out
    assert "no frames drawn (the log 'keyframes', episode 3, frame 7: its snapshot has 3 bytes; a snapshot of" in output
