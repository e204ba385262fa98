"""`bench pilot`: refusals before any work, and the way from a pilot to a study of its claims."""

import json
from pathlib import Path

import pytest

from guidebench.harness import claims
from guidebench.harness.commands import cli
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.statistics import pilots
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

WORDS = ("suite=minigrid_doorkey", "method=vlm_rb", "--baseline", "uer")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("method=vlm_rb", "--baseline", "uer"), "suite= is missing"),
        (("suite=minigrid_doorkey", "--baseline", "uer"), "method= is missing"),
        ((*WORDS, "seeds=3"), "a pilot chooses its seeds"),
        (("suite=minigrid_doorkey", "method=uer", "--baseline", "uer"), "is also in method="),
        ((*WORDS, "--score", "best success"), "expected one of area, final, late"),
        ((*WORDS, "--difficulties", "nowhere"), "nowhere"),
        ((*WORDS, "--minutes", "0"), "above 0"),
    ],
)
def test_a_fault_is_named_before_anything_runs(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pilot", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.release
def test_a_pilot_leads_to_a_study_of_its_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    level = {"task": "5x5", "profile": "smoke", "suite.length": 20}
    monkeypatch.setattr(MiniGridDoorKey, "difficulties", {"short": level, "long": {**level, "training.steps": 800}})
    monkeypatch.setattr(pilots, "RANGE", (0.0, 0.8))  # such short runs learn nothing
    words = ("models=scripted", "judge.delay=16", f"output={tmp_path / 'pilot'}")
    assert cli.main(["pilot", *WORDS, *words, "--difficulties", "short", "--score", "area success"]) == 0
    out = capsys.readouterr().out
    assert "Recommended: difficulty short, 4 seeds a row" in out and "questions had a usable answer" in out
    assert "success 0" not in out  # no score of a guided method, not even in its progress
    record = claims.read(tmp_path / "pilot" / "claims.json")

    assert cli.main(["run", f"claims={tmp_path / 'pilot' / 'claims.json'}", f"output={tmp_path / 'study'}"]) == 0
    study = StudyDirectory(tmp_path / "study").read()
    assert {tuple(cell["seeds"]) for cell in study["cells"].values()} == {tuple(sorted(record.seeds))}
    assert study["claims"]["digest"] == record.digest
    assert {*study["claims"]["rows"]} == {claims.key_of(row) for row in record.rows}
    assert json.loads((tmp_path / "study" / "claims.json").read_text()) == record.as_json()
