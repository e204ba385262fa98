"""The built-in sections, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Sequence

from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import (
    EVALUATIONS,
    Section,
    Source,
    claims,
    crossed,
    engines,
    episodes,
    imagined,
    overviews,
    phases,
    preferences,
    probes,
    rewards,
    subgoals,
)
from guidebench.reports.sections.crossed import SweepGrid
from guidebench.reports.sections.episodes import Episodes
from guidebench.reports.summary import judges, ledger
from guidebench.reports.summary.ledger import Spent


def _beside(_: None, source: Source) -> Sequence[Drawing]:
    drawings = overviews.drawings(source.summary.overviews, source.places)
    return engines.drawings(source.summary, drawings) if source.rliable else drawings


def _crossed(source: Source) -> list[SweepGrid]:
    study, summary = source.unbounded or (source.study, source.summary)  # a map has room for any number of rows
    return crossed.grids(study.cells, summary.rows)


def _episodes(source: Source) -> list[Episodes]:
    outcomes = source.rows("outcomes")
    if outcomes.empty:
        return []
    return episodes.episodes(
        source.study.cells, outcomes, source.rows(EVALUATIONS), source.rows("timings"), source.labels,
        source.resamples, source.notes,
    )  # fmt: skip


def _model_costs(source: Source) -> list[Spent]:
    asking = [cell for cell in source.study.cells if ledger.is_billed(cell)]
    return ledger.spent(asking, source.rows("ledger"), source.rows("spending"), source.labels) if asking else []


SECTIONS = (
    Section(
        name="claims",
        title="Claims",
        order=50,
        needs=(EVALUATIONS,),
        reads=("outcomes",),
        load=claims.load,
        remarks=claims.remarks,
        listings=claims.listings,
        tables=claims.tables,
        plain=claims.plain,
    ),
    Section(
        name="learning_curves",
        title="Learning curves",
        order=100,
        load=lambda source: None,
        drawings=lambda _, source: figures.learning_curves(source.summary.rows),
    ),
    Section(
        name="crossed",
        title="Two settings crossed",
        order=200,
        words=crossed.REMARK,
        load=_crossed,
        drawings=lambda grids, _: crossed.drawings(grids),
    ),
    Section(
        name="beside",
        title="Methods beside each other",
        order=300,
        words=lambda source: engines.REMARK if source.rliable else overviews.REMARK,
        load=lambda source: None,
        drawings=_beside,
    ),
    Section(
        name="phases",
        title="What the draws served",
        order=400,
        needs=("metrics", "probes"),
        words=phases.REMARK,
        load=lambda source: phases.spreads(
            source.study.cells, source.rows("metrics"), source.rows("probes"), source.labels
        ),
        drawings=lambda spreads, _: phases.drawings(spreads),
    ),
    Section(
        name="episodes",
        title="Episodes",
        order=450,
        needs=("outcomes", EVALUATIONS, "timings"),
        load=_episodes,
        tables=episodes.tables,
        plain=episodes.plain,
    ),
    Section(
        name="subgoals",
        title="Subgoals",
        order=500,
        needs=("subgoals",),
        words=subgoals.REMARK,
        load=lambda source: subgoals.subgoals(
            source.study.cells, source.rows("subgoals"), source.labels, source.resamples
        ),
        tables=subgoals.tables,
        drawings=lambda tasks, _: subgoals.drawings(tasks),
        plain=subgoals.plain,
    ),
    Section(
        name="preferences",
        title="Preferences",
        order=600,
        needs=("labels",),
        words=preferences.REMARK,
        load=lambda source: preferences.teaching(
            source.study.cells, source.rows("labels", *preferences.COLUMNS), source.labels, source.resamples
        ),
        tables=preferences.tables,
        drawings=lambda teachings, source: preferences.drawings(teachings, source.summary.rows, source.places),
        plain=preferences.plain,
    ),
    Section(
        name="imagined",
        title="Imagined segments",
        order=700,
        needs=("imagined",),
        words=imagined.REMARK,
        load=lambda source: imagined.sketches(
            source.study.cells, source.rows("imagined", *imagined.COLUMNS), source.labels
        ),
        drawings=lambda sketches, _: imagined.drawings(sketches),
    ),
    Section(
        name="rewards",
        title="Learned rewards",
        order=800,
        needs=("probes",),
        words=rewards.REMARK,
        load=lambda source: rewards.learned(source.study.cells, source.rows("probes"), source.labels, source.resamples),
        tables=rewards.tables,
        drawings=lambda rewarded, source: rewards.drawings(rewarded, source.places),
        plain=rewards.plain,
    ),
    Section(
        name="probes",
        title="Reference episodes",
        order=900,
        needs=("probes",),
        words=probes.REMARK,
        load=lambda source: probes.probed(source.study.cells, source.rows("probes"), source.labels),
        drawings=lambda probed, _: probes.drawings(probed),
    ),
    Section(
        name="judges",
        title="Judges",
        order=1_000,
        needs=("judgements", "timings"),
        load=lambda source: judges.judging(
            source.study.cells, source.rows("judgements", *judges.COLUMNS), source.rows("timings"), source.labels
        ),
        listings=judges.listings,
    ),
    Section(
        name="models",
        title="Model calls",
        order=1_100,
        needs=("ledger", "spending"),
        load=_model_costs,
        listings=ledger.listings,
        plain=ledger.plain,
    ),
)
