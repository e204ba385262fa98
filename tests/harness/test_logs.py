"""Logs that parts declare are checked before a run, when rows are written, and when a record is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.harness import logs
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.logs import Column, Log, count, share
from guidebench.harness.plan import matrix
from guidebench.harness.records.schema import RESERVED
from tests.refusals import check_refused

PLACES = Log("where the seed's marker stands", {"x": Column(float, "place"), "at": Column(str, "name", optional=True)})

GUIDE = '''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from guidebench.baselines.guiding import BaseGuide
from guidebench.harness.logs import Column, Log, count
from guidebench.harness.parts import AskingPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register


class Marks(BaseGuide):
    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    def observed(self, slot, transition, store, ctx):
        if ctx.step % 10 == 0:
            for row in range(len(transition.reward)):
                more = {"bad": {"y": 1.0}, "log": {}, "text": {"name": 3}}.get(self.wrong, {})
                log = "waypoint" if self.wrong == "log" else "waypoints"
                ctx.note(log, row, {"number": ctx.step // 10, "x": transition.reward[row], **more})


@register.guide("marks")
@dataclass(frozen=True)
class Marking(AskingPart):
    """Notes where it would like to go."""

    wrong: str = ""
    """What it gets wrong."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    logs: ClassVar[Mapping[str, Log]] = {
        "waypoints": Log(
            "a place to go to",
            {
                "number": count("number of the place"),
                "x": Column(float, "its place"),
                "name": Column(str, "its name", optional=True),
            },
        )
    }

    def spawn(self, build):
        return Marks(self.wrong)


register.method("marked")(Method(summary="marks", guide="marks", citation="% a test"))
'''
WORDS = ("method=marked", "training.steps=200", "evaluation.every=100", "evaluation.episodes=1", "seeds=[0]")


@pytest.fixture
def marking_method(plugin: Callable[..., Path]) -> None:
    plugin("marking_module", GUIDE, {"guide": "marks", "method": "marked"})


def test_a_guide_of_another_package_logs_rows_that_outlive_a_stop_and_the_package(
    marking_method: None, train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = train(*WORDS, packs=[(0,)], checkpoint_every=30)
    (file,) = uninterrupted.glob("*/*/*/seed-0/waypoints.parquet")
    polls = iter(range(10_000))
    with pytest.raises(Stopped):
        train(
            *WORDS,
            packs=[(0,)],
            checkpoint_every=30,
            directory=(interrupted := uninterrupted.with_name("other")),
            stop=lambda: next(polls) > 110,
        )
    train(*WORDS, packs=[(0,)], checkpoint_every=30, directory=interrupted)
    assert (interrupted / file.relative_to(uninterrupted)).read_bytes() == file.read_bytes()

    monkeypatch.undo()  # the package is no longer installed
    rows = results.load(uninterrupted, log="waypoints")
    assert rows["number"].tolist() == list(range(1, 21)) and rows["step"].tolist() == list(range(10, 210, 10))
    assert rows["x"].dtype == "float64" and set(rows["method"]) == {"marked"}
    assert results.study(uninterrupted).logs["waypoints"].columns["x"] == Column(float, "its place")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "bad",
            "a row that guide 'marks' notes in the log 'waypoints' has the column 'y', which no part of the cell",
        ),
        ("text", "guide 'marks' notes in the log 'waypoints', column 'name': '3'; expected text on one line"),
        ("log", "a row of the log 'waypoint', which no part of the cell declares; .* waypoints"),
    ],
)
def test_a_row_that_was_not_declared_ends_the_run_by_part_log_and_column(
    marking_method: None, train: Callable[..., Path], wrong: str, message: str
) -> None:
    check_refused(message, train, *WORDS, f"guide.wrong={wrong}", packs=[(0,)])


def test_a_log_that_changed_since_its_record_was_written_is_refused(
    marking_method: None, train: Callable[..., Path]
) -> None:
    study = train(*WORDS, packs=[])
    (file,) = study.glob("*/*/*/cell.json")
    cell_record = json.loads(file.read_text())
    del cell_record["logs"]["waypoints"]["columns"]["name"]
    file.write_text(json.dumps(cell_record))
    with pytest.raises(UserError, match=r"columns step, number, x, and guide 'marks' now declares 'waypoints' with"):
        train(*WORDS, packs=[], directory=study)


def test_parts_that_declare_one_log_differently_are_refused_before_anything_runs(
    plugin: Callable[..., Path],
) -> None:
    replay = GUIDE.replace("guiding", "sampling").replace("BaseGuide", "BaseSampler").replace('"x": Col', '"z": Col')
    replay = replay.replace('guide("marks")', 'replay("marks")').replace("AskingPart", "ReplayPart")
    plugin("sampling_module", replay[: replay.index("register.method")], {"replay": "marks"})
    plugin("marking_module", GUIDE, {"guide": "marks", "method": "marked"})
    words = "'waypoints' with other columns .number, x, name. than replay 'marks' does .number, z, name."
    check_refused(words, matrix.plan, ["suite=minigrid_doorkey", "profile=smoke", "method=marked", "replay=marks"])


def test_parts_may_share_a_log_and_differ_only_in_what_they_say_of_it() -> None:
    reworded = Log("the same", {**PLACES.columns, "x": Column(float, "in other words")})
    merged = logs.together([("guide 'a'", {"places": PLACES}), ("teacher 'b'", {"places": reworded})])
    assert list(merged) == ["places"] and list(merged["places"].columns) == ["step", "x", "at"]


def test_a_part_adds_optional_columns_to_a_log_of_another_whichever_comes_first() -> None:
    more = Log("how it was", {"mood": share("of the teacher", optional=True), "x": PLACES.columns["x"]})
    alone = Log("how it was", {"mood": share("of the teacher", optional=True)})
    parts = [("guide 'a'", {"places": PLACES}), ("teacher 'b'", {"places": more}), ("judge 'c'", {"places": alone})]
    for order in (parts, parts[::-1]):
        (merged,) = logs.together(order).values()
        assert set(merged.columns) == {"step", "x", "at", "mood"} and merged.required == {"step": int, "x": float}
    assert logs.together(parts)["places"].meaning == PLACES.meaning
    assert logs.together([parts[2], parts[0]])["places"].meaning == PLACES.meaning


def test_a_log_has_64_columns_beside_its_step_whoever_declares_them() -> None:
    def columns(letter: str, number: int) -> dict[str, Column]:
        return {f"{letter}{n}": count("n", optional=True) for n in range(number)}

    merged = logs.together([("guide 'a'", {"places": Log("many", columns("a", 60) | columns("b", 4))})])
    assert logs.read(logs.plain(merged)) == merged
    declared = [
        ("guide 'a'", {"places": Log("many", columns("a", 60))}),
        ("teacher 'b'", {"places": Log("b", columns("b", 5))}),
    ]
    check_refused(
        "teacher 'b' declares the log 'places', which has 65 columns with those of others", logs.together, declared
    )


@pytest.mark.parametrize(
    ("name", "log", "message"),
    [
        ("metrics", PLACES, "'metrics', which every run writes"),
        ("judgements", PLACES, "which every run writes"),
        ("../places", PLACES, "lower-case letters"),
        ("places", PLACES.columns, "as dict; write"),
        ("places", Log("none", {}), "with 0 columns; it may have 1 to 64"),
        ("places", Log("many", {f"c{n}": count("n") for n in range(65)}), "with 65 columns"),
        ("places", Log("x" * 301, PLACES.columns), "one line of 1 to 300 characters"),
        ("places", Log("a", {"step": count("n")}), "'step', which is written with every row"),
        ("places", Log("a", {"seed": count("n")}), "'seed', which is added to every table row"),
        ("places", Log("a", {"X": count("n")}), "the name of a column"),
        ("places", Log("a", {"x": Column(list, "n")}), "no Column of int, float, bool, str"),
        ("places", Log("a", {"x": Column(str, "n", low=0)}), "only columns of int or float have bounds"),
        ("places", Log("a", {"x": Column(float, "n", low=1, high=0)}), "least value 1 is above its largest 0"),
    ],
)
def test_a_declaration_that_no_record_may_hold_is_refused_by_part_and_log(name: str, log: Any, message: str) -> None:
    check_refused(f"guide 'a' declares the log .*{message}", logs.together, [("guide 'a'", {name: log})], RESERVED)


def test_more_logs_than_a_record_may_hold_are_refused() -> None:
    check_refused("33 logs; at most 32", logs.together, [("guide 'a'", {f"log_{n}": PLACES for n in range(33)})])


ROW = Log("a row", {"n": count("n"), "p": share("p"), "ok": Column(bool, "b"), "text": Column(str, "t", optional=True)})


def test_a_row_is_written_with_numbers_of_numpy_as_plain_ones_and_without_none() -> None:
    row = {"n": np.int64(3), "p": np.float32(0.5), "ok": np.bool_(True), "text": None}
    assert json.dumps(logs.fitting(row, ROW, "a row")) == '{"n": 3, "p": 0.5, "ok": true}'


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("n", -1, "-1'; expected a whole number of at least 0"),
        ("n", 1.0, "expected a whole number"),
        ("n", True, "expected a whole number"),
        ("p", 1.5, r"expected a number in \[0, 1\]"),
        ("p", float("nan"), "'nan'; expected"),
        ("ok", 1, "expected true or false"),
        ("text", "two\nlines", "expected text on one line"),
        ("text", "x" * 10_001, "at most 10,000 characters"),
        ("p", None, "expected a number"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_an_error_by_name(column: str, value: Any, message: str) -> None:
    row = {"n": 3, "p": 0.5, "ok": True, column: value}
    check_refused(f"^a row, column '{column}': .*{message}", logs.fitting, row, ROW, "a row")


def test_a_row_without_a_column_that_every_row_has_is_an_error() -> None:
    check_refused("lacks the column 'ok'; declare it as optional", logs.fitting, {"n": 3, "p": 0.5}, ROW, "a row")


def test_declarations_come_back_from_a_record_as_they_were() -> None:
    assert logs.read(json.loads(json.dumps(logs.plain({"row": ROW})))) == {"row": ROW}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.clear(), "expected an object with meaning, columns"),
        (lambda log: log.update(more=1), "expected an object with meaning, columns"),
        (lambda log: log.update(meaning=["x"]), "its meaning is one line"),
        (lambda log: log.update(meaning="\x1b[31m"), "its meaning is one line"),
        (lambda log: log.update(columns=[]), "without an object of columns"),
        (lambda log: log.update(columns={}), "with 0 columns"),
        (lambda log: log.update(columns={str(n): {} for n in range(65)}), "with 65 columns; at most 64"),
        (lambda log: log["columns"].update({'"; DROP': log["columns"]["n"]}), "the name of a column"),
        (lambda log: log["columns"]["n"].update(kind="object"), "of kind 'object'; expected one of int, float"),
        (lambda log: log["columns"]["n"].update(kind=[]), "of kind"),
        (lambda log: log["columns"]["n"].update(optional="yes"), "optional is 'yes'"),
        (lambda log: log["columns"]["n"].update(low="a"), "its bounds are"),
        (lambda log: log["columns"]["n"].update(low=True), "its bounds are"),
        (lambda log: log["columns"]["n"].update(code="import os"), "expected an object with kind, meaning"),
    ],
)
def test_declarations_in_a_record_of_a_stranger_are_checked(change: Callable[[Any], Any], message: str) -> None:
    declarations = json.loads(json.dumps(logs.plain({"row": ROW})))
    change(declarations["row"])
    check_refused(message, logs.read, declarations)


def test_a_record_of_a_stranger_declares_few_logs_under_names_of_files() -> None:
    log = logs.plain({"row": ROW})["row"]
    for declarations, message in (
        ({f"log_{n}": log for n in range(33)}, "declares 33 logs; at most 32"),
        ({"../row": log}, "the name of a log"),
        ({"metrics": log}, "which every run writes"),
        ([log], "expected an object"),
    ):
        check_refused(message, logs.read, declarations, ("evaluations", "metrics"))
