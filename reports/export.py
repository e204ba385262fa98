"""The summary as JSON data, for programs; what is not defined is null."""

from __future__ import annotations

from typing import Any

import numpy as np

from reports import statistics
from reports.statistics import Interval
from reports.summary import Summary


def plain(summary: Summary) -> dict[str, Any]:
    """Rows with their curves and runs, aggregates, notes."""

    def number(value: Any) -> float | None:
        return float(value) if np.isfinite(value) else None

    def spread(interval: Interval) -> dict[str, float | None]:
        return {name: number(value) for name, value in interval._asdict().items()}

    return {
        "study": summary.study,
        "complete": summary.complete,
        "resamples": summary.reps,
        "level": statistics.LEVEL,
        "notes": list(summary.notes),
        "rows": [
            {
                "label": row.label,
                "suite": row.cell.suite,
                "task": row.cell.task,
                "profile": row.cell.profile,
                "cell": row.cell.id,
                "seeds": list(row.seeds),
                "runs": list(row.directories),
                "complete": row.complete,
                "evaluations": len(row.steps),
                "episodes_per_evaluation": list(row.episodes),
                "last_step": row.last,
                "final_success": spread(row.final),
                "final_success_iqm": spread(row.final_iqm),
                "final_return": spread(row.final_return),
                "leading": row.leading,
                "best_success": row.best,
                "best_success_step": row.best_step,
                "mean_of_best_per_seed": row.mean_of_best,
                "baseline": row.baseline,
                "baseline_best": row.target,
                "steps_to_baseline_best": row.reached,
                "curve": [
                    {"step": int(step), "success": spread(Interval(*success)), "return": spread(Interval(*returns))}
                    for step, success, returns in zip(
                        row.steps,
                        zip(*row.success_curve, strict=True),
                        zip(*row.return_curve, strict=True),
                        strict=True,
                    )
                ],
            }
            for row in summary.rows
        ],
        "aggregates": [
            {
                "label": entry.label,
                "suite": entry.suite,
                "profile": entry.profile,
                "metric": entry.metric,
                **spread(entry.interval),
                "seeds": list(entry.seeds),
                "tasks": list(entry.tasks),
                "leading": entry.leading,
            }
            for entry in summary.aggregates
        ],
        "matrices": [
            {
                "kind": matrix.kind,
                "heading": matrix.heading,
                "rows": [
                    {
                        "name": line.name,
                        "cell": line.row.cell.id,
                        "final_success": spread(line.row.final),
                        "difference": spread(line.difference) if line.difference else None,
                        "detectable_difference": number(line.detectable),
                        "seeds": list(line.row.seeds),
                    }
                    for line in matrix.lines
                ],
            }
            for matrix in summary.matrices
        ],
    }
