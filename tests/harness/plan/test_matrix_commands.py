"""`bench ablate` and `bench perturb` run their cells, report the differences, and can be repeated."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.commands import cli

TINY = (
    "suite=minigrid_doorkey", "profile=smoke", "seeds=1", "training.steps=80", "evaluation.every=40",
    "evaluation.episodes=1", "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64", "drawing.tile_size=8", "output=study",
)  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function: `bench(*words)` runs in this process (its workers do not), has to exit with 0, and returns its
    output."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        code = cli.main(words)
        out, err = capsys.readouterr()
        assert code == 0, out + err
        return out

    return run


def test_ablate_runs_the_method_beside_its_ablations_and_reports_the_differences(
    bench: Callable[..., str], tmp_path: Path
) -> None:
    command = ("ablate", *TINY, "method=vlm_rb", "--only", "td_boost,judge=oracle")
    out = bench(*command)
    assert out.count(": finished") == 3 and "seeds" in out and "needed" in out
    (matrix,) = json.loads((tmp_path / "study/report/summary.json").read_text())["matrices"]
    assert [row["name"] for row in matrix["rows"]] == ["full: td_boost=false", "td_boost=true", "judge=oracle"]
    repeated = json.loads(bench(*command, "--json"))
    assert {run["status"] for run in repeated["runs"]} == {"finished"} and len(repeated["runs"]) == 3


def test_perturb_reports_sample_frames_and_that_it_is_an_instrument_check(
    bench: Callable[..., str], tmp_path: Path
) -> None:
    out = bench("perturb", *TINY, "method=vlm_rb,per", "--only", "texture")
    study = tmp_path / "study"
    assert out.count(": finished") == 3 and "sample frames: study/frames" in out
    assert out.count("not a finding about any model") >= 2  # before the runs and in the report
    page = (study / "report/report.html").read_text()
    frames = sorted((study / "frames").rglob("*.png"))
    assert [file.stem for file in frames] == ["standard", "texture"]
    assert all(base64.b64encode(file.read_bytes()).decode() in page for file in frames)
    assert "not a finding about any model" in page
    (matrix,) = json.loads((study / "report/summary.json").read_text())["matrices"]
    assert [row["name"] for row in matrix["rows"]][:2] == ["standard", "texture"]
    assert matrix["rows"][2]["name"] == "per"
