"""Transcripts of a run's evaluation episodes for its page: plans, replies and actions from its logs, joined by
evaluation and episode, with the frames that `bench eval RUN --frames` draws of the same episodes.

The logs are known by their names and columns: `trials` and `actions`, and where there are any `plans`, `reflections`
and `routes`. A log with other columns of that name is left to the page's tables. Texts come from models and from
files that may be a stranger's: each is cut, and none becomes markup.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.errors import count
from guidebench.harness.grouping import grouped
from guidebench.harness.logs import shown_trials
from guidebench.harness.records import study
from guidebench.harness.records.clips import Frame
from guidebench.harness.texts import brief

if TYPE_CHECKING:
    from guidebench.reports.runs.record import Record

NEEDED: Mapping[str, Mapping[str, type]] = {
    "trials": {"trial": int, "steps": int},
    "actions": {
        "trial": int, "first": int, "steps": int, "subgoal": str, "action": str, "by": str, "said": str,
    },
    "plans": {"trial": int, "number": int, "first": str, "final": str, "thoughts": str, "fault": str, "again": str},
    "reflections": {"trial": int, "number": int, "strengths": str, "weaknesses": str, "plan": str, "fault": str},
    "routes": {
        "trial": int, "number": int, "index": int, "subgoal": str, "by": str, "why": str, "steps": int,
        "emergencies": int, "reached": bool,
    },
}  # fmt: skip
"""Log -> the columns that it must declare. The first two logs are required."""
ACTED = "actions"
"""The log that tells what was done, and that names the episode's frames."""
WHO: Mapping[str, str] = {
    "learner": "System 1", "performer": "performer", "fallback": "fallback", "only": "only action",
}  # fmt: skip
"""Who acted, in reader's words."""
COUNTED: Mapping[str, tuple[str, str]] = {
    "fast": ("step of System 1", "steps of System 1"),
    "performed": ("of the performer", "of the performer"),
    "fallback": ("of the fallback (drawn by chance)", "of the fallback (drawn by chance)"),
    "only": ("with one possible action", "with one possible action"),
    "emergencies": ("emergency", "emergencies"),
    "reached": ("sub-goal reached", "sub-goals reached"),
    "declared": ("of these declared by the performer", "of these declared by the performer"),
    "impossible": ("reply naming an impossible action", "replies naming an impossible action"),
    "unknown": ("reply naming no action", "replies naming no action"),
    "failed": ("question without an answer", "questions without an answer"),
}
"""Column of `trials` -> its words for one and for several."""
ALWAYS = ("fast", "performed", "fallback", "reached")
"""Columns of `COUNTED` that are shown even if they are 0."""
PLANS, PARTS, ENDS, LINES = 4, 60, 20, 300
"""Most plans and sub-goals of an episode, lines of a sub-goal at its begin and at its end, and lines of an episode."""
PAGE, REPLY, NAME = 2_000, 300, 80
"""Most characters of a text about a plan, of a reply, and of a sub-goal or an action."""
WRONG = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""Exceptions that a value of a wrong type raises."""


class Plan(NamedTuple):
    """How a plan was made: first plan, reflection, and final plan."""

    number: int
    first: tuple[str, ...]
    """Its sub-goals before the reflection."""
    thoughts: str
    fault: str
    """Why there is no first plan, or ""."""
    reflected: bool
    """Whether there was a reflection."""
    strengths: str
    weaknesses: str
    revised: tuple[str, ...]
    """The reflector's own plan; () without any."""
    failed: str
    """Why the reflection or its plan could not be used, or ""."""
    final: tuple[str, ...]
    again: str
    """Why the planner's final plan could not be used, or ""."""
    lacking: str
    """How many prerequisites it lacked before and after, in words; "" if none are known to lack."""


class Line(NamedTuple):
    """Consecutive steps with one action, from one cause."""

    first: int
    last: int
    steps: int
    action: str
    by: str
    emergency: bool
    """Whether the performer acted in place of System 1."""
    reply: str
    """The performer's reply; "" if it is nothing but the action's name."""


class Part(NamedTuple):
    """The steps of an episode with one sub-goal."""

    plan: int | None
    """Index of the plan that begins with it, None if it does not begin a plan."""
    subgoal: str
    """"" for the task itself."""
    by: str
    """To whom it was routed; "" if nothing routes."""
    why: str
    proficiency: float | None
    first: int
    steps: int
    emergencies: int
    ended: str
    lines: tuple[Line, ...]
    left_out: int
    """Lines left out for lack of room."""
    frames: tuple[Frame, ...]


class Transcript(NamedTuple):
    """One evaluation episode: its plans, and its actions by sub-goal."""

    step: int
    episode: int
    success: bool
    ret: float
    length: int
    counts: tuple[str, ...]
    plans: tuple[Plan, ...]
    plans_left_out: int
    """Plans left out for lack of room."""
    parts: tuple[Part, ...]
    left_out: int
    """Sub-goals left out for lack of room."""
    logged_steps: int
    """Number of steps whose actions the log has; the first ones, if fewer than `length`."""
    frames: int
    """Frames of the episode."""


def transcripts(record: Record) -> tuple[tuple[Transcript, ...], tuple[str, ...]]:
    """Return transcripts of some episodes of the last evaluation, and notes on what cannot be shown; none for a run
    whose logs lack the needed columns."""
    if not {"evaluations", "trials", ACTED} <= set(record.rows):
        return (), ()
    rows_of = {log: _rows(record, log) for log in NEEDED if _declares(record, log)}
    if not {"trials", ACTED} <= set(rows_of):
        return (), ()
    try:
        evaluations = {
            (int(row["step"]), int(row["episode"])): row for row in record.rows["evaluations"].to_dict("records")
        }
        acted = {(step, trial) for step, trial in rows_of[ACTED]}
        chosen = shown_trials((*key, bool(row["success"])) for key, row in evaluations.items() if key in acted)
        frames = {
            (clip.step, clip.episode): clip.frames for clip in record.episodes.clips[study.ACTED] if clip.log == ACTED
        }
        episodes = [
            _transcript(
                *key, evaluations[key], {log: rows.get(key, []) for log, rows in rows_of.items()}, frames.get(key, ())
            )
            for key in chosen
        ]
    except WRONG as error:
        return (), (f"the transcripts: a record is not what this program writes ({brief(str(error), 200)})",)
    return tuple(episodes), _targets(record) if episodes else ()


def _targets(record: Record) -> tuple[str, ...]:
    """Return a sentence with the target that the run inferred in place of its goal; empty if it recorded none."""
    if "targets" not in record.rows or "targets" not in record.cell.logs:
        return ()
    rows = [row for row in record.rows["targets"].to_dict("records") if str(row.get("target") or "")]
    return tuple(f"The target inferred at step {row['step']}: {brief(str(row['target']), PAGE)}" for row in rows[-1:])


def _declares(record: Record, log: str) -> bool:
    """Return whether the run has a log of this name with the columns that a transcript needs."""
    declared = record.cell.logs.get(log)
    if declared is None or log not in record.rows:
        return False
    kinds = {name: column.kind for name, column in declared.columns.items()}
    return all(kinds.get(name) is kind and name in record.rows[log] for name, kind in NEEDED[log].items())


def _rows(record: Record, log: str) -> dict[tuple[int, int], list[Mapping[Any, Any]]]:
    """Return (step, trial) -> the records of a log that are about evaluations, in order."""
    rows = (row for row in record.rows[log].to_dict("records") if row.get("training") is not True)
    return grouped(rows, lambda row: (int(row["step"]), int(row["trial"])))


def _transcript(
    step: int,
    episode: int,
    evaluation: Mapping[Any, Any],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    frames: Sequence[Frame],
) -> Transcript:
    actions = sorted(rows[ACTED], key=lambda row: int(row["first"]))
    logged_steps = max((int(row["first"]) + int(row["steps"]) for row in actions), default=0)
    success = bool(evaluation["success"])
    parts = list(_parts(actions, rows.get("routes", ()), logged_steps, success))
    trial = rows["trials"][0] if rows["trials"] else {}
    room, shown_parts = LINES, list[Part]()
    chosen = parts if len(parts) <= PARTS else [*parts[: PARTS // 2], *parts[-PARTS // 2 :]]
    for part in chosen:
        lines = part.lines if len(part.lines) <= 2 * ENDS else (*part.lines[:ENDS], *part.lines[-ENDS:])
        lines = lines[: max(0, room)]
        room -= len(lines)
        part_frames = tuple(
            frame for frame in frames
            if part.first < frame.first <= part.first + part.steps or (frame.first == 0 and part is parts[0])
        )  # fmt: skip
        shown_parts.append(part._replace(lines=lines, left_out=len(part.lines) - len(lines), frames=part_frames))
    return Transcript(
        step, episode, success, float(evaluation["return"]), int(evaluation["length"]), _counts(trial),
        tuple(_plans(rows.get("plans", ()), rows.get("reflections", ()))), max(0, len(rows.get("plans", ())) - PLANS),
        tuple(shown_parts), len(parts) - len(chosen), logged_steps, len(frames),
    )  # fmt: skip


def _counts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what happened in an episode as texts with counts, from its record in `trials`."""
    texts = []
    acted = [row.get(name) or 0 for name in ("fast", "performed", "fallback")]
    numbers = {**row, "only": int(row.get("steps", 0)) - sum(map(int, acted))}
    for name, (singular, plural) in COUNTED.items():
        number = numbers.get(name)
        if isinstance(number, int) and (number or name in ALWAYS):
            texts.append(f"{number:,} {singular if number == 1 else plural}")
    return tuple(texts)


def _plans(rows: Sequence[Mapping[str, Any]], reflections: Sequence[Mapping[str, Any]]) -> Iterator[Plan]:
    reflection_of = {int(row["number"]): row for row in reflections}
    for row in sorted(rows, key=lambda row: int(row["number"]))[:PLANS]:
        reflection = reflection_of.get(int(row["number"]), {})
        lacking = [row.get(name) for name in ("lacking", "still_lacking")]
        yield Plan(
            int(row["number"]),
            _steps(row["first"]),
            brief(str(row["thoughts"]), PAGE),
            brief(str(row["fault"]), NAME),
            bool(reflection),
            brief(str(reflection.get("strengths", "")), PAGE),
            brief(str(reflection.get("weaknesses", "")), PAGE),
            _steps(reflection.get("plan", "")),
            brief(str(reflection.get("fault", "")), NAME),
            _steps(row["final"]),
            brief(str(row["again"]), NAME),
            _lacking(*lacking) if all(isinstance(number, int) for number in lacking) else "",
        )


def _lacking(before: Any, after: Any) -> str:
    if not before and not after:
        return ""
    return f"By the hint's rules the first plan lacks {count(before, 'prerequisite')}, the final one {after:,}."


def _steps(plan: Any) -> tuple[str, ...]:
    """Split the text of a plan, as logs have it, into its sub-goals."""
    return tuple(brief(step, NAME) for step in str(plan)[:PAGE].split("; ") if step)


def _parts(
    actions: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]], logged_steps: int, success: bool
) -> Iterator[Part]:
    """Yield the parts of an episode in order, one per sub-goal: those of `routes` or, without routes, the stretches of
    actions with equal sub-goals."""
    legs = [*routes] or [*_legs(actions)]
    ended = "the episode ended as a success" if success else "the episode ended as a failure"
    begin, plan = 0, -1
    for number, leg in enumerate(legs):
        steps = int(leg["steps"])
        last, new = number == len(legs) - 1, leg.get("number", -1) != plan
        plan = leg.get("number", -1)
        p = leg.get("proficiency")
        by = str(leg.get("by", ""))
        yield Part(
            int(plan) if new and plan >= 0 else None,
            brief(str(leg["subgoal"]), NAME),
            WHO.get(by, brief(by, NAME)),
            brief(str(leg.get("why", "")), NAME),
            float(p) if isinstance(p, (int, float)) and math.isfinite(p) else None,
            begin,
            steps,
            int(leg.get("emergencies", 0)),
            "reached" if leg["reached"] else ended if last else "given up for a new plan",
            tuple(_lines(actions, begin, begin + steps, by == "learner")),
            0,
            (),
        )
        begin += steps


def _legs(actions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the stretches of actions with equal sub-goals in the form of routes; all but the last count as reached."""
    stretches: list[dict[str, Any]] = []
    for row in actions:
        if stretches and stretches[-1]["subgoal"] == row["subgoal"]:
            stretches[-1]["steps"] += int(row["steps"])
        else:
            stretches.append({"subgoal": row["subgoal"], "steps": int(row["steps"]), "reached": True})
    if stretches:
        stretches[-1]["reached"] = False
    yield from stretches


def _lines(actions: Sequence[Mapping[str, Any]], begin: int, end: int, is_learner: bool) -> Iterator[Line]:
    """Yield the actions from step `begin` to before `end` as lines; a row that spans more is cut. `actions`: in order;
    `is_learner`: whether the sub-goal is System 1's, so that a step of the performer is an emergency."""
    start = max(0, bisect.bisect_right(actions, begin, key=lambda row: int(row["first"])) - 1)
    for row in itertools.islice(actions, start, None):
        if int(row["first"]) >= end:
            break
        first, last = max(begin, int(row["first"])), min(end, int(row["first"]) + int(row["steps"])) - 1
        if first > last:
            continue
        by, action = str(row["by"]), brief(str(row["action"]), NAME)
        reply = brief(str(row["said"]), REPLY)
        plain = reply.strip(" .\"'`*\n").casefold() == action.casefold()
        yield Line(
            first, last, last - first + 1, action, WHO.get(by, brief(by, NAME)),
            is_learner and by in ("performer", "fallback"), "" if plain else reply,
        )  # fmt: skip
