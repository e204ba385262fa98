"""Tabulate how models answered in their roles: `python -m tools.small_models STUDY… [--first 300] [--against uniform]`.

A row for each role of a model in a cell: the share of its questions whose answer could be read, at once and after
retries; of choices the mass of the candidates (median) and the entropy of their probabilities (mean, in nats), of the
first questions of the cell's runs in the order of their seeds, equal ones of a run once; the most frequent answer; and
the mean score of the runs. The score is the share of successful episodes, and where a teacher gives labels that of
`label_score`. `--against MODEL` also prints, for each cell, its difference to the cell of that model with the
permutation test of the runs (Holm over the cells). All is read from what studies recorded, with calls packed or not.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from guidebench import results
from guidebench.baselines.conversing import NOTHING
from guidebench.harness.models import exchange
from guidebench.harness.models.cassette import files
from guidebench.harness.models.choice_scores import entropy, mass, scored, shares
from guidebench.harness.records import role_counts
from guidebench.harness.statistics import permutation
from guidebench.harness.statistics.comparison import holm
from guidebench.harness.types import Array
from guidebench.results.store import CellRecord, StudyRecord
from tools.measured import CALLS

FIRST = 300
"""Questions of a cell whose choices are counted."""
CHOICES = """
    SELECT answers.role, requests.text, arrays.data
    FROM answers JOIN requests USING (key) JOIN arrays USING (key, run)
    WHERE answers.run = ? AND json_extract(requests.text, '$.kind') = 'choice'
    ORDER BY answers.step, answers.scope, answers.ordinal
"""
"""Choices of a run, in the order of its questions."""
COLUMNS = ("task", "model", "role", "answer", "questions", "read at first", "read in all", "choices", "mass", "entropy",
           "most frequent answer", "score")  # fmt: skip


class Choices(NamedTuple):
    """Recorded choices of a role in one cell."""

    masses: list[float]
    entropies: list[float]


def label_score(labels: pd.DataFrame) -> float:
    """Return the mean over pairs of 1 for a label that is that of the task's own reward, 0 for another, and 1/2 for a
    pair without a label or of equal rewards. `labels`: rows of the log `labels`."""
    agree = np.where(labels["preference"] == labels["truth"], 1.0, 0.0)
    decided = labels["preference"].isin((0, 1)) & (labels["truth"] != 0.5)
    return float(np.where(decided, agree, 0.5).mean())


def run_scores(study: StudyRecord) -> dict[str, list[float]]:
    """Return cell -> score of each run, in the order of seeds."""
    if "labels" in study.logs:
        labels = results.load(study, log="labels")
        return {
            str(cell): [label_score(run) for _, run in rows.groupby("seed")] for cell, rows in labels.groupby("cell")
        }
    means = results.load(study).groupby(["cell", "seed"])["success"].mean()
    return {str(cell): runs.tolist() for cell, runs in means.groupby(level="cell")}


def most_frequent(study: StudyRecord) -> dict[str, str]:
    """Return cell -> the most frequent action of a performer, or verdict on a pair's first order, and its share."""
    if "labels" in study.logs:
        answers = results.load(study, log="labels").dropna(subset=["first"])
        names, weights = answers["first"].map({0: "equal", 1: "first", 2: "second"}), np.ones(len(answers))
    elif "actions" in study.logs:
        answers = results.load(study, log="actions")
        names, weights = answers["action"], answers["steps"].to_numpy(float)
    else:
        return {}
    counts = pd.DataFrame({"cell": answers["cell"], "name": names, "weight": weights}).groupby(["cell", "name"]).sum()
    frequent = {}
    for cell, rows in counts["weight"].groupby(level="cell"):
        frequent[str(cell)] = f"{rows.idxmax()[1]} {rows.max() / rows.sum():.2f}"
    return frequent


def choices(paths: Sequence[Path], runs: Sequence[str], calibrated: Sequence[str], first: int) -> dict[str, Choices]:
    """Return role -> its first recorded choices in `runs` (CELL/SEED). In the roles `calibrated`, probabilities are
    those after the scores of the question without content are subtracted."""
    by_role: dict[str, Choices] = {}
    for run in runs:
        calls = [call for path in paths for call in _calls(path, run)]
        neutral = {(role, *candidates): answer for role, text, candidates, answer in calls if _is_neutral(text)}
        for role, text, candidates, answer in calls:
            chosen = by_role.setdefault(role, Choices([], []))
            if _is_neutral(text) or len(chosen.masses) == first:
                continue
            content_free = neutral[role, *candidates] if role in calibrated else None
            chosen.masses.append(mass(answer))
            chosen.entropies.append(entropy(shares(scored(answer, candidates, content_free=content_free))))
    return by_role


def _calls(path: Path, run: str) -> Iterator[tuple[str, str, list[str], Array]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        for role, text, numbers in db.execute(CHOICES, (run,)):
            request = json.loads(text)
            answer = np.frombuffer(numbers, np.float32).reshape(-1, 3)
            yield role, request["messages"][-1]["content"][-1], request["candidates"], answer


def _is_neutral(text: str) -> bool:
    return text.rstrip().endswith(NOTHING)


def rows(study: StudyRecord, first: int = FIRST) -> list[tuple[str, ...]]:
    """Return the rows of a study's table, with the columns `COLUMNS`."""
    ledger = results.load(study, log="ledger").sort_values("step").groupby(["cell", "seed"]).tail(1)
    scores, frequent = run_scores(study), most_frequent(study)
    table = []
    with tempfile.TemporaryDirectory(prefix="guidebench-choices-") as scratch:
        source = study.directory
        if (source / CALLS).exists():
            exchange.import_(source / CALLS, Path(scratch))
            source = Path(scratch)
        paths = files(source / "models")
        for cell in study.cells:
            last = ledger[ledger["cell"] == cell.id]
            counts: Counter[tuple[str, str]] = Counter()
            for text in last["roles"]:
                for role, count in role_counts.read(text).items():
                    counts[role, "questions"] += count.questions
                    counts[role, "failures"] += count.failures
                    counts[role, "retried"] += count.retried or 0
            roles = [role for role, _ in counts]
            calibrated = [role for role in roles if _setting(cell, f"{role}.calibrate")]
            recorded = choices(paths, [f"{cell.id}/{seed}" for seed in sorted(last["seed"])], calibrated, first)
            for role in dict.fromkeys(roles):
                table.append(_row(cell, role, counts, recorded.get(role), frequent, scores))
            if not roles:
                score = f"{np.mean(scores[cell.id]):.2f}"
                table.append((cell.task, cell.method, *["—"] * 8, frequent.get(cell.id, "—"), score))
    return table


def _row(
    cell: CellRecord, role: str, counts: Counter[tuple[str, str]], chosen: Choices | None, frequent: dict[str, str],
    scores: dict[str, list[float]],
) -> tuple[str, ...]:  # fmt: skip
    questions, failures = counts[role, "questions"], counts[role, "failures"]
    read = [questions - failures - counts[role, "retried"], questions - failures]
    form = _setting(cell, f"{role}.answer") or "text"
    weighed = ["—"] * 3
    if chosen is not None and chosen.masses:
        masses, entropies = np.median(chosen.masses), np.mean(chosen.entropies)
        weighed = [str(len(chosen.masses)), f"{masses:.2g}", f"{entropies:.2f}"]
    return (
        cell.task, cell.parts[role].model, role, f"{form}, calibrated" if _setting(cell, f"{role}.calibrate") else form,
        str(questions), *(f"{count / questions:.2f}" if questions else "—" for count in read), *weighed,
        frequent.get(cell.id, "—"), f"{np.mean(scores[cell.id]):.2f}",
    )  # fmt: skip


def _setting(cell: CellRecord, name: str) -> Any:
    return cell.settings.get(name, {}).get("value")


def tests(study: StudyRecord, model: str) -> list[str]:
    """Return a line for each cell of a real model: its score, that of the cell whose model is `model`, and the p value
    of their difference before and after Holm's correction."""
    scores = run_scores(study)
    (base,) = (scores[cell.id] for cell in study.cells if cell.model == model)
    cells = [cell for cell in study.cells if cell.backend == "transformers"]
    p = np.array([permutation.p_value(np.array([scores[cell.id]]).T, np.array([base]).T) for cell in cells])
    return [
        f"{cell.label}: {np.mean(scores[cell.id]):.3f} {np.round(scores[cell.id], 3).tolist()} beside "
        f"{np.mean(base):.3f} {np.round(base, 3).tolist()}, p = {one:.3f}, adjusted {other:.3f}"
        for cell, one, other in zip(cells, p, holm(p), strict=True)
    ]


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return the rows as a table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (COLUMNS, ["---"] * len(COLUMNS), *table))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.small_models", description=__doc__)
    parser.add_argument("studies", nargs="+", type=Path, metavar="STUDY")
    parser.add_argument("--first", type=int, default=FIRST, help=f"choices of a cell that are counted ({FIRST})")
    parser.add_argument("--against", default="", metavar="MODEL", help="also test each cell against that of MODEL")
    chosen = parser.parse_args(arguments)
    studies = [results.study(directory) for directory in chosen.studies]
    print(markdown([line for study in studies for line in rows(study, chosen.first)]))
    for study in studies if chosen.against else ():
        print(f"\n{study.directory}", *tests(study, chosen.against), sep="\n")


if __name__ == "__main__":
    main()
