"""A stranger's environment through whole commands: trained, killed, resumed, evaluated, reported, drawn."""

import json
import os
from pathlib import Path

from guidebench.harness import consent
from tests import programs

WORDS = (
    "suite=gymnasium", "task=Strange/Walk-v0", "suite.module=strange_walk", "suite.success=info",
    "suite.success_key=reached", "suite.instruction='reach the end'", "profile=default", "training.steps=200",
    "evaluation.every=100", "evaluation.episodes=2", "training.capacity=200", "learner.hidden=[16,16]",
    "learner.learning_starts=64", "seeds=1",
)  # fmt: skip


def train(directory: Path, *words: str, step: int = 0) -> programs.Exit:
    """Train in a process, which kills itself after a step if one is given."""
    consent.grant((*WORDS, *words))
    request = {
        "words": [*WORDS, *words], "packs": [[0]], "directory": str(directory), "step": step,
        "where": "training" if step else "", "job": {"checkpoint_every": 50},
    }  # fmt: skip
    return programs.run("tests.skeletons.killable_training", input=json.dumps(request))


def test_a_strangers_run_that_is_killed_resumes_byte_by_byte_and_a_command_evaluates_draws_and_reports_it(
    stranger: Path, tmp_path: Path
) -> None:
    assert train(tmp_path / "whole").code == 0
    assert train(tmp_path / "killed", step=130).code == -9
    assert train(tmp_path / "killed").code == 0
    studies = (tmp_path / "whole", tmp_path / "killed")
    run, other = (next(study.glob("gymnasium/Strange_Walk-v0/uer-*/seed-0")) for study in studies)
    for name in ("evaluations.parquet", "policy.safetensors"):
        assert (run / name).read_bytes() == (other / name).read_bytes()
    refused = programs.bench("eval", str(run), "--episodes", "2")
    assert refused.code == 2 and "suite.module=strange_walk names code to run" in refused.err
    film = tmp_path / "film.gif"
    words = ("suite.module=strange_walk", "--episodes", "2", "--video", str(film))
    played = programs.bench("eval", str(run), *words)
    assert played.code == 0 and "of 2 episodes succeed" in played.out and film.stat().st_size > 0
    verified = programs.bench("verify", str(tmp_path / "whole"), "suite.module=strange_walk", "--episodes", "2")
    assert verified.code == 0 and "plays more" in verified.out, "it was played, and 2 episodes are few"
    report = programs.bench("report", str(tmp_path / "whole"), env={**os.environ, "PYTHONPATH": ""})
    assert report.code == 0, report.err


def test_a_run_that_is_not_reproducible_says_so_in_plan_and_row_and_goes_on_after_a_kill(
    stranger: Path, tmp_path: Path
) -> None:
    fault = 'suite.options={"fault": "random"}'
    plan = programs.bench("run", *WORDS, fault, f"output={tmp_path / 'study'}", "--dry-run")
    assert "suite.episodes=not reproducible" in plan.out
    assert train(tmp_path / "study", fault, step=130).code == -9
    assert train(tmp_path / "study", fault).code == 0
    (record,) = (tmp_path / "study").glob("gymnasium/*/*/cell.json")
    assert "not reproducible" in json.loads(record.read_text())["variant"]
