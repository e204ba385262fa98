"""The paragraph under a table that explains its numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guidebench.harness.statistics import coverage, curves
from guidebench.reports.summary import judges, matrices, scoring
from guidebench.reports.summary.summaries import Summary

PAIRS = "tests of all pairs of rows, Holm-corrected, at 5 %"
"""The rule for telling two rows apart in a map of all pairs."""
BEST = "the smallest set of top rows of which each differs from every other row at p < .05"
"""The rule for marking rows as best."""

LATE = "Late: mean of the last three evaluations."
INTERVAL, PM = SPREADS = ("interval", "pm")
"""How uncertainty is shown: as an interval in brackets, or as ± the standard error."""


def paragraph(summary: Summary, mark: str) -> str:
    """Return the explanation of the numbers in the tables of a terminal or page; `mark` is the sign of the best
    there."""
    parts = [
        results(summary, mark),
        LATE if any(len(row.steps) >= curves.LATE for row in summary.rows) else "",
        "Seeds: in parentheses those whose own curve reaches it too.",
        aggregates(summary) if summary.aggregates else "",
        matrices.legend(summary.matrices),
    ]
    return " ".join([*filter(None, parts), setting(summary)])


def results(summary: Summary, mark: str, spread: str = INTERVAL, columns: Collection[str] | None = None) -> str:
    """Return the explanation of the table of rows; `columns`: those that are shown (`wording.COLUMNS`), None for the
    default ones."""
    counts = sorted({len(row.seeds) for row in summary.rows})
    evaluations = sorted({len(row.steps) for row in summary.rows})
    episodes = sorted({count for row in summary.rows for count in row.episodes})
    baselines = ", ".join(dict.fromkeys(row.baseline for row in summary.rows))
    uncertainty = f"in brackets the bootstrap 95 % interval over seeds ({summary.reps:,} resamples)"
    if spread == PM:
        uncertainty = "± its standard error, the standard deviation between seeds by the root of their number"
    means, best = (find(row.score for row in summary.rows) for find in (scoring.means, scoring.best))
    sentences = {
        "score": f"Mean over {many(counts, 'seed')} of the {means} over {many(episodes, 'episode')} at the last "
        f"evaluation; {uncertainty}. {mark}: {BEST} ({matrices.TEST}); none where there is no such set.",
        "auc": "AUC: area under the curve over training, divided by the steps it spans.",
        "best": f"Best: {best} over evaluations of the mean over seeds ({many(evaluations, 'evaluation')}).",
        "steps": f"Steps to best: environment steps until the mean over seeds reaches the best of {baselines}.",
    }
    if columns is not None:
        sentences |= {
            "iqm": f"IQM: interquartile mean over {many(counts, 'seed')} at the last evaluation.",
            "late": LATE,
            "maxima": f"Mean of maxima: mean over seeds of each seed's own best ({many(evaluations, 'evaluation')}).",
            "return": f"Final return: mean over {many(counts, 'seed')} of the return at the last evaluation.",
            "success": f"Success rate: mean over {many(counts, 'seed')} at the last evaluation.",
        }
    parts = [text for name, text in sentences.items() if columns is None or name in columns]
    if any(row.alone for row in summary.rows):
        parts.append(matrices.ALONE)
    return " ".join(parts)


def aggregates(summary: Summary, spread: str = INTERVAL) -> str:
    """Return the explanation of the table of aggregates over tasks."""
    counts = sorted({len(aggregate.seeds) for aggregate in summary.aggregates})
    uncertainty = "in brackets the bootstrap 95 % interval, stratified by task"
    if spread == PM:
        uncertainty = "± the standard deviation over resamples, stratified by task"
    by = "" if summary.engine == "own" else f" by {summary.engine}"
    resamples = f"{summary.engine_reps or summary.reps:,} resamples{by}"
    names = scoring.means(aggregate.score for aggregate in summary.aggregates)
    alone = f" {matrices.ALONE}" if any(aggregate.missing for aggregate in summary.aggregates) else ""
    scaled = any(aggregate.score.name == scoring.NORMALISED for aggregate in summary.aggregates)
    normalised = "Normalised: 0 is the worst and 1 the best of the range of each task's score. " if scaled else ""
    return (
        f"Over tasks: mean, median over tasks of the mean over seeds, and interquartile mean over all runs and tasks, "
        f"of the final {names} of {many(counts, 'seed')}; {uncertainty} ({resamples}). "
        f"{normalised}Optimality gap: 1 minus the mean.{alone}"
    )


def setting(summary: Summary) -> str:
    """Return what must accompany every number: profile, judges, and the limits of few seeds or unfinished runs."""
    profiles = sorted({row.cell.profile for row in summary.rows})
    judged = sorted(
        {
            (judges.answering(row.cell), row.cell.model or row.cell.backend, row.cell.backend, judges.remark(row.cell))
            for row in summary.rows
            if row.cell.backend
        }
    )
    parts = [f"Profile: {', '.join(profiles)}."]
    if summary.shared:
        parts.append(f"Every row with the setting: {', '.join(summary.shared)}.")
    for kind, name, backend, remark in judged:
        judge = (
            f"{' and '.join(kind.split('+')).capitalize()} {name}: {backend}"
            if judges.is_judge(backend)
            else "External"
        )
        parts.append(f"{judge}{f', {remark}' if remark else ''}.")
    seeds = {len(row.seeds) for row in summary.rows}
    few = sorted(seeds & set(range(2, coverage.ENOUGH)))
    if few:
        parts.append(narrow(few))
    if 1 in seeds:
        parts.append("A single seed has no interval.")
    if not summary.complete:
        parts.append("Partial: not every run is finished.")
    return " ".join(parts)


def narrow(counts: Sequence[int]) -> str:
    """Return a warning that bootstrap intervals of so few seeds are too narrow, with their coverage; `counts` are at
    least 2."""

    def shares(index: int) -> str:
        return " / ".join(f"{100 * coverage.coverage(count)[index]:.0f} %" for count in counts)

    of = " / ".join(map(str, counts))
    return (
        f"Fewer than {coverage.ENOUGH} seeds: the bootstrap interval of a mean over {of} seeds of one task is too "
        f"narrow. It holds the true mean in {shares(0)} of cases where scores are normal, in {shares(1)} where each "
        f"seed solves the task with a chance of {coverage.SOLVED:g} or fails."
    )


def many(counts: Sequence[int], unit: str) -> str:
    """Format ascending counts as "1 seed" or "3 to 5 seeds"."""
    return f"{span(counts)} {unit}{'' if [*counts] == [1] else 's'}"


def span(counts: Sequence[int]) -> str:
    """Format ascending numbers as "3" or "3 to 5"."""
    if not counts:
        return "no"
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
