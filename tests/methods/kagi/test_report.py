"""KAGI's section of a report: reward fields over views, from what runs logged."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.models.backends.images import png
from guidebench.methods.kagi import report
from guidebench.methods.kagi.waypoints import Waypoints
from guidebench.reports.sections import Source
from guidebench.reports.summary import summaries
from tests.methods.kagi.test_fields import CAMERAS
from tests.reports.conftest import Writer, write_rows

LOGS = {name: Waypoints.logs[name] for name in ("waypoints", "questions", "paths")}
SETTINGS = {f"guide.{name}": {"value": value} for name, value in (("lam", 0.1), ("phi", 15.0), ("pixels", 100))}
WAY = [[0.105, 0.505, 0.305], [0.505, 0.505, 0.305], [0.505, 0.505, 0.605]]
FRAME = np.full((20, 40, 3), 200, np.uint8)


def question_row(episode: int) -> dict[str, Any]:
    first = 40 * episode
    return {"step": first, "episode": episode, "first": first, "role": "waypoints", "asked": "{}", "snapshot": "x",
            "cameras": json.dumps(CAMERAS.tolist())}  # fmt: skip


def waypoint_row(episode: int, failed: bool = False) -> dict[str, Any]:
    path = {} if failed else {"path": json.dumps(WAY)}
    return {"step": 40 * episode + 2, "collected": True, "episode": episode, "first": 40 * episode, "failed": failed,
            "instruction": "put the <red> $block$ there", **path}  # fmt: skip


def path_row(episode: int) -> dict[str, Any]:
    return {
        "step": 40 * episode + 40,
        "first": 40 * episode,
        "tips": json.dumps([[50.5, 50.5, 60.5], [65.5, 50.5, 60.5]]),
    }


@pytest.fixture
def make_report(writer: Writer, tmp_path: Path, capsys) -> Callable[..., tuple[Path, str]]:
    """Return a function that reports on a one-run study of these rows: the report's directory and the command's
    output."""

    def make(questions: Any, waypoints: Any, paths: Any) -> tuple[Path, str]:
        write_study(writer, questions, waypoints, paths)
        assert cli.main(["report", str(writer.finish()), "--output", str(tmp_path / "report")]) == 0
        return tmp_path / "report", capsys.readouterr().out

    return make


def write_study(
    writer: Writer, questions: Any, waypoints: Any, paths: Any, settings: Any = SETTINGS, frames: Any = ()
) -> None:  # fmt: skip
    curves = {0: {150: [0, 0], 300: [0, 1]}}
    root = writer.cell("a", curves, method="kagi", declared=LOGS, settings=settings) / "seed-0"
    for name, rows in (("questions", questions), ("waypoints", waypoints), ("paths", paths)):
        write_rows(root, name, rows)
    for episode, frame in frames:
        write_question(root, episode, frame)


def scenes(writer: Writer, *rows: Any, **more: Any) -> tuple[list[int], str]:
    """Return the episodes whose rewards can be drawn, and the notes about the others."""
    write_study(writer, *rows, **more)
    study = results.study(writer.finish())
    summary = summaries.summarise(study, results.load(study), reps=20)
    source = Source(study, summary, 400, {"a": "kagi"}, {}, needs=(*LOGS,))
    episodes = [scene.episode for group in report.scenes(source) for scene in group.scenes]
    return episodes, " ".join(source.notes)


def write_question(run: Path, episode: int, frame: bytes) -> None:
    """Write the question about an episode as `bench eval --frames` draws it."""
    (run / "questions").mkdir(exist_ok=True)
    (run / "questions" / f"{episode}.png").write_bytes(frame)
    record = {"log": "questions", "role": "waypoints", "episode": episode, "step": 1, "frame": f"{episode}.png",
             "messages": [], "told": []}  # fmt: skip
    (run / "questions" / f"{episode}.json").write_text(json.dumps(record))


def figure(directory: Path) -> np.ndarray[Any, Any]:
    (file,) = directory.glob("fields-*.png")
    assert file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    return np.asarray(Image.open(io.BytesIO(file.read_bytes())))


def test_the_first_middle_and_last_episode_with_waypoints_are_drawn(make_report) -> None:
    numbers = range(6)
    directory, output = make_report(
        [*map(question_row, numbers)],
        [waypoint_row(episode, failed=episode == 5) for episode in numbers],
        [*map(path_row, numbers)],
    )
    assert "left out" not in output
    page = (directory / "report.html").read_text()
    assert "Rewards over the views" in page
    # At the last waypoint, and 15 pixels from it: .5 (.95257 + .5).
    caption = "3 waypoints, mean reward along the path 0.73, at most 0.95"
    assert [number for number in numbers if f"episode {number}: {caption}" in page] == [0, 2, 4]
    height, width, _ = figure(directory).shape
    assert height > 3 * width / 2, "three lines of two square views"


def test_the_frame_lies_under_the_field_once_it_is_drawn(make_report, writer: Writer, tmp_path: Path, capsys) -> None:
    directory, _ = make_report([question_row(0)], [waypoint_row(0)], [path_row(0)])
    plain = figure(directory)
    write_question(next(writer.directory.glob("*/*/*/seed-0")), 0, png(FRAME))
    assert cli.main(["report", str(writer.directory), "--output", str(tmp_path / "report")]) == 0
    over = figure(directory)
    assert plain.shape == over.shape
    assert over.mean() > plain.mean() + 20, "where the reward is low, the light frame is seen instead of a dark field"


@pytest.mark.parametrize(
    ("log", "changes", "says"),
    [
        ("paths", {"tips": "no JSON"}, "Expecting value"),
        ("paths", {"tips": "[[1, 2]]"}, "tips has the shape [1, 2]"),
        ("paths", {"tips": "[]"}, "tips has the shape [0]"),
        ("paths", {"tips": "[[1, 2, NaN]]"}, "tips holds a number that is not finite"),
        ("paths", {"tips": json.dumps([[1, 2, 3]] * 101)}, "tips has the shape [101, 3]"),
        ("waypoints", {"path": "[[1e300, 0, 0], [0, 0, 0]]"}, "path holds a number that is not finite or larger"),
        ("waypoints", {"path": '[["a", 0, 0], [0, 0, 0]]'}, "could not convert string to float"),
        ("questions", {"cameras": "[[1, 2]]"}, "cameras has the shape [1, 2]"),
    ],
)
def test_a_damaged_row_costs_its_own_episode_and_is_noted(
    writer: Writer, log: str, changes: dict[str, Any], says: str
) -> None:
    rows = {
        "questions": [question_row(0), question_row(1)],
        "waypoints": [waypoint_row(0), waypoint_row(1)],
        "paths": [path_row(0), path_row(1)],
    }
    rows[log][0] |= changes
    episodes, notes = scenes(writer, *rows.values())
    assert episodes == [1] and "the reward of episode 0 is not drawn" in notes and says in notes


@pytest.mark.parametrize(
    ("more", "says"),
    [
        *(({"frames": [(0, frame)]}, says) for frame, says in (
            (b"no PNG", "no PNG"), (png(FRAME)[:60], "episode 0 is not drawn"),
            (png(FRAME[:, :30]), "expected one or two square views"),
        )),
        ({"settings": {**SETTINGS, "guide.phi": {"value": "far"}}}, "guide.phi is 'far' in the cell's record"),
    ],
)  # fmt: skip
def test_frames_and_settings_that_cannot_be_shown_are_noted(writer: Writer, more: Any, says: str) -> None:
    assert says in scenes(writer, [question_row(0)], [waypoint_row(0)], [path_row(0)], **more)[1]


def test_a_view_from_above_alone_is_drawn_without_cameras() -> None:
    way = np.array(WAY)[:, :2] * 100
    scene = report.Scene(0, 1, "go", way, np.array([[50.5, 50.5, 1.0]]), None, report.Shape(0.1, 15.0), 100, None)
    drawing = report.drawing("bin_sorting/sorting", "fields", [scene])
    assert drawing.png.startswith(b"\x89PNG") and "mean reward along the path 0.95" in drawing.alt
    assert drawing == report.drawing("bin_sorting/sorting", "fields", [scene]), "the same numbers give the same bytes"
