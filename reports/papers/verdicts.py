"""The meaning of each verdict on a published number, and the reasons why ours cannot be compared with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from guidebench.reports.summary import judges
from guidebench.results import CellRecord

if TYPE_CHECKING:
    from guidebench.reports.papers.layouts import Paper
    from guidebench.reports.summary.rows import ReportRow

REPRODUCED = "reproduced"
SAME_DIRECTION = "same direction"
NOT_REPRODUCED = "not reproduced"
INCONCLUSIVE = "inconclusive"
NOT_COMPARABLE = "not comparable"
PUBLISHED_ONLY = "published only"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, SAME_DIRECTION, NOT_REPRODUCED, INCONCLUSIVE, NOT_COMPARABLE, PUBLISHED_ONLY, NOT_RUN)
TESTED = (REPRODUCED, SAME_DIRECTION, NOT_REPRODUCED, INCONCLUSIVE)
"""Verdicts that a test of our numbers can return."""

DEFINITION = (
    "Verdicts rest on our difference from the published value, with the errors of both. Not reproduced: its 95 % "
    "interval leaves out zero, and it is more than a quarter of the margin. Reproduced: otherwise, where its 90 % "
    "interval lies within the margin (two one-sided tests at 5 %); a gain or saving must also differ from zero on the "
    "published side. Same direction: a gain or saving differs from zero on the published side, but its size is another "
    "or too uncertain; it is then not called not reproduced. The margin of a rate p of success, survival, "
    "completion or items placed is the least of 20 points, p / 2 and (1 - p) / 2, at least one episode of ours; it is "
    "20 points of a saving or a difference of rates, 20 % of 100 + g for a gain of g %, 5 points of a share of labels "
    "or draws, and 20 % of any other value. Inconclusive: none of these could be shown, or a row of ours has fewer "
    "than five seeds. Not comparable: ours is shown, and the letters say what differs. Published only: no run of ours "
    "can have it, as on a "
    "real robot. Not run: no chosen study has it. Beside a verdict stands what our runs show by themselves: the final "
    "score less that of the baseline, with the shifts that the test does not reject, its p value, and the seeds a side "
    "that such a difference needs, which rest on this study alone."
)
UNDEFINED = "not defined here: a baseline that never succeeded"
"""Reason of a gain over a baseline whose rate is 0."""
SCRIPTED = ("scripted", "oracle", "placebo")
NOTHING: Mapping[str, str] = MappingProxyType({})


def reasons(
    row: ReportRow,
    paper: Paper,
    wanted_task: str,
    models: Collection[str],
    overridden: str,
    roles: Mapping[str, str] = NOTHING,
) -> list[str]:
    """Return the reasons why a row of ours is not what the paper ran; empty if it is. `models`: the intended models;
    `overridden`: settings from the command line beyond the intended ones; `roles`: the intended model of each role, for
    a paper that has several."""
    cell = row.cell
    differences = []
    if cell.profile != "paper":
        differences.append(f"profile {cell.profile}")
    if wanted_task and cell.task != wanted_task:
        differences.append(f"task {cell.task} instead of {wanted_task}")
    if cell.suite in paper.suites:
        differences.append(paper.suites[cell.suite])
    differences.extend(_by_role(cell, roles, paper.roles) if roles else _answers(cell, paper, models))
    budget, learnt = paper.budgets.get(cell.suite, 0), cell.steps
    if cell.method in paper.transfers and cell.stages:  # its own steps only place its evaluations
        paper_tasks, stage = paper.transfers[cell.method], cell.stages[-1]
        learnt = stage.steps
        if set(paper_tasks) != {*paper.joint.get(stage.task, (stage.task,))}:
            differences.append(f"learnt on {stage.task}; the paper's learnt on {', '.join(paper_tasks)}")
    if learnt < budget:
        differences.append(f"{learnt:,} of {budget:,} steps")
    elif row.last < cell.total:
        differences.append(f"unfinished, at step {row.last:,} of {cell.total:,}")
    if overridden:
        differences.append(overridden)
    return differences


def same(model: str, intended: str) -> bool:
    """Return whether a model is the intended one, or a dated version of it.

    >>> same("gpt-4o-2024-08-06", "gpt-4o"), same("gpt-4o-mini", "gpt-4o")
    (True, False)
    """
    return re.fullmatch(re.escape(intended) + r"(-\d{4}-\d{2}-\d{2})?", model) is not None


def _by_role(cell: CellRecord, roles: Mapping[str, str], usual: Mapping[str, str]) -> Iterable[str]:
    """Yield the roles, in the row and its stages, in which a model other than the paper's answers. `roles`: the models
    of the number's row, some swapped; `usual`: those of the paper, which its stages have."""
    stages = [(f" in {stage.method}", stage.parts) for stage in cell.stages]
    all_parts = [
        (role, part, stage_words) for stage_words, parts in [("", cell.parts), *stages] for role, part in parts.items()
    ]
    answering = [(role, part, stage_words) for role, part, stage_words in all_parts if part.answers]
    row_models = {(role, part.model) for role, part, stage_words in answering if not stage_words}
    for role, part, stage_words in answering:
        intended = usual if stage_words else roles
        if stage_words and (role, part.model) in row_models and roles.get(role) == usual.get(role):
            continue  # the row itself already gives this reason
        if part.backend in SCRIPTED:
            yield f"{role} {part.model}, {part.backend}{stage_words}"
        elif not intended.get(role):
            yield f"{role} {part.model}{stage_words}; the paper names none"
        elif not same(part.model, intended[role]):
            yield f"{role} {part.model}{stage_words}"
    if any(part.kind == "chat" and part.backend not in SCRIPTED for _, part, _ in answering):
        yield "prompts of our own"


def _answers(cell: CellRecord, paper: Paper, models: Collection[str]) -> Iterable[str]:
    """Yield the reasons why the judge or teacher of a row is not the paper's."""
    kind = judges.answering(cell)
    if kind == "teacher" and cell.backend == "oracle" and cell.method in paper.privileged:
        return
    if set(SCRIPTED) & set(cell.backend.split("+")):
        yield f"{kind} {cell.model}, {cell.backend}"
    elif cell.backend == "external":
        yield "runs logged elsewhere"
    elif cell.backend:
        if cell.model not in models:
            yield f"model {cell.model}"
        yield "prompts of our own"
