"""Sections of the report about models that plan and act: who acted, what plans lacked, how sub-goals were routed, what
System 1 is proficient at, and what the questions of an evaluation cost (DSADF)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Array, Interval
from guidebench.methods.dsadf.routing import ABSENT, NOT_PROFICIENT, UNSCORED
from guidebench.reports.rendering import figures, tables
from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import EVALUATIONS, Section, Source, quantities, training
from guidebench.reports.sections.quantities import Quantities
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.listings import Listing, maybe
from guidebench.reports.summary.records import CellLog, by_cell, of_cell

if TYPE_CHECKING:
    import pandas as pd


NAN = float("nan")
FAST, PERFORMED, FALLBACK, ONLY = "System 1", "performer", "fallback", "only action"
EMERGENCIES, IMPOSSIBLE, UNKNOWN = "emergencies", "impossible", "unknown"
ACTED_NOTE = (
    "Means over runs, of the episodes of each run's last evaluation. Shares of steps: System 1, the learner; the "
    "performer; the fallback, an action drawn uniformly since no usable reply came; and steps with one possible "
    "action, of which nobody is asked. Per episode: steps that the performer was given since a danger was near, "
    "replies that named an impossible action, and replies that named no action."
)
COUNTS = ("trial", "steps", "performed", "fallback", "impossible", "unknown")
"""Columns of the log `trials` that are read."""
BEFORE, AFTER, GAPS_BEFORE, GAPS_AFTER, UNPLANNED = (
    "lacking, first", "lacking, final", "first plans with gaps", "final plans with gaps", "without a plan"
)  # fmt: skip
PLANNED_NOTE = (
    "Means over runs, of all plans for episodes of evaluations or of training. Lacking: prerequisites that a plan's "
    "steps lack by the hint's rules, before the reflection and after it; with gaps: the share of plans that lack any; "
    "without a plan: the share of them whose planner gave no usable plan, so that the task itself was the goal."
)
ROUTED = (
    "System 1's", "reached by System 1", "performer's", "reached by the performer", "not proficient", "not in memory",
    "unscored",
)  # fmt: skip
ROUTED_KEYS = (
    "learner", "learner_reached", "performer", "performer_reached", "not_proficient", "not_in_memory", "unscored",
)  # fmt: skip
"""Their keys in summary.json."""
WHY = (NOT_PROFICIENT, ABSENT, UNSCORED)
"""Reasons of the log `routes`, in the order of the last columns of `ROUTED`."""
ROUTED_NOTE = (
    "Means over runs, of each run's last evaluation: sub-goals that an episode came to, by the system to which they "
    "were routed, and the share of them that was reached. The last columns are shares of all of these sub-goals: those "
    "that the performer got because System 1 is not proficient, because they are not in memory, and because the scorer "
    "gave them no usable score. Unless plans are partial, as on Housekeep, the "
    "last sub-goal of a plan never counts as reached: its end is the episode's."
)
MEMORY_NOTE = (
    "By the last scores of each run: attempts in training and how many completed the sub-goal, over all runs, and the "
    "mean over runs of its proficiency p; the most often attempted first."
)
MEMORY_WORDS = (
    "Proficiency p of the sub-goals in memory, as the scorer rated them before each evaluation; those that were most "
    f"often attempted. {training.REMARK}"
)
MOST = 8
"""Most sub-goals of a row whose proficiency is shown."""
USED = {"calls": 1, "tokens_in": 0, "tokens_out": 0, "usd": 4}
"""Columns of the ledger that are shown per episode and per success, and their decimals."""
CALLED = {"calls": "calls", "tokens_in": "tokens in", "tokens_out": "tokens out", "usd": "USD"}
COST_NOTE = (
    "As if no answer had come from a cassette. Per episode: means over runs, of all evaluations. Per success: all "
    "questions of evaluations by all successes, over all runs; a dash without any. Training: per run. The ledger does "
    "not tell evaluations from training. The performer is asked in evaluations alone. Questions of planner and "
    "reflector are shared out by the plans made for either, and those of the image encoder by the steps of System 1. "
    "Those of scorer, text embedder and captioner count as training's if the run trains."
)


class QuestionCosts(NamedTuple):
    """What the questions of a row's runs on one task cost."""

    label: str
    task: str
    runs: int
    episodes: int
    successes: int
    per_episode: Mapping[str, Interval]
    """Key of `USED` -> use per evaluation episode, the mean over runs."""
    per_success: Mapping[str, float | None]
    """Key of `USED` -> the sum over runs, divided by the number of their successes; None without a success."""
    training: Mapping[str, float]
    """Key of `USED` -> use in training, the mean over runs."""


# Who acted


def acted(source: Source) -> list[Quantities]:
    """Return the shares and counts of each run's last evaluation, one row per cell."""
    rows = source.rows("trials", *COUNTS)
    return quantities.of_runs(source, quantities.last_evaluation(rows), of_trials)


def of_trials(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities of one run, given its records of the log `trials`; NaN for what its agent does not
    count, and for shares of no steps."""
    steps, episodes = float(rows["steps"].sum()), len(rows)
    fast, emergencies = (float(rows[name].sum()) if _counted(rows, name) else NAN for name in ("fast", "emergencies"))
    performed, fallback = (float(rows[name].sum()) for name in ("performed", "fallback"))
    only = steps - performed - fallback - (0.0 if np.isnan(fast) else fast)
    shares = {FAST: fast, PERFORMED: performed, FALLBACK: fallback, ONLY: only}
    return {
        **{name: steps_of_kind / steps if steps else NAN for name, steps_of_kind in shares.items()},
        EMERGENCIES: emergencies / episodes,
        IMPOSSIBLE: float(rows["impossible"].sum()) / episodes,
        UNKNOWN: float(rows["unknown"].sum()) / episodes,
    }


def _counted(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and bool(rows[name].notna().all())


# Plans and routes


def planned(source: Source) -> list[Quantities]:
    """Return what plans lacked: per cell a row for plans of evaluations and one for plans of training."""
    rows = source.rows("plans", "first", "final", "lacking", "still_lacking")
    is_training = _trained(rows)
    return [
        *quantities.of_runs(source, rows[~is_training], of_plans, "evaluation"),
        *quantities.of_runs(source, rows[is_training], of_plans, "training"),
    ]


def _trained(plans: pd.DataFrame) -> Array:
    """Return which records of the log `plans` are of training episodes, bool [n]."""
    is_training = np.zeros(len(plans), bool)
    if "training" in plans:
        stated = plans["training"].notna().to_numpy(bool)
        is_training[stated] = plans.loc[stated, "training"].astype(bool)
    return is_training


def of_plans(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities of one run, given its records of the log `plans`."""
    before, after = rows["lacking"].astype(float), rows["still_lacking"].astype(float)
    return {
        BEFORE: float(before.mean()),
        AFTER: float(after.mean()),
        GAPS_BEFORE: float((before > 0).mean()),
        GAPS_AFTER: float((after > 0).mean()),
        UNPLANNED: float((rows["final"] == "").mean()),
    }


def routed(source: Source) -> list[Quantities]:
    """Return how sub-goals of each run's last evaluation were routed, one row per cell."""
    rows = source.rows("routes", "trial", "by", "why", "reached")
    return quantities.of_runs(source, quantities.last_evaluation(rows), of_routes)


def of_routes(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `ROUTED` of one run, given its records of the log `routes`; NaN for a share of no
    sub-goals."""
    episodes = rows["trial"].nunique()
    numbers = []
    for by in ("learner", "performer"):
        routes = rows[rows["by"] == by]
        numbers += [len(routes) / episodes, float(routes["reached"].astype(bool).mean()) if len(routes) else NAN]
    numbers += [float((rows["why"] == why).mean()) for why in WHY]
    return dict(zip(ROUTED, numbers, strict=True))


# Memory


def remembered(source: Source) -> list[CellLog]:
    """Return the records of the sub-goals in memory, one log per cell."""
    rows = source.rows("memory", "verb", "noun", "attempts", "completed", "proficiency")
    return by_cell(source.study.cells, _named(rows), source.labels)


def of_memory(rows: pd.DataFrame) -> dict[str, tuple[int, int, float]]:
    """Return, for each sub-goal, its attempts and completed attempts over all runs and the mean of its proficiencies by
    each run's last record; most attempted first. `rows`: records of the log `memory` of one cell, with a column
    `subgoal`."""
    last = rows.sort_values("step").groupby(["seed", "subgoal"]).tail(1)
    subgoals = {
        str(name): (
            int(records["attempts"].sum()),
            int(records["completed"].sum()),
            float(records["proficiency"].mean()),
        )
        for name, records in last.groupby("subgoal")
    }
    return dict(sorted(subgoals.items(), key=lambda subgoal: (-subgoal[1][0], subgoal[0])))


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    named_rows = rows.assign(subgoal=(rows["verb"] + " " + rows["noun"]).str.strip())
    if "goal" in rows:  # kept by goal, where that changes from episode to episode
        named_rows["subgoal"] += rows["goal"].map(lambda goal: f" ({goal})" if isinstance(goal, str) and goal else "")
    return named_rows if "proficiency" in named_rows else named_rows.assign(proficiency=NAN)


def memory_listings(memories: Sequence[CellLog]) -> list[Listing]:
    """Return a table for the page of each row's most often attempted sub-goals in memory."""
    lines = []
    for log in memories:
        ranked = [
            (log.task_id, name, f"{attempts:,}", f"{completed:,}", maybe(None if np.isnan(p) else p, 2))
            for name, (attempts, completed, p) in of_memory(log.records).items()
        ]
        lines += [(log.label, *line) for line in ranked[:MOST]]
        if (omitted := len(ranked) - MOST) > 0:
            lines.append((log.label, log.task_id, f"{omitted} further ones, left out", "", "", ""))
    columns = ("task", "sub-goal", "attempts", "completed", "p")
    return [Listing("System 1's memory", columns, lines, on="page", words=2, note=MEMORY_NOTE)] if lines else []


def memory_drawings(memories: Sequence[CellLog], source: Source) -> list[Drawing]:
    """Draw the proficiencies of each row's sub-goals over training."""
    drawings = []
    for log in memories:
        curves = [
            training.metric(log.records[log.records["subgoal"] == name], "proficiency", name, source.resamples)
            for name in [*of_memory(log.records)][:MOST]
        ]
        file = figures.file_name("memory", f"{log.task_id}-{log.label}")
        title, panel = f"Proficiency of sub-goals\n{log.task_id}\n{log.label}", training.chart("p", curves, share=True)
        places = figures.styles(curve.label for curve in panel.curves)
        drawings.append(training.drawing(f"{log.task_id}: {log.label}", file, title, [panel], places))
    return figures.numbered(drawings)


def memory_plain(memories: Sequence[CellLog]) -> list[dict[str, Any]]:
    """Return the sub-goals in memory per row and task as JSON data."""
    return [
        {
            "label": log.label,
            "task": log.task_id,
            "subgoals": {
                name: {"attempts": attempts, "completed": completed, "proficiency": None if np.isnan(p) else p}
                for name, (attempts, completed, p) in of_memory(log.records).items()
            },
        }
        for log in memories
    ]


# What it cost


def question_costs(source: Source) -> list[QuestionCosts]:
    """Return what questions to models cost, one row per cell that has the log `trials`."""
    plans = source.rows("plans", "trial") if "plans" in source.needs else None
    trials, evaluations = source.rows("trials", "trial", "steps"), source.rows(EVALUATIONS)
    spending = source.rows("spending")
    costs = []
    for log in by_cell(source.study.cells, source.rows("ledger"), source.labels):
        cell, runs = log.cell.id, []
        played = of_cell(evaluations, cell) if len(of_cell(trials, cell)) else evaluations.iloc[:0]
        for seed, episodes in played.groupby("seed"):
            ledger, run_spending, run_trials = (of_cell(rows, cell, seed) for rows in (log.records, spending, trials))
            if len(ledger):
                run_plans = None if plans is None else of_cell(plans, cell, seed)
                fast_steps = float(run_trials["fast"].sum()) if "fast" in run_trials else 0.0
                usage = of_ledger(ledger, run_spending, run_plans, fast_steps)
                runs.append((usage, episodes["success"].to_numpy(bool)))
        if runs:
            costs.append(_costs_of_cell(log, runs, source.resamples))
    return costs


def _costs_of_cell(
    log: CellLog, runs: Sequence[tuple[Mapping[str, tuple[float, float]], Array]], reps: int
) -> QuestionCosts:
    episodes, successes = (sum(int(count(success)) for _, success in runs) for count in (len, np.sum))
    ratios = {name: np.array([usage[name][0] / len(success) for usage, success in runs]) for name in USED}
    return QuestionCosts(
        log.label,
        log.task_id,
        len(runs),
        episodes,
        successes,
        {name: grids.over_runs(shares, reps, log.label) for name, shares in ratios.items()},
        {name: sum(usage[name][0] for usage, _ in runs) / successes if successes else None for name in USED},
        {name: sum(usage[name][1] for usage, _ in runs) / len(runs) for name in USED},
    )


def of_ledger(
    ledger: pd.DataFrame, spending: pd.DataFrame, plans: pd.DataFrame | None, fast_steps: float = 0.0
) -> dict[str, tuple[float, float]]:
    """Return, for each key of `USED`, what one run used in its evaluations and what it used in its training.

    `ledger`: the run's records; `spending`: those by role, empty if only one role is asked; `plans`: its plans, None
    without that log; `fast_steps`: steps that System 1 took in its evaluations."""
    is_training = _trained(plans) if plans is not None else np.zeros(0, bool)
    planning = 1 - float(is_training.mean()) if len(is_training) else 1.0
    shares, others = {"performer": 1.0, "planner": planning, "reflector": planning}, float(not is_training.any())
    if is_training.any():
        shares["image_encoder"] = fast_steps / (fast_steps + float(ledger["step"].max()) or 1.0)
    last = spending.sort_values("step").groupby("role").tail(1) if len(spending) else ledger.sort_values("step").tail(1)
    roles = last.get("role", ["performer"])
    usage = {}
    for name in USED:
        amounts = [
            (float(amount), shares.get(str(role), others)) for role, amount in zip(roles, last[name], strict=True)
        ]
        usage[name] = (
            sum(amount * share for amount, share in amounts),
            sum(amount * (1 - share) for amount, share in amounts),
        )
    return usage


def cost_listings(costs: Sequence[QuestionCosts]) -> list[Listing]:
    """Return the costs by episode and success: all of them for the page, calls and USD for the terminal."""
    if not costs:
        return []
    ways = ("per episode", "per success", "training")
    lines = [
        (
            row.label, row.task, f"{row.successes:,} of {row.episodes:,}",
            *(tables.spread(row.per_episode[name], digits) for name, digits in USED.items()),
            *(maybe(row.per_success[name], digits) for name, digits in USED.items()),
            *(maybe(row.training[name], digits) for name, digits in USED.items()),
        )
        for row in costs
    ]  # fmt: skip
    short_lines = [
        (
            f"{row.label} on {row.task}",
            *(maybe(value, USED[name]) for name in ("calls", "usd")
              for value in (float(row.per_episode[name].estimate), row.per_success[name])),
        )
        for row in costs
    ]  # fmt: skip
    columns = tuple(f"{CALLED[name]} {way}" for way in ways for name in USED)
    heading = "Questions of evaluations"
    few = ("calls per\nepisode", "calls per\nsuccess", "USD per\nepisode", "USD per\nsuccess")
    return [
        Listing(heading, ("task", "successes", *columns), lines, on="page", words=1, note=COST_NOTE),
        Listing(heading.lower(), few, short_lines, on="terminal"),
    ]


def cost_plain(costs: Sequence[QuestionCosts]) -> list[dict[str, Any]]:
    """Return the costs of questions per row and task as JSON data."""
    return [
        {
            **row._asdict(),
            "per_episode": {name: export.spread(interval) for name, interval in row.per_episode.items()},
        }
        for row in costs
    ]


def _plain(rows: Sequence[Quantities], keys: Sequence[str] = ()) -> list[dict[str, Any]]:
    return [quantities.plain(row, keys) for row in rows]


SECTIONS = (
    Section(
        name="acted",
        title="Who acted",
        order=850,
        needs=("trials",),
        load=acted,
        tables=partial(quantities.grids, subject="who acted", note=ACTED_NOTE),
        plain=_plain,
    ),
    Section(
        name="plans",
        title="Plans",
        order=852,
        needs=("plans",),
        load=planned,
        listings=partial(quantities.listing, heading="Plans", note=PLANNED_NOTE),
        plain=_plain,
    ),
    Section(
        name="routes",
        title="Sub-goals by system",
        order=854,
        needs=("routes",),
        load=routed,
        listings=partial(quantities.listing, heading="Sub-goals by system", note=ROUTED_NOTE),
        plain=partial(_plain, keys=ROUTED_KEYS),
    ),
    Section(
        name="proficiencies",
        title="System 1's memory",
        order=856,
        needs=("memory",),
        words=MEMORY_WORDS,
        load=remembered,
        listings=memory_listings,
        drawings=memory_drawings,
        plain=memory_plain,
    ),
    Section(
        name="asked",
        title="Questions of evaluations",
        order=858,
        needs=("trials", EVALUATIONS, "ledger", "spending"),
        reads=("plans",),
        load=question_costs,
        listings=cost_listings,
        plain=cost_plain,
    ),
)
