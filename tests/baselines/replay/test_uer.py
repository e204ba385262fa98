"""Uniform replay: equal chances, live slots only, each seed by its own stream."""

import numpy as np
from scipy.stats import chisquare

from guidebench.baselines.replay.uer import UerSampler
from guidebench.harness.interfaces import Moment, Span

UNSEEN = (np.empty(0), None)
"""An observation and a store that these samplers do not look at."""


def test_every_live_transition_is_equally_likely() -> None:
    live = Span(start=8, count=5, size=10)  # slots 8, 9, 0, 1, 2
    draw = UerSampler().draw(40_000, Moment(1, live, [np.random.default_rng(0)], *UNSEEN))
    drawn = np.bincount(draw.index[0], minlength=10)
    assert draw.weight is None
    assert drawn[3:8].tolist() == [0, 0, 0, 0, 0]
    assert chisquare(drawn[[8, 9, 0, 1, 2]]).pvalue > 1e-3
