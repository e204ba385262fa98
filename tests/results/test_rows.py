from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.records.compact import log_to_parquet, to_parquet
from guidebench.harness.records.schema import EVALUATION
from guidebench.results.rows import _read as read
from tests.reports.conftest import Writer, label_row, write_rows

CURVES = {0: {100: [1, 0], 200: [1, 1]}, 1: {100: [0, 0]}}


@pytest.fixture
def directory(writer: Writer) -> Path:
    """Write a cell of two runs, seed 0 finished (Parquet) and seed 1 running (JSON lines); return its directory."""
    root = writer.cell("a", CURVES, status={1: "running"})
    writer.finish()
    return root


def _study(directory: Path) -> Path:
    return directory.parents[2]


def _lines(directory: Path) -> tuple[Path, list[dict[str, Any]]]:
    path = directory / "seed-1" / "evaluations.jsonl"
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def test_finished_and_running_runs_come_as_one_frame(directory: Path) -> None:
    rows = results.load(_study(directory))
    assert rows[["seed", "step", "episode"]].to_numpy().tolist() == [
        [0, 100, 0], [0, 100, 1], [0, 200, 0], [0, 200, 1], [1, 100, 0], [1, 100, 1]
    ]  # fmt: skip
    assert rows["success"].tolist() == [True, False, True, True, False, False]
    assert rows["return"].tolist() == [0.5, 0.0, 0.5, 0.5, 0.0, 0.0]
    assert list(rows.columns) == [*EVALUATION, "score", "variant", "label", "directory"]
    assert (rows["success"].dtype, rows["step"].dtype, rows["return"].dtype) == ("bool", "int64", "float64")
    assert rows["directory"].iloc[-1] == "grid/8x8/uer-a/seed-1"


@pytest.mark.parametrize(
    ("second_rows", "failures"),
    [([], [None]), ([{"asked": 1, "applied": 2, "failure": "timeout"}], [None, "timeout"])],
)
def test_a_half_finished_study_is_read_without_a_warning_of_pandas(
    directory: Path, second_rows: list[dict[str, Any]], failures: list[str | None]
) -> None:
    """The log of a run that has just begun is empty, and columns of answers exist only where there are answers."""
    finished = write_rows(directory / "seed-0", "judgements", [{"asked": 1, "applied": 2, "score": 0.25}])
    log_to_parquet(finished, finished.with_suffix(".parquet"))
    finished.unlink()
    write_rows(directory / "seed-1", "judgements", second_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = results.load(_study(directory), log="judgements")
    assert rows["score"].dtype == "float64" and rows["asked"].tolist() == [1] * len(failures)
    logged = rows["failure"] if "failure" in rows else pd.Series([None] * len(rows), dtype=object)
    assert logged.where(logged.notna(), None).tolist() == failures


def test_of_a_selection_without_cells_there_are_no_rows_and_all_columns(directory: Path) -> None:
    nothing = results.select(results.study(_study(directory)), lambda cell: False)
    assert not nothing.cells
    for log in (None, "metrics"):
        rows = results.load(nothing) if log is None else results.load(nothing, log=log)
        assert len(rows) == 0 and "step" in rows
    assert list(results.load(nothing).columns) == [*EVALUATION, "score", "variant", "label", "directory"]


def test_the_harness_own_parquet_is_read(directory: Path) -> None:
    path, _ = _lines(directory)
    before = results.load(_study(directory))
    to_parquet(path, path.with_suffix(".parquet"))
    run = directory / "seed-1" / "run.json"
    run.write_text(run.read_text().replace("running", "finished"))
    path.unlink()
    pd.testing.assert_frame_equal(results.load(_study(directory)), before)


LOGGED: dict[str, list[dict[str, Any]]] = {
    "metrics": [{"step": 1, "loss": None, "name": "a"}, {"step": 2, "loss": 0.5, "more/of it": True}, {"step": 3}],
    "probes": [
        {"step": 0, "t": 1, "quantity": "event", "value": 1},
        {"step": 0, "t": 2, "quantity": "q", "value": 0.5},
    ],
    "judgements": [{"asked": 1, "applied": 2, "score": 0.25}, {"asked": 3, "applied": 4, "failure": "timeout"}],
    "ledger": [],
}


@pytest.mark.parametrize("log", LOGGED)
def test_a_log_is_read_alike_from_parquet_and_from_lines(directory: Path, log: Any) -> None:
    for seed in (0, 1):
        write_rows(directory / f"seed-{seed}", log, LOGGED[log])
    lines = results.load(_study(directory), log=log)
    source = directory / "seed-0" / f"{log}.jsonl"
    log_to_parquet(source, source.with_suffix(".parquet"))
    assert source.with_suffix(".parquet").exists() == bool(LOGGED[log])
    source.unlink()
    mixed = results.load(_study(directory), log=log)
    pd.testing.assert_frame_equal(mixed, lines, check_dtype=False)
    assert len(mixed) == 2 * len(LOGGED[log])


def test_a_log_in_parquet_that_lacks_a_column_or_holds_another_type_is_refused(directory: Path) -> None:
    for rows, message in (
        ([{"step": 1, "t": 1, "quantity": "q"}], "lacks the column 'value'"),
        ([{"step": "one", "t": 1, "quantity": "q", "value": 0.5}], "column 'step' is of type BYTE_ARRAY"),
        ([{"step": 1, "t": 1, "quantity": "\x1b[2J", "value": 0.5}], "expected text"),
    ):
        write_rows(directory / "seed-0", "probes", rows, parquet=True)
        with pytest.raises(UserError, match=message):
            results.load(_study(directory), log="probes")


def test_a_column_of_a_log_that_holds_two_kinds_is_an_error_by_name(tmp_path: Path) -> None:
    log = write_rows(tmp_path, "metrics", [{"step": 1, "loss": 0.5}, {"step": 2, "loss": "much"}])
    with pytest.raises(UserError, match=r"metrics\.jsonl, column 'loss' holds float, str"):
        log_to_parquet(log, tmp_path / "metrics.parquet")


def test_a_last_line_cut_short_is_dropped_with_a_warning(directory: Path) -> None:
    path, _ = _lines(directory)
    complete = results.load(_study(directory))
    with open(path, "ab") as file:
        file.write(b'{"study": "s", "cell": "a", "sui')
    with pytest.warns(UserWarning, match=r"seed-1/evaluations\.jsonl.*row 3.*cut short"):
        rows = results.load(_study(directory))
    pd.testing.assert_frame_equal(rows, complete)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("return", float("nan"), "nan; expected a finite number"),
        ("return", float("inf"), "inf; expected a finite number"),
        ("return", "0.5", "'0.5'; expected a finite number"),
        ("return", None, "None; expected a finite number"),
        ("return", True, "True; expected a finite number"),
        ("success", 1, "1; expected true or false"),
        ("step", 100.0, "100.0; expected a whole number"),
        ("step", -100, "-100; expected a whole number of at least 0"),
        ("step", 2**70, "expected a whole number"),
        ("method", 3, "3; expected text"),
        ("study", "a\nb", "expected text"),
        ("method", "per", "'per', but it lies in the directory of method 'uer'"),
        ("seed", 0, "0, but it lies in the directory of seed 1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_file_row_and_column(
    directory: Path, column: str, value: Any, words: str
) -> None:
    path, rows = _lines(directory)
    rows[1][column] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError) as caught:
        results.load(_study(directory))
    message = str(caught.value)
    assert f"{path}, row 2, column {column!r}" in message and words in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"a": ', "row 1: not JSON"),
        ("\xff\xfe", "row 1: not JSON"),
        ("[1, 2]", "row 1: '[1, 2]'; expected a JSON object"),
        ("{}", "row 1: lacks the column 'study'"),
        ("[" * 5000, "row 1: not JSON"),
    ],
)
def test_a_line_that_is_no_row_is_refused_unless_it_is_the_last(directory: Path, line: str, words: str) -> None:
    path, _ = _lines(directory)
    path.write_bytes(line.encode("latin-1") + b"\n" + path.read_bytes())
    with pytest.raises(UserError) as caught:
        results.load(_study(directory))
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_unknown_columns_and_rows_written_twice_are_refused(directory: Path) -> None:
    path, rows = _lines(directory)
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    with pytest.raises(UserError, match="row 3: episode 0 of the evaluation at step 100 is there twice"):
        results.load(_study(directory))
    path.write_text("".join(json.dumps({**row, "extra": 1}) + "\n" for row in rows))
    with pytest.raises(UserError, match="row 1: unknown column 'extra'"):
        results.load(_study(directory))


def test_a_parquet_file_of_more_rows_than_its_bytes_can_mean_is_refused(directory: Path) -> None:
    path = directory / "seed-0" / "evaluations.parquet"
    pd.DataFrame({"step": np.zeros(2**24, np.int8)}).to_parquet(path, index=False)
    with pytest.raises(
        UserError, match=r"its 16,777,216 rows of 1 columns declare 134,217,728; at most [\d,]+ are read"
    ):
        results.load(_study(directory))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.drop(columns="length"), "lacks the column 'length'"),
        (lambda rows: rows.assign(extra=1), "unknown column 'extra'"),
        (lambda rows: rows.assign(step="100"), "column 'step' is of type BYTE_ARRAY"),
        (lambda rows: rows.assign(**{"return": [0.0, float("nan"), 0.0, 0.0]}), "row 2, column 'return'"),
        (lambda rows: rows.assign(cell="b"), "directory of cell 'a'"),
        (None, "evaluations.parquet cannot be read"),
    ],
)
def test_a_parquet_file_that_does_not_fit_or_is_damaged_is_refused(directory: Path, change: Any, words: str) -> None:
    path = directory / "seed-0" / "evaluations.parquet"
    if change is None:
        path.write_bytes(path.read_bytes()[:-20])
    else:
        change(pd.read_parquet(path)).to_parquet(path, index=False)
    with pytest.raises(UserError) as caught:
        results.load(_study(directory))
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_logs_get_the_identity_of_their_run_and_keep_further_columns(directory: Path) -> None:
    write_rows(
        directory / "seed-0", "metrics", [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None, "episode/return": 1}]
    )
    write_rows(directory / "seed-1", "metrics", [{"step": 1, "loss": 2}])
    metrics = results.load(_study(directory), log="metrics")
    assert metrics["seed"].tolist() == [0, 0, 1] and set(metrics["label"]) == {"uer · quick"}
    assert metrics["loss"].isna().tolist() == [False, True, False] and metrics["loss"][2] == 2.0
    assert metrics["episode/return"][1] == 1.0


def test_an_undeclared_column_has_the_type_that_holds_its_values_in_all_files(directory: Path) -> None:
    columns = {"number": (1, 2.5), "truth": (True, None), "mixed": (1, "two"), "nested": ([1, 2], None)}
    for seed in range(2):
        values = {name: pair[seed] for name, pair in columns.items()}
        write_rows(directory / f"seed-{seed}", "metrics", [{"step": 1, **values}])
    metrics = results.load(_study(directory), log="metrics")
    assert metrics["number"].tolist() == [1.0, 2.5]
    assert metrics["truth"][0] is True and metrics["truth"].isna().tolist() == [False, True]
    assert metrics["mixed"].tolist() == ["1", "two"]
    assert metrics["nested"][0] == "[1, 2]"


def test_a_column_of_lists_in_parquet_is_refused_by_name(directory: Path) -> None:
    finished = directory / "seed-0" / "metrics.parquet"
    pd.DataFrame({"step": [1], "nested": [[1, 2]]}).to_parquet(finished, index=False)
    with pytest.raises(UserError, match=r"metrics\.parquet: column 'nested' cannot be read"):
        results.load(_study(directory), log="metrics")


def test_rows_of_many_files_stand_in_the_order_in_which_each_was_written(writer: Writer) -> None:
    root = writer.cell("a", {seed: {100: [1]} for seed in range(16)})
    for seed in range(16):
        write_rows(root / f"seed-{seed}", "timings", [{"step": step, "seconds": 0.5} for step in range(60)])
    rows = results.load(writer.finish(), log="timings")
    assert rows[["seed", "step"]].to_numpy().tolist() == [[seed, step] for seed in range(16) for step in range(60)]


def test_a_log_that_no_run_wrote_is_empty_with_its_columns(directory: Path) -> None:
    rows = results.load(_study(directory), log="judgements")
    assert rows.empty and {"asked", "applied", "score", "cell"} <= set(rows.columns)
    write_rows(directory / "seed-0", "judgements", [{"asked": 1, "applied": 2, "score": "yes"}])
    with pytest.raises(UserError, match=r"row 1, column 'score': 'yes'"):
        results.load(_study(directory), log="judgements")
    with pytest.raises(UserError, match="did you mean 'judgements'"):
        results.load(_study(directory), log="judgments")  # type: ignore[arg-type]


PROBE = {"step": 100, "t": 3, "quantity": "critic", "value": 0.5}
SUBGOAL = {"step": 100, "episode": 0, "subgoal": "drawer", "met": True}
OUTCOME = {"step": 100, "episode": 0, "outcome": "completion", "value": 0.25}
CLIP = {"asked": 1, "applied": 2, "score": 0.5}
READ: dict[str, tuple[list[dict[str, Any]], dict[str, list[Any]]]] = {
    "probes": (
        [PROBE, {**PROBE, "quantity": "event/key", "value": 1}],
        {"quantity": ["critic", "event/key"], "value": [0.5, 1.0]},
    ),
    "subgoals": (
        [SUBGOAL, {**SUBGOAL, "subgoal": "cube", "met": False}],
        {"subgoal": ["drawer", "cube"], "met": [True, False], "seed": [0, 0]},
    ),
    "outcomes": (
        [OUTCOME, {**OUTCOME, "outcome": "alive", "value": 1.0}],
        {"outcome": ["completion", "alive"], "value": [0.25, 1.0]},
    ),
    "judgements": ([CLIP, {**CLIP, "events": 2}], {"events": [None, 2]}),
    "labels": (
        [{**label_row(0, None), "first": 1, "second": 2}, label_row(1, 1.0, imagined="kept", reward_imagined=2)],
        {"outcome": ["inconsistent", "labelled"], "kept": [False, True], "preference": [None, 1.0], "first": [1, None],
         "reward_imagined": [None, 2.0], "imagined": [None, "kept"], "retries": [None, None], "seed": [0, 0]},
    ),
}  # fmt: skip
"""Log -> rows, and the columns that are read of them; None where a row lacks a number or a text."""
TYPES = {("labels", "kept"): "bool", ("labels", "truth"): "float64", ("subgoals", "met"): "bool"}


@pytest.mark.parametrize("log_name", READ)
def test_rows_of_a_log_are_read_and_may_lack_what_is_optional(directory: Path, log_name: Any) -> None:
    logged, columns = READ[log_name]
    write_rows(directory / "seed-0", log_name, logged)
    rows = results.load(_study(directory), log=log_name)
    for name, values in columns.items():
        assert rows[name].isna().tolist() == [value is None for value in values], name
        assert [value for value in rows[name] if not pd.isna(value)] == [
            value for value in values if value is not None
        ], name
    assert all(rows[name].dtype == kind for (log, name), kind in TYPES.items() if log == log_name)


WRONG: list[tuple[Any, str, Any, str]] = [
    *(("labels", *wrong) for wrong in (
        ("truth", float("nan"), "nan; expected a finite number"),
        ("truth", None, "None; expected a finite number"),
        ("truth", 2.0, "2.0; expected a number in [0, 1]"),
        ("preference", float("nan"), "nan; expected a finite number"),
        ("preference", -0.5, "-0.5; expected a number in [0, 1]"),
        ("preference", "1", "'1'; expected a finite number"),
        ("learned_0", float("inf"), "inf; expected a finite number"),
        ("reward_imagined", [1.0], "[1.0]; expected a finite number"),
        ("kept", 1, "1; expected true or false"),
        ("outcome", 1, "1; expected text"),
        ("outcome", "a\nb", "expected text"),
        ("imagined", True, "True; expected text"),
        ("imagined", "a\tb", "expected text"),
        ("session", -1, "-1; expected a whole number of at least 0"),
        ("retries", 1.5, "1.5; expected a whole number"),
        ("first", -1, "expected a whole number of at least 0"),
        ("query", 2**70, "expected a whole number"),
    )),
    *(("judgements", "events", *wrong) for wrong in (
        ("two", "expected a whole number"), (-1, "of at least 0"), (1.5, "whole"), (2**70, "whole"),
    )),
    *(("probes", *wrong) for wrong in (("t", -1, "at least 0"), ("quantity", 7, "text"), ("value", "1", "a finite"))),
    *(("subgoals", *wrong, "") for wrong in (("met", 1), ("met", None), ("subgoal", 7), ("episode", -1))),
    *(("outcomes", *wrong, "") for wrong in (("value", "1"), ("value", None), ("outcome", 7), ("episode", -1))),
]  # fmt: skip


@pytest.mark.parametrize(("log", "column", "value", "words"), WRONG)
def test_a_value_of_a_log_that_does_not_fit_is_refused_by_file_row_and_column(
    directory: Path, log: Any, column: str, value: Any, words: str
) -> None:
    good = {"labels": label_row(0), "judgements": CLIP, "probes": PROBE, "subgoals": SUBGOAL, "outcomes": OUTCOME}[log]
    path = write_rows(directory / "seed-0", log, [good, {**good, column: value}])
    with pytest.raises(UserError) as caught:
        results.load(_study(directory), log=log)
    assert f"{path}, row 2, column {column!r}" in str(caught.value) and words in str(caught.value)


def test_globbing_characters_in_a_path_stand_for_themselves(tmp_path: Path) -> None:
    for name in ("study [1] 'quoted' *", "study 1"):
        writer = Writer(tmp_path / name)
        writer.cell("a", CURVES, status={1: "running"})
        writer.finish()
    assert len(results.load(tmp_path / "study [1] 'quoted' *")) == 6


def read_or_abort(log: str, groups: list[results.rows.Group], threads: int | None) -> results.rows.Read:
    """Abort the process at a certain file, as a library does that meets damaged bytes; else read the rows."""
    if any(path.endswith("seed-1/evaluations.jsonl") for group in groups for path in group.paths):
        os.abort()
    return read(log, groups, threads)


def test_a_file_at_which_a_library_crashes_is_refused_by_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.rows, "_read", read_or_abort)
    words = f"^{re.escape(str(directory))}/seed-1/evaluations.jsonl: reading it made its process end with exit code -6$"
    with pytest.raises(UserError, match=words):
        results.load(_study(directory))
    (directory / "seed-1" / "evaluations.jsonl").unlink()
    assert set(results.load(_study(directory))["seed"]) == {0}


def test_rows_are_read_by_a_script_without_a_main_guard(directory: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from guidebench import results\nprint(len(results.load({str(_study(directory))!r})))\n")
    process = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert process.stdout == "6\n", process.stderr
