"""Transcripts of evaluation episodes: logs joined by hand, bounds, hostile texts, and real runs in a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from guidebench.harness import logs
from guidebench.harness.commands import cli
from guidebench.harness.records.clips import Clip, Frame
from guidebench.methods.dsadf.dual_system import DualSystem
from guidebench.methods.dsadf.slow_system import Performs, Plans
from guidebench.reports.runs import transcripts
from guidebench.reports.runs.episodes import Episodes
from guidebench.reports.runs.transcripts import ENDS, LINES, PARTS, Line, Transcript
from tests.logs import log_rows
from tests.reports.runs.conftest import EVIL

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Open = Callable[..., Page]

ROUTE = {"trial": 0, "number": 0, "emergencies": 0, "reached": True}
DUAL: Mapping[str, list[dict[str, Any]]] = {
    "plans": [
        {"trial": 0, "number": 0, "first": "find tree; chop tree", "final": "find tree; chop tree (2 times); chop tree",
         "thoughts": "Trees give wood.", "fault": "", "retries": 0, "lacking": 1, "still_lacking": 0, "again": ""},
        {"trial": 7, "training": True, "number": 0, "first": "noop", "final": "noop", "thoughts": "", "fault": "",
         "retries": 0, "lacking": 0, "still_lacking": 0, "again": ""},
    ],
    "reflections": [{"trial": 0, "number": 0, "strengths": "short", "weaknesses": "one wood", "plan": "", "fault": ""}],
    "routes": [
        {**ROUTE, "index": 0, "subgoal": "find tree", "by": "learner", "why": "proficient", "proficiency": 0.75,
         "steps": 4, "emergencies": 1},
        {**ROUTE, "index": 1, "subgoal": "chop tree", "by": "performer", "why": "it is not in memory", "steps": 2},
        {**ROUTE, "index": 2, "subgoal": "chop tree", "by": "performer", "why": "it is not in memory", "steps": 3,
         "reached": False},
    ],
    "actions": [
        {"trial": 0, "first": 0, "steps": 3, "subgoal": "find tree", "action": "left", "by": "learner", "said": ""},
        {"trial": 0, "first": 3, "steps": 1, "subgoal": "find tree", "action": "attack zombie", "by": "performer",
         "said": "It is near: attack zombie"},
        {"trial": 0, "first": 4, "steps": 4, "subgoal": "chop tree", "action": "chop tree", "by": "performer",
         "said": "**Chop tree.**"},
        {"trial": 0, "first": 8, "steps": 1, "subgoal": "chop tree", "action": "sleep", "by": "only", "said": ""},
    ],
    "trials": [
        {"trial": 0, "steps": 9, "performed": 5, "fallback": 0, "impossible": 1, "unknown": 0, "failed": 0,
         "reached": 2, "declared": 0, "plans": 1, "fast": 3, "emergencies": 1},
    ],
}  # fmt: skip
"""One episode of nine steps: System 1 walks, a zombie comes, and the performer chops through two equal sub-goals."""


def transcripts_of(
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = DUAL,
    results: Sequence[tuple[int, bool, int]] = ((0, False, 9),),
    declared: Mapping[str, logs.Log] = DualSystem.logs,
    frames: Sequence[int] = (),
) -> tuple[tuple[Transcript, ...], tuple[str, ...]]:
    """Return transcripts and notes of the log rows of an evaluation at step 100; `results`: episode, success, steps."""
    evaluations = [
        {"step": 100, "episode": episode, "success": success, "return": 0.5, "length": length}
        for episode, success, length in results
    ]
    frames_by_log = {
        log: pd.DataFrame([{"step": 100, **row} for row in log_rows_]) for log, log_rows_ in rows.items() if log_rows_
    }
    shown_frames = tuple(Frame(f"{at}.png", at, content=b"png") for at in frames)
    acted = (Clip(log="actions", step=100, frames=shown_frames),) if frames else ()
    record: Any = SimpleNamespace(
        rows={"evaluations": pd.DataFrame(evaluations), **frames_by_log}, cell=SimpleNamespace(logs=declared),
        episodes=Episodes({"acted": acted}),
    )  # fmt: skip
    return transcripts.transcripts(record)


def test_each_step_stands_with_its_sub_goal_and_who_acted() -> None:
    ((episode,), notes) = transcripts_of(frames=(0, 2, 4, 5, 9))
    assert notes == () and (episode.step, episode.episode, episode.success, episode.length) == (100, 0, False, 9)
    find, first, second = episode.parts
    assert (find.subgoal, find.by, find.why, find.proficiency, find.ended) == (
        "find tree", "System 1", "proficient", 0.75, "reached"
    )  # fmt: skip
    assert find.lines == (
        Line(0, 2, 3, "left", "System 1", False, ""),
        Line(3, 3, 1, "attack zombie", "performer", True, "It is near: attack zombie"),
    )
    assert (first.first, first.steps, second.first, second.steps) == (4, 2, 6, 3)
    assert first.lines == (Line(4, 5, 2, "chop tree", "performer", False, ""),), "the row is cut between sub-goals"
    assert second.lines == (
        Line(6, 7, 2, "chop tree", "performer", False, ""), Line(8, 8, 1, "sleep", "only action", False, "")
    )  # fmt: skip
    assert (first.proficiency, second.ended) == (None, "the episode ended as a failure")
    assert [[frame.first for frame in part.frames] for part in episode.parts] == [[0, 2, 4], [5], [9]]
    assert episode.counts == (
        "3 steps of System 1", "5 of the performer", "0 of the fallback (drawn by chance)",
            "1 with one possible action", "1 emergency",
        "2 sub-goals reached", "1 reply naming an impossible action",
    )  # fmt: skip
    assert (episode.logged_steps, episode.frames, episode.left_out) == (9, 5, 0)


def test_the_plan_stands_with_its_reflection_and_not_that_of_an_episode_of_training() -> None:
    (episode,) = transcripts_of()[0]
    (plan,) = episode.plans
    assert plan.first == ("find tree", "chop tree") and plan.final == ("find tree", "chop tree (2 times)", "chop tree")
    assert (plan.reflected, plan.strengths, plan.weaknesses, plan.revised) == (True, "short", "one wood", ())
    assert plan.lacking == "By the hint's rules the first plan lacks 1 prerequisite, the final one 0."
    (first, *others) = episode.parts
    assert first.plan == 0 and all(part.plan is None for part in others)


def test_a_new_plan_gives_up_the_sub_goal_before() -> None:
    routes = [{**DUAL["routes"][0], "reached": False}, {**DUAL["routes"][1], "number": 1, "steps": 5, "reached": False}]
    (episode,) = transcripts_of({**DUAL, "routes": routes})[0]
    assert [(part.plan, part.ended) for part in episode.parts] == [
        (0, "given up for a new plan"), (1, "the episode ended as a failure")
    ]  # fmt: skip


def test_without_routes_sub_goals_follow_from_the_actions() -> None:
    (episode,) = transcripts_of(
        {log: rows for log, rows in DUAL.items() if log != "routes"}, [(0, True, 9)], Plans.logs
    )[0]
    assert [(part.subgoal, part.by, part.first, part.steps, part.ended) for part in episode.parts] == [
        ("find tree", "", 0, 4, "reached"), ("chop tree", "", 4, 5, "the episode ended as a success")
    ]  # fmt: skip
    assert not any(line.emergency for part in episode.parts for line in part.lines)
    alone = {"trials": DUAL["trials"], "actions": [{**row, "subgoal": ""} for row in DUAL["actions"]]}
    (episode,) = transcripts_of(alone, declared=Performs.logs)[0]
    assert [part.subgoal for part in episode.parts] == [""] and episode.plans == ()


def test_failures_come_first() -> None:
    actions = [{**DUAL["actions"][0], "trial": trial} for trial in range(8)]
    rows = {"actions": actions, "trials": [{**DUAL["trials"][0], "trial": trial} for trial in range(8)]}
    shown_episodes, _ = transcripts_of(rows, [(trial, trial in (0, 2), 3) for trial in range(8)], Performs.logs)
    assert [(episode.episode, episode.success) for episode in shown_episodes] == [
        (1, False),
        (3, False),
        (4, False),
        (0, True),
    ]


def test_what_is_long_is_cut_and_counted() -> None:
    actions = [
        {"trial": 0, "first": number, "steps": 1, "subgoal": f"goal {number // 100}", "action": "left",
         "by": "performer", "said": "x" * 1_000}
        for number in range(100 * (PARTS + 5))
    ]  # fmt: skip
    (episode,) = transcripts_of({**DUAL, "routes": [], "actions": actions}, [(0, False, 10_000)])[0]
    assert len(episode.parts) == PARTS and episode.left_out == 5 and episode.logged_steps == 6_500
    assert len(episode.parts[0].lines) == 2 * ENDS and episode.parts[0].left_out == 100 - 2 * ENDS
    assert sum(len(part.lines) for part in episode.parts) == LINES
    assert episode.parts[-1].lines == () and episode.parts[-1].left_out == 100
    assert len(episode.parts[0].lines[0].reply) < 350


def test_logs_of_other_columns_are_left_alone_and_damaged_ones_are_noted() -> None:
    other = {**Performs.logs, "actions": logs.Log("x", {"trial": logs.count("t"), "action": logs.count("a")})}
    assert transcripts_of(declared=other) == ((), ()) and transcripts_of({"actions": DUAL["actions"]}) == ((), ())
    episodes, (note,) = transcripts_of({**DUAL, "actions": [{**DUAL["actions"][0], "steps": "many"}]})
    assert episodes == () and note.startswith("the transcripts: a record is not what this program writes")


WORLD = (
    "suite=crafter_ood", "task=wood_sword", "suite.observation=text", "suite.actions=find", "suite.impossible=masked",
    "suite.area=16", "suite.test_length=20", "evaluation.episodes=2", "performer=scripted", "seeds=[0]",
)  # fmt: skip
PLANS = ("planner=scripted", "reflector=scripted")
ONCE = ("training.steps=1", "evaluation.every=1")
LEARNS = (
    "scorer=scripted", "text_embedder=scripted", "text_embedder.width=16", "agent.width=16", "suite.length=30",
    "learner.trunk=[8]", "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=16",
    "training.capacity=100", "agent.threshold=0", "training.steps=80", "evaluation.every=40",
)  # fmt: skip


@pytest.fixture
def page(train: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that trains a run, applies `change` to its directory, and returns the path of its page."""

    def make(*words: str, change: Callable[[Path], object] = lambda run: None, frames: bool = True) -> Path:
        pytest.importorskip("crafter")
        run = next(train(*WORLD, *words, packs=[(0,)]).glob("*/*/*/seed-0"))
        assert not frames or cli.main(["eval", str(run), "--frames", "--episodes", "1"]) == 0
        change(run)
        assert cli.main(["report", str(run)]) == 0
        return run / "report" / "run.html"

    return make


@pytest.mark.slow
@pytest.mark.waits
def test_a_run_s_page_tells_its_episodes_along_their_frames(
    page: Callable[..., Path], browser: Open, axe: Callable[[Page], None]
) -> None:
    page_ = browser(page("method=dsadf", *PLANS, *LEARNS))
    assert page_.get_by_role("heading", name="What was said and done").count() == 1
    assert (
        page_.locator("h3", has_text="steps").count() == 2 and page_.locator("h4", has_text="First plan").count() == 2
    )
    page_.locator("details.part summary").first.click()
    page_.evaluate("document.querySelectorAll('details.part').forEach((each) => { each.open = true; })")
    assert page_.locator(".part img").first.is_visible() and page_.locator(".part td").first.is_visible()
    page_.wait_for_function("[...document.querySelectorAll('.part img')].every((each) => each.naturalWidth > 0)")
    main_text = page_.locator("main").inner_text()
    assert "Routed to" in main_text and "No frames" not in main_text
    axe(page_)


MARKUP = "".join(letter for letter in EVIL if letter.isascii() and letter.isprintable())


def hostile(run: Path) -> None:
    """Put markup followed by a word of 400 letters into every text of the run's logs."""
    for log in ("plans", "reflections", "actions"):
        rows = [
            {name: f"{MARKUP}{'x' * 400}" if isinstance(value, str) and name != "by" else value
             for name, value in row.items()}
            for row in log_rows(run, log)
        ]  # fmt: skip
        (run / f"{log}.parquet").unlink()
        (run / f"{log}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.rmtree(run / "acted", ignore_errors=True)


@pytest.mark.waits
def test_hostile_texts_stay_texts_and_missing_frames_are_told(
    page: Callable[..., Path], browser: Open, axe: Callable[[Page], None]
) -> None:
    words = ("method=model_with_planner", *PLANS, *ONCE)
    page_ = browser(page(*words, change=hostile, frames=False), width=375)
    page_.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert "No frames of these episodes are here" in page_.locator("main").inner_text()
    assert "<script>alert(1)</script>" in page_.locator(".plan").first.inner_text()
    assert page_.locator("img[src=x]").count() == 0 and page_.evaluate("document.documentElement.scrollWidth") <= 375
    axe(page_)
