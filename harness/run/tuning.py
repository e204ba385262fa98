"""Equal tuning: tries the grids that claims declare on tuning seeds, and writes what did best into the claims.

Every tuned row has a grid of as many entries, so none gets more runs than another. The words that did best become words
of their row, which changes the digest of the claims, and with it the seeds of the study.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from guidebench.harness import claims, registry
from guidebench.harness.claims import PILOT_SEEDS, Claim, Claims, Row, Tuning, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.models import choosing
from guidebench.harness.plan import claim_rows
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.files import write_json
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import scores, study

FIRST = PILOT_SEEDS + 5_000
"""First tuning seed; pilots have those before it."""
FOLDER = "tuning"
"""Directory of the tuning runs, beside the claims, if the command names none."""


@dataclass(frozen=True)
class Trial:
    """One trial of a row's grid, and the scores of its runs."""

    row: str
    words: Row
    plan: Plan

    def scores(self, directory: StudyDirectory, score: str) -> list[float]:
        """Return the score of each run, higher being better."""
        cell = self.plan.cells[0]
        claim_score = claims.claim_score(score)
        sign = scores.sign(claim_score, cell.score)
        runs = (directory.run(cell.directory, seed) for seed in self.plan.seeds)
        return [sign * scores.run_score(run, claim_score, cell.score).score for run in runs]


def trials(record: Claims, path: Path, execution: Sequence[str]) -> list[Trial]:
    """Return every entry of the grids that claims declare. Raise UserError for claims without grids, for those that
    were tuned, and for an trial that is refused."""
    if record.tuning is None:
        raise UserError(
            f'claims={path} declares no grids; add "tuning": {{"seeds": 2, "score": "late score", "grids": '
            f'{{"method=…": [["learner.lr=1e-4"], …]}}, "chosen": {{}}}}'
        )
    if record.tuning.chosen:
        raise UserError(f"claims={path} was tuned already; its rows hold the words that did best")
    tuning = record.tuning
    seeds = range(FIRST, FIRST + tuning.seeds)
    rows = {key_of(row): row for row in record.rows}
    output = () if any(word.startswith("output=") for word in execution) else (f"output={path.parent / FOLDER}",)
    planned: list[Trial] = []
    for name, grid in tuning.grids.items():
        for words in grid:
            row = (*rows[name], *words)
            plan = claim_rows.row_plan(record.settings, row, seeds, (*output, *execution), path.parent)
            if len(plan.cells) > 1:
                raise UserError(f"tuning.grids: {key_of(row)!r} describes {len(plan.cells)} cells; sweep nothing")
            planned.append(Trial(name, words, plan))
    return planned


def best(grid: Sequence[Trial], tuning: Tuning) -> dict[str, Row]:
    """Return row -> the words whose runs had the highest mean score; the first of equal ones."""
    directory = StudyDirectory(study.directory_of(grid[0].plan))
    means = [(float(np.mean(trial.scores(directory, tuning.score))), trial) for trial in grid]
    chosen: dict[str, tuple[float, Row]] = {}
    for mean, trial in means:
        if trial.row not in chosen or mean > chosen[trial.row][0]:
            chosen[trial.row] = mean, trial.words
    return {row: words for row, (_, words) in chosen.items()}


def tuned(record: Claims, chosen: dict[str, Row]) -> Claims:
    """Return the claims whose tuned rows hold the chosen words. A placebo takes those of its method, except settings of
    a model, whose role it fills; those by which answers are chosen are its own too."""
    model_roles = {role for role, kinds in registry.roles().items() if kinds & {*registry.MODELS}}

    def extended(row: Row | None) -> Row | None:
        return None if row is None else (*row, *chosen.get(key_of(row), ()))

    def tuned_claim(claim: Claim) -> Claim:
        first = extended(claim.first) or claim.first
        words = chosen.get(key_of(claim.first), ())
        parts = [(word, *word.partition("=")[0].partition(".")[::2]) for word in words]
        kept_words = tuple(
            word for word, role, field in parts if role not in model_roles or field in choosing.SETTINGS
        )  # fmt: skip
        placebo = claim.placebo if claim.placebo is None else (*claim.placebo, *kept_words)
        return replace(claim, first=first, second=extended(claim.second), placebo=placebo)

    if record.tuning is None:
        raise ValueError("claims without grids cannot be tuned")
    claims_tuned = tuple(map(tuned_claim, record.claims))
    return replace(record, claims=claims_tuned, tuning=replace(record.tuning, chosen=chosen))


def carry_out(record: Claims, path: Path, execution: Sequence[str], run: Callable[[Plan], study.Study]) -> Claims:
    """Run the grids and write the tuned claims to `path`. Raise UserError if a run did not finish."""
    grid = trials(record, path, execution)
    study.require_finished(run(claim_rows.joined([trial.plan for trial in grid])), "the tuning")
    tuning = record.tuning
    if tuning is None:
        raise ValueError("claims without grids cannot be tuned")
    tuned_record = tuned(record, best(grid, tuning))
    claims.parsed(json.dumps(tuned_record.as_json()).encode(), str(path))  # what is written must be read again
    write_json(path, tuned_record.as_json())
    return tuned_record
