"""DSADF's sections of a report, against shares and costs worked by hand, and of a real study."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from guidebench.harness import logs
from guidebench.harness.commands import cli
from guidebench.harness.records import schema
from guidebench.methods.dsadf import report
from guidebench.methods.dsadf.dual_system import DualSystem
from guidebench.methods.dsadf.slow_system import Performs
from tests.reports.conftest import Writer, write_rows

DUAL = logs.together([("agent 'dual_system'", DualSystem.logs)])
LONE = logs.together([("agent 'model_as_agent'", Performs.logs)])
NOTHING = dict.fromkeys(("fallback", "impossible", "unknown", "failed", "reached", "declared"), 0)


def trial(number: int, steps: int, performed: int, step: int = 200, **more: int) -> dict[str, Any]:
    return {**NOTHING, "step": step, "trial": number, "steps": steps, "performed": performed, "plans": 1, **more}


def plan(trial: int, lacking: int, still: int, final: str = "noop", **more: Any) -> dict[str, Any]:
    return {
        "step": 200, "trial": trial, "number": 0, "first": "noop", "final": final, "thoughts": "", "fault": "",
        "retries": 0, "lacking": lacking, "still_lacking": still, "again": "", **more,
    }  # fmt: skip


def route(trial: int, by: str, reached: bool, step: int = 200, why: str = "proficient") -> dict[str, Any]:
    return {
        "step": step, "trial": trial, "number": 0, "index": 0, "subgoal": "chop tree", "by": by, "why": why, "steps": 5,
        "emergencies": 0, "reached": reached,
    }  # fmt: skip


def skill(step: int, noun: str, attempts: int, completed: int, p: float) -> dict[str, Any]:
    return {
        "step": step, "verb": "chop", "noun": noun, "attempts": attempts, "completed": completed, "told": "",
        "proficiency": p, "failed": False,
    }  # fmt: skip


def spent(role: str = "", step: int = 200, **used: float) -> dict[str, Any]:
    zero: dict[str, Any] = {name: kind(0) for name, kind in schema.LEDGER.items()}
    return {"step": step, **({"role": role} if role else {}), **zero, **used, "questions": int(used.get("calls", 0))}


def test_shares_of_steps() -> None:
    """Two episodes of 60 and 40 steps: 50 of System 1, 30 of the performer, 5 of the fallback, so 15 had no choice."""
    dual = [
        trial(0, 60, 10, fast=40, fallback=5, emergencies=3, impossible=1),
        trial(1, 40, 20, fast=10, emergencies=0),
    ]
    assert report.of_trials(pd.DataFrame(dual)) == pytest.approx({
        "System 1": 0.5, "performer": 0.3, "fallback": 0.05, "only action": 0.15, "emergencies": 1.5,
        "impossible": 0.5, "unknown": 0.0,
    })  # fmt: skip
    nan = float("nan")
    assert report.of_trials(pd.DataFrame([trial(0, 10, 8, fallback=1, unknown=4)])) == pytest.approx({
        "System 1": nan, "performer": 0.8, "fallback": 0.1, "only action": 0.1, "emergencies": nan, "impossible": 0.0,
        "unknown": 4.0,
    }, nan_ok=True)  # fmt: skip


def test_what_plans_lacked_and_where_sub_goals_went() -> None:
    plans = pd.DataFrame([plan(0, 2, 0), plan(1, 1, 1), plan(2, 0, 0, ""), plan(3, 1, 0)])
    assert report.of_plans(plans) == {
        "lacking, first": 1.0, "lacking, final": 0.25, "first plans with gaps": 0.75, "final plans with gaps": 0.25,
        "without a plan": 0.25,
    }  # fmt: skip
    routes = [
        route(0, "learner", True),
        route(0, "performer", False, why="not proficient"),
        route(0, "learner", True),
        route(1, "learner", False),
        *(route(1, "performer", False, why=why) for why in ("unscored", "unscored", "it is not in memory")),
    ]
    shares = report.of_routes(pd.DataFrame(routes))
    assert [*shares.values()] == pytest.approx([1.5, 2 / 3, 2.0, 0.0, 1 / 7, 1 / 7, 2 / 7]) and "unscored" in shares
    alone = [*report.of_routes(pd.DataFrame(routes[:1])).values()]
    nan = float("nan")
    assert alone == pytest.approx([1.0, 1.0, 0.0, nan, 0, 0, 0], nan_ok=True), "of no sub-goal no share was reached"


def test_the_memory_is_that_of_each_run_s_last_scores() -> None:
    rows = pd.DataFrame([
        {"seed": 0, **skill(100, "tree", 4, 0, 0.1)}, {"seed": 0, **skill(200, "tree", 10, 5, 0.5)},
        {"seed": 1, **skill(100, "tree", 20, 18, 0.9)}, {"seed": 1, **skill(200, "grass", 50, 50, 1.0)},
        {"seed": 2, **skill(200, "tree", 5, 1, float("nan"))},
    ]).assign(subgoal=lambda rows: rows["verb"] + " " + rows["noun"])  # fmt: skip
    assert report.of_memory(rows) == {"chop grass": (50, 50, 1.0), "chop tree": (35, 24, pytest.approx(0.7))}


def test_questions_of_evaluations_are_kept_from_those_of_training() -> None:
    """A quarter of the plans belong to evaluations, and so does a quarter of the planner's calls; scores belong to
    training."""
    plans = pd.DataFrame([plan(0, 0, 0), *(plan(number, 0, 0, training=True) for number in range(3))])
    spending = pd.DataFrame([
        spent("performer", calls=7, tokens_in=700), spent("planner", calls=8, usd=0.5), spent("scorer", calls=5),
        spent("performer", step=100, calls=2),
    ])  # fmt: skip
    ledger = pd.DataFrame([spent(calls=20)])
    costs = report.of_ledger(ledger, spending, plans)
    assert costs == {"calls": (9.0, 11.0), "tokens_in": (700.0, 0.0), "tokens_out": (0.0, 0.0), "usd": (0.125, 0.375)}
    assert report.of_ledger(ledger, spending.iloc[:0], None)["calls"] == (20.0, 0.0)
    assert report.of_ledger(ledger, spending, plans.iloc[:1])["calls"] == (20.0, 0.0), "a run that does not train"


def write_study(writer: Writer, successes: int) -> Path:
    """A study of a dual system of two seeds with four episodes each, and of a performer alone."""
    curves = {seed: {100: [0, 0], 200: [int(successes > 2 * seed), int(successes > 2 * seed + 1)]} for seed in (0, 1)}
    root = writer.cell("a", curves, method="dsadf", backend="openai", model="gpt-4o", declared=DUAL, steps=200)
    lone = writer.cell("b", curves, method="model_as_agent", backend="openai", model="m", declared=LONE, steps=200)
    for seed in (0, 1):
        early = trial(0, 10, 10, step=100, fast=0, emergencies=0)
        for cell, log, rows in (
            (root, "trials", [early, trial(0, 10, 2 + seed, fast=8 - seed, emergencies=seed)]),
            (root, "plans", [plan(0, 2, 0), plan(0, 1, 1, training=True)]),
            (root, "routes",
             [route(0, "learner", True), route(0, "performer", False), route(0, "learner", False, 100)]),
            (root, "memory", [skill(100, "tree", 3, 0, 0.25), skill(200, "tree", 6, 3, 0.75)]),
            (root, "ledger", [spent(calls=20, usd=0.2)]),
            (root, "spending",
             [spent("performer", calls=12 + 4 * seed, usd=0.1), spent("planner", calls=8, usd=0.1)]),
            (lone, "trials", [trial(0, 10, 10)]), (lone, "ledger", [spent(calls=40)]),
        ):  # fmt: skip
            write_rows(cell / f"seed-{seed}", log, rows)
    return writer.finish()


@pytest.mark.parametrize("successes", [3, 0])
def test_a_report_says_who_acted_and_what_it_cost(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str], successes: int
) -> None:
    assert cli.main(["report", str(write_study(writer, successes)), "--output", str(tmp_path / "report")]) == 0
    out = capsys.readouterr().out
    assert "left out" not in out and "who acted" in out and "questions of evaluations" in out
    page = (tmp_path / "report" / "report.html").read_text()
    assert all(text in page for text in ("Sub-goals by system", "Plans", "System 1&#39;s memory", "chop tree"))
    assert list((tmp_path / "report").glob("memory-*.png"))
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    dual, lone = summary["acted"]
    assert [dual["System_1"][name] for name in ("estimate", "low", "high")] == [0.75, 0.7, 0.8], "two runs"
    assert dual["performer"]["estimate"] == 0.25, "of the last evaluation"
    assert lone["System_1"]["estimate"] is None and lone["performer"]["estimate"] == 1.0
    kinds = {row["episodes"]: row["lacking,_first"]["estimate"] for row in summary["plans"]}
    assert kinds == {"evaluation": 2.0, "training": 1.0}
    (routes,) = summary["routes"]
    assert (routes["learner"]["estimate"], routes["learner_reached"]["estimate"]) == (1.0, 1.0)
    (memory,) = summary["proficiencies"]
    assert memory["subgoals"] == {"chop tree": {"attempts": 12, "completed": 6, "proficiency": 0.75}}
    dual_costs, lone_costs = summary["asked"]
    # 12 + 4 and 16 + 4 calls in four episodes each: 4 and 5 an episode, 36 in all
    assert (dual_costs["per_episode"]["calls"]["estimate"], dual_costs["training"]["calls"]) == (4.5, 4.0)
    assert (
        dual_costs["per_success"]["calls"] == (12.0 if successes else None)
        and lone_costs["per_episode"]["calls"]["estimate"] == 10
    )
    assert dual_costs["per_success"]["usd"] == (pytest.approx(0.3 / 3) if successes else None)
    costs = out.partition("questions of evaluations")[2].partition("Notes")[0]
    assert ("12.0" in costs) == bool(successes)
