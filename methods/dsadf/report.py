"""Sections of the report about models that plan and act: who acted, what plans lacked, how sub-goals were routed, what
System 1 is proficient at, and what the questions of an evaluation cost (DSADF)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Array, Interval
from guidebench.methods.dsadf.routing import ABSENT, NOT_PROFICIENT, UNSCORED
from guidebench.reports.rendering import figures, tables
from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import EVALUATIONS, Section, Source, training
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listing, maybe
from guidebench.reports.summary.rows import NONE

if TYPE_CHECKING:
    import pandas as pd


NAN = float("nan")
FAST, PERFORMED, FALLBACK, ONLY = "System 1", "performer", "fallback", "only action"
EMERGENCIES, IMPOSSIBLE, UNKNOWN = "emergencies", "impossible", "unknown"
ACTED = (FAST, PERFORMED, FALLBACK, ONLY, EMERGENCIES, IMPOSSIBLE, UNKNOWN)
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
PLANNED = (BEFORE, AFTER, GAPS_BEFORE, GAPS_AFTER, UNPLANNED)
PLANNED_NOTE = (
    "Means over runs, of all plans for episodes of evaluations or of training. Lacking: prerequisites that a plan's "
    "steps lack by the hint's rules, before the reflection and after it; with gaps: the share of plans that lack any; "
    "without a plan: the share of them whose planner gave no usable plan, so that the task itself was the goal."
)
ROUTED = (
    "System 1's", "reached by System 1", "performer's", "reached by the performer", "not proficient", "not in memory",
    "unscored",
)  # fmt: skip
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


class Numbers(NamedTuple):
    """Estimates of a row on one task, over its runs."""

    label: str
    task: str
    runs: int
    numbers: Mapping[str, Interval]
    """Name -> the estimate; NaN if no run has it."""
    kind: str = ""
    """Which episodes, where a row has several kinds."""


class QuestionCosts(NamedTuple):
    """What the questions of a row's runs on one task cost."""

    label: str
    task: str
    runs: int
    episodes: int
    successes: int
    per_episode: Mapping[str, Interval]
    """Key of `USED` -> the mean over runs."""
    per_success: Mapping[str, float | None]
    """Key of `USED` -> all runs' sum by all their successes; None without any."""
    training: Mapping[str, float]
    """Key of `USED` -> the mean over runs."""


class RememberedSubgoals(NamedTuple):
    """The sub-goals in memory of a row's runs on one task."""

    label: str
    task: str
    cell: str
    subgoals: Mapping[str, tuple[int, int, float]]
    """Sub-goal -> attempts and completed ones of all runs, and the mean proficiency, NaN where no run has a score; most
    attempted first."""


# Who acted


def acted(source: Source) -> list[Numbers]:
    """Return the quantities `ACTED` of each run's last evaluation, one row per cell."""
    return _over_runs(source, _last(source.rows("trials", *COUNTS)), ACTED, of_trials)


def of_trials(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `ACTED` of one run, given its records of the log `trials`; NaN for what its agent does not
    count, and for shares of no steps."""
    steps, episodes = float(rows["steps"].sum()), len(rows)
    fast, emergencies = (float(rows[name].sum()) if _counted(rows, name) else NAN for name in ("fast", "emergencies"))
    performed, fallback = (float(rows[name].sum()) for name in ("performed", "fallback"))
    only = steps - performed - fallback - (0.0 if np.isnan(fast) else fast)
    shares = {FAST: fast, PERFORMED: performed, FALLBACK: fallback, ONLY: only}
    return {
        **{name: value / steps if steps else NAN for name, value in shares.items()},
        EMERGENCIES: emergencies / episodes,
        IMPOSSIBLE: float(rows["impossible"].sum()) / episodes,
        UNKNOWN: float(rows["unknown"].sum()) / episodes,
    }


def _counted(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and bool(rows[name].notna().all())


def acted_tables(estimates: Sequence[Numbers]) -> list[Grid]:
    """Return a table by task of who acted."""
    grids_of_tasks = []
    for task in dict.fromkeys(row.task for row in estimates):
        lines = {row.label: tuple(row.numbers.values()) for row in estimates if row.task == task}
        grids_of_tasks.append(Grid(f"{task}: who acted", ACTED, lines, ACTED_NOTE))
    return grids_of_tasks


# Plans and routes


def planned(source: Source) -> list[Numbers]:
    """Return the quantities `PLANNED`: per cell a row for plans of evaluations and one for plans of training."""
    rows = source.rows("plans", "first", "final", "lacking", "still_lacking")
    trained = _trained(rows)
    return [
        row._replace(kind=kind)
        for kind, mine in (("evaluation", rows[~trained]), ("training", rows[trained]))
        for row in _over_runs(source, mine, PLANNED, of_plans)
    ]


def _trained(plans: pd.DataFrame) -> Array:
    """Return which records of the log `plans` are of training episodes, bool [n]."""
    is_training = np.zeros(len(plans), bool)
    if "training" in plans:
        stated = plans["training"].notna().to_numpy(bool)
        is_training[stated] = plans.loc[stated, "training"].astype(bool)
    return is_training


def of_plans(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `PLANNED` of one run, given its records of the log `plans`."""
    before, after = rows["lacking"].astype(float), rows["still_lacking"].astype(float)
    return {
        BEFORE: float(before.mean()),
        AFTER: float(after.mean()),
        GAPS_BEFORE: float((before > 0).mean()),
        GAPS_AFTER: float((after > 0).mean()),
        UNPLANNED: float((rows["final"] == "").mean()),
    }


def routed(source: Source) -> list[Numbers]:
    """Return the quantities `ROUTED` of each run's last evaluation, one row per cell."""
    return _over_runs(source, _last(source.rows("routes", "trial", "by", "why", "reached")), ROUTED, of_routes)


def of_routes(rows: pd.DataFrame) -> dict[str, float]:
    """Return the quantities `ROUTED` of one run, given its records of the log `routes`; NaN for a share of no
    sub-goals."""
    episodes = rows["trial"].nunique()
    numbers = []
    for by in ("learner", "performer"):
        mine = rows[rows["by"] == by]
        numbers += [len(mine) / episodes, float(mine["reached"].astype(bool).mean()) if len(mine) else NAN]
    numbers += [float((rows["why"] == why).mean()) for why in WHY]
    return dict(zip(ROUTED, numbers, strict=True))


def listed(heading: str, names: Sequence[str], note: str, kinds: bool, estimates: Sequence[Numbers]) -> list[Listing]:
    """Return a table of these estimates for the page. `kinds`: whether it has a column for the kind of episodes."""
    lines = [
        (row.label, row.task, *((row.kind,) * kinds), *(tables.spread(interval) for interval in row.numbers.values()))
        for row in sorted(estimates, key=lambda row: row.task)
    ]
    columns = ("task", *("episodes of",) * kinds, *names)
    return [Listing(heading, columns, lines, on="page", words=1 + kinds, note=note)] if lines else []


# Memory


def remembered(source: Source) -> list[RememberedSubgoals]:
    """Return the sub-goals in memory after the last scores, one row per cell."""
    rows = source.rows("memory", "verb", "noun", "attempts", "completed", "proficiency")
    memories = []
    for cell in source.study.cells:
        mine = _named(rows[rows["cell"] == cell.id])
        if not mine.empty:
            memories.append(RememberedSubgoals(*_place(source, cell), cell.id, of_memory(mine)))
    return memories


def of_memory(rows: pd.DataFrame) -> dict[str, tuple[int, int, float]]:
    """Return, for each sub-goal, its attempts and completed attempts over all runs and the mean of its proficiencies by
    each run's last record; most attempted first. `rows`: records of the log `memory` of one cell, with a column
    `subgoal`."""
    last = rows.sort_values("step").groupby(["seed", "subgoal"]).tail(1)
    subgoals = {
        str(name): (int(mine["attempts"].sum()), int(mine["completed"].sum()), float(mine["proficiency"].mean()))
        for name, mine in last.groupby("subgoal")
    }
    return dict(sorted(subgoals.items(), key=lambda subgoal: (-subgoal[1][0], subgoal[0])))


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    named_rows = rows.assign(subgoal=(rows["verb"] + " " + rows["noun"]).str.strip())
    return named_rows if "proficiency" in named_rows else named_rows.assign(proficiency=NAN)


def memory_listings(memories: Sequence[RememberedSubgoals]) -> list[Listing]:
    """Return a table for the page of the sub-goals in memory."""
    lines = []
    for row in memories:
        for name, (attempts, completed, p) in [*row.subgoals.items()][:MOST]:
            score = maybe(None if np.isnan(p) else p, 2)
            lines.append((row.label, row.task, name, f"{attempts:,}", f"{completed:,}", score))
        if (omitted := len(row.subgoals) - MOST) > 0:
            lines.append((row.label, row.task, f"{omitted} further ones, left out", "", "", ""))
    columns = ("task", "sub-goal", "attempts", "completed", "p")
    return [Listing("System 1's memory", columns, lines, on="page", words=2, note=MEMORY_NOTE)] if lines else []


def memory_drawings(memories: Sequence[RememberedSubgoals], source: Source) -> list[Drawing]:
    """Draw the proficiencies of each row's sub-goals over training."""
    rows, drawings = _named(source.rows("memory")), list[Drawing]()
    for row in memories:
        mine = rows[rows["cell"] == row.cell]
        names = [*row.subgoals][:MOST]
        curves = [
            training.metric(mine[mine["subgoal"] == name], "proficiency", name, source.resamples) for name in names
        ]
        file = figures.file_name("memory", f"{row.task}-{row.label}", [drawing.name for drawing in drawings])
        title, panel = f"Proficiency of sub-goals\n{row.task}\n{row.label}", training.chart("p", curves, share=True)
        places = figures.styles(curve.label for curve in panel.curves)
        figure = training.drawing(f"{row.task}: {row.label}", file, title, [panel], places)
        drawings += [figure] if figure else []
    return drawings


# What it cost


def question_costs(source: Source) -> list[QuestionCosts]:
    """Return what questions to models cost, one row per cell that has the log `trials`."""
    plans = source.rows("plans", "trial") if "plans" in source.needs else None
    trials, results = source.rows("trials", "trial", "steps"), source.rows(EVALUATIONS)
    ledger, spending = source.rows("ledger"), source.rows("spending")
    costs = []
    for cell in source.study.cells:
        mine = {name: rows[rows["cell"] == cell.id] for name, rows in (("ledger", ledger), ("spending", spending))}
        if mine["ledger"].empty or trials[trials["cell"] == cell.id].empty:
            continue
        runs = []
        for seed, episodes in results[results["cell"] == cell.id].groupby("seed"):
            spent = {name: rows[rows["seed"] == seed] for name, rows in mine.items()}
            run_plans = None if plans is None else plans[(plans["cell"] == cell.id) & (plans["seed"] == seed)]
            if not spent["ledger"].empty:
                tried = trials[(trials["cell"] == cell.id) & (trials["seed"] == seed)]
                fast_steps = float(tried["fast"].sum()) if "fast" in tried else 0.0
                used = of_ledger(spent["ledger"], spent["spending"], run_plans, fast_steps)
                runs.append((used, episodes["success"].astype(bool)))
        if runs:
            costs.append(_costs_of_cell(source, cell, runs))
    return costs


def _costs_of_cell(
    source: Source, cell: Any, runs: Sequence[tuple[Mapping[str, tuple[float, float]], Any]]
) -> QuestionCosts:
    label, task = _place(source, cell)
    outcomes = np.concatenate([np.asarray(success, bool) for _, success in runs])
    episodes, successes = len(outcomes), int(outcomes.sum())
    per_episode, per_success, trained = {}, dict[str, float | None](), {}
    for name in USED:
        values = [used[name][0] for used, _ in runs]
        ratios = np.array([value / len(success) for value, (_, success) in zip(values, runs, strict=True)])
        per_episode[name] = grids.over_runs(ratios, source.resamples, label)
        per_success[name] = sum(values) / successes if successes else None
        trained[name] = sum(used[name][1] for used, _ in runs) / len(runs)
    return QuestionCosts(label, task, len(runs), episodes, successes, per_episode, per_success, trained)


def of_ledger(
    ledger: pd.DataFrame, spending: pd.DataFrame, plans: pd.DataFrame | None, fast_steps: float = 0.0
) -> dict[str, tuple[float, float]]:
    """Return, for each key of `USED`, what one run used in its evaluations and what it used in its training.

    `ledger`: the run's records; `spending`: those by role, empty if only one role is asked; `plans`: its plans, None
    without that log; `fast_steps`: steps that System 1 took in its evaluations."""
    trained = _trained(plans) if plans is not None else np.zeros(0, bool)
    planning = 1 - float(trained.mean()) if len(trained) else 1.0
    shares, others = {"performer": 1.0, "planner": planning, "reflector": planning}, float(not trained.any())
    if trained.any():
        shares["image_encoder"] = fast_steps / (fast_steps + float(ledger["step"].max()) or 1.0)
    last = spending.sort_values("step").groupby("role").tail(1) if len(spending) else ledger.sort_values("step").tail(1)
    roles = last.get("role", ["performer"])
    usage = {}
    for name in USED:
        spent = [(float(value), shares.get(str(role), others)) for role, value in zip(roles, last[name], strict=True)]
        usage[name] = (sum(value * share for value, share in spent), sum(value * (1 - share) for value, share in spent))
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
    """Return the costs per row and task as JSON data."""
    return [
        {
            "label": row.label, "task": row.task, "runs": row.runs, "episodes": row.episodes,
            "successes": row.successes,
            "per_episode": {name: export.spread(interval) for name, interval in row.per_episode.items()},
            "per_success": dict(row.per_success), "training": dict(row.training),
        }
        for row in costs
    ]  # fmt: skip


# Shared


def _place(source: Source, cell: Any) -> tuple[str, str]:
    return source.labels.get(cell.id, cell.label), f"{cell.suite}/{cell.task}"


def _last(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the records of each run's last evaluation."""
    return rows[rows["step"] == rows.groupby(["cell", "seed"])["step"].transform("max")] if len(rows) else rows


def _over_runs(
    source: Source, rows: pd.DataFrame, names: Sequence[str], of_run: Callable[[pd.DataFrame], Mapping[str, float]]
) -> list[Numbers]:
    """Return one row per cell that has records: the means over its runs of `of_run(records of the run)`, for the keys
    `names`."""
    estimates = []
    for cell in source.study.cells:
        mine = rows[rows["cell"] == cell.id]
        runs = [of_run(run) for _, run in mine.groupby("seed")]
        if not runs:
            continue
        label, task = _place(source, cell)
        values = {name: np.array([run[name] for run in runs], float) for name in names}
        numbers = {
            name: grids.over_runs(run_values, source.resamples, label) if np.isfinite(run_values).any() else NONE
            for name, run_values in values.items()
        }
        estimates.append(Numbers(label, task, len(runs), numbers))
    return estimates


def plain(estimates: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Return the numbers per row and task as JSON data."""
    return [
        {
            "label": row.label, "task": row.task, "runs": row.runs,
            **({"episodes": row.kind} if row.kind else {}),
            **{name.strip().replace(" ", "_"): export.spread(interval) for name, interval in row.numbers.items()},
        }
        for row in estimates
    ]  # fmt: skip


def routed_plain(estimates: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Return how sub-goals were routed, per row and task, as JSON data."""
    keys = (
        "learner", "learner_reached", "performer", "performer_reached", "not_proficient", "not_in_memory", "unscored",
    )  # fmt: skip
    return [
        {
            "label": row.label, "task": row.task, "runs": row.runs,
            **{key: export.spread(interval) for key, interval in zip(keys, row.numbers.values(), strict=True)},
        }
        for row in estimates
    ]  # fmt: skip


def memory_plain(memories: Sequence[RememberedSubgoals]) -> list[dict[str, Any]]:
    """Return the sub-goals in memory per row and task as JSON data."""
    return [
        {
            "label": row.label, "task": row.task,
            "subgoals": {
                name: {"attempts": attempts, "completed": completed, "proficiency": None if np.isnan(p) else p}
                for name, (attempts, completed, p) in row.subgoals.items()
            },
        }
        for row in memories
    ]  # fmt: skip


SECTIONS = (
    Section(
        name="acted", title="Who acted", order=850, needs=("trials",), load=acted, tables=acted_tables, plain=plain
    ),
    Section(
        name="plans",
        title="Plans",
        order=852,
        needs=("plans",),
        load=planned,
        listings=partial(listed, "Plans", PLANNED, PLANNED_NOTE, True),
        plain=plain,
    ),
    Section(
        name="routes",
        title="Sub-goals by system",
        order=854,
        needs=("routes",),
        load=routed,
        listings=partial(listed, "Sub-goals by system", ROUTED, ROUTED_NOTE, False),
        plain=routed_plain,
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
