"""RoboFuME's section of a report."""

import numpy as np
import pandas as pd

from guidebench.methods.robofume.report import NEGATIVE, POSITIVE, UNANSWERED, of_run


def rows(step: int, successes: int, positives: int, negatives: int) -> dict[str, int]:
    """An episode of 40 states."""
    called = successes + positives - negatives
    return {
        "step": step, "states": 40, "successes": successes, "positives": called, "false_positives": positives,
        "false_negatives": negatives, "unanswered": 2,
    }  # fmt: skip


def test_rates_are_shares_of_all_judged_states_of_a_run() -> None:
    rates = of_run(pd.DataFrame([rows(40, 0, 3, 0), rows(80, 20, 3, 5)]))
    assert rates == {POSITIVE: 6 / 60, NEGATIVE: 5 / 20, UNANSWERED: 4 / 80}
    assert np.isnan(of_run(pd.DataFrame([rows(40, 0, 3, 0)]))[NEGATIVE])
