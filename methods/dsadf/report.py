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
    """What a row's questions on one task cost."""

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
    """Return who acted in the last evaluations, one entry per cell."""
    return _over_runs(source, _last(source.rows("trials", *COUNTS)), ACTED, of_trials)


def of_trials(rows: pd.DataFrame) -> dict[str, float]:
    """Return `ACTED` of the episodes of one run; NaN for what its agent does not count, and without any step."""
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


def acted_tables(found: Sequence[Numbers]) -> list[Grid]:
    """Return a table by task of who acted."""
    made = []
    for where in dict.fromkeys(each.task for each in found):
        lines = {each.label: tuple(each.numbers.values()) for each in found if each.task == where}
        made.append(Grid(f"{where}: who acted", ACTED, lines, ACTED_NOTE))
    return made


# Plans and routes


def planned(source: Source) -> list[Numbers]:
    """Return what plans lacked, one entry per cell for evaluations and one for training, if it made plans there."""
    rows = source.rows("plans", "first", "final", "lacking", "still_lacking")
    trained = _trained(rows)
    return [
        each._replace(kind=what)
        for what, mine in (("evaluation", rows[~trained]), ("training", rows[trained]))
        for each in _over_runs(source, mine, PLANNED, of_plans)
    ]


def _trained(plans: pd.DataFrame) -> Array:
    """Return which plans are those of episodes of training, bool [n]."""
    found = np.zeros(len(plans), bool)
    if "training" in plans:
        stated = plans["training"].notna().to_numpy(bool)
        found[stated] = plans.loc[stated, "training"].astype(bool)
    return found


def of_plans(rows: pd.DataFrame) -> dict[str, float]:
    """Return `PLANNED` of one run's plans."""
    before, after = rows["lacking"].astype(float), rows["still_lacking"].astype(float)
    return {
        BEFORE: float(before.mean()),
        AFTER: float(after.mean()),
        GAPS_BEFORE: float((before > 0).mean()),
        GAPS_AFTER: float((after > 0).mean()),
        UNPLANNED: float((rows["final"] == "").mean()),
    }


def routed(source: Source) -> list[Numbers]:
    """Return to whom sub-goals were routed in the last evaluations, one entry per cell."""
    return _over_runs(source, _last(source.rows("routes", "trial", "by", "why", "reached")), ROUTED, of_routes)


def of_routes(rows: pd.DataFrame) -> dict[str, float]:
    """Return `ROUTED` of one run's sub-goals; NaN for the share of none."""
    episodes = rows["trial"].nunique()
    found = []
    for by in ("learner", "performer"):
        mine = rows[rows["by"] == by]
        found += [len(mine) / episodes, float(mine["reached"].astype(bool).mean()) if len(mine) else NAN]
    found += [float((rows["why"] == why).mean()) for why in WHY]
    return dict(zip(ROUTED, found, strict=True))


def listed(heading: str, names: Sequence[str], note: str, kinds: bool, found: Sequence[Numbers]) -> list[Listing]:
    """Return a table for the page. `kinds`: whether rows have several kinds of episodes."""
    lines = [
        (each.label, each.task, *((each.kind,) * kinds), *(tables.spread(value) for value in each.numbers.values()))
        for each in sorted(found, key=lambda each: each.task)
    ]
    columns = ("task", *("episodes of",) * kinds, *names)
    return [Listing(heading, columns, lines, on="page", words=1 + kinds, note=note)] if lines else []


# Memory


def remembered(source: Source) -> list[RememberedSubgoals]:
    """Return the sub-goals in memory after the last scores, one entry per cell."""
    rows = source.rows("memory", "verb", "noun", "attempts", "completed", "proficiency")
    found = []
    for cell in source.study.cells:
        mine = _named(rows[rows["cell"] == cell.id])
        if not mine.empty:
            found.append(RememberedSubgoals(*_place(source, cell), cell.id, of_memory(mine)))
    return found


def of_memory(rows: pd.DataFrame) -> dict[str, tuple[int, int, float]]:
    """Return sub-goal -> attempts and completed ones of all runs, and mean proficiency of those with a score, by each
    run's last record; most attempted first. `rows`: those of one cell, with the column `subgoal`."""
    last = rows.sort_values("step").groupby(["seed", "subgoal"]).tail(1)
    found = {
        str(name): (int(mine["attempts"].sum()), int(mine["completed"].sum()), float(mine["proficiency"].mean()))
        for name, mine in last.groupby("subgoal")
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1][0], item[0])))


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    found = rows.assign(subgoal=(rows["verb"] + " " + rows["noun"]).str.strip())
    return found if "proficiency" in found else found.assign(proficiency=NAN)


def memory_listings(found: Sequence[RememberedSubgoals]) -> list[Listing]:
    """Return a table for the page of the sub-goals in memory."""
    lines = []
    for each in found:
        for name, (attempts, completed, p) in [*each.subgoals.items()][:MOST]:
            score = maybe(None if np.isnan(p) else p, 2)
            lines.append((each.label, each.task, name, f"{attempts:,}", f"{completed:,}", score))
        if (left := len(each.subgoals) - MOST) > 0:
            lines.append((each.label, each.task, f"{left} further ones, left out", "", "", ""))
    columns = ("task", "sub-goal", "attempts", "completed", "p")
    return [Listing("System 1's memory", columns, lines, on="page", words=2, note=MEMORY_NOTE)] if lines else []


def memory_drawings(found: Sequence[RememberedSubgoals], source: Source) -> list[Drawing]:
    """Draw the proficiencies of each row's sub-goals over training."""
    rows, drawn = _named(source.rows("memory")), list[Drawing]()
    for each in found:
        mine = rows[rows["cell"] == each.cell]
        names = [*each.subgoals][:MOST]
        curves = [
            training.metric(mine[mine["subgoal"] == name], "proficiency", name, source.resamples) for name in names
        ]
        file = figures.file_name("memory", f"{each.task}-{each.label}", [drawing.name for drawing in drawn])
        title, panel = f"Proficiency of sub-goals\n{each.task}\n{each.label}", training.chart("p", curves, share=True)
        places = figures.styles(curve.label for curve in panel.curves)
        made = training.drawing(f"{each.task}: {each.label}", file, title, [panel], places)
        drawn += [made] if made else []
    return drawn


# What it cost


def question_costs(source: Source) -> list[QuestionCosts]:
    """Return what questions cost, one entry per cell with the log `trials`."""
    made = source.rows("plans", "trial") if "plans" in source.needs else None
    trials, results = source.rows("trials", "trial", "steps"), source.rows(EVALUATIONS)
    ledger, apart = source.rows("ledger"), source.rows("spending")
    found = []
    for cell in source.study.cells:
        mine = {name: rows[rows["cell"] == cell.id] for name, rows in (("ledger", ledger), ("apart", apart))}
        if mine["ledger"].empty or trials[trials["cell"] == cell.id].empty:
            continue
        runs = []
        for seed, own in results[results["cell"] == cell.id].groupby("seed"):
            spent = {name: rows[rows["seed"] == seed] for name, rows in mine.items()}
            planned_here = None if made is None else made[(made["cell"] == cell.id) & (made["seed"] == seed)]
            if not spent["ledger"].empty:
                tried = trials[(trials["cell"] == cell.id) & (trials["seed"] == seed)]
                seen = float(tried["fast"].sum()) if "fast" in tried else 0.0
                used = of_ledger(spent["ledger"], spent["apart"], planned_here, seen)
                runs.append((used, own["success"].astype(bool)))
        if runs:
            found.append(_costs_of_cell(source, cell, runs))
    return found


def _costs_of_cell(
    source: Source, cell: Any, runs: Sequence[tuple[Mapping[str, tuple[float, float]], Any]]
) -> QuestionCosts:
    label, where = _place(source, cell)
    episodes, successes = sum(len(each) for _, each in runs), int(sum(each.sum() for _, each in runs))
    per_episode, per_success, trained = {}, dict[str, float | None](), {}
    for name in USED:
        values = [used[name][0] for used, _ in runs]
        ratios = np.array([value / len(success) for value, (_, success) in zip(values, runs, strict=True)])
        per_episode[name] = grids.over_runs(ratios, source.resamples, label)
        per_success[name] = sum(values) / successes if successes else None
        trained[name] = sum(used[name][1] for used, _ in runs) / len(runs)
    return QuestionCosts(label, where, len(runs), episodes, successes, per_episode, per_success, trained)


def of_ledger(
    ledger: pd.DataFrame, apart: pd.DataFrame, plans: pd.DataFrame | None, seen: float = 0.0
) -> dict[str, tuple[float, float]]:
    """Return key of `USED` -> what one run used in its evaluations and in its training. `apart`: its records
    `spending`, empty if one role alone is asked; `plans`: its plans; `seen`: steps of System 1 in its evaluations."""
    trained = _trained(plans) if plans is not None else np.zeros(0, bool)
    planning = 1 - float(trained.mean()) if len(trained) else 1.0
    shares, others = {"performer": 1.0, "planner": planning, "reflector": planning}, float(not trained.any())
    if trained.any():
        shares["image_encoder"] = seen / (seen + float(ledger["step"].max()) or 1.0)
    last = apart.sort_values("step").groupby("role").tail(1) if len(apart) else ledger.sort_values("step").tail(1)
    roles = last.get("role", ["performer"])
    found = {}
    for name in USED:
        spent = [(float(value), shares.get(str(role), others)) for role, value in zip(roles, last[name], strict=True)]
        found[name] = (sum(value * share for value, share in spent), sum(value * (1 - share) for value, share in spent))
    return found


def cost_listings(found: Sequence[QuestionCosts]) -> list[Listing]:
    """Return the costs by episode and success: all of them for the page, calls and USD for the terminal."""
    if not found:
        return []
    ways = ("per episode", "per success", "training")
    whole = [
        (
            each.label, each.task, f"{each.successes:,} of {each.episodes:,}",
            *(tables.spread(each.per_episode[name], digits) for name, digits in USED.items()),
            *(maybe(each.per_success[name], digits) for name, digits in USED.items()),
            *(maybe(each.training[name], digits) for name, digits in USED.items()),
        )
        for each in found
    ]  # fmt: skip
    brief = [
        (
            f"{each.label} on {each.task}",
            *(maybe(value, USED[name]) for name in ("calls", "usd")
              for value in (float(each.per_episode[name].estimate), each.per_success[name])),
        )
        for each in found
    ]  # fmt: skip
    columns = tuple(f"{CALLED[name]} {way}" for way in ways for name in USED)
    heading = "Questions of evaluations"
    few = ("calls per\nepisode", "calls per\nsuccess", "USD per\nepisode", "USD per\nsuccess")
    return [
        Listing(heading, ("task", "successes", *columns), whole, on="page", words=1, note=COST_NOTE),
        Listing(heading.lower(), few, brief, on="terminal"),
    ]


def cost_plain(found: Sequence[QuestionCosts]) -> list[dict[str, Any]]:
    """Return the costs per row and task as JSON data."""
    return [
        {
            "label": each.label, "task": each.task, "runs": each.runs, "episodes": each.episodes,
            "successes": each.successes,
            "per_episode": {name: export.spread(value) for name, value in each.per_episode.items()},
            "per_success": dict(each.per_success), "training": dict(each.training),
        }
        for each in found
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
    """Return one entry per cell that has records: the means over runs of what `of_run` says of each."""
    found = []
    for cell in source.study.cells:
        mine = rows[rows["cell"] == cell.id]
        runs = [of_run(run) for _, run in mine.groupby("seed")]
        if not runs:
            continue
        label, where = _place(source, cell)
        values = {name: np.array([run[name] for run in runs], float) for name in names}
        numbers = {
            name: grids.over_runs(each, source.resamples, label) if np.isfinite(each).any() else NONE
            for name, each in values.items()
        }
        found.append(Numbers(label, where, len(runs), numbers))
    return found


def plain(found: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Return the numbers per row and task as JSON data."""
    return [
        {
            "label": each.label, "task": each.task, "runs": each.runs,
            **({"episodes": each.kind} if each.kind else {}),
            **{name.strip().replace(" ", "_"): export.spread(value) for name, value in each.numbers.items()},
        }
        for each in found
    ]  # fmt: skip


def routed_plain(found: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Return how sub-goals were routed, per row and task, as JSON data."""
    keys = (
        "learner", "learner_reached", "performer", "performer_reached", "not_proficient", "not_in_memory", "unscored",
    )  # fmt: skip
    return [
        {
            "label": each.label, "task": each.task, "runs": each.runs,
            **{key: export.spread(value) for key, value in zip(keys, each.numbers.values(), strict=True)},
        }
        for each in found
    ]  # fmt: skip


def memory_plain(found: Sequence[RememberedSubgoals]) -> list[dict[str, Any]]:
    """Return the sub-goals in memory per row and task as JSON data."""
    return [
        {
            "label": each.label, "task": each.task,
            "subgoals": {
                name: {"attempts": attempts, "completed": completed, "proficiency": None if np.isnan(p) else p}
                for name, (attempts, completed, p) in each.subgoals.items()
            },
        }
        for each in found
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
