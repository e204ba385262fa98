"""A section of the report: what FuRL's guide, and guides built on it, recorded over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guidebench.reports.rendering.figures import Drawing
from guidebench.reports.sections import Section, Source, training

PANELS: Mapping[str, str] = {
    "mean dense reward of a batch": "guide/reward",
    "loss of projections": "guide/loss",
    "agreement with distances": "guide/agreement",
    "frames of success": "guide/positives",
}
"""Axis of a panel -> its metric."""
WORDS = (
    "Below the success rate: the mean over a batch of the dense reward, before its weight ρ; the loss by which the "
    "projections learn, which ranks frames until the first success and tells successes from failures after it; before "
    "the first success, the share of ranked pairs whose cosines are in the order of their distances to the goal image; "
    f"and the stored frames of successes. {training.REMARK}"
)


def _drawings(_: None, source: Source) -> Sequence[Drawing]:
    return training.beside(source, PANELS, "guide/positives", "projections", "Dense reward and projections")


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
