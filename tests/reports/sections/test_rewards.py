"""Learned rewards beside the task's own, against numbers worked by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.sections import rewards
from guidebench.reports.sections.rewards import Learned
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}
TRUE = (0.0, 2.0, 4.0)


def rows(learned: Mapping[int, Sequence[float]], accuracy: Mapping[int, float] | None = None) -> list[dict[str, Any]]:
    """Return probe rows of an episode of three moves, the second of them random. `learned`: step -> learned reward of
    each move; `accuracy`: step -> accuracy on unseen pairs."""

    def row(t: int, quantity: str, value: float, step: int = 0) -> dict[str, Any]:
        return {"step": step, "t": t, "quantity": quantity, "value": value}

    return [
        row(0, "window", 2),
        *(row(t, "expert", float(t != 1)) for t in range(3)),
        *(row(t, "true_reward", value) for t, value in enumerate(TRUE)),
        *(row(t, "reward", value, step) for step, values in learned.items() for t, value in enumerate(values)),
        *(row(0, "label_accuracy", value, step) for step, value in (accuracy or {}).items()),
    ]


def write_cell(writer: Writer, **names: str) -> None:
    writer.cell(
        "rewards",
        CURVES,
        steps=200,
        method="pebble",
        **names,
        rows={
            "probes": {
                0: rows({100: [0, 0, 1], 200: [-1, -1, 1]}, {100: 0.5, 200: 0.75}),
                1: rows({100: [0, 1, 2], 200: [5, 10, 15]}, {100: 0.75, 200: 1.0}),
            }
        },
    )
    writer.cell(
        "unlearned",
        CURVES,
        steps=200,
        method="sac",
        **names,
        rows={"probes": {0: [row for row in rows({}) if row["quantity"] != "true_reward"]}},
    )


def only_learned(study: results.StudyRecord) -> Learned:
    (only,) = rewards.learned(study.cells, results.noted(study, "probes"), {}, reps=400)
    return only


def test_each_runs_reward_is_scaled_before_the_mean(writer: Writer) -> None:
    write_cell(writer)
    study = results.study(writer.finish())
    reward = only_learned(study)
    assert reward.true.tolist() == [0.0, 0.5, 1.0] and reward.random.tolist() == [1]
    assert reward.learned.estimate.tolist() == [0.0, 0.25, 1.0]  # 0 0 1 and 0 .5 1
    # with (0, 2, 4): cov of (-1, -1, 1) is 4/3, deviations sqrt(8/3) and sqrt(8/9)
    assert float(reward.correlation.estimate) == pytest.approx((4 / 3 / np.sqrt(8 / 3 * 8 / 9) + 1) / 2)
    assert reward.accuracy is not None and reward.accuracy.estimate.tolist() == [0.625, 0.875]
    assert reward.steps.tolist() == [100, 200]


def test_only_looks_that_all_runs_have_had_count(writer: Writer) -> None:
    writer.cell("a", CURVES, rows={"probes": {0: rows({100: [0, 0, 1], 200: [3, 2, 1]}), 1: rows({100: [0, 0, 1]})}})
    reward = only_learned(results.study(writer.finish()))
    assert (
        reward.steps.tolist() == [100]
        and reward.learned.estimate.tolist() == [0.0, 0.0, 1.0]
        and reward.accuracy is None
    )


def test_each_run_is_held_to_the_episode_of_its_own_layout(writer: Writer) -> None:
    """The second run's task pays 4, 2, 0 along its episode, and its learned reward falls with that."""
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({200: [1, 2, 3]}))
    second_rows = [
        {**row, "value": 4 - row["value"]} if row["quantity"] == "true_reward" else row
        for row in rows({200: [3, 2, 1]})
    ]
    write_rows(root / "seed-1", "probes", second_rows)
    reward = only_learned(results.study(writer.finish()))
    assert float(reward.correlation.estimate) == pytest.approx(1), "beside the first run's rewards it would be 0"
    assert reward.true.tolist() == [0.5, 0.5, 0.5] and reward.learned.estimate.tolist() == [0.5, 0.5, 0.5]


def test_a_constant_reward_has_no_correlation(writer: Writer) -> None:
    write_rows(writer.cell("a", CURVES) / "seed-0", "probes", rows({100: [7, 7, 7]}))
    reward = only_learned(results.study(writer.finish()))
    assert reward.learned.estimate.tolist() == [0.0] * 3 and np.isnan(reward.correlation.estimate)
