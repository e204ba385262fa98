"""Boards of studies that were written as the harness writes them; `grid` is a suite that is not installed."""

import json
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from guidebench.harness import statistics
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Score
from guidebench.harness.records import role_counts
from guidebench.harness.records.role_counts import RoleCount
from guidebench.reports.leaderboard import files, frames, gathering, ranking, sources
from guidebench.reports.leaderboard.board import Board, Entry
from guidebench.results.reading import Reader
from tests.reports.conftest import Writer, edit, write_rows

Curves = dict[int, dict[int, list[int]]]


def ends(*rates: float, step: int = 300, before: float = 0.0) -> Curves:
    """Return curves of seeds whose final evaluation, of ten episodes, has these success rates."""
    return {
        seed: {step // 3: _episodes(before), step: _episodes(rate)} for seed, rate in enumerate(rates)
    }  # fmt: skip


def _episodes(rate: float) -> list[int]:
    return [int(episode < round(rate * 10)) for episode in range(10)]


class SharedReader(Reader):
    """A reader that several boards share, since starting its process takes longest; it restarts after a breakdown."""

    def __exit__(self, *_: object) -> None:
        """Keep the process for other tests."""


@pytest.fixture(scope="module", autouse=True)
def reader() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        shared = SharedReader()
        patched.setattr(sources, "Reader", lambda: shared)
        yield
        shared.close()


Study = Callable[..., str]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """`study("name", cell=curves or (curves, {…}))` writes a study and returns its directory."""

    def write(name: str, **cells: Any) -> str:
        writer = Writer(tmp_path / name)
        for cell, settings in cells.items():
            curves, more = settings if isinstance(settings, tuple) else (settings, {})
            writer.cell(cell, curves, **{"method": cell, **more})
        return str(writer.finish(name))

    return write


@pytest.fixture
def gather(tmp_path: Path) -> Callable[..., Board]:
    return lambda *names: gathering.gather(names, tmp_path / "board")


def by_method(board: Board) -> dict[str, Entry]:
    return {row.method: row for row in board.entries}


def test_a_score_is_the_iqm_of_final_success_and_rows_are_ranked_by_what_is_sure(study: Study, gather: Any) -> None:
    board = gather(study("a", low=ends(0, 0.1, 0.2, 0.3), high=ends(1, 0.9, 1, 1), same=ends(1, 1, 1, 0.9)))
    assert board.refused == ()
    assert [(e.method, e.rank, e.rank_low, e.rank_high) for e in board.entries] == [
        ("high", 1, 1, 3),
        ("same", 1, 1, 3),
        ("low", 3, 1, 3),  # 2 of 70 relabellings, so corrected for three pairs every place is open
    ]
    low = by_method(board)["low"]
    assert low.score.value == pytest.approx(0.15) == low.mean.value
    assert low.seeds == (0, 1, 2, 3) and low.tasks == ("8x8",) and (low.steps, low.episodes) == (300, 10)
    assert (low.suite, low.tab, low.profile, low.source) == ("grid", "quick", "quick", low.source)
    (task,) = board.details[low.id].tasks
    assert task.final == (0.0, 0.1, 0.2, 0.3) and task.score == low.score
    assert task.returns.value == pytest.approx(0.075)
    assert (task.curve.unit, task.curve.x) == ("steps", (100.0, 300.0))
    assert task.curve.value == pytest.approx((0.0, 0.15))


def test_names_of_a_table_say_what_differs_between_its_rows_and_what_all_share_is_said_once(
    study: Study, gather: Any
) -> None:
    cells = {
        f"{method}{rate}": (
            SOLVED,
            {
                "method": method,
                "variant": f"learner.rate={rate}, training.steps=300",
                "record": settings_record(learner__rate=rate, training__steps=300),
            },
        )
        for method, rate in (("uer", 0.1), ("uer", 0.2), ("per", 0.1))
    }
    alone = {"alone": (SOLVED, {"method": "sac", "profile": "paper"})}
    entries = gather(study("a", **cells, **alone)).entries
    assert {entry.label: entry.name for entry in entries} == {
        "uer (learner.rate=0.1, training.steps=300) · quick": "uer (learner.rate=0.1)",
        "uer (learner.rate=0.2, training.steps=300) · quick": "uer (learner.rate=0.2)",
        "per (learner.rate=0.1, training.steps=300) · quick": "per (learner.rate=0.1)",
        "sac · paper": "",
    }
    assert {entry.name: entry.shared for entry in entries if entry.profile == "quick"} == dict.fromkeys(
        ["uer (learner.rate=0.1)", "uer (learner.rate=0.2)", "per (learner.rate=0.1)"], "training.steps=300"
    )


def test_scores_agree_with_the_statistics(study: Study, gather: Any) -> None:
    rates = (0.1, 0.3, 0.4, 0.8, 0.9)
    (row,) = gather(study("a", uer=ends(*rates))).entries
    for metric, estimate in (("iqm", row.score), ("mean", row.mean)):
        seed = statistics.name_seed(row.id, 0)
        theirs = statistics.intervals(np.array(rates)[:, None], [metric], ranking.REPS, seed)[metric]
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(tuple(map(float, theirs)), abs=1e-4)


def test_a_row_over_several_tasks_counts_the_seeds_that_all_have(study: Study, gather: Any) -> None:
    board = gather(
        study(
            "a",
            one=(ends(0, 0.5, 0.5, 1), {"method": "uer", "task": "5x5"}),
            two=(ends(0.5, 0.5, 1), {"method": "uer", "task": "6x6", "steps": 300}),
        )
    )
    (row,) = board.entries
    assert row.tasks == ("5x5", "6x6") and row.seeds == (0, 1, 2)
    assert row.score.value == pytest.approx(0.5)  # of 0, .5, .5 and .5, .5, 1, without the lowest and the highest
    assert [task.final for task in board.details[row.id].tasks] == [(0.0, 0.5, 0.5), (0.5, 0.5, 1.0)]
    assert len(board.details[row.id].runs) == 7 and row.rank == 1


def test_tasks_of_other_lengths_meet_at_shares_of_training(study: Study, gather: Any) -> None:
    board = gather(
        study(
            "a",
            one=(ends(1, 1, 1), {"method": "uer", "task": "5x5"}),
            two=(ends(0, 0, 0, step=600), {"method": "uer", "task": "6x6", "steps": 600}),
        )
    )
    curve = board.details[board.entries[0].id].curve
    assert curve.unit == "share of training" and curve.x == (0.333333333, 1.0) and curve.value == (0.0, 0.5)


def curves_of_means(*means: float) -> dict[int, dict[int, list[float]]]:
    """Return curves of seeds whose final evaluation, of ten episodes, has these mean scores."""
    return {seed: {300: [mean] * 10} for seed, mean in enumerate(means)}


def settings_record(**settings: Any) -> dict[str, Any]:
    return {"settings": {name.replace("__", "."): {"value": value} for name, value in settings.items()}}


SOLVED, LOST, POOR = ends(1, 1, 1), ends(0, 0, 0), ends(0, 0, 0.1)
SCRIPTED = {"backend": "scripted", "model": "sprite"}
SERVED = {"backend": "openai", "model": "m"}
DOORKEY = {"suite": "minigrid_doorkey", "task": "5x5", "steps": 30_000}
ARM = {"suite": "metaworld", "task": "button-press-v3"}
MT10 = {"suite": "metaworld_mt10", "task": "reach", "steps": 30_000, "record": {"versions": {"suite": 2}}}
ONCE = {seed: {30_000: [1]} for seed in range(3)}
RIVALS = {"uer": POOR, "per": POOR}
PLACES: Mapping[str, tuple[Mapping[str, Any], str, set[Any]]] = {
    **{
        f"tab {number}": ({"uer": (SOLVED, names)}, "tab", {tab})
        for number, (names, tab) in enumerate([
            ({"profile": "paper"}, "paper"),
            ({"profile": "quick"}, "quick"),
            ({"profile": "smoke", "backend": "scripted"}, "smoke"),
            (SCRIPTED, "scripted"),
            ({"backend": "openai+oracle", "model": "m+oracle"}, "scripted"),
            ({"backend": "placebo", "model": "placebo"}, "scripted"),
            (SERVED, "quick"),
            ({"backend": "external", "profile": "paper"}, "paper"),
            ({**SERVED, "parts": {"judge": "sprite"}}, "scripted"),
            ({"parts": {"teacher": "oracle"}}, "scripted"),
            ({"parts": {"judge": "not_installed"}}, "quick"),
        ])
    },
    **{
        f"below the minimum {number}": (
            {**RIVALS, "odd": (curves, names)}, "method apart rank rank_low score.value",
            {("odd", why, None, None, 1.0), ("uer", "", 1, 1, 0.0333), ("per", "", 1, 1, 0.0333)},
        )
        for number, (curves, names, why) in enumerate([
            (ends(1, 1), {}, "2 seeds; 3 are needed"),
            (SOLVED, {"status": {1: "failed"}, "error": "no"}, "8x8: seed 1 failed"),
            (SOLVED, {"planned": [0, 1, 2, 3]}, "8x8: seed 3 has not begun"),
            (ends(1, 1, 1, step=400), {"steps": 400}, "8x8: 400 training steps where 300 are asked for"),
            (ends(1, 1, 1, step=200), {},
             "8x8: last evaluated at step 200 of 300; 8x8: a run ended before its 300 steps"),
            ({s: {300: [1] * 9} for s in range(3)}, {}, "8x8: 9 episodes in the final evaluation; 10 are needed"),
            (SOLVED, {"profile": "mine"}, "its profile is 'mine'; paper, quick and quick_all are ranked"),
            (SOLVED, {"record": {"versions": {"suite": 0}}}, "made under version 0 of the suite, which is at 1"),
        ])
    },
    "rows of two tabs or profiles are never ranked together": (
        {"real": POOR, "scripted": (SOLVED, SCRIPTED), "paper": (SOLVED, {"profile": "paper"}),
         "scripted_paper": (POOR, {**SCRIPTED, "profile": "paper"})},
        "rank", {1},
    ),
    "one episode is enough where every episode of a run is the same": (
        {"hidden": (ONCE, MT10 | settings_record(suite__goal="hidden", suite__layouts="by_goal")),
         "shown": (ONCE, MT10 | settings_record(suite__goal="observable", suite__layouts="by_goal")),
         "untold": (ONCE, MT10 | settings_record(suite__goal="there", suite__none="such"))},
        "method apart",
        {("hidden", ""), *((name, "reach: 1 episodes in the final evaluation; 10 are needed")
                           for name in ("shown", "untold"))},
    ),
    "an installed suite says which tasks and steps a profile has": (
        {"whole": (ends(1, 1, 1, step=30_000), DOORKEY),
         "short": (ends(1, 1, 1, step=3_000), DOORKEY | {"steps": 3_000}),
         "elsewhere": (ends(1, 1, 1, step=150_000), DOORKEY | {"steps": 150_000, "task": "8x8"}),
         "brief": (ends(1, 1, 1, step=3_000), DOORKEY | {"steps": 3_000, "task": "8x8"})},
        "method rank board apart",
        {("whole", 1, "", ""), ("elsewhere", 1, "8x8", ""),
         ("short", None, "", "5x5: 3,000 training steps where 30,000 are asked for"),
         ("brief", None, "", "8x8: 3,000 training steps where 150,000 are asked for")},
    ),
    "rows of one task alone are ranked among themselves": (
        {**{f"{name}_{task}": (ends(0.5, 0.5, 0.5), {"method": name, "task": task})
            for name in ("uer", "per", "aer") for task in ("5x5", "8x8")},
         "good": ends(1, 1, 1, 1), "bad": ends(0, 0, 0, 0), "one": (SOLVED, {"task": "5x5"})},
        "method board rank",
        {*((name, "", 1) for name in ("uer", "per", "aer")), ("good", "8x8", 1), ("bad", "8x8", 2), ("one", "5x5", 1)},
    ),
    "tasks of other scores are put on one scale": (
        {"one": (curves_of_means(-100, -100, -100),
                 {"method": "uer", "task": "swing", "score": Score("return", low=-500, high=0)}),
         "two": (curves_of_means(10, 10, 10),
                 {"method": "uer", "task": "collect", "score": Score("badges", low=0, high=20)})},
        "tasks measure.name mean.value",
        {(("collect", "swing"), "normalised score", (0.8 + 0.5) / 2)},
    ),
    "a task whose range is not known is ranked by itself": (
        {task: (curves_of_means(1, 2, 3), {"method": "uer", "score": Score("return"), "task": task})
         for task in ("hopper", "cheetah")},
        "tasks rank", {(("cheetah",), 1), (("hopper",), 1)},
    ),
    "records that score a task otherwise are not ranked together": (
        {"uer": SOLVED, "per": (curves_of_means(0, 0, 0), {"score": Score("return")})},
        "method rank", {("uer", 1), ("per", 1)},
    ),
    "other settings of the suite and demonstrations make another board": (
        {"seen": (ends(1, 1, 1, 1), settings_record(suite__goal="observable")),
         "also": (ends(0, 0, 0, 0), settings_record(suite__goal="observable", training__demonstrations=0)),
         "hidden": (LOST, settings_record(suite__goal="hidden")),
         "shown": (LOST, settings_record(suite__goal="observable", training__demonstrations=5))},
        "method rank conditions",
        {("seen", 1, "goal=observable"), ("also", 2, "goal=observable"), ("hidden", 1, "goal=hidden"),
         ("shown", 1, "goal=observable, demonstrations=5")},
    ),
    "conditions of a suite that is installed are what is not usual": (
        {"usual": (SOLVED, ARM | settings_record(suite__goal="observable")),
         "elsewhere": (SOLVED, {**ARM, "settings": {}}),
         "hidden": (SOLVED, ARM | settings_record(suite__goal="hidden"))},
        "method conditions", {("usual", ""), ("elsewhere", ""), ("hidden", "goal=hidden")},
    ),
    "a profile of another name has a tab of its own and no rank": (
        {"uer": (SOLVED, {"profile": "mine"})}, "tab rank", {("other", None)},
    ),
    "a row holds no tasks of different tabs": (
        {"one": (SOLVED, {"method": "pebble"}),
         "two": (SOLVED, {"method": "pebble", "backend": "oracle", "model": "oracle", "task": "5x5"})},
        "tab tasks", {("quick", ("8x8",)), ("scripted", ("5x5",))},
    ),
    "a row that lacks some of several tasks is listed apart": (
        {f"{name}_{task}": (SOLVED, {"method": name, "task": task})
         for name, tasks in {"uer": "abc", "per": "abc", "odd": "ab"}.items() for task in tasks},
        "method apart rank", {("odd", "no evaluations on c", None), ("uer", "", 1), ("per", "", 1)},
    ),
    "the protocol of a row names the versions of its suite and of its record": (
        {**RIVALS, "old": (SOLVED, {"record": {"versions": {"suite": 0}}})},
        "method protocol rank",
        {("old", "suite 0, record 2", None), ("uer", "suite 1, record 2", 1), ("per", "suite 1, record 2", 1)},
    ),
}  # fmt: skip
"""Case -> cells, attributes of a row, and the values of these attributes in each row."""


@pytest.mark.parametrize("case", PLACES)
def test_a_row_s_place_follows_from_what_was_trained_and_how(study: Study, gather: Any, case: str) -> None:
    cells, names, expected = PLACES[case]
    if case.startswith("one episode"):
        pytest.importorskip("metaworld")
    assert set(map(attrgetter(*names.split()), gather(study("a", **cells)).entries)) == expected


@pytest.mark.parametrize(
    ("score", "good", "bad"),
    [
        (Score("return", low=-500, high=0), (-100, -101, -101, -102), (-160, -161, -161, -162)),
        (Score("cost", "lower"), (100, 101, 101, 102), (160, 161, 161, 162)),
    ],
)
def test_rows_are_ranked_by_the_score_that_their_suite_names(
    study: Study, gather: Any, score: Score, good: tuple[float, ...], bad: tuple[float, ...]
) -> None:
    rows = {"bad": curves_of_means(*bad), "good": curves_of_means(*good)}
    board = gather(study("a", **{name: (curves, {"score": score}) for name, curves in rows.items()}))
    assert [(row.method, row.rank) for row in board.entries] == [("good", 1), ("bad", 2)]
    best = board.entries[0]
    assert (best.measure.name, best.measure.direction, best.measure.high) == (score.name, score.direction, score.high)
    assert best.score.value == pytest.approx(good[1]) and min(good) <= (best.score.low or 0) <= good[1]
    (task,) = board.details[best.id].tasks
    assert task.curve.of == f"mean {score.name}" and not task.curve.share and task.measure == best.measure


def test_a_further_task_beside_those_that_count_is_shown_and_not_scored(study: Study, gather: Any) -> None:
    home = {"suite": "minigrid_doorkey", "method": "uer"}
    board = gather(
        study(
            "a",
            one=(ends(1, 1, 1, step=30_000), home | {"task": "5x5", "steps": 30_000}),
            two=(ends(0, 0, 0, step=90), home | {"task": "8x8", "steps": 90}),
        )
    )
    (entry,) = board.entries
    assert [(suite.title, suite.version) for suite in board.suites] == [("MiniGrid DoorKey", 1)]
    assert entry.tasks == ("5x5",) and entry.score.value == 1 and entry.rank == 1
    assert [task.task for task in board.details[entry.id].tasks] == ["5x5", "8x8"]


def test_a_row_elsewhere_changes_no_number_and_the_same_studies_give_the_same_bytes(study: Study, gather: Any) -> None:
    cells = {"uer": ends(0.1, 0.4, 0.5, 1), "per": ends(0.3, 0.4, 0.6, 0.9)}
    first, moved = study("a", **cells), study("c", **cells)
    alone = gather(first)
    other = study("b", sac=(SOLVED, {"suite": "maze"}), td3=(ends(0, 0, 1), {"profile": "paper"}))
    both = gather(first, other)
    for row in alone.entries:
        assert row in both.entries and both.details[row.id] == alone.details[row.id]
    assert files.as_json(gather(first, other)) == files.as_json(both)
    # scores do not depend on the path of a study
    assert [(e.id, e.score) for e in gather(moved).entries] == [(e.id, e.score) for e in alone.entries]


# Several sources


Accounts = tuple[dict[str, Any], dict[str, Any], dict[str, int], list[tuple[str, str]], list[str]]
ACCOUNTS: Mapping[str, Accounts] = {
    "a run in two sources is counted once and said so": (
        {"uer": SOLVED}, {"uer": SOLVED, "per": LOST}, {"uer": 0, "per": 1}, [],
        ["{1}: 3 of its runs are in {0} too and counted there"],
    ),
    "a cell that differs from one made under equal conditions is refused by name and the rest shown": (
        {"uer": SOLVED}, {"uer": ends(1, 0.5, 1), "per": LOST}, {"uer": 0, "per": 1},
        [("{1}, cell uer", "seed 1 is in {0} too, made by the same code on a machine of the same kind, and the two "
          "differ at step 300")], [],
    ),
    "two cells of one id that are not the same clash": (
        {"uer": SOLVED}, {"uer": (LOST, {"learner": "sac"})}, {"uer": 0},
        [("{1}, cell uer", "its learner is 'sac', in {0} 'dqn'")], [],
    ),
    "of a run that goes on elsewhere the further account counts": (
        {"uer": ({seed: {100: _episodes(0)} for seed in range(3)}, {"status": dict.fromkeys(range(3), "stopped")}),
         "per": SOLVED},
        {"uer": SOLVED}, {"uer": 1, "per": 0}, [], [],
    ),
}  # fmt: skip
"""Case -> cells of two sources; method and source of each row; refusals with reasons; notes."""


@pytest.mark.parametrize("case", ACCOUNTS)
def test_a_run_in_two_sources_is_counted_once_or_refused(study: Study, gather: Any, case: str) -> None:
    first, second, rows, refused, notes = ACCOUNTS[case]
    sources = study("a", **first), study("b", **second)
    board = gather(*sources)
    assert {row.method: row.source for row in board.entries} == {name: sources[at] for name, at in rows.items()}
    assert [(refusal.source, refusal.reason) for refusal in board.refused] == [
        (source.format(*sources), reason.format(*sources)) for source, reason in refused
    ]
    assert list(board.notes) == [note.format(*sources) for note in notes] and all(e.rank for e in board.entries)


ANOTHER = {"commit": "abc123", "packages": {"torch": "2.0"}, "hardware": {"processor": "another CPU", "device": "cpu"}}
"""A provenance that differs from the writer's in its processor."""


def test_a_replication_stands_beneath_the_row_that_it_repeats_and_has_no_rank(study: Study, gather: Any) -> None:
    first = study("a", uer=ends(0.9, 1, 1, 1), per=ends(0, 0, 0, 0.1))
    second = study("b", uer=(ends(0.1, 0, 0, 0), {"provenance": ANOTHER}))
    board = gather(first, second)
    rows = [(entry.method, entry.source, entry.rank, entry.relation) for entry in board.entries]
    assert rows == [("uer", first, 1, ""), ("uer", second, None, "replication"), ("per", first, 2, "")]
    original, replication, _ = board.entries
    assert replication.beneath == original.id and board.refused == ()
    assert replication.apart == f"it repeats a configuration of {first}, whose row holds the rank"


def test_equal_runs_of_two_machines_are_one_row_that_was_reproduced(study: Study, gather: Any) -> None:
    board = gather(study("a", uer=SOLVED), study("b", uer=(SOLVED, {"provenance": ANOTHER})))
    assert len(board.entries) == 1 and any("3 seeds reproduced on 2 machines" in note for note in board.notes)


def test_further_seeds_of_a_row_stand_beneath_it_with_links_of_their_own(study: Study, gather: Any) -> None:
    later = {seed + 10: curve for seed, curve in ends(0, 0, 0, 0).items()}
    board = gather(study("a", uer=ends(1, 1, 1, 1)), study("b", uer=later))
    assert [(entry.rank, entry.relation) for entry in board.entries] == [(1, ""), (None, "further seeds")]
    assert len({entry.id for entry in board.entries}) == 2 and board.entries[1].beneath == board.entries[0].id
    assert all(set(entry.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for entry in board.entries)


# What opening a row shows


def matrix(kind: str, name: str, reference: str = "full") -> dict[str, Any]:
    return {"method": "vlm_rb", "matrix": {"kind": kind, "name": name, "reference": reference}}


def test_ablations_are_variations_of_their_reference_and_no_rows(study: Study, gather: Any) -> None:
    board = gather(
        study(
            "a",
            full=(ends(0.8, 0.9, 0.9, 1), matrix("ablation", "full")),
            without=(ends(0.5, 0.6, 0.6, 0.7), {**matrix("ablation", "without"), "variant": "replay.x=0"}),
        )
    )
    (row,) = board.entries
    (variation,) = board.details[row.id].variations
    assert (variation.kind, variation.name, variation.task) == ("ablation", "without", "8x8")
    assert variation.score.value == pytest.approx(0.6) and variation.difference.value == pytest.approx(-0.3)
    # each of four runs is below all others: p is 2 / 70, so the interval leaves out 0
    assert -1 <= variation.difference.low < -0.3 < variation.difference.high < 0


def test_variations_of_a_reference_that_is_counted_elsewhere_stand_there_under_their_sources_name(
    study: Study, gather: Any
) -> None:
    first = study("a", full=(ends(1, 1, 1), matrix("ablation", "full")))
    second = study(
        "b",
        full=(ends(1, 1, 1), matrix("perturbation", "standard")),
        other=(ends(0, 0, 0), matrix("perturbation", "texture")),
    )
    for name in ("standard", "texture"):
        _png(Path(second) / f"frames/grid/8x8/{name}.png")
    board = gather(first, second)
    (row,) = board.entries
    details = board.details[row.id]
    assert [(variation.kind, variation.name) for variation in details.variations] == [
        ("perturbation", f"texture ({second})")
    ]
    assert [frame.caption for frame in details.frames] == ["8x8: standard", "8x8: texture"]


def test_an_ablation_without_its_reference_is_named_in_the_notes(study: Study, gather: Any) -> None:
    source = study(
        "a",
        full=({0: {}}, {**matrix("ablation", "full"), "status": {0: "running"}}),
        without=(ends(0, 0, 0), matrix("ablation", "without")),
        uer=ends(1, 1, 1),
    )
    assert gather(source).notes == (f"{source}: ablation without is not shown: its reference has no evaluations here",)


def test_large_frames_are_made_small_and_what_is_no_picture_is_named(study: Study, gather: Any) -> None:
    cells = {"full": (ends(1, 1, 1), matrix("perturbation", "standard"))}
    cells |= {name: (ends(0, 0, 0), matrix("perturbation", name)) for name in ("texture", "bomb")}
    source = study("a", **cells)
    _png(Path(source) / "frames/grid/8x8/standard.png", (2000, 1000))
    _png(Path(source) / "frames/grid/8x8/texture.png", (64, 32))
    bomb = Path(source) / "frames/grid/8x8/bomb.png"
    bomb.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (2**31 - 1).to_bytes(4, "big") * 2)
    board = gather(source)
    images = board.details[board.entries[0].id].frames
    assert [frame.caption for frame in images] == ["8x8: standard", "8x8: texture"]
    assert max(len(frame.png) for frame in images) <= 80_000
    assert board.notes == (f"{source}: sample frames 8x8: bomb are left out: no picture, or too large a one",)


@pytest.mark.parametrize(("bound", "most"), [("BUDGET", 40_000), ("ALL_PIXELS", 3_000_000)])
def test_frames_are_read_and_made_smaller_as_long_as_there_is_room(
    study: Study, gather: Any, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    source = study("a", **{name: (ends(1, 1, 1), matrix("perturbation", name)) for name in ("full", "one", "two")})
    for name in ("one", "two"):
        _png(Path(source) / f"frames/grid/8x8/{name}.png", (2000, 1000) if bound == "ALL_PIXELS" else (64, 128))
    monkeypatch.setattr(frames, bound, most)
    board = gather(source)
    assert [frame.caption for frame in board.details[board.entries[0].id].frames] == ["8x8: one"]
    assert board.notes == (f"{source}: sample frames 8x8: two and further ones are left out: there is no room",)


def _png(path: Path, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), np.uint8)).save(path)


def test_settings_keep_their_layer_and_where_tasks_differ_their_task(study: Study, gather: Any) -> None:
    lr = {"learner.lr": {"value": 0.1, "layer": "learner", "source": ""}}
    steps = {task: {"training.steps": {"value": n, "layer": "profile quick"}} for task, n in (("5x5", 3), ("6x6", 6))}
    board = gather(
        study(
            "a",
            **{
                task: (
                    ends(1, 1, 1),
                    {"method": "uer", "task": task, "settings": lr | task_settings, "parts": {"replay": "uer"}},
                )
                for task, task_settings in steps.items()
            },
        )
    )
    assert [tuple(vars(setting).values()) for setting in board.details[board.entries[0].id].settings] == [
        ("replay", "uer", "part"),
        ("learner.lr", "0.1", "learner"),
        ("training.steps (5x5)", "3", "profile quick"),
        ("training.steps (6x6)", "6", "profile quick"),
    ]


def test_provenance_hardware_and_citations_are_those_of_its_runs(study: Study, gather: Any) -> None:
    board = gather(study("a", uer=(ends(1, 1, 1), {"parts": {"replay": "per"}})))
    (row,) = board.entries
    details = board.details[row.id]
    assert row.hardware == ("some CPU, 2 cores",)
    assert [(origin.commit, origin.packages, origin.runs) for origin in details.origins] == [("abc123", "torch 2.0", 3)]
    assert details.runs == tuple(f"grid/8x8/uer-uer/seed-{seed}" for seed in range(3))
    assert "schaul" in details.bibtex and "% suite grid: not installed here" in details.bibtex
    assert details.checks == () and row.standing == "self-reported"


def test_model_calls_are_counted_over_all_runs_and_a_ledger_that_is_none_costs_only_its_numbers(
    study: Study, gather: Any
) -> None:
    source = study("a", asked=(SOLVED, SERVED), uer=SOLVED)
    runs = [Path(source) / f"grid/8x8/asked-asked/seed-{seed}" for seed in range(3)]
    for run in runs:
        write_rows(run, "ledger", [{"step": step, "calls": step, "usd": step / 1000} for step in (100, 300)])
    rows_by_method = by_method(gather(source))
    assert [(rows_by_method[name].calls, rows_by_method[name].usd) for name in ("asked", "uer")] == [
        (900, 0.9),
        (None, None),
    ]
    for bad in ('{"calls": 1, "usd": NaN}', '{"calls": true, "usd": 0}', "[" * 5000, "1"):
        (runs[1] / "ledger.jsonl").write_text(bad + "\n")
        board = gather(source)
        assert [refusal.source for refusal in board.refused] == [f"{source}, costs"] and "last row" in board.refused[
            0
        ].reason
        assert by_method(board)["asked"].calls is None and len(board.entries) == 2
    (runs[1] / "ledger.jsonl").unlink()
    assert by_method(gather(source))["asked"].calls is None, "of a part of the runs nobody wants the sum"
    for failures, apart in ((33, False), (34, True)):  # a row whose questions were not answered is listed apart
        for run in runs:
            counted = {"questions": 110, "failures": failures if run is runs[1] else 0}
            write_rows(run, "ledger", [{"step": 300, "calls": 9, "usd": 0.1, **counted}])
        rows_by_method = by_method(gather(source))
        assert ("of 330 questions to models got no answer" in rows_by_method["asked"].apart) is apart
        assert (rows_by_method["asked"].rank is None) is apart and rows_by_method["uer"].rank is not None
    for remark in ("", "routed without scores"):  # 2 of 330 questions in all, but of few asked in one role
        for run in runs:
            counts = {"scorer": RoleCount(2, 1, remark), "judge": RoleCount(108, 0)}
            counted = {"questions": 110, "failures": 1, "roles": role_counts.written(counts)}
            write_rows(run, "ledger", [{"step": 300, "calls": 9, "usd": 0.1, **counted}])
        rows_by_method = by_method(gather(source))
        assert rows_by_method["asked"].rank is None and remark in rows_by_method["asked"].apart


# Hostile directories


def _edit_cell(root: Path, **changes: Any) -> None:
    edit(root / CELL, **changes)


def _listed(**changes: Any) -> Callable[[Path], None]:
    """Return a function that changes the entry of a cell in study.json."""

    def change(root: Path) -> None:
        study_record = json.loads((root / "study.json").read_text())
        study_record["cells"]["bad"] |= changes
        (root / "study.json").write_text(json.dumps(study_record))

    return change


def _text(path: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / path).write_text(text)


def _rows(root: Path, seed: int = 0) -> Path:
    return root / f"grid/8x8/bad-bad/seed-{seed}/evaluations.parquet"


def _change_rows(root: Path, **columns: Any) -> None:
    rows = pd.read_parquet(_rows(root))
    for name, values in columns.items():
        rows[name.rstrip("_")] = values
    rows.to_parquet(_rows(root), index=False)


def _linked(root: Path) -> None:
    outside = root.parent / "outside.parquet"
    _rows(root).rename(outside)
    _rows(root).symlink_to(outside)


def _sparse(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        path = _rows(root).with_name(name)
        with open(path, "ab") as file:
            file.truncate(2**30)

    return make


def _many_rows(root: Path) -> None:
    """Write ten million rows in a small file, since their runs of equal values hardly take room."""
    pq.write_table(pa.concat_tables([pq.read_table(_rows(root))] * 20_000), _rows(root), compression="zstd")
    assert _rows(root).stat().st_size < 2**24


def _unpacking(root: Path) -> None:
    """Write a hundred megabytes in a compressed file of some KB."""
    table = pq.read_table(_rows(root))
    long = pa.array(["x" * 5 * 10**6] * len(table), pa.string())
    pq.write_table(table.set_column(0, "study", long), _rows(root), compression="zstd", use_dictionary=False)
    assert _rows(root).stat().st_size < 2**22


def _long_names(root: Path) -> None:
    table = pq.read_table(_rows(root))
    names = pa.array(["y" * 10**6] * len(table), pa.string())
    pq.write_table(table.set_column(table.column_names.index("method"), "method", names), _rows(root))


def _repeated_name(root: Path, length: int = 10**6) -> None:
    """Write a quarter of a million rows that name the same text of `length` bytes, in a file of some KB."""
    row = pq.read_table(_rows(root)).slice(0, 1).to_pylist()[0]
    columns = {name: pa.repeat(value, 250_000) for name, value in row.items()}
    columns["method"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 250_000), ["y" * length])
    pq.write_table(pa.table(columns), _rows(root), compression="zstd", write_statistics=False)


def _long_line(root: Path) -> None:
    _rows(root).unlink()
    _rows(root).with_name("evaluations.jsonl").write_text('{"a": "' + "x" * (2**24 - 20) + '"}\n')
    edit(root / RUN, status="running")


def _pickle(path: str) -> Callable[[Path], None]:
    import pickle

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (Path("sprung"),))

    return lambda root: (root / path).write_bytes(pickle.dumps(Trap())) and None


CELL, RUN = "grid/8x8/bad-bad/cell.json", "grid/8x8/bad-bad/seed-0/run.json"
HOSTILE: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "link": (_linked, "is a link"),
    "linked directory": (lambda root: (root / "grid/8x8/more").symlink_to("/"), "is a link"),
    "traversal": (_listed(directory="../outside"), "lies outside the study"),
    "a gigabyte of Parquet": (_sparse("evaluations.parquet"), "1,073,741,824 bytes; at most 16,777,216 are read"),
    "a gigabyte of lines": (_sparse("evaluations.jsonl"), "1,073,741,824 bytes; at most 16,777,216 are read"),
    "a gigabyte of run.json": (_sparse("run.json"), "at most 1,048,576 are read"),
    "a gigabyte of ledger": (_sparse("ledger.jsonl"), "at most 16,777,216 are read"),
    "millions of rows": (_many_rows, "400,000 rows; at most 250,000 are read"),
    "a bomb in Parquet": (_unpacking, "bytes when unpacked; at most 67,108,864 are read"),
    "long names in rows": (_long_names, "bytes when unpacked; at most 131,072 are read"),
    "a name of a megabyte in every row": (_repeated_name, "column 'method' has 1,0"),
    "a line of megabytes": (_long_line, "row 1: lacks the column"),
    "nested study.json": (_text("study.json", "[" * 100_000), "cannot be read as JSON"),
    "nested settings": (
        lambda root: _edit_cell(root, settings={"x": {"value": json.loads("[" * 900 + "]" * 900)}}),
        "nested too deep",
    ),
    "nested provenance": (
        lambda root: edit(root / RUN, provenance={"hardware": json.loads("[" * 900 + "]" * 900)}),
        "nested too deep",
    ),
    "study.json is a list": (_text("study.json", "[]"), "expected a JSON object"),
    "an endless number": (_text(CELL, '{"schema": ' + "9" * 10_000 + "}"), "cannot be read as JSON"),
    "pickled rows": (_pickle("grid/8x8/bad-bad/seed-0/evaluations.parquet"), "cannot be read as Parquet"),
    "pickled study": (_pickle("study.json"), "cannot be read as JSON"),
    "pickled run": (_pickle(RUN), "cannot be read as JSON"),
    "wrong type": (lambda root: _edit_cell(root, method=3), "method is 3; expected str"),
    "steps that are true": (lambda root: _edit_cell(root, steps=True), "expected a whole number"),
    "infinite steps": (lambda root: _edit_cell(root, steps=float("inf")), "steps is inf"),
    "control characters": (lambda root: _edit_cell(root, model="\x1b[31m"), "expected printable text"),
    "half a character": (lambda root: _edit_cell(root, model="\ud800"), "expected printable text"),
    "a long name": (lambda root: _edit_cell(root, learner="x" * 10_000), "a name of more than 300 characters"),
    "NaN in rows": (lambda root: _change_rows(root, return_=float("nan")), "column 'return': nan; expected a finite"),
    "infinite rows": (lambda root: _change_rows(root, return_=float("inf")), "column 'return': inf; expected a finite"),
    "sums beyond all numbers": (lambda root: _change_rows(root, return_=1.7e308), "cannot be averaged"),
    "negative rows": (lambda root: _change_rows(root, length=-1), "column 'length': -1"),
    "rows of text": (lambda root: _change_rows(root, success="yes"), "column 'success' is of type BYTE_ARRAY"),
    "whole numbers for truths": (lambda root: _change_rows(root, success=7), "column 'success' is of type INT64"),
    "episodes twice": (lambda root: _change_rows(root, episode=0), "is there twice"),
    "another's rows": (lambda root: _change_rows(root, cell="good"), "column 'cell': 'good'"),
    "missing values": (lambda root: _change_rows(root, length=[None, *[10] * 19]), "column 'length'"),
    "a column more": (lambda root: _change_rows(root, extra=1), "unknown column 'extra'"),
    "many seeds": (_listed(seeds=[*range(100_000)]), "100,000 seeds; at most 1,000 are read"),
    "a directory for a file": (lambda root: _swap_for_directory(root / CELL), "is no regular file"),
}


def _swap_for_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_directory_is_refused_by_name_and_the_rest_shown(
    study: Study, gather: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil, words = HOSTILE[name]
    bad = study("hostile", bad=ends(1, 1, 1))
    spoil(Path(bad))
    board = gather(bad, study("other", good=ends(1, 1, 1)))
    (refused,) = board.refused
    assert refused.source == bad and words in refused.reason and len(refused.reason) <= 600
    assert [entry.method for entry in board.entries] == ["good"] and not (tmp_path / "sprung").exists()
    files.as_json(board), files.as_csv(board)


MARKUP = "</script><img src=x onerror=alert(1)>"


def test_markup_in_names_and_settings_is_text_like_any_other(study: Study, gather: Any) -> None:
    lure = {"value": MARKUP, "layer": MARKUP, "source": "", "more": "\ud800\x1b[2J"}
    names = {"model": MARKUP, "backend": "openai", "settings": {MARKUP: lure, "x": {"value": "\ud800\x00", "layer": 3}}}
    board = gather(study("a", uer=(ends(1, 1, 1), {**names, "provenance": {"commit": MARKUP, "packages": "\udfff"}})))
    (row,) = board.entries
    assert row.model == MARKUP and MARKUP in row.label
    details = board.details[row.id]
    assert (details.settings[0].name, details.settings[0].value, details.settings[0].layer) == (MARKUP, MARKUP, MARKUP)
    assert (details.settings[1].value, details.settings[1].layer) == ("  ", "3") and details.origins[0].packages == " "
    json.loads(files.as_json(board)), files.as_csv(board)


def test_texts_of_any_length_are_cut_and_curves_of_many_evaluations_thinned(study: Study, gather: Any) -> None:
    settings = {f"learner.{index}": {"value": "x" * 700, "layer": "y" * 700} for index in range(600)}
    provenance = {"commit": "z" * 5_000, "packages": {"p" * 5_000: "q"}, "hardware": {"processor": "r" * 5_000}}
    curves = {seed: {step: [1] * 10 for step in range(1, 301)} for seed in range(3)}
    board = gather(study("a", uer=(curves, {"settings": settings, "provenance": provenance})))
    details = board.details[board.entries[0].id]
    assert len(details.settings) == 400 and len(board.entries[0].hardware[0]) == 120
    longest = max(len(text) for setting in details.settings for text in (setting.name, setting.value, setting.layer))
    assert longest == 400 and max(len(origin.packages) for origin in details.origins) == 600
    assert len(details.curve.x) == 50 and (details.curve.x[0], details.curve.x[-1]) == (1.0, 300.0), "ends are kept"


def test_a_board_has_room_for_so_many_rows(study: Study, gather: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ROWS", 2)
    board = gather(study("a", **{f"m{index}": ends(1, 1, 1) for index in range(3)}), study("b", uer=ends(1, 1, 1)))
    assert [refusal.reason for refusal in board.refused] == ["the board has room for 2 rows, and this has 3"]
    assert [row.method for row in board.entries] == ["uer"]


def test_nothing_to_show_is_an_error_and_if_all_is_refused_it_says_why(study: Study, gather: Any) -> None:
    broken = study("a", uer=SOLVED)
    (Path(broken) / "study.json").write_text("{")
    refused = r"nothing to show: .*study\.json cannot be read as JSON"
    for names, says in (
        ([broken], refused),
        (["nowhere"], "no study at nowhere"),
        ([], "name a study, as in .*, or add"),
    ):
        with pytest.raises(UserError, match=says):
            gather(*names)


def test_an_unfinished_run_counts_only_its_whole_evaluations(study: Study, gather: Any) -> None:
    curves = ends(1, 1, 1)
    curves[2] = {100: _episodes(0), 200: [1, 1]}
    (row,) = gather(study("a", uer=(curves, {"status": {2: "running"}}))).entries
    assert (
        row.apart == "8x8: seed 2 is running; 8x8: last evaluated at step 100 of 300" and row.score.value == 0
    )  # all have the step 100 only
