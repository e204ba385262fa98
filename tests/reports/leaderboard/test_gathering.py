"""Boards of studies that were written as the harness writes them; `grid` is a suite that is not installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Score
from guidebench.reports import statistics
from guidebench.reports.leaderboard import files, frames, gathering, ranking, sources
from guidebench.reports.leaderboard.board import Board, Entry
from guidebench.results.reading import Reader
from tests.reports.conftest import Writer

Curves = dict[int, dict[int, list[int]]]


def ends(*rates: float, step: int = 300, before: float = 0.0) -> Curves:
    """Seeds whose final evaluation, of ten episodes, has these success rates."""
    return {
        seed: {step // 3: _episodes(before), step: _episodes(rate)} for seed, rate in enumerate(rates)
    }  # fmt: skip


def _episodes(rate: float) -> list[int]:
    return [int(episode < round(rate * 10)) for episode in range(10)]


class Kept(Reader):
    """Reads for several boards, since starting a process takes longest; one that broke down is begun anew."""

    def __exit__(self, *_: object) -> None:
        """Another test may want it."""


@pytest.fixture(scope="module", autouse=True)
def reader() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        kept = Kept()
        patched.setattr(sources, "Reader", lambda: kept)
        yield
        kept.close()


Study = Callable[..., str]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """`study("name", cell=curves or (curves, {…}))` writes a study; its directory."""

    def write(name: str, **cells: Any) -> str:
        writer = Writer(tmp_path / name)
        for cell, given in cells.items():
            curves, more = given if isinstance(given, tuple) else (given, {})
            writer.cell(cell, curves, **{"method": cell, **more})
        return str(writer.finish(name))

    return write


@pytest.fixture
def gather(tmp_path: Path) -> Callable[..., Board]:
    return lambda *names: gathering.gather(names, tmp_path / "board")


def by_method(board: Board) -> dict[str, Entry]:
    return {entry.method: entry for entry in board.entries}


def test_a_score_is_the_iqm_of_final_success_and_rows_are_ranked_by_what_is_sure(study: Study, gather: Any) -> None:
    board = gather(study("a", low=ends(0, 0.1, 0.2, 0.9), high=ends(1, 0.9, 1, 1), same=ends(1, 1, 1, 0.9)))
    assert board.refused == ()
    assert [(e.method, e.rank, e.rank_low, e.rank_high) for e in board.entries] == [
        ("high", 1, 1, 3),
        ("same", 1, 1, 3),
        ("low", 3, 1, 3),  # of four seeds one ends at .9, so corrected for three pairs every place is open
    ]
    low = by_method(board)["low"]
    assert low.score.value == pytest.approx(0.15) and low.mean.value == pytest.approx(0.3)
    assert low.seeds == (0, 1, 2, 3) and low.tasks == ("8x8",) and (low.steps, low.episodes) == (300, 10)
    assert (low.suite, low.tab, low.profile, low.source) == ("grid", "quick", "quick", low.source)
    (task,) = board.details[low.id].tasks
    assert task.final == (0.0, 0.1, 0.2, 0.9) and task.score == low.score and task.returns.value == pytest.approx(0.15)
    assert (task.curve.unit, task.curve.x) == ("steps", (100.0, 300.0))
    assert task.curve.value == pytest.approx((0.0, 0.15))


def test_scores_agree_with_the_statistics(study: Study, gather: Any) -> None:
    rates = (0.1, 0.3, 0.4, 0.8, 0.9)
    board = gather(study("a", uer=ends(*rates)))
    (entry,) = board.entries
    for metric, found in (("iqm", entry.score), ("mean", entry.mean)):
        seed = statistics.name_seed(entry.id, 0)
        theirs = statistics.intervals(np.array(rates)[:, None], [metric], ranking.REPS, seed)[metric]
        assert (found.value, found.low, found.high) == pytest.approx(tuple(map(float, theirs)), abs=1e-4)


def test_a_row_over_several_tasks_counts_the_seeds_that_all_have(study: Study, gather: Any) -> None:
    board = gather(
        study(
            "a",
            one=(ends(0, 0.5, 0.5, 1), {"method": "uer", "task": "5x5"}),
            two=(ends(0.5, 0.5, 1), {"method": "uer", "task": "6x6", "steps": 300}),
        )
    )
    (entry,) = board.entries
    assert entry.tasks == ("5x5", "6x6") and entry.seeds == (0, 1, 2)
    assert entry.score.value == pytest.approx(0.5)  # of 0, .5, .5 and .5, .5, 1, without the lowest and the highest
    assert [task.final for task in board.details[entry.id].tasks] == [(0.0, 0.5, 0.5), (0.5, 0.5, 1.0)]
    assert len(board.details[entry.id].runs) == 7
    assert entry.rank == 1


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


@pytest.mark.parametrize(
    ("names", "tab"),
    [
        ({"profile": "paper"}, "paper"),
        ({"profile": "quick"}, "quick"),
        ({"profile": "smoke", "backend": "scripted"}, "smoke"),
        ({"backend": "scripted", "model": "sprite"}, "scripted"),
        ({"backend": "openai+oracle", "model": "m+oracle"}, "scripted"),
        ({"backend": "openai", "model": "m"}, "quick"),
        ({"backend": "external", "profile": "paper"}, "paper"),
        ({"backend": "openai", "model": "m", "parts": {"judge": "sprite"}}, "scripted"),
        ({"parts": {"teacher": "oracle"}}, "scripted"),
        ({"parts": {"judge": "not_installed"}}, "quick"),
    ],
)
def test_a_row_stands_in_the_tab_of_its_profile_and_of_what_answers(
    study: Study, gather: Any, names: Mapping[str, Any], tab: str
) -> None:
    (entry,) = gather(study("a", uer=(ends(1, 1, 1), names))).entries
    assert entry.tab == tab


def test_rows_of_two_tabs_or_profiles_are_never_ranked_together(study: Study, gather: Any) -> None:
    good, bad = ends(1, 1, 1), ends(0, 0, 0.1)
    board = gather(
        study(
            "a",
            real=bad,
            scripted=(good, {"backend": "scripted", "model": "sprite"}),
            paper=(good, {"profile": "paper"}),
            scripted_paper=(bad, {"backend": "scripted", "model": "sprite", "profile": "paper"}),
        )
    )
    assert {entry.rank for entry in board.entries} == {1}


@pytest.mark.parametrize(
    ("curves", "names", "why"),
    [
        (ends(1, 1), {}, "2 seeds; 3 are needed"),
        (ends(1, 1, 1), {"status": {1: "failed"}, "error": "no"}, "8x8: seed 1 failed"),
        (ends(1, 1, 1), {"planned": [0, 1, 2, 3]}, "8x8: seed 3 has not begun"),
        (ends(1, 1, 1, step=400), {"steps": 400}, "8x8: 400 training steps where 300 are asked for"),
        (ends(1, 1, 1, step=200), {}, "8x8: last evaluated at step 200 of 300; 8x8: a run ended before its 300 steps"),
        ({s: {300: [1] * 9} for s in range(3)}, {}, "8x8: 9 episodes in the final evaluation; 10 are needed"),
        (ends(1, 1, 1), {"profile": "mine"}, "its profile is 'mine'; paper and quick are ranked"),
    ],
)
def test_a_row_below_the_minimum_is_listed_apart_with_the_reason(
    study: Study, gather: Any, curves: Curves, names: Mapping[str, Any], why: str
) -> None:
    board = gather(study("a", uer=ends(0, 0, 0.1), per=ends(0, 0, 0.1), odd=(curves, names)))
    odd = by_method(board)["odd"]
    assert odd.apart == why and odd.rank is odd.rank_low is odd.rank_high is None and odd.score.value == 1
    assert {by_method(board)[name].rank for name in ("uer", "per")} == {1}


def test_one_episode_is_enough_where_every_episode_of_a_run_is_the_same(study: Study, gather: Any) -> None:
    pytest.importorskip("metaworld")
    home = {"suite": "metaworld_mt10", "task": "reach", "steps": 80_000}

    def of(**own: str) -> Any:
        settings = {f"suite.{name}": {"value": value, "source": "", "layer": ""} for name, value in own.items()}
        return {s: {80_000: [1]} for s in range(3)}, home | {"settings": settings}

    found = by_method(
        gather(
            study(
                "a",
                hidden=of(goal="hidden", layouts="by_goal"),
                shown=of(goal="observable", layouts="by_goal"),
                untold=of(goal="there", none="such"),
            )
        )
    )
    assert "episode" not in (found["hidden"].apart or "")
    for method in ("shown", "untold"):
        assert "reach: 1 episodes in the final evaluation; 10 are needed" in found[method].apart


def test_an_installed_suite_says_which_tasks_and_steps_a_profile_has(study: Study, gather: Any) -> None:
    home = {"suite": "minigrid_doorkey", "task": "5x5", "steps": 30_000}
    full = ends(1, 1, 1, step=30_000)
    board = gather(
        study(
            "a",
            whole=(full, home),
            short=(ends(1, 1, 1, step=3_000), home | {"steps": 3_000}),
            elsewhere=(ends(1, 1, 1, step=150_000), home | {"steps": 150_000, "task": "8x8"}),
            brief=(ends(1, 1, 1, step=3_000), home | {"steps": 3_000, "task": "8x8"}),
        )
    )
    found = by_method(board)
    assert found["whole"].rank == 1
    assert found["short"].apart == "5x5: 3,000 training steps where 30,000 are asked for"
    assert (found["elsewhere"].board, found["elsewhere"].rank) == ("8x8", 1)
    assert found["brief"].apart == "8x8: 3,000 training steps where 150,000 are asked for"
    assert [(suite.title, suite.version) for suite in board.suites] == [("MiniGrid DoorKey", 1)]


def test_rows_of_one_task_alone_are_ranked_among_themselves(study: Study, gather: Any) -> None:
    wholes = {
        f"{name}_{task}": (ends(0.5, 0.5, 0.5), {"method": name, "task": task})
        for name in ("uer", "per", "aer")
        for task in ("5x5", "8x8")
    }
    four = {"good": ends(1, 1, 1, 1), "bad": ends(0, 0, 0, 0)}
    board = gather(study("a", **wholes, **four, one=(ends(1, 1, 1), {"task": "5x5"})))
    found = {entry.method: (entry.board, entry.rank) for entry in board.entries}
    alone = {"good": ("8x8", 1), "bad": ("8x8", 2), "one": ("5x5", 1)}
    assert found == dict.fromkeys(("uer", "per", "aer"), ("", 1)) | alone


def valued(*means: float) -> dict[int, dict[int, list[float]]]:
    """Seeds whose final evaluation, of ten episodes, has these mean scores."""
    return {seed: {300: [mean] * 10} for seed, mean in enumerate(means)}


@pytest.mark.parametrize(
    ("score", "good", "bad"),
    [
        (Score("return", low=-500, high=0), (-100, -101, -102), (-160, -161, -162)),
        (Score("cost", "lower"), (100, 101, 102), (160, 161, 162)),
    ],
)
def test_rows_are_ranked_by_the_score_that_their_suite_names(
    study: Study, gather: Any, score: Score, good: tuple[float, ...], bad: tuple[float, ...]
) -> None:
    rows = {"bad": valued(*bad), "good": valued(*good)}
    board = gather(study("a", **{name: (curves, {"score": score}) for name, curves in rows.items()}))
    assert [(entry.method, entry.rank) for entry in board.entries] == [("good", 1), ("bad", 2)]
    best = board.entries[0]
    assert (best.measure.name, best.measure.direction, best.measure.high) == (score.name, score.direction, score.high)
    assert best.score.value == pytest.approx(good[1]) and min(good) <= (best.score.low or 0) <= good[1]
    (task,) = board.details[best.id].tasks
    assert task.curve.of == f"mean {score.name}" and not task.curve.share and task.measure == best.measure


def test_tasks_of_other_scores_are_put_on_one_scale(study: Study, gather: Any) -> None:
    swing, badges = Score("return", low=-500, high=0), Score("badges", low=0, high=20)
    cells = {
        "one": (valued(-100, -100, -100), {"method": "uer", "task": "swing", "score": swing}),
        "two": (valued(10, 10, 10), {"method": "uer", "task": "collect", "score": badges}),
    }
    (entry,) = gather(study("a", **cells)).entries
    assert entry.tasks == ("collect", "swing") and entry.measure.name == "normalised score"
    assert entry.mean.value == pytest.approx((0.8 + 0.5) / 2)


def test_a_task_whose_range_is_not_known_is_ranked_by_itself(study: Study, gather: Any) -> None:
    runner = {"method": "uer", "score": Score("return")}
    cells = {name: (valued(1, 2, 3), {**runner, "task": name}) for name in ("hopper", "cheetah")}
    assert {entry.tasks: entry.rank for entry in gather(study("a", **cells)).entries} == {
        ("cheetah",): 1,
        ("hopper",): 1,
    }


def test_records_that_score_a_task_otherwise_are_not_ranked_together(study: Study, gather: Any) -> None:
    board = gather(study("a", uer=ends(1, 1, 1), per=(valued(0, 0, 0), {"score": Score("return")})))
    assert [entry.rank for entry in board.entries] == [1, 1]


def test_other_settings_of_the_suite_and_demonstrations_make_another_board(study: Study, gather: Any) -> None:
    def given(**values: Any) -> dict[str, Any]:
        return {"settings": {f"{name}".replace("__", "."): {"value": value} for name, value in values.items()}}

    board = gather(
        study(
            "a",
            seen=(ends(1, 1, 1), given(suite__goal="observable")),
            also=(ends(0, 0, 0), given(suite__goal="observable", training__demonstrations=0)),
            hidden=(ends(0, 0, 0), given(suite__goal="hidden")),
            shown=(ends(0, 0, 0), given(suite__goal="observable", training__demonstrations=5)),
        )
    )
    found = {entry.method: (entry.rank, entry.conditions) for entry in board.entries}
    assert found == {
        "seen": (1, "goal=observable"),
        "also": (2, "goal=observable"),
        "hidden": (1, "goal=hidden"),
        "shown": (1, "goal=observable, demonstrations=5"),
    }


def test_conditions_of_a_suite_that_is_installed_are_what_is_not_usual(study: Study, gather: Any) -> None:
    settings = {"suite.goal": {"value": "hidden"}}
    here = {"suite": "metaworld", "task": "button-press-v3"}
    cells = {
        "usual": (ends(1, 1, 1), {**here, "settings": {"suite.goal": {"value": "observable"}}}),
        "elsewhere": (ends(1, 1, 1), {**here, "settings": {}}),
        "hidden": (ends(1, 1, 1), {**here, "settings": settings}),
    }
    found = {entry.method: entry.conditions for entry in gather(study("a", **cells)).entries}
    assert found == {"usual": "", "elsewhere": "", "hidden": "goal=hidden"}


def test_a_profile_of_another_name_has_a_tab_of_its_own_and_no_rank(study: Study, gather: Any) -> None:
    (entry,) = gather(study("a", uer=(ends(1, 1, 1), {"profile": "mine"}))).entries
    assert (entry.tab, entry.rank) == ("other", None)


def test_a_row_holds_no_tasks_of_different_tabs(study: Study, gather: Any) -> None:
    oracle = {"method": "pebble", "backend": "oracle", "model": "oracle"}
    board = gather(study("a", one=(ends(1, 1, 1), {"method": "pebble"}), two=(ends(1, 1, 1), oracle | {"task": "5x5"})))
    assert {entry.tab: entry.tasks for entry in board.entries} == {"quick": ("8x8",), "scripted": ("5x5",)}


def test_a_row_that_lacks_some_of_several_tasks_is_listed_apart(study: Study, gather: Any) -> None:
    cells = {
        f"{name}_{task}": (ends(1, 1, 1), {"method": name, "task": task})
        for name, tasks in {"uer": "abc", "per": "abc", "odd": "ab"}.items()
        for task in tasks
    }
    found = by_method(gather(study("a", **cells)))
    assert found["odd"].apart == "no evaluations on c" and found["uer"].rank == found["per"].rank == 1


def test_a_row_of_another_version_of_the_suite_is_listed_apart(study: Study, gather: Any) -> None:
    where = study("a", uer=ends(0, 0, 0.1), per=ends(0, 0, 0.1), old=ends(1, 1, 1))
    _edit(Path(where) / "grid/8x8/old-old/cell.json", versions={"suite": 0})
    found = by_method(gather(where))
    assert found["old"].apart == "made under version 0 of the suite, which is at 1"
    assert found["old"].protocol == "suite 0, record 2" and found["uer"].rank == 1


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
    assert entry.tasks == ("5x5",) and entry.score.value == 1 and entry.rank == 1
    assert [task.task for task in board.details[entry.id].tasks] == ["5x5", "8x8"]


def test_a_row_elsewhere_changes_no_number_and_the_same_studies_give_the_same_bytes(study: Study, gather: Any) -> None:
    first = study("a", uer=ends(0.1, 0.4, 0.5, 1), per=ends(0.3, 0.4, 0.6, 0.9))
    alone = gather(first)
    other = study("b", sac=(ends(1, 1, 1), {"suite": "maze"}), td3=(ends(0, 0, 1), {"profile": "paper"}))
    both = gather(first, other)
    for entry in alone.entries:
        assert entry in both.entries and both.details[entry.id] == alone.details[entry.id]
    assert files.as_json(gather(first, other)) == files.as_json(both)


def test_scores_do_not_depend_on_where_a_study_lies(study: Study, gather: Any) -> None:
    here, there = (gather(study(name, uer=ends(0.1, 0.4, 0.5, 1))) for name in ("a", "b"))
    assert here.entries[0].score == there.entries[0].score and here.entries[0].id == there.entries[0].id


# Several sources


def test_a_run_in_two_sources_is_counted_once_and_said_so(study: Study, gather: Any) -> None:
    first, second = study("a", uer=ends(1, 1, 1)), study("b", uer=ends(1, 1, 1), per=ends(0, 0, 0))
    board = gather(first, second)
    assert [(entry.method, entry.source) for entry in board.entries] == [("uer", first), ("per", second)]
    assert board.notes == (f"{second}: 3 of its runs are in {first} too and counted there",)


def test_a_cell_that_tells_something_else_of_a_run_is_refused_by_name_and_the_rest_shown(
    study: Study, gather: Any
) -> None:
    first, second = study("a", uer=ends(1, 1, 1)), study("b", uer=ends(1, 0.5, 1), per=ends(0, 0, 0))
    board = gather(first, second)
    (refused,) = board.refused
    assert refused.source == f"{second}, cell uer"
    assert refused.reason == f"seed 1 is in {first} too, and at step 300 the two tell different things"
    assert [(entry.method, entry.source) for entry in board.entries] == [("uer", first), ("per", second)]


def test_two_cells_of_one_id_that_are_not_the_same_clash(study: Study, gather: Any) -> None:
    first, second = study("a", uer=ends(1, 1, 1)), study("b", uer=(ends(0, 0, 0), {"learner": "sac"}))
    board = gather(first, second)
    assert [each.reason for each in board.refused] == [f"its learner is 'sac', in {first} 'dqn'"]
    assert [entry.source for entry in board.entries] == [first]


def test_of_a_run_that_goes_on_elsewhere_the_further_account_counts(study: Study, gather: Any) -> None:
    half = {seed: {100: _episodes(0)} for seed in range(3)}
    first = study("a", uer=(half, {"status": dict.fromkeys(range(3), "stopped")}), per=ends(1, 1, 1))
    second = study("b", uer=ends(1, 1, 1))
    board = gather(first, second)
    assert {entry.method: entry.source for entry in board.entries} == {"uer": second, "per": first}
    assert by_method(board)["uer"].rank == 1 and board.refused == ()


def test_equal_configurations_with_other_seeds_are_rows_of_their_own_with_links_of_their_own(
    study: Study, gather: Any
) -> None:
    later = {seed + 10: curve for seed, curve in ends(0, 0, 0, 0).items()}
    board = gather(study("a", uer=ends(1, 1, 1, 1)), study("b", uer=later))
    assert [entry.rank for entry in board.entries] == [1, 2]
    assert len({entry.id for entry in board.entries}) == 2
    assert all(set(entry.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for entry in board.entries)


# What opening a row shows


def matrix(kind: str, name: str, reference: str = "full") -> dict[str, Any]:
    return {"method": "vlm_rb", "matrix": {"kind": kind, "name": name, "reference": reference}}


def test_ablations_are_variations_of_their_reference_and_no_rows(study: Study, gather: Any) -> None:
    board = gather(
        study(
            "a",
            full=(ends(0.8, 0.9, 1), matrix("ablation", "full")),
            without=(ends(0.5, 0.6, 0.7), {**matrix("ablation", "without"), "variant": "replay.x=0"}),
        )
    )
    (entry,) = board.entries
    (variation,) = board.details[entry.id].variations
    assert (variation.kind, variation.name, variation.task) == ("ablation", "without", "8x8")
    assert variation.score.value == pytest.approx(0.6) and variation.difference.value == pytest.approx(-0.3)
    # seed by seed each is lower by .3; without a spread p is 2 / 8, so the interval at 5 % holds 0
    assert variation.difference.low < -0.6 and variation.difference.high > 0


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
    (entry,) = board.entries
    opened = board.details[entry.id]
    assert [(each.kind, each.name) for each in opened.variations] == [("perturbation", f"texture ({second})")]
    assert [frame.caption for frame in opened.frames] == ["8x8: standard", "8x8: texture"]


def test_an_ablation_without_its_reference_is_named_in_the_notes(study: Study, gather: Any) -> None:
    where = study(
        "a",
        full=({0: {}}, {**matrix("ablation", "full"), "status": {0: "running"}}),
        without=(ends(0, 0, 0), matrix("ablation", "without")),
        uer=ends(1, 1, 1),
    )
    board = gather(where)
    assert board.notes == (f"{where}: ablation without is not shown: its reference has no evaluations here",)


def test_large_frames_are_made_small_and_what_is_no_picture_is_named(study: Study, gather: Any) -> None:
    cells = {"full": (ends(1, 1, 1), matrix("perturbation", "standard"))}
    cells |= {name: (ends(0, 0, 0), matrix("perturbation", name)) for name in ("texture", "bomb")}
    where = study("a", **cells)
    _png(Path(where) / "frames/grid/8x8/standard.png", (2000, 1000))
    _png(Path(where) / "frames/grid/8x8/texture.png", (64, 32))
    bomb = Path(where) / "frames/grid/8x8/bomb.png"
    bomb.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (2**31 - 1).to_bytes(4, "big") * 2)
    board = gather(where)
    shown = board.details[board.entries[0].id].frames
    assert [frame.caption for frame in shown] == ["8x8: standard", "8x8: texture"]
    assert max(len(frame.png) for frame in shown) <= 80_000
    assert board.notes == (f"{where}: sample frames 8x8: bomb are left out: no picture, or too large a one",)


@pytest.mark.parametrize(("bound", "most"), [("BUDGET", 40_000), ("ALL_PIXELS", 3_000_000)])
def test_frames_are_read_and_made_smaller_as_long_as_there_is_room(
    study: Study, gather: Any, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    where = study("a", **{name: (ends(1, 1, 1), matrix("perturbation", name)) for name in ("full", "one", "two")})
    for name in ("one", "two"):
        _png(Path(where) / f"frames/grid/8x8/{name}.png", (2000, 1000) if bound == "ALL_PIXELS" else (64, 128))
    monkeypatch.setattr(frames, bound, most)
    board = gather(where)
    assert [frame.caption for frame in board.details[board.entries[0].id].frames] == ["8x8: one"]
    assert board.notes == (f"{where}: sample frames 8x8: two and further ones are left out: there is no room",)


def _png(path: Path, size: tuple[int, int] = (8, 8)) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), np.uint8)
    Image.fromarray(noise).save(path)


def test_settings_keep_their_layer_and_where_tasks_differ_their_task(study: Study, gather: Any) -> None:
    lr = {"learner.lr": {"value": 0.1, "layer": "learner", "source": ""}}
    steps = {task: {"training.steps": {"value": n, "layer": "profile quick"}} for task, n in (("5x5", 3), ("6x6", 6))}
    board = gather(
        study(
            "a",
            **{
                task: (ends(1, 1, 1), {"method": "uer", "task": task, "settings": lr | own, "parts": {"replay": "uer"}})
                for task, own in steps.items()
            },
        )
    )
    assert [tuple(vars(each).values()) for each in board.details[board.entries[0].id].settings] == [
        ("replay", "uer", "part"),
        ("learner.lr", "0.1", "learner"),
        ("training.steps (5x5)", "3", "profile quick"),
        ("training.steps (6x6)", "6", "profile quick"),
    ]


def test_provenance_hardware_and_citations_are_those_of_its_runs(study: Study, gather: Any) -> None:
    where = study("a", uer=(ends(1, 1, 1), {"parts": {"replay": "per"}}))
    board = gather(where)
    (entry,) = board.entries
    opened = board.details[entry.id]
    assert entry.hardware == ("some CPU, 2 cores",)
    assert [(each.commit, each.packages, each.runs) for each in opened.origins] == [("abc123", "torch 2.0", 3)]
    assert opened.runs == tuple(f"grid/8x8/uer-uer/seed-{seed}" for seed in range(3))
    assert "schaul" in opened.bibtex and "% suite grid: not installed here" in opened.bibtex
    assert opened.checks == () and entry.standing == "self-reported"


def test_model_calls_are_counted_over_all_runs_and_a_ledger_that_is_none_costs_only_its_numbers(
    study: Study, gather: Any, rows_writer: Callable[..., Path]
) -> None:
    model = {"backend": "openai", "model": "m"}
    where = study("a", asked=(ends(1, 1, 1), model), uer=ends(1, 1, 1))
    for seed in range(3):
        rows = [{"step": step, "calls": step, "usd": step / 1000} for step in (100, 300)]
        rows_writer(Path(where) / f"grid/8x8/asked-asked/seed-{seed}", "ledger", rows)
    found = by_method(gather(where))
    assert (found["asked"].calls, found["asked"].usd) == (900, 0.9)
    assert (found["uer"].calls, found["uer"].usd) == (None, None)
    for bad in ('{"calls": 1, "usd": NaN}', '{"calls": true, "usd": 0}', "[" * 5000, "1"):
        (Path(where) / "grid/8x8/asked-asked/seed-1/ledger.jsonl").write_text(bad + "\n")
        board = gather(where)
        assert [each.source for each in board.refused] == [f"{where}, costs"] and "last row" in board.refused[0].reason
        assert by_method(board)["asked"].calls is None and len(board.entries) == 2
    (Path(where) / "grid/8x8/asked-asked/seed-1/ledger.jsonl").unlink()
    assert by_method(gather(where))["asked"].calls is None, "of a part of the runs nobody wants the sum"


def test_a_row_whose_questions_were_not_answered_is_listed_apart(
    study: Study, gather: Any, rows_writer: Callable[..., Path]
) -> None:
    where = study("a", asked=(ends(1, 1, 1), {"backend": "openai", "model": "m"}), uer=ends(1, 1, 1))
    for failures, apart in ((33, False), (34, True)):
        for seed in range(3):
            row = {"step": 300, "calls": 9, "usd": 0.1, "questions": 110, "failures": failures if seed == 1 else 0}
            rows_writer(Path(where) / f"grid/8x8/asked-asked/seed-{seed}", "ledger", [row])
        found = by_method(gather(where))
        assert ("of 330 questions to models got no answer" in found["asked"].apart) is apart
        assert (found["asked"].rank is None) is apart and found["uer"].rank is not None


# Hostile directories


def _edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _edit_cell(root: Path, **values: Any) -> None:
    _edit(root / "grid/8x8/bad-bad/cell.json", **values)


def _rows(root: Path, seed: int = 0) -> Path:
    return root / f"grid/8x8/bad-bad/seed-{seed}/evaluations.parquet"


def _change_rows(root: Path, **columns: Any) -> None:
    import pandas as pd

    rows = pd.read_parquet(_rows(root))
    for name, values in columns.items():
        rows[name.rstrip("_")] = values
    rows.to_parquet(_rows(root), index=False)


def _linked(root: Path) -> None:
    outside = root.parent / "outside.parquet"
    _rows(root).rename(outside)
    _rows(root).symlink_to(outside)


def _linked_directory(root: Path) -> None:
    (root / "grid/8x8/more").symlink_to("/")


def _traversing(root: Path) -> None:
    study = json.loads((root / "study.json").read_text())
    study["cells"]["bad"]["directory"] = "../outside"
    (root / "study.json").write_text(json.dumps(study))


def _sparse(name: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        path = _rows(root).with_name(name)
        with open(path, "ab") as file:
            file.truncate(2**30)

    return make


def _many_rows(root: Path) -> None:
    """Ten million rows of a few bytes each: their runs of equal values hardly take room."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(_rows(root))
    pq.write_table(pa.concat_tables([table] * 20_000), _rows(root), compression="zstd")
    assert _rows(root).stat().st_size < 2**24


def _unpacking(root: Path) -> None:
    """A hundred megabytes in a file of some KB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(_rows(root))
    long = pa.array(["x" * 5 * 10**6] * len(table), pa.string())
    pq.write_table(table.set_column(0, "study", long), _rows(root), compression="zstd", use_dictionary=False)
    assert _rows(root).stat().st_size < 2**22


def _long_names(root: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(_rows(root))
    names = pa.array(["y" * 10**6] * len(table), pa.string())
    pq.write_table(table.set_column(table.column_names.index("method"), "method", names), _rows(root))


def _repeated_name(root: Path, length: int = 10**6) -> None:
    """A quarter of a million rows that name the same megabyte, in a file of some KB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = pq.read_table(_rows(root)).slice(0, 1).to_pylist()[0]
    columns = {name: pa.repeat(value, 250_000) for name, value in row.items()}
    columns["method"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 250_000), ["y" * length])
    pq.write_table(pa.table(columns), _rows(root), compression="zstd", write_statistics=False)


def _long_line(root: Path) -> None:
    _rows(root).unlink()
    _rows(root).with_name("evaluations.jsonl").write_text('{"a": "' + "x" * (2**24 - 20) + '"}\n')
    _edit(root / RUN, status="running")


def _pickle(path: str) -> Callable[[Path], None]:
    import pickle

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (Path("sprung"),))

    return lambda root: (root / path).write_bytes(pickle.dumps(Trap())) and None


def _write(path: str, text: str) -> Callable[[Path], None]:
    return lambda root: (root / path).write_text(text) and None


def _seeds(root: Path) -> None:
    study = json.loads((root / "study.json").read_text())
    study["cells"]["bad"]["seeds"] = list(range(100_000))
    (root / "study.json").write_text(json.dumps(study))


CELL, RUN = "grid/8x8/bad-bad/cell.json", "grid/8x8/bad-bad/seed-0/run.json"
HOSTILE: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "link": (_linked, "is a link"),
    "linked directory": (_linked_directory, "is a link"),
    "traversal": (_traversing, "lies outside the study"),
    "a gigabyte of Parquet": (_sparse("evaluations.parquet"), "1,073,741,824 bytes; at most 16,777,216 are read"),
    "a gigabyte of lines": (_sparse("evaluations.jsonl"), "1,073,741,824 bytes; at most 16,777,216 are read"),
    "a gigabyte of run.json": (_sparse("run.json"), "at most 1,048,576 are read"),
    "a gigabyte of ledger": (_sparse("ledger.jsonl"), "at most 16,777,216 are read"),
    "millions of rows": (_many_rows, "400,000 rows; at most 250,000 are read"),
    "a bomb in Parquet": (_unpacking, "bytes when unpacked; at most 67,108,864 are read"),
    "long names in rows": (_long_names, "bytes when unpacked; at most 131,072 are read"),
    "a name of a megabyte in every row": (_repeated_name, "column 'method' has 1,0"),
    "a line of megabytes": (_long_line, "row 1: lacks the column"),
    "nested study.json": (_write("study.json", "[" * 100_000), "cannot be read as JSON"),
    "nested settings": (
        lambda root: _edit_cell(root, settings={"x": {"value": json.loads("[" * 900 + "]" * 900)}}),
        "nested too deep",
    ),
    "nested provenance": (
        lambda root: _edit(root / RUN, provenance={"hardware": json.loads("[" * 900 + "]" * 900)}),
        "nested too deep",
    ),
    "study.json is a list": (_write("study.json", "[]"), "expected a JSON object"),
    "an endless number": (_write(CELL, '{"schema": ' + "9" * 10_000 + "}"), "cannot be read as JSON"),
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
    "many seeds": (_seeds, "100,000 seeds; at most 1,000 are read"),
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
    assert [entry.method for entry in board.entries] == ["good"]
    assert not (tmp_path / "sprung").exists()
    files.as_json(board), files.as_csv(board)


MARKUP = "</script><img src=x onerror=alert(1)>"


def test_markup_in_names_and_settings_is_text_like_any_other(study: Study, gather: Any) -> None:
    lure = {"value": MARKUP, "layer": MARKUP, "source": "", "more": "\ud800\x1b[2J"}
    names = {"model": MARKUP, "backend": "openai", "settings": {MARKUP: lure, "x": {"value": "\ud800\x00", "layer": 3}}}
    board = gather(study("a", uer=(ends(1, 1, 1), {**names, "provenance": {"commit": MARKUP, "packages": "\udfff"}})))
    (entry,) = board.entries
    assert entry.model == MARKUP and MARKUP in entry.label
    opened = board.details[entry.id]
    assert (opened.settings[0].name, opened.settings[0].value, opened.settings[0].layer) == (MARKUP, MARKUP, MARKUP)
    assert (opened.settings[1].value, opened.settings[1].layer) == ("  ", "3")
    assert opened.origins[0].packages == " "
    json.loads(files.as_json(board)), files.as_csv(board)


def test_texts_of_any_length_are_cut(study: Study, gather: Any) -> None:
    settings = {f"learner.{index}": {"value": "x" * 700, "layer": "y" * 700} for index in range(600)}
    provenance = {"commit": "z" * 5_000, "packages": {"p" * 5_000: "q"}, "hardware": {"processor": "r" * 5_000}}
    board = gather(study("a", uer=(ends(1, 1, 1), {"settings": settings, "provenance": provenance})))
    opened = board.details[board.entries[0].id]
    assert len(opened.settings) == 400
    longest = max(len(text) for each in opened.settings for text in (each.name, each.value, each.layer))
    assert longest == 400 and max(len(each.packages) for each in opened.origins) == 600
    assert len(board.entries[0].hardware[0]) == 120


def test_a_board_has_room_for_so_many_rows(study: Study, gather: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ROWS", 2)
    many = study("a", **{f"m{index}": ends(1, 1, 1) for index in range(3)})
    board = gather(many, study("b", uer=ends(1, 1, 1)))
    assert [each.reason for each in board.refused] == ["the board has room for 2 rows, and this has 3"]
    assert [entry.method for entry in board.entries] == ["uer"]


def test_curves_of_many_evaluations_are_thinned_and_keep_their_ends(study: Study, gather: Any) -> None:
    curves = {seed: {step: [1] * 10 for step in range(1, 301)} for seed in range(3)}
    board = gather(study("a", uer=curves))
    x = board.details[board.entries[0].id].curve.x
    assert len(x) == 50 and (x[0], x[-1]) == (1.0, 300.0)


@pytest.mark.parametrize("names", [["nowhere"], []])
def test_nothing_to_show_is_an_error(gather: Any, names: Sequence[str]) -> None:
    with pytest.raises(UserError, match=r"no study at nowhere|name a study, as in .*, or add submissions"):
        gather(*names)


def test_if_all_is_refused_the_error_says_why(study: Study, gather: Any) -> None:
    where = study("a", uer=ends(1, 1, 1))
    (Path(where) / "study.json").write_text("{")
    with pytest.raises(UserError, match=r"nothing to show: .*study\.json cannot be read as JSON"):
        gather(where)


def test_an_unfinished_run_counts_only_its_whole_evaluations(study: Study, gather: Any) -> None:
    curves = ends(1, 1, 1)
    curves[2] = {100: _episodes(0), 200: [1, 1]}
    board = gather(study("a", uer=(curves, {"status": {2: "running"}})))
    (entry,) = board.entries
    assert (
        entry.apart == "8x8: seed 2 is running; 8x8: last evaluated at step 100 of 300" and entry.score.value == 0
    )  # all have the step 100 only
