"""A section of the report: what FuRL's guide, and guides built on it, recorded over training."""

from __future__ import annotations

from collections.abc import Sequence

from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import Section, Source, training
from guidebench.reports.sections.training import SUCCESS_PANEL, Panel

POSITIVES = "guide/positives"
PANELS = (
    SUCCESS_PANEL,
    Panel("mean dense reward of a batch", {"guide/reward": ""}),
    Panel("loss of projections", {"guide/loss": ""}),
    Panel("agreement with distances", {"guide/agreement": ""}),
    Panel("share of pairs ranked", {"guide/ranked": ""}),
    Panel("frames of success", {POSITIVES: ""}),
)
WORDS = (
    "Below the success rate: the mean over a batch of the dense reward, before its weight ρ; the loss by which the "
    "projections learn, which ranks frames until the first success and tells successes from failures after it; before "
    "the first success, the share of ranked pairs whose cosines are in the order of their distances to the goal image, "
    "and the share of all pairs that is ranked, on which alone this agreement rests; "
    f"and the stored frames of successes. {training.REMARK}"
)


def _drawings(_: None, source: Source) -> Sequence[Drawing]:
    metrics = source.rows("metrics")
    cells = set(metrics.loc[metrics[POSITIVES].notna(), "cell"]) if POSITIVES in metrics else set()
    title = "Dense reward and projections"
    return training.beside(source, PANELS, {"metrics": metrics}, cells, "projections", title)


SECTIONS = (
    Section(
        name="projections",
        title="Dense rewards from frames",
        order=810,
        needs=("metrics",),
        words=WORDS,
        load=lambda source: None,
        drawings=_drawings,
    ),
)
