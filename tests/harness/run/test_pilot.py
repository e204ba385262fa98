"""A pilot: what is planned at each difficulty, and what follows from the runs' files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from guidebench.harness import claims
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import pilot, study
from guidebench.harness.run.pilot import PilotPlan
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.refusals import check_refused

DIFFICULTIES: Mapping[str, Mapping[str, Any]] = {
    "short": {"task": "5x5", "profile": "smoke", "training.steps": 600, "learner.dqn.lr": 1e-3},
    "long": {"task": "6x6", "profile": "smoke", "training.steps": 900, "learner.dqn.lr": 1e-3},
    "easy": {"task": "5x5", "profile": "smoke", "training.steps": 700},
}
RATES = {"short": (0.3, 0.5, 0.4), "long": (0.5, 0.6, 0.4), "easy": (1.0, 0.9, 1.0)}
"""Success of the baseline's three seeds."""
SECONDS = {"short": 100.0, "long": 300.0, "easy": 100.0}


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PilotPlan]:
    monkeypatch.setattr(MiniGridDoorKey, "difficulties", DIFFICULTIES)
    yield PilotPlan(
        suite="minigrid_doorkey",
        baseline="uer",
        methods=("vlm_rb", "per"),
        difficulties=tuple(DIFFICULTIES),
        words=("judge=sprite", "evaluation.every=300"),
        execution=(f"output={tmp_path / 'pilot'}",),
        score=claims.claim_score("late success"),
    )


def rate_of(name: str, method: str, place: int) -> float:
    return {"random": 0.05, "expert": 1.0}.get(method, RATES[name][place] if method == "uer" else float("nan"))


def ledger(step: int, questions: int, failures: int) -> str:
    """Return a line of a ledger."""
    return json.dumps({"step": step, "roles": json.dumps({"judge": [questions, failures, ""]})}) + "\n"


def train(request: PilotPlan) -> Any:
    """Return a stand-in for training: it writes the files of every run of a plan."""

    def run(plan: Plan) -> study.Study:
        directory = StudyDirectory(request.directory)
        for cell in plan.cells:
            method, steps = cell.names.method, cell.steps
            name = next(name for name, level in DIFFICULTIES.items() if level["training.steps"] == steps)
            for place, seed in enumerate(plan.seeds):
                home = directory.run(cell.directory, seed).home
                home.mkdir(parents=True, exist_ok=True)
                successes = np.arange(20) < 20 * np.nan_to_num(rate_of(name, method, place))
                rows = {"step": steps, "episode": range(20), "success": successes, "return": successes.astype(float)}
                pd.DataFrame(rows).to_parquet(home / "evaluations.parquet")
                seconds = {"step": [steps], "seeds": [1], "seconds": [SECONDS[name]]}
                pd.DataFrame(seconds).to_parquet(home / "timings.parquet")
                shares = {"step": [300, steps], "replay/judged_share": [0.1, 0.3]}
                pd.DataFrame(shares).to_parquet(home / "metrics.parquet")
                counts = [(150, 10, 2), (steps, 40, 4)]
                lines = [
                    {"step": step, "roles": json.dumps({"judge": [all_, failed, ""]})} for step, all_, failed in counts
                ]
                (home / "ledger.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
                (home / "answers.parquet").write_bytes(b"answers")
                (home / "run.json").write_text(json.dumps({"schema": 2, "status": "finished", "step": steps}))
        return study.look(plan)

    return run


def test_the_baseline_and_references_run_alone_and_the_guided_methods_once(request_: PilotPlan) -> None:
    plans = request_.baseline_plans()
    assert {name: [*methods] for name, methods in plans.items()} == {
        name: ["uer", "random", "expert"] for name in DIFFICULTIES
    }
    short = plans["short"]
    assert short["uer"].seeds == (10_000, 10_001, 10_002)
    assert short["uer"].cells[0].settings["evaluation.every"].value == 300
    assert short["random"].cells[0].settings["evaluation.every"].value == 600  # evaluated once
    guided = request_.guided_plans("short")["vlm_rb"]
    assert guided.seeds == (10_000,) and guided.execution.answers
    words = [f"{key}={setting}" for key, setting in DIFFICULTIES["short"].items()]
    typed = matrix.plan(["suite=minigrid_doorkey", *words, "method=vlm_rb", *request_.words])
    assert guided.cells[0].id == typed.cells[0].id


def test_a_word_that_no_method_has_is_refused_before_anything_runs(request_: PilotPlan) -> None:
    check_refused(r"learner\.rate", replace(request_, words=("learner.rate=1",)).check)


def test_the_cheapest_difficulty_in_the_range_is_recommended_and_no_guided_score_is_read(request_: PilotPlan) -> None:
    levels, ranked = pilot.carry_out(request_, train(request_))  # guided runs succeed at no rate: NaN
    assert [level.scores.why_not for level in levels][:2] == ["", ""] and "too easy" in levels[2].scores.why_not
    assert levels[0].scores.random == pytest.approx(0.05)
    assert [candidate.name for candidate in ranked] == ["short", "long"]
    lines = levels[0].guides["vlm_rb"]
    assert lines[0].startswith("judge: 36 of 40 questions had a usable answer, 8 of these (22%) before a quarter")
    assert lines[1].startswith("Share of a batch drawn by judged priority: mean 0.2, last 0.3")
    assert not levels[2].guides

    recommendation = pilot.recommend(request_, levels, ranked, workers=2)
    record = recommendation.claims
    assert record is not None and record.difficulty == "short"
    assert record.delta == 0.2 and record.n == recommendation.needed
    # one seed of uer, vlm_rb with its placebo, and per
    assert record.hours == pytest.approx(record.n * 400 / 2 / 3600, rel=1e-3)
    first, second = record.claims
    assert (first.primary, second.primary) == (True, False) and first.first == ("method=vlm_rb", "judge=sprite")
    assert first.second == ("method=uer",)
    placebo = ("method=vlm_rb", "models=placebo", "models.placebo=answers-vlm_rb.parquet", "judge.delay=64")
    assert first.placebo == placebo  # its answers count as late as the judge's
    assert second.placebo is None  # per asks no model
    files = pilot.write(request_, levels, record)
    assert [file.name for file in files] == ["pilot.json", "answers-vlm_rb.parquet", "claims.json"]
    assert claims.read(files[-1]) == record
    pilot_record = json.loads(files[0].read_text())
    assert pilot.digest(pilot_record) == record.pilot and pilot_record["levels"][0]["baseline"] == [0.3, 0.5, 0.4]


def test_hours_that_hold_fewer_seeds_state_the_difference_that_these_find(request_: PilotPlan) -> None:
    levels, ranked = pilot.carry_out(request_, train(request_))
    recommendation = pilot.recommend(replace(request_, hours=0.01), levels, ranked, workers=1)
    assert recommendation.needed > recommendation.seeds == 5 and recommendation.claims is not None
    assert recommendation.claims.n == 5 and recommendation.claims.delta > 0.2


def test_seeds_that_find_no_possible_difference_recommend_no_study(
    request_: PilotPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RATES, "short", (0.1, 0.9, 0.5))
    monkeypatch.setitem(RATES, "long", (0.1, 0.9, 0.5))
    levels, ranked = pilot.carry_out(request_, train(request_))
    assert pilot.recommend(replace(request_, hours=0.01), levels, ranked, workers=1).claims is None
    assert [file.name for file in pilot.write(request_, levels, None)] == ["pilot.json"]


def test_edited_claims_stay(request_: PilotPlan) -> None:
    levels, ranked = pilot.carry_out(request_, train(request_))
    record = pilot.recommend(request_, levels, ranked, workers=2).claims
    pilot.write(request_, levels, replace(record, n=record.n + 1))  # as if somebody had edited them
    assert "claims.json" not in [file.name for file in pilot.write(request_, levels, record)]
    assert claims.read(request_.directory / "claims.json").n == record.n + 1


def test_a_pilot_goes_on_with_the_difficulties_that_it_began_with(
    request_: PilotPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilot, "affordable", lambda *_: (("short",), {"short": 1.0}))
    assert pilot.chosen_difficulties(request_, 40.0)[0] == ("short",)
    monkeypatch.setattr(pilot, "affordable", lambda *_: (("short", "long"), {"short": 1.0, "long": 1.0}))
    assert pilot.chosen_difficulties(request_, 40.0)[0] == ("short",)
    assert pilot.chosen_difficulties(request_, 90.0)[0] == ("short", "long")  # more minutes were asked for
    with pytest.raises(UserError, match="a pilot with other score"):
        pilot.chosen_difficulties(replace(request_, score=claims.claim_score("area success")), 40.0)


def test_a_run_that_failed_ends_the_pilot_with_its_error(request_: PilotPlan) -> None:
    def fail(plan: Plan) -> study.Study:
        outcome = study.look(plan)
        return replace(outcome, runs=tuple(replace(run, status="failed", error="no memory") for run in outcome.runs))

    check_refused("no memory", pilot.carry_out, request_, fail)


def test_a_suite_without_the_difficulty_is_refused(request_: PilotPlan) -> None:
    check_refused("shrt", pilot.checked_difficulties, "minigrid_doorkey", ["shrt"])
    assert pilot.checked_difficulties("minigrid_doorkey", []) == tuple(DIFFICULTIES)


def test_the_placebo_of_chats_that_choose_has_their_form_of_answers_and_settings() -> None:
    words = ["suite=crafter_ood", "method=model_as_agent", "profile=smoke", "performer=uniform"]
    (chooses,) = matrix.plan([*words, "performer.acts=sample"]).cells
    assert pilot.choice_words(chooses) == ["performer.answer=choice", "performer.acts=sample"]
    (writes,) = matrix.plan([*words[:-1], "performer=scripted"]).cells
    assert pilot.choice_words(writes) == []
