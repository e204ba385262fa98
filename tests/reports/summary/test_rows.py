from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from guidebench import results
from guidebench.harness.interfaces import Score
from guidebench.reports.rendering import legends, tables
from guidebench.reports.summary import export, names
from guidebench.reports.summary.rows import ReportRow
from guidebench.reports.summary.summaries import Summary
from tests.reports.conftest import Writer

UER = {
    0: {100: [0, 0, 0, 0], 200: [1, 1, 1, 0], 300: [1, 1, 0, 0]},
    1: {100: [1, 0, 0, 0], 200: [1, 0, 0, 0], 300: [1, 1, 0, 0]},
}
VLM_RB = {
    0: {100: [1, 0, 0, 0], 200: [1, 1, 0, 0], 300: [1, 1, 1, 1]},
    1: {100: [1, 0, 0, 0], 200: [1, 1, 0, 0], 300: [1, 1, 1, 0]},
}
PER = {0: {100: [0, 0, 0, 1], 200: [0, 0, 0, 1], 300: [0, 0, 0, 1]}, 1: {100: [0] * 4, 200: [0] * 4, 300: [0] * 4}}


def _row(summary: Summary, method: str) -> ReportRow:
    (row,) = (row for row in summary.rows if row.cell.method == method)
    return row


def test_final_best_and_steps_to_the_baselines_best_of_a_worked_example(writer: Writer) -> None:
    writer.cell("a", UER)
    writer.cell("b", PER, method="per")
    writer.cell("c", VLM_RB, method="vlm_rb", backend="scripted", model="sprite")
    summary = writer.summary(2_000)
    row, per, vlm_rb = (_row(summary, method) for method in ("uer", "per", "vlm_rb"))
    # means over the two seeds: 0.125, 0.5, 0.5
    assert row.curve.estimate.tolist() == [0.125, 0.5, 0.5] and vlm_rb.curve.estimate.tolist() == [0.25, 0.5, 0.875]
    assert (float(row.final.estimate), row.best, row.best_step) == (0.5, 0.5, 200)
    assert row.mean_of_best == pytest.approx((0.75 + 0.5) / 2)
    assert float(row.final_return.estimate) == pytest.approx(0.25)
    assert (len(row.steps), row.episodes, row.seeds) == (3, (4, 4), (0, 1))
    # the first evaluation at which the mean reaches the baseline's best
    assert (vlm_rb.baseline, vlm_rb.target, vlm_rb.reached, row.reached) == ("uer", 0.5, 200, 200)
    assert (per.reached, per.budget) == (None, 300)
    assert summary.notes == () and summary.complete, "a finished study has no notes"


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [(["vlm_rb", "per", "uer"], "uer"), (["vlm_rb", "per"], "per"), (["relo", "aer"], "relo")],
)
def test_the_baseline_is_uniform_then_prioritised_replay_or_else_the_first_row(
    writer: Writer, methods: list[str], baseline: str
) -> None:
    for method in methods:
        writer.cell(method, UER, method=method)
    assert {row.baseline for row in writer.summary(2_000).rows} == {f"{baseline}"}


def test_a_row_carries_what_the_episodes_say_of_its_final_scores(writer: Writer) -> None:
    """The variance of 1, 1, 1, 0 is 1/4 and that of their mean 1/16; the same holds for returns, which have no
    counts."""
    last = {0: {100: [0, 0, 0, 0], 200: [1, 1, 1, 0]}, 1: {200: [1, 1, 1, 1]}}
    writer.cell("a", {0: last[0], 1: {**last[0], **last[1]}}, steps=200)
    writer.cell("b", {0: {100: [2.0, 4.0]}}, steps=100, score=Score("return", "lower"))
    rates, returns = (_row_of(writer.summary(), cell).sample for cell in ("a", "b"))
    assert rates.scores.tolist() == [[0.75], [1.0]] and rates.variances == pytest.approx(np.array([[1 / 16], [0]]))
    assert rates.outcomes == (7, 8) and returns.outcomes is None
    assert returns.scores.tolist() == [[-3.0]] and returns.variances.tolist() == [[1.0]], "higher is better"


def _row_of(summary: Summary, cell: str) -> ReportRow:
    return next(row for row in summary.rows if row.cell.id == cell)


def test_a_baseline_that_never_succeeds_sets_no_target(writer: Writer) -> None:
    writer.cell("a", {seed: {100: [0, 0]} for seed in (0, 1)})
    writer.cell("b", {seed: {100: [1, 1]} for seed in (0, 1)}, method="per")
    summary = writer.summary(2_000)
    assert [(row.target, row.reached) for row in summary.rows] == [(None, None), (None, None)]
    assert any("never succeeded" in note for note in summary.notes)


def test_the_top_rows_that_differ_from_all_others_lead_and_other_profiles_and_commits_are_told(writer: Writer) -> None:
    ten = [1] * 10
    for name, rates in {"a": (9, 10, 8, 9), "b": (10, 8, 8, 9), "c": (1, 2, 1, 1)}.items():
        curves = {seed: {100: ten[:rate] + [0] * (10 - rate)} for seed, rate in enumerate(rates)}
        provenance = {"commit": ("b" if name == "b" else "a") * 40, "dirty": name != "b"}
        writer.cell(name, curves, method=name, steps=100, provenance=provenance)
    writer.cell("d", {seed: {100: ten} for seed in range(3)}, method="a", steps=100, profile="paper")
    summary = writer.summary(2_000)
    assert {row.label: row.leading for row in summary.rows} == {
        "a · quick": True, "b · quick": True, "c · quick": False, "a · paper": False,
    }  # fmt: skip
    assert [row.baseline for row in summary.rows] == ["a · quick"] * 3 + ["a · paper"], "neither merged nor compared"
    assert any("different commits" in note and "aaaaaaaaaaaa+: 8 runs" in note for note in summary.notes)


def test_a_row_that_was_replayed_without_its_models_says_so_once(writer: Writer) -> None:
    writer.cell("a", UER)
    writer.cell("b", UER, method="per", provenance={"replayed": ["scorer", "performer"]})
    replayed = [note.partition(": ")[::2] for note in writer.summary(2_000).notes if "model not here" in note]
    assert [sentence for _, sentence in replayed] == ["replayed, model not here (scorer, performer)"]
    assert replayed[0][0].endswith(", per")


def test_configurations_that_share_a_name_are_told_apart_by_their_models_or_a_number_and_never_by_a_hash(
    writer: Writer,
) -> None:
    writer.cell("a1b2", UER)
    writer.cell("c3d4", UER)
    for name, model in (("e5", "small"), ("f6", "large")):
        part = {"kind": "chat", "name": "openai", "backend": "openai"}
        models = {"critic": "large", "planner": model, "seer": "small"}
        parts = {role: {**part, "model": model_} for role, model_ in models.items()}
        writer.cell(name, UER, method="plans", backend="openai", model="large+small", record={"parts": parts})
    summary = writer.summary(2_000)
    assert [row.label for row in summary.rows] == [
        "uer [1]",
        "uer [2]",
        "plans · planner=small",
        "plans · planner=large",
    ]
    assert any("2 configurations are called uer" in note and "(a1b2, c3d4)" in note for note in summary.notes)
    full_labels = names.full(results.study(writer.directory).cells, []).labels
    assert [full_labels[name].partition(" [")[2] for name in ("e5", "f6")] == [
        "critic=large, planner=small, seer=small]", "critic=large, planner=large, seer=small]",
    ]  # fmt: skip


def test_a_failed_run_keeps_its_seed_at_the_steps_that_all_seeds_have(writer: Writer) -> None:
    curves = {0: UER[0], 1: {100: UER[1][100], 200: UER[1][200]}}
    writer.cell("a", curves, status={1: "failed"}, error="Traceback …\nValueError: no")
    writer.cell("b", UER, method="per")
    summary = writer.summary(2_000)
    row = _row(summary, "uer")
    assert row.steps.tolist() == [100, 200] and float(row.final.estimate) == 0.5
    assert row.seeds == (0, 1) and not row.complete and row.behind and not row.leading and row.budget == 200
    notes = "\n".join(summary.notes)
    assert "grid/8x8, uer: seed 1 failed at step 200 of 300: ValueError: no" in notes
    assert "evaluations at step 300 of seed 0 are left out" in notes and not summary.complete


def test_a_seed_without_evaluations_is_named_and_left_out_and_half_an_evaluation_does_not_count(
    writer: Writer, tmp_path: Path
) -> None:
    writer.cell("a", {0: UER[0], 1: {}}, status={1: "running"}, planned=[0, 1, 2])
    summary = writer.summary(2_000)
    assert summary.rows[0].seeds == (0,) and not summary.rows[0].complete and np.isnan(summary.rows[0].final.low)
    assert [note.split(": ", 1)[1] for note in summary.notes] == [
        "seed 1 is running at step 0 of 300",
        "seed 2 has not started",
        "seed 1 has no evaluations and is left out",
        "one run: no interval",
    ]
    half = Writer(tmp_path / "half")
    half.cell("a", {0: UER[0], 1: {**UER[1], 300: [1]}}, status={1: "running"})
    summary = half.summary(2_000)
    assert summary.rows[0].steps.tolist() == [100, 200] and summary.rows[0].episodes == (4, 4)
    assert any("1 of 4 episodes so far; left out" in note for note in summary.notes)


def test_aggregates_take_the_seeds_that_every_task_has_and_say_so(writer: Writer) -> None:
    writer.cell("a", {seed: {100: [1, 1]} for seed in (0, 1, 2)}, task="easy", steps=100)
    writer.cell("b", {seed: {100: [seed, 0]} for seed in (0, 1)}, task="hard", steps=100)
    summary = writer.summary(2_000)
    by_metric = {aggregate.metric: aggregate for aggregate in summary.aggregates}
    assert by_metric["mean"].seeds == (0, 1) and by_metric["mean"].tasks == ("easy", "hard")
    # finals 1, 1 on easy and 0, 0.5 on hard: the middle two of four are 0.5 and 1
    assert float(by_metric["mean"].interval.estimate) == pytest.approx(0.625)
    assert float(by_metric["iqm"].interval.estimate) == pytest.approx(0.75)
    assert float(by_metric["optimality_gap"].interval.estimate) == pytest.approx(0.375)
    assert any("seeds 2 are not in the aggregates" in note for note in summary.notes)


def test_a_label_that_lacks_a_task_is_left_out_of_the_aggregates(writer: Writer) -> None:
    for task in ("easy", "hard"):
        writer.cell(f"a{task}", UER, task=task)
    writer.cell("b", UER, task="easy", method="per")
    summary = writer.summary(2_000)
    assert {aggregate.label for aggregate in summary.aggregates} == {"uer"}
    assert any("per: left out of the aggregates over tasks (no evaluations of hard)" in n for n in summary.notes)


def test_rows_of_other_settings_of_the_suite_steps_or_demonstrations_are_never_compared(writer: Writer) -> None:
    changes = {
        "a": {},
        "b": {"settings": {"suite.goal": {"value": "hidden"}}},
        "c": {"settings": {"training.demonstrations": {"value": 5}}},
        "d": {"steps": 600},
    }
    for number, (name, more) in enumerate(changes.items()):
        level = [1] * number + [0] * (4 - number)
        writer.cell(name, {seed: {100: [0], 200: level} for seed in range(5)}, **{"steps": 200, "method": name, **more})
    writer.cell("e", {seed: {100: [0], 200: [1]} for seed in range(5)}, steps=200, method="e")
    summary = writer.summary()
    assert {row.cell.method for row in summary.rows if row.leading} == {"e"}, "2 of 252 relabellings"
    assert {row.cell.method: row.baseline.partition(" ")[0] for row in summary.rows} == dict(
        zip("abcde", "abcda", strict=True)
    )
    assert list(tables.by_task(summary.rows)) == [
        "grid/8x8, quick profile, 200 steps",
        "grid/8x8, quick profile, goal=hidden",
        "grid/8x8, quick profile, demonstrations=5",
        "grid/8x8, quick profile, 600 steps",
    ]
    assert {frozenset(pair) for overview in summary.overviews for pair in overview.improvement} == {
        frozenset({"a", "e"})
    }


def test_a_row_made_elsewhere_stands_in_the_place_of_those_beside_it(writer: Writer) -> None:
    external = {"method": "theirs", "backend": "external"}
    record = {"versions": {}, "settings": {"lr": {"value": 1}}}
    writer.cell("a", {seed: {200: [0]} for seed in range(5)}, steps=200)
    writer.cell("b", {seed: {200: [1]} for seed in range(5)}, steps=200, record=record, **external)
    ours, theirs = writer.summary().rows
    assert ours.place == theirs.place and theirs.leading and theirs.baseline == ours.label


def test_overrides_of_all_rows_are_said_once_and_a_row_alone_keeps_its_name(writer: Writer) -> None:
    settings = {"training.steps": {"value": 300, "layer": "command line", "source": ""}}
    writer.cell("a", UER, variant="training.steps=300", settings=settings)
    alone = writer.summary(500)
    assert alone.shared == () and alone.rows[0].label == "uer (training.steps=300) · quick"
    for name, override in (("a", ""), ("b", "learner.lr=0.1, "), ("c", "judge.prompt=Is it, x=3, ")):
        variant = f"{override}suite.files=[a, b], training.steps=300"
        writer.cell(name, UER, method="per" if override else "uer", variant=variant, settings=settings)
    summary = writer.summary(500)
    assert summary.shared == ("suite.files=[a, b]", "training.steps=300")
    assert [row.label for row in summary.rows] == ["uer", "per (learner.lr=0.1)", "per (judge.prompt=Is it, x=3)"]
    assert "Every row with the setting: suite.files=[a, b], training.steps=300." in legends.setting(summary)


def test_the_first_note_on_runs_of_seconds_is_that_they_mean_nothing(writer: Writer) -> None:
    writer.cell("a", {0: UER[0]}, profile="smoke")
    assert writer.summary().notes[0].startswith("Smoke means nothing")


def test_the_json_form_has_null_for_what_is_not_defined(writer: Writer) -> None:
    writer.cell("a", {0: UER[0]})
    (row,) = json.loads(json.dumps(export.plain(writer.summary()), allow_nan=False))["rows"]
    assert row["final"] == {"estimate": 0.5, "low": None, "high": None}
    assert [point["score"]["estimate"] for point in row["curve"]] == [0.0, 0.75, 0.5]
    assert row["runs"] == ["grid/8x8/uer-a/seed-0"]
