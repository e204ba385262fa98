"""The summary as JSON data, for programs; undefined values are null."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Comparison, Interval, power
from guidebench.reports.summary.aggregates import STEPS
from guidebench.reports.summary.summaries import Summary


def plain(summary: Summary, drawn: Collection[str] | None = None) -> dict[str, Any]:
    """Return the summary as JSON data: table rows with their curves and runs, aggregates, matrices, comparisons of
    table rows, and notes. `drawn`: ids of the cells whose rows get their curves; None means all."""

    def compared(comparison: Comparison | None) -> dict[str, Any]:
        if comparison is None:
            return dict.fromkeys(("difference", "adjusted_difference", "p", "adjusted_p", "seeds_needed"))
        return {
            "difference": spread(comparison.difference),
            "adjusted_difference": spread(comparison.adjusted),
            "p": number(comparison.p),
            "adjusted_p": number(comparison.adjusted_p),
            "seeds_needed": needed(comparison.needed),
        }

    return {
        "study": summary.study,
        "complete": summary.complete,
        "resamples": summary.reps,
        "level": statistics.LEVEL,
        "statistics": {"engine": summary.engine, "resamples": summary.engine_reps or summary.reps},
        "notes": list(summary.notes),
        "shared_overrides": list(summary.shared),
        "rows": [
            {
                "label": row.label,
                "suite": row.cell.suite,
                "task": row.cell.task,
                "profile": row.cell.profile,
                "conditions": dict(row.place.conditions),
                "steps": row.cell.total,
                "pretraining_steps": row.cell.before,
                "cell": row.cell.id,
                "seeds": list(row.seeds),
                "runs": list(row.directories),
                "complete": row.complete,
                "missing_seeds": list(row.missing),
                "evaluations": len(row.steps),
                "episodes_per_evaluation": list(row.episodes),
                "last_step": row.last,
                "score": asdict(row.score),
                "final": spread(row.final),
                "final_iqm": spread(row.final_iqm),
                "final_success": spread(row.final_success),
                "final_return": spread(row.final_return),
                "leading": row.leading,
                "best": row.best,
                "best_step": row.best_step,
                "mean_of_best_per_seed": row.mean_of_best,
                "baseline": row.baseline,
                "baseline_best": row.target,
                "steps_to_baseline_best": row.reached,
                "seeds_to_baseline_best": {name: spread(part) for name, part in row.arrival._asdict().items()}
                if row.arrival
                else None,
                "area_under_curve": spread(row.area),
                "late": spread(row.late),
                "curve": [
                    {"step": int(step), "score": spread(Interval(*scores)), "return": spread(Interval(*returns))}
                    for step, scores, returns in zip(
                        row.steps,
                        zip(*row.curve, strict=True),
                        zip(*row.return_curve, strict=True),
                        strict=True,
                    )
                ]
                if drawn is None or row.cell.id in drawn
                else None,
            }
            for row in summary.rows
        ],
        "aggregates": [
            {
                "label": aggregate.label,
                "suite": aggregate.suite,
                "profile": aggregate.profile,
                "score": asdict(aggregate.score),
                "metric": aggregate.metric,
                **spread(aggregate.interval),
                "standard_error": number(aggregate.error),
                "seeds": list(aggregate.seeds),
                "tasks": list(aggregate.tasks),
                "leading": aggregate.leading,
                "missing_seeds": aggregate.missing,
            }
            for aggregate in summary.aggregates
        ],
        "matrices": [
            {
                "kind": matrix.kind,
                "heading": matrix.heading,
                "rows": [
                    {
                        "name": line.name,
                        "cell": line.row.cell.id,
                        "final": spread(line.row.final),
                        **compared(line.comparison),
                        "seeds": list(line.row.seeds),
                    }
                    for line in matrix.lines
                ],
            }
            for matrix in summary.matrices
        ],
        "overviews": [
            {
                "suite": overview.scores.suite,
                "profile": overview.scores.profile,
                "conditions": overview.scores.conditions,
                "score": asdict(overview.scores.score),
                "tasks": list(overview.scores.tasks),
                "seeds": {label: list(seeds) for label, seeds in overview.scores.seeds.items()},
                "probability_of_improvement": [
                    {"first": first, "second": second, **spread(probability)}
                    for (first, second), probability in overview.improvement.items()
                ],
                "performance_profiles": {
                    label: curve("score", overview.thresholds, profile) for label, profile in overview.profiles.items()
                },
                "iqm_curves": {
                    label: curve(
                        "step" if overview.scores.unit == STEPS else "share_of_steps", overview.scores.steps, iqm
                    )
                    for label, iqm in overview.efficiency.items()
                },
                "ranks": [] if overview.ranks is None else overview.ranks.to_dict("records"),
            }
            for overview in summary.overviews
        ],
    }


def curve(name: str, places: Array, interval: Interval) -> list[dict[str, float | None]]:
    """Return an interval of arrays [n] as n JSON objects, each with its place under the key `name`, estimate, low and
    high."""
    return [
        {name: float(place), **spread(Interval(*values))}
        for place, values in zip(places, zip(*interval, strict=True), strict=True)
    ]


def number(value: Any) -> float | None:
    """Return a number for JSON; None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def needed(value: float) -> int | str | None:
    """Return a number of seeds for JSON: None if undefined, and a text if it is above the most that are considered."""
    return None if np.isnan(value) else int(value) if np.isfinite(value) else f"> {power.MOST}"


def spread(interval: Interval) -> dict[str, float | None]:
    """Return an interval as a JSON object with estimate, low and high; undefined numbers are None."""
    return {name: number(value) for name, value in interval._asdict().items()}
