"""Learned rewards beside the task's own, against numbers worked by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.commands import report as command
from guidebench.reports.sections import rewards
from guidebench.reports.sections.rewards import Learned
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}
TRUE = (0.0, 2.0, 4.0)


def rows(learned: Mapping[int, Sequence[float]], accuracy: Mapping[int, float] | None = None) -> list[dict[str, Any]]:
    """An episode of three moves, the second of them random."""

    def row(t: int, quantity: str, value: float, step: int = 0) -> dict[str, Any]:
        return {"step": step, "t": t, "quantity": quantity, "value": value}

    return [
        row(0, "window", 2),
        *(row(t, "expert", float(t != 1)) for t in range(3)),
        *(row(t, "true_reward", value) for t, value in enumerate(TRUE)),
        *(row(t, "reward", value, step) for step, values in learned.items() for t, value in enumerate(values)),
        *(row(0, "label_accuracy", value, step) for step, value in (accuracy or {}).items()),
    ]


@pytest.fixture
def study(writer: Writer) -> results.StudyRecord:
    root = writer.cell("a", CURVES, steps=200, method="pebble")
    write_rows(root / "seed-0", "probes", rows({100: [0, 0, 1], 200: [-1, -1, 1]}, {100: 0.5, 200: 0.75}))
    write_rows(root / "seed-1", "probes", rows({100: [0, 1, 2], 200: [5, 10, 15]}, {100: 0.75, 200: 1.0}))
    root = writer.cell("b", CURVES, steps=200, method="sac")
    write_rows(root / "seed-0", "probes", [row for row in rows({}) if row["quantity"] != "true_reward"])
    return results.study(writer.finish())


def found(study: results.StudyRecord) -> Learned:
    (only,) = rewards.learned(study.cells, results.noted(study, "probes"), {}, reps=400)
    return only


def test_each_runs_reward_is_scaled_before_the_mean(study: results.StudyRecord) -> None:
    each = found(study)
    assert each.true.tolist() == [0.0, 0.5, 1.0] and each.random.tolist() == [1]
    assert each.learned.estimate.tolist() == [0.0, 0.25, 1.0]  # 0 0 1 and 0 .5 1
    # with (0, 2, 4): cov of (-1, -1, 1) is 4/3, deviations sqrt(8/3) and sqrt(8/9)
    assert float(each.correlation.estimate) == pytest.approx((4 / 3 / np.sqrt(8 / 3 * 8 / 9) + 1) / 2)
    assert each.accuracy is not None and each.accuracy.estimate.tolist() == [0.625, 0.875]
    assert each.steps.tolist() == [100, 200]


def test_only_looks_that_all_runs_have_had_count(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({100: [0, 0, 1], 200: [3, 2, 1]}))
    write_rows(root / "seed-1", "probes", rows({100: [0, 0, 1]}))
    each = found(results.study(writer.finish()))
    assert each.steps.tolist() == [100] and each.learned.estimate.tolist() == [0.0, 0.0, 1.0]
    assert each.accuracy is None


def test_each_run_is_held_to_the_episode_of_its_own_layout(writer: Writer) -> None:
    """The second run's task pays 4, 2, 0 along its episode, and its learned reward falls with that."""
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({200: [1, 2, 3]}))
    own = [
        {**row, "value": 4 - row["value"]} if row["quantity"] == "true_reward" else row
        for row in rows({200: [3, 2, 1]})
    ]
    write_rows(root / "seed-1", "probes", own)
    each = found(results.study(writer.finish()))
    assert float(each.correlation.estimate) == pytest.approx(1), "beside the first run's rewards it would be 0"
    assert each.true.tolist() == [0.5, 0.5, 0.5] and each.learned.estimate.tolist() == [0.5, 0.5, 0.5]


def test_a_constant_reward_has_no_correlation(writer: Writer) -> None:
    root = writer.cell("a", CURVES)
    write_rows(root / "seed-0", "probes", rows({100: [7, 7, 7]}))
    each = found(results.study(writer.finish()))
    assert each.learned.estimate.tolist() == [0.0] * 3 and np.isnan(each.correlation.estimate)


def test_the_report_shows_them(study: results.StudyRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(study.directory), "--resamples", "200"]) == 0
    assert "learned reward beside the task's own" in capsys.readouterr().out
    report = study.directory / "report"
    (content,) = json.loads((report / "summary.json").read_text())["rewards"]
    assert content["true"] == [0.0, 0.5, 1.0] and content["step"] == 200
    assert content["accuracy_on_unseen_pairs"][-1]["estimate"] == 0.875
    assert {"rewards-grid-8x8", "reward-accuracy-grid-8x8"} <= {path.stem for path in report.glob("*.png")}
    assert "correlation 0.93 after 200 steps" in (report / "report.html").read_text()


def test_the_accuracy_of_a_run_is_that_of_its_last_look(study: results.StudyRecord) -> None:
    probes = results.load(study, what="probes")
    assert rewards.accuracy_of_runs(probes[probes["cell"] == "a"]) == {0: 0.75, 1: 1.0}
