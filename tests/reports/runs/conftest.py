"""A run as the harness writes one: trained, judged, filmed, with model calls on record."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import guidebench
from guidebench.harness.commands import cli
from guidebench.harness.models import cassette, study_models
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.calls import Answer, Call, ChatCall, EmbedCall, JudgeCall, Message, Ticket, Usage
from tests.logs import log_rows

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e\ud800"
CLIP = np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3)
TOOK = Usage(calls=1, tokens_in=70, tokens_out=5, images=4, seconds=0.25, usd=0.5)


def record(study: Path, asker: str, outcomes: list[tuple[Call, object, str]], shard: str = "1") -> None:
    """Record calls with their value or failure in a study's cassette, as a run's model process does."""
    directory = study_models.folder(study)
    recording = cassette.Cassette([], directory / f"shard-{shard}.sqlite")
    for number, (call, value, failure) in enumerate(outcomes):
        who = Ticket(asker, number, 10 * number)
        question = call.request({"model": "tiny"}, who)
        images = {digest: png(image) for digest, image in question.images.items()}
        recording.record(cassette.CassetteEntry(question, who, "tiny", Answer(value, failure, TOOK), images, TOOK))  # type: ignore[arg-type]
    recording.close()
    cassette.merge(directory)


def judge_call(number: int) -> tuple[Call, object, str]:
    """Return a judge's call on a clip that differs for each number, answered with number/1000."""
    return JudgeCall(CLIP + np.uint8(number), "Is it done?"), number / 1000, ""


CALLS: list[tuple[Call, object, str]] = [
    (JudgeCall(CLIP, f"Is it done? {EVIL[:-1]}"), 0.25, ""),
    (ChatCall((Message("system", ("be brief",)), Message("user", ("why?", CLIP[0])))), f"because {EVIL[:-1]}", ""),
    (ChatCall((Message("user", ("a plan?",)),), schema={"type": "object"}), {"steps": ["key", "door"]}, ""),
    (EmbedCall(("a", "b")), np.eye(2, 3, dtype=np.float32), ""),
    (ChatCall((Message("user", ("again?",)),)), None, "timeout"),
]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a study of one judged run; tests only read it."""
    root = tmp_path_factory.mktemp("trained") / "study"
    study = guidebench.run(
        "suite=minigrid_doorkey", "judge=sprite", "replay.clip_length=4", "drawing.tile_size=8",
        task="5x5", method="vlm_rb", profile="smoke", seeds=1, output=root,
    )  # fmt: skip
    assert study.finished
    run = next(root.glob("*/*/*/seed-0"))
    film = str(run / "videos" / "first.mp4")
    assert cli.main(["eval", str(run), "--episodes", "2", "--frames", "--video", film]) == 0
    record(root, f"{run.parent.name.rpartition('-')[2]}/0", CALLS)
    return root


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Copy the trained study and return the run's directory, with its logs as JSON lines."""
    shutil.copytree(trained, tmp_path / "study")
    home = next((tmp_path / "study").glob("*/*/*/seed-0"))
    for name in [path.stem for path in home.glob("*.parquet") if path.stem != "evaluations"]:
        lines = "".join(json.dumps(row) + "\n" for row in log_rows(home, name))
        (home / f"{name}.parquet").unlink(missing_ok=True)
        (home / f"{name}.jsonl").write_text(lines)
    return home


@pytest.fixture
def asker() -> Callable[[Path], str]:
    """Return the function from a run's directory to its name in cassettes."""
    return lambda run: f"{run.parent.name.rpartition('-')[2]}/{run.name.removeprefix('seed-')}"
