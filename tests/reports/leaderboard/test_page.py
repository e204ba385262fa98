"""The page in a browser: from a file, without network; what goes wrong there fails in the fixture `browser`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from guidebench.harness import statistics
from guidebench.harness.statistics import Sample
from guidebench.reports.leaderboard import page as leaderboard_page
from guidebench.reports.leaderboard.board import Board, Entry, Estimate, Frames, Refused, Suite
from guidebench.reports.leaderboard.page import ELEMENT, render
from guidebench.reports.rendering import inline
from guidebench.results.verification.record import Check
from tests.reports.conftest import PATIENCE
from tests.reports.leaderboard import boards

ROOT = Path(__file__).parents[3]
Open = Callable[..., Page]
pytestmark = pytest.mark.waits
EVIL = (
    '</script><script>window.pwned = 1</script><img src="x" onerror="window.pwned = 1"><a href="javascript:pwned=1">'
    "<!--<script>{{ 7 * 7 }}{% raw %}${pwned = 1}\u2028window.pwned = 1//\u2029'\"];datum.x;signal;`&lt;b&gt;\\u003c"
)


def write(board: Board, directory: Path) -> Path:
    file = directory / "index.html"
    file.write_text(render(board), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(boards.example(), tmp_path_factory.mktemp("leaderboard"))


def visible_ids(page: Page, table: str = "Grid: Ranked") -> list[str]:
    """Return the ids of a table's visible rows, from top to bottom."""
    rows = page.get_by_role("region", name=table, exact=True).locator("tbody tr:visible")
    ids: list[str] = rows.evaluate_all("rows => rows.map(row => row.dataset.id)")
    return ids


def ids(board: Board, **fields_: Any) -> list[str]:
    return [row.id for row in board.entries if all(getattr(row, name) == value for name, value in fields_.items())]


def wait_until_settled(page: Page) -> None:
    """Wait until the view of the page's link is shown, charts included."""
    expect(page.locator("#opened h3:visible, #comparison h3:visible").last).to_be_visible()
    expect(page.locator(".plot[data-drawn]:visible").first).to_be_visible()


def test_every_column_sorts_in_both_directions(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick&suite=grid")
    rows_by_id = {row.id: row for row in boards.example().entries}
    region = page.get_by_role("region", name="Grid: Ranked", exact=True)
    assert region.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    keys: dict[str, Callable[[Entry], Any]] = {
        "Score": lambda row: row.score.value, "Row": lambda row: row.label, "Calls": lambda row: row.calls,
    }  # fmt: skip
    for name, key in keys.items():
        head = region.get_by_role("columnheader", name=name)
        for _ in range(2):
            head.get_by_role("button").click()
            direction = head.get_attribute("aria-sort")
            column = [key(rows_by_id[id_]) for id_ in visible_ids(page)]
            present = [key_ for key_ in column if key_ is not None]
            assert present == sorted(present, reverse=direction == "descending")
            assert column == [*present, *[None] * (len(column) - len(present))]  # what is missing is last either way
    for head in region.get_by_role("columnheader").all():
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", head.get_attribute("data-first") or "ascending")


def test_filters_and_search_leave_the_rows_that_fit_and_tell_their_number(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick")
    count = page.get_by_role("status").filter(has_text="row")
    disputed = ids(boards.example(), profile="quick", standing="disputed")
    for filters, number, table, rows in (
        ({"Method": "vlm_rb"}, "3 of 21 rows", "", []),
        ({"Method": "vlm_rb", "Suite": "scene"}, "1 of 10 rows", "Scene: Ranked", ["scene-vlm_rb"]),
        ({"Model": "gpt-4o-mini"}, "2 of 21 rows", "Grid: Ranked", ["grid-rl_sallm_f"]),
        ({"Standing": "disputed"}, f"{len(disputed)} of 21 rows", "", []),
    ):
        expect(count).to_have_text("21 rows")
        for label, option in filters.items():
            page.get_by_label(label).select_option(option)
        expect(count).to_have_text(number)
        assert not table or visible_ids(page, table) == rows
        page.get_by_role("button", name="Reset").click()
    page.get_by_label("Search").fill("DRAWER qwen3")
    expect(count).to_have_text("1 of 21 rows")
    expect(page.get_by_role("link", name="vlm_rb qwen3-vl-8b")).to_be_visible()


def test_tabs_never_share_a_ranking(browser: Open, file: Path) -> None:
    page = browser(file)
    tabs = page.get_by_role("tab")
    assert [tab.get_attribute("data-tab") for tab in tabs.all()] == ["paper", "quick"]  # none for smoke
    for tab in tabs.all():
        tab.click()
        name = tab.get_attribute("data-tab")
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel")).to_contain_text(f"{name}: ")
        rows = page.locator("tr[data-id]:visible").evaluate_all("rows => rows.map(row => row.dataset.id)")
        assert sorted(rows) == sorted(ids(boards.example(), profile=name))
    page.go_back()
    expect(page.get_by_role("tab", name="paper")).to_have_attribute("aria-selected", "true")


def test_the_page_opens_on_the_tab_with_the_most_ranked_rows(browser: Open, tmp_path: Path) -> None:
    def opened(*rows: tuple[Entry, Any]) -> str | None:
        return browser(write(boards.board(*rows), tmp_path)).get_by_role("tab", selected=True).get_attribute("data-tab")

    def some(tab: str, count: int, rank: tuple[int, int, int] | None) -> list[tuple[Entry, Any]]:
        return [boards.entry(f"{tab}-{i}-{rank is None}", tab=tab, profile=tab, rank=rank) for i in range(count)]

    first = (1, 1, 1)
    assert opened(*some("paper", 1, first), *some("quick", 2, first), *some("smoke", 3, None)) == "quick"
    assert opened(*some("paper", 2, first), *some("quick", 2, first)) == "paper"
    assert opened(*some("quick", 1, None), *some("smoke", 2, None)) == "smoke"


def test_a_column_without_a_value_in_its_table_is_left_out(browser: Open, tmp_path: Path) -> None:
    bare = {"model": "", "backend": "", "calls": None, "usd": None, "rank": (1, 1, 1)}
    rows = [boards.entry("grid-uer", **bare), boards.entry("scene-uer", "scene", **{**bare, "calls": 0, "model": "m"})]
    page = browser(write(boards.board(*rows), tmp_path))
    heads = {
        suite: page.get_by_role("region", name=f"{suite}: Ranked")
        .locator("th[data-column]").evaluate_all("heads => heads.map(head => head.dataset.column)")
        for suite in ("Grid", "Scene")
    }  # fmt: skip
    first = ["rank", "row", "score", "mean", "standing", "profile", "seeds", "steps"]
    last = ["hardware", "protocol", "source"]
    assert heads == {"Grid": [*first, *last], "Scene": [*first, "model", "calls", *last]}
    for table in page.locator(".board").all():  # every cell has a column of its own
        lines = table.locator("tr").evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
        assert max(lines) < 120


def test_scripted_rows_stand_below_those_of_their_profile_and_are_ranked_apart(browser: Open, tmp_path: Path) -> None:
    first, scripted = (1, 1, 1), {"suite": "grid", "tab": "scripted"}
    rows = [
        boards.entry("grid-s8", **scripted, rank=first, board="8x8"),
        boards.entry("grid-s", **scripted, rank=first),
        boards.entry("grid-sp", **scripted, rank=first, profile="paper"),
        boards.entry("grid-sa", **scripted),
        boards.entry("grid-uer8", rank=first, board="8x8"),
        boards.entry("grid-uer", rank=first),
        boards.entry("grid-ua"),
    ]
    page = browser(write(boards.board(*rows), tmp_path), "#tab=quick")
    regions = page.locator("#suites [role=region]")
    named = {str(region.get_attribute("aria-label")): region.locator("tbody tr") for region in regions.all()}
    assert {name: lines.evaluate_all("rows => rows.map(row => row.dataset.id)") for name, lines in named.items()} == {
        "Grid: Ranked on 8x8 alone": ["grid-uer8"],
        "Grid: Scripted, ranked apart on 8x8 alone": ["grid-s8"],
        "Grid: Ranked": ["grid-uer"],
        "Grid: Scripted, ranked apart": ["grid-s"],
        "Grid: Listed apart": ["grid-ua"],
        "Grid: Scripted, listed apart": ["grid-sa"],
    }
    assert "tied" not in page.locator("#suites").inner_text()
    expect(page.locator("#about-tab")).to_contain_text("the first two know the task")
    page.locator("tr[data-id='grid-s'] input").check()
    page.locator("tr[data-id='grid-uer'] input").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#comparison .notes")).to_contain_text("Some of these rows are scripted")
    page.get_by_role("button", name="All rows").click()
    page.get_by_role("tab", name="paper").click()
    assert visible_ids(page, "Grid: Scripted, ranked apart") == ["grid-sp"]
    page.locator("tr[data-id='grid-sp'] a").click()
    expect(page.locator("#opened .notes")).to_contain_text("the first two know the task")


def test_ties_rank_intervals_and_reasons_are_told_in_words(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick&suite=grid")
    assert page.locator("tr[data-id='grid-vlm_rb'] td").first.inner_text().split() == ["=3", "tied", "between", "1–5"]
    assert page.locator("tr[data-id='grid-sac'] td").first.inner_text().startswith("9")
    apart = page.get_by_role("region", name="Grid: Listed apart").locator("tbody tr")
    expect(apart).to_contain_text("2 seeds on 8x8; 3 are needed")
    expect(page.get_by_text("manifest.json: 'files' is missing")).to_be_visible()
    expect(page.get_by_text("Two rows come from uncommitted changes.")).to_be_visible()


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        (
            {f"grid-{name}": {"tab": "scripted", "profile": name} for name in ("long", "short")},
            {f"Grid: Ranked, {name}": [f"grid-{name}"] for name in ("long", "short")},
        ),
        (
            {"grid-all": {}, "grid-8x8": {"board": "8x8"}},
            {"Grid: Ranked": ["grid-all"], "Grid: Ranked on 8x8 alone": ["grid-8x8"]},
        ),
    ],
    ids=["profiles", "one task alone"],
)
def test_rows_that_are_not_ranked_together_have_tables_of_their_own(
    browser: Open, tmp_path: Path, rows: dict[str, Any], tables: dict[str, list[str]]
) -> None:
    board_rows = [boards.entry(name, rank=(1, 1, 1), **changes) for name, changes in rows.items()]
    page = browser(write(boards.board(*board_rows), tmp_path))
    assert {name: visible_ids(page, name) for name in tables} == tables
    assert "tied" not in page.locator("#suites").inner_text()


def test_a_replication_stands_beneath_its_row_without_a_rank(browser: Open, tmp_path: Path) -> None:
    first, last = (boards.entry(name, rank=(rank, rank, rank)) for name, rank in (("grid-a", 1), ("grid-b", 2)))
    why = "it repeats a configuration of runs/one, whose row holds the rank"
    again = boards.entry("grid-again", apart=why, beneath="grid-a", relation="replication")
    page = browser(write(boards.board(first, again, last), tmp_path))
    assert visible_ids(page) == ["grid-a", "grid-again", "grid-b"]
    row = page.locator("tr[data-id='grid-again']")
    assert row.locator("td").first.inner_text().split() == ["–", "no", "rank"]
    expect(row).to_contain_text("replication, dqn on 6x6, 8x8")
    page.locator("tr[data-id='grid-again'] a").first.click()
    expect(page.locator("#opened .notes")).to_contain_text(why)


def test_a_row_opens_and_the_back_button_closes_it(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick")
    page.locator("tr[data-id='grid-vlm_rb'] td").nth(3).click()
    wait_until_settled(page)
    expect(page.get_by_role("heading", name="vlm_rb qwen3-vl-8b")).to_be_focused()
    opened = page.locator("#opened")
    names = ["Learning curve", "Tasks", "Ablations and perturbations", "Sample frames", "Verification"]
    assert opened.locator("h3").all_inner_texts() == [*names, "Configuration", "Provenance", "Citation"]
    assert opened.locator(".episodes").count() == 0 and "left out for want of room" not in file.read_text()
    expect(opened.locator(".plot svg").first).to_be_visible()
    drawing = opened.locator(".drawing").first
    assert drawing.get_attribute("role") == "img" and drawing.get_attribute("aria-roledescription") is None
    assert re.search(r"IQM.*vlm_rb.*: 0\.\d\d at 1,000, 0\.\d\d at 10,000\.", str(drawing.get_attribute("aria-label")))
    expect(opened.get_by_role("row", name="6x6").first).to_be_visible()
    expect(opened.get_by_text("not corrected for the number of variations")).to_be_visible()
    assert opened.locator("img").evaluate("image => image.complete && image.naturalWidth") == 96
    page.get_by_text("12 settings").click()
    expect(opened.get_by_role("row", name="learner.setting_3")).to_contain_text("0.125")
    page.get_by_role("button", name="Copy BibTeX").click()
    expect(opened.get_by_role("status")).to_contain_text("opied")
    page.go_back()
    expect(page.locator("#list")).to_be_visible()
    expect(page.locator("tr[data-id='grid-vlm_rb'] a")).to_be_focused()
    page.set_viewport_size({"width": 800, "height": 600})  # a removed chart must not react
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_ticked_rows_are_compared_as_the_package_compares_them(browser: Open, file: Path) -> None:
    board = boards.example()
    page = browser(file, "#tab=quick")
    for name in ("grid-uer", "grid-dsadf", "grid-lagea"):
        page.locator(f"tr[data-id='{name}'] input").check()
    page.get_by_role("button", name="Compare").click()
    wait_until_settled(page)
    rows = page.get_by_role("region", name="Beside uer").get_by_role("row")
    assert rows.count() == 4
    ours, theirs = (np.array([task.final for task in board.details[id_].tasks]).T for id_ in ("grid-dsadf", "grid-uer"))
    samples = Sample(ours), Sample(theirs)
    assert statistics.can_tell(len(ours), len(theirs), ours.shape[1]), "so the difference has an interval"
    p = [statistics.p_value(*samples, "iqm")]
    gap = statistics.interval(*samples, "iqm")
    expected = [gap, p, statistics.probability_of_improvement(ours, theirs)]
    for cell, interval in zip(rows.nth(2).get_by_role("cell").all_inner_texts()[1:4], expected, strict=True):
        numbers = [float(word) for word in cell.replace("−", "-").translate(str.maketrans("[],+<", "     ")).split()]
        np.testing.assert_allclose(numbers, [float(bound) for bound in interval], atol=0.016)
    assert page.locator("#comparison .legend li").all_inner_texts() == ["uer", "dsadf", "lagea gpt-oss-120b"]
    page.get_by_label("Reference").focus()
    page.get_by_label("Reference").select_option("grid-dsadf")
    expect(page.get_by_role("region", name="Beside dsadf")).to_be_visible()
    expect(page.get_by_label("Reference")).to_be_focused()
    page.locator("#choose-task").select_option("8x8")
    expect(page.locator("#comparison figcaption")).to_contain_text("8x8")
    page.get_by_role("button", name="Remove uer").click()
    expect(page.get_by_role("heading", name="Compare 2 rows")).to_be_visible()


def test_more_than_four_rows_have_a_panel_each_on_the_same_axes(
    browser: Open, axe: Callable[[Page], None], file: Path
) -> None:
    names = ("uer", "per", "dsadf", "pebble", "sac")
    page = browser(file, f"#tab=quick&compare=1&ticked={','.join(f'grid-{name}' for name in names)}", width=800)
    wait_until_settled(page)
    panels = page.locator("#comparison .panels > li")
    assert panels.locator(".panel-title").all_inner_texts() == list(names)
    marks = "lines => lines.map(line => getComputedStyle(line).stroke)"
    strokes = [panel.locator(".mark-line path").evaluate_all(marks) for panel in panels.all()]
    assert [len(lines) for lines in strokes] == [5] * 5  # the row's own, and the others behind it
    assert len({lines[-1] for lines in strokes}) == 5 and len({line for lines in strokes for line in lines[:-1]}) == 1
    assert len({panel.locator(".role-axis").all_inner_texts()[0] for panel in panels.all()}) == 1
    label = page.locator("#comparison .panels").get_attribute("aria-label") or ""
    assert all(f"{name}: 0." in label for name in names)
    axe(page)


def test_the_pages_statistics_are_the_packages(browser: Open, file: Path) -> None:
    page = browser(file)
    rng = np.random.default_rng(0)
    for runs, others, tasks in ((3, 3, 1), (5, 4, 3), (10, 5, 8)):
        first, second = rng.integers(0, 11, (runs, tasks)) / 10, rng.integers(0, 8, (others, tasks)) / 10
        arguments = f"{json.dumps(first.T.tolist())}, {json.dumps(second.T.tolist())}, 7"
        ours, expected = (
            page.evaluate(f"improvement({arguments})"),
            statistics.probability_of_improvement(first, second),
        )
        assert ours["value"] == pytest.approx(float(expected.estimate))
        np.testing.assert_allclose([ours["low"], ours["high"]], [expected.low, expected.high], atol=0.02)
        assert page.evaluate(f"improvement({arguments})") == ours  # the same draws each time
    # Sizes at which the test cannot tell, the smallest at which it can, all relabellings, two tasks, and drawn ones.
    sizes = ((3, 3, 1, 1e-6), (4, 4, 1, 1e-6), (5, 6, 1, 1e-6), (3, 3, 2, 1e-6), (4, 5, 4, 0.02))
    for runs, others, tasks, near in sizes:
        check_difference(page, runs, others, tasks, near)
    alone = page.evaluate("difference([[0.5]], [[0.25]])")
    assert alone == {"value": 0.25, "low": None, "high": None, "p": None, "told": "1 seed cannot tell"}


def check_difference(page: Page, runs: int, others: int, tasks: int, near: float) -> None:
    """Check that the page's difference of drawn scores has the interval and the p-value of the package's test, within
    `near`, without errors of the scores and with them."""
    rng = np.random.default_rng(runs)
    first, second = rng.integers(4, 17, (runs, tasks)) / 16, rng.integers(0, 11, (others, tasks)) / 16
    variances = [scores * (1 - scores) / 16 for scores in (first, second)]
    for sides in ((Sample(first), Sample(second)), (Sample(first, variances[0]), Sample(second, variances[1]))):
        errors = [None if np.isnan(side.error("iqm")) else side.error("iqm") for side in sides]
        scores = f"{json.dumps(first.T.tolist())}, {json.dumps(second.T.tolist())}"
        ours = page.evaluate(f"difference({scores}, {json.dumps(errors)}, 1)")
        expected = statistics.interval(*sides, "iqm", bounds=(-1, 1))
        size = f"{runs} and {others} runs of {tasks} tasks"
        assert ours["value"] == pytest.approx(float(expected.estimate)), size
        assert ours["p"] == pytest.approx(statistics.p_value(*sides, "iqm"), abs=near), size
        if np.isnan(expected.low):
            assert (ours["low"], ours["told"]) == (None, f"{min(runs, others)} seeds cannot tell"), size
        else:
            np.testing.assert_allclose(
                [ours["low"], ours["high"]], [expected.low, expected.high], atol=near, err_msg=size
            )


def test_rows_of_different_suites_share_curves_only(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick&ticked=grid-uer,scene-uer&compare=1")
    wait_until_settled(page)
    expect(page.get_by_text("These rows are of different suites")).to_be_visible()
    assert page.locator("#comparison table").count() == 0


def test_rows_out_of_sight_are_there_all_the_same(browser: Open, axe: Callable[[Page], None], tmp_path: Path) -> None:
    row, details = boards.entry("grid-0", tasks=("8x8",))
    many = [(replace(row, id=f"grid-{i}", label=f"row {i}", rank=i + 1), details) for i in range(30)]
    page = browser(write(boards.board(*many), tmp_path))
    assert visible_ids(page) == [f"grid-{i}" for i in range(30)]
    page.get_by_role("columnheader", name="Rank").get_by_role("button").click()
    assert visible_ids(page)[0] == "grid-29"
    last = page.get_by_role("link", name="row 0", exact=True)
    last.focus()
    expect(last).to_be_in_viewport()
    page.keyboard.press("Enter")
    wait_until_settled(page)
    page.go_back()
    expect(last).to_be_focused()
    expect(last).to_be_in_viewport()
    axe(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_a_link_is_the_view(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick")
    page.get_by_label("Suite").select_option("grid")
    page.get_by_role("columnheader", name="Score").first.get_by_role("button").click()
    page.get_by_role("columnheader", name="Score").first.get_by_role("button").click()
    page.get_by_label("Search").fill("a")
    page.locator("tr[data-id='grid-kagi'] input").check()
    page.locator("tr[data-id='grid-per'] input").check()
    page.get_by_label("Colours").select_option("dark")
    ids_ = visible_ids(page)
    again = browser(file, page.evaluate("location.hash"))
    assert visible_ids(again) == ids_ and len(ids_) < 10
    expect(again.get_by_label("Search")).to_have_value("a")
    expect(again.locator("tr[data-id='grid-kagi'] input")).to_be_checked()
    expect(again.locator("#ticked")).to_have_text("2 rows ticked")
    assert again.evaluate("document.documentElement.dataset.theme") == "dark"
    again.get_by_role("button", name="Compare").click()
    wait_until_settled(again)
    again.go_back()
    assert visible_ids(again) == ids_
    for wrong in ("#open=nobody", "#tab=constructor&sort=-__proto__&ticked=,x&base=y", "#%E0%A4%A"):
        again.goto(file.as_uri() + wrong)
        again.reload()
        expect(again.get_by_role("heading", level=2).first).to_be_visible()


def test_colours_follow_the_system_and_the_switch(browser: Open, file: Path) -> None:
    def back(page: Page) -> int:
        colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.removeprefix("rgb(").split(",")[0])

    page = browser(file, "#tab=quick&open=grid-uer", color_scheme="dark")
    wait_until_settled(page)
    label = page.locator(".plot text").first
    assert back(page) < 40 and label.evaluate("text => getComputedStyle(text).fill") == "rgb(157, 167, 179)"
    page.get_by_label("Colours").select_option("light")
    assert back(page) == 255 and label.evaluate("text => getComputedStyle(text).fill") == "rgb(87, 96, 106)"
    page.get_by_label("Colours").select_option("")
    assert back(page) < 40
    page.emulate_media(color_scheme="light")
    assert back(page) == 255


def test_everything_works_by_keyboard(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick")

    def press_until(selector: str, *keys: str, back: bool = False) -> None:
        for _ in range(60):
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                break
            page.keyboard.press("Shift+Tab" if back else "Tab")
        else:
            raise AssertionError(f"{selector} is never focused")
        for key in keys:
            page.keyboard.press(key)

    press_until(".skip", "Enter")
    expect(page.locator("main")).to_be_focused()
    press_until("[role=tab]", "ArrowRight")
    expect(page.get_by_role("tab", name="paper")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="quick")).to_have_attribute("aria-selected", "true")
    press_until("#search", *"uer")
    press_until("[data-column=score] button", "Enter")
    expect(page.locator("[data-column=score]").first).to_have_attribute("aria-sort", "descending")
    press_until("tr input", "Space")
    expect(page.locator("#ticked")).to_have_text("1 row ticked")
    press_until("tr a", "Enter")
    expect(page.get_by_role("heading", name="uer")).to_be_focused()
    press_until("#back", back=True)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-id='grid-uer'] a")).to_be_focused()


VIEWS = ("#tab=quick", "#tab=quick&open=grid-vlm_rb", "#tab=quick&ticked=grid-uer,grid-vlm_rb&compare=1")


def test_a_phone_scrolls_tables_not_the_page(browser: Open, file: Path) -> None:
    page = browser(file, width=375, height=700, has_touch=True)
    for link in VIEWS:
        page.goto(file.as_uri() + link)
        if "=grid" in link:
            wait_until_settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        targets = page.locator("button:visible, input:visible, select:visible")
        assert min(targets.evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")) >= 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Open, axe: Callable[[Page], None], tmp_path: Path, scheme: Any) -> None:
    few = [boards.entry(f"grid-{name}", method=name, rank=(1, 1, 2)) for name in ("uer", "vlm_rb")]
    page = browser(write(boards.board(*few, boards.entry("grid-sac")), tmp_path), color_scheme=scheme)
    for name in ("uer", "vlm_rb"):
        page.locator(f"tr[data-id='grid-{name}'] input").check()
    page.get_by_text("How to read this").click()
    axe(page)
    page.get_by_role("button", name="Compare").click()
    wait_until_settled(page)
    axe(page)
    page.get_by_role("button", name="All rows").click()
    page.get_by_role("link", name="vlm_rb").click()
    wait_until_settled(page)
    page.get_by_text("12 settings").click()
    axe(page)


def test_print_shows_all_and_no_controls(browser: Open, file: Path) -> None:
    page = browser(file, "#tab=quick&open=grid-vlm_rb", color_scheme="dark")
    wait_until_settled(page)
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.get_by_role("button", name="All rows").click()
    page.emulate_media(media="print")
    for hidden in ("#tabs", ".controls", ".row input", ".theme", "#tray"):
        expect(page.locator(hidden).first).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    clipped = "all => all.filter(e => getComputedStyle(e).overflowX !== 'visible').length"
    assert page.locator(".scroll").evaluate_all(clipped) == 0 and len(visible_ids(page)) == 9


def hostile_board() -> Board:
    """Return a board whose every text contains markup or script."""
    rows = []
    unchanged = ("id", "tab", "method", "standing", "apart")
    for id_ in ("evil-1", "evil-2"):
        row, details = boards.entry(id_, rank=(1, 1, 2), suite=EVIL, tasks=(EVIL, "__proto__"), method="__proto__")
        texts = {
            field.name: EVIL
            for field in fields(Entry)
            if isinstance(getattr(row, field.name), str) and field.name not in unchanged
        }
        row = replace(row, **texts, hardware=(EVIL,))
        details = replace(
            details,
            variations=tuple(replace(variation, kind=EVIL, name=EVIL, task=EVIL) for variation in details.variations),
            frames=(Frames(EVIL, details.frames[0].png), Frames("no picture", 'x" onerror="pwned=1')),
            settings=tuple(replace(setting, name=EVIL, value=EVIL, layer=EVIL) for setting in details.settings),
            origins=tuple(replace(origin, commit=EVIL, packages=EVIL, hardware=EVIL) for origin in details.origins),
            runs=(EVIL,),
            bibtex=EVIL,
            checks=(Check(EVIL, False, EVIL),),
            curve=replace(details.curve, unit=EVIL),
        )
        rows.append((row, details))
    apart = boards.entry("evil-3", suite=EVIL, apart=EVIL)
    board = boards.board(*rows, apart, title=EVIL, commit=EVIL, minimum=EVIL, notes=(EVIL,))
    return replace(
        board, refused=(Refused(EVIL, EVIL), Refused("name-\udc80", "no text")), suites=(Suite(EVIL, EVIL, 1),)
    )


def test_strangers_text_stays_text(browser: Open, axe: Callable[[Page], None], tmp_path: Path) -> None:
    file = write(hostile_board(), tmp_path)
    page = browser(file)
    assert page.title() == EVIL
    page.get_by_label("Search").fill("<script>")
    assert page.locator("tr[data-id]:visible").count() == 3
    row = page.locator("tr[data-id='evil-1'] a")
    assert [page.locator("h1").text_content(), row.text_content()] == [EVIL, EVIL]
    row.click()
    wait_until_settled(page)
    assert [page.locator(f"#opened {part}").text_content() for part in ("h2", "pre")] == [EVIL, EVIL]
    assert page.locator("#opened img").count() == 1
    page.locator("#opened .plot").first.locator(".mark-symbol path").last.hover()
    assert page.locator("#tip").text_content().count(EVIL) == 1
    page.goto(file.as_uri() + "#ticked=evil-1,evil-2&compare=1")
    wait_until_settled(page)
    assert page.locator("#comparison .legend li").first.text_content().strip() == EVIL
    assert page.evaluate("window.pwned") is None
    links = page.locator("[href]").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    assert page.locator("script").count() == 5  # data, details, Vega's text, the page's script, Vega's


def test_the_policy_stops_what_the_page_did_not_bring(chromium: Any, file: Path) -> None:
    page = chromium.new_page()
    blocked: list[bool] = []
    page.goto(file.as_uri())
    with page.expect_console_message(
        lambda message: blocked.append("Content Security Policy" in message.text) or sum(blocked) >= 2, timeout=PATIENCE
    ):
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned=1\">');"
            "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s);"
        )
    assert page.evaluate("window.pwned") is None
    page.close()


def test_numbers_that_are_none_and_boards_without_rows(browser: Open, tmp_path: Path) -> None:
    row, details = boards.entry("odd-1", seeds=1, score=Estimate(float("nan")), mean=Estimate(None), hardware=())
    page = browser(write(boards.board((row, details)), tmp_path), "#open=odd-1")
    wait_until_settled(page)
    expect(page.locator(".facts")).to_contain_text("Score (IQM)—")
    expect(browser(write(boards.board(), tmp_path)).get_by_text("No row can be shown.")).to_be_visible()


def test_the_same_board_is_the_same_page_in_every_process() -> None:
    """The order of a set differs from process to process, so the page must not depend on one."""
    code = (
        "import sys; from guidebench.reports.leaderboard.page import render;"
        "from tests.reports.leaderboard import boards; sys.stdout.buffer.write(render(boards.example()).encode())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert process.stdout.decode() == render(boards.example())


def with_films(*names: str, ranks: tuple[int | None, ...] = (), words: str = "open the door", **options: Any) -> Board:
    """Return a board of rows that have episodes; `ranks`: their ranks, by default 1, 2, …"""
    rows = []
    for number, name in enumerate(names):
        rank = ranks[number] if ranks else number + 1
        row, details = boards.entry(name, rank=rank and (rank, rank, rank))
        rows.append((row, replace(details, episodes=boards.films(words=words, **options))))
    return boards.board(*rows)


def test_a_row_opens_to_its_episodes_which_are_decoded_when_a_reader_asks_for_them(
    browser: Open, tmp_path: Path, axe: Callable[[Page], None]
) -> None:
    page = browser(write(with_films("a", words=EVIL[:60]), tmp_path), "#open=a")
    wait_until_settled(page)
    assert page.locator("figure.animation").count() == 0
    page.locator(".episodes > summary").focus()
    page.keyboard.press("Enter")
    figures = page.locator("figure.animation")
    expect(figures).to_have_count(2)
    assert [caption.split(".")[0] for caption in figures.locator("figcaption").all_inner_texts()] == [
        "Failure after 12 steps", "Success after 9 steps"
    ]  # fmt: skip
    for image in figures.locator("img").all():
        assert image.evaluate("each => each.decode().then(() => [each.naturalWidth, each.naturalHeight])") == [96, 64]
    assert figures.first.locator("img").get_attribute("alt") == (
        "Animation, 8x8, seed 0, episode 0: failure after 12 steps"
    )
    expect(page.locator(".episodes")).to_contain_text("2 of 32 episodes; so what is shown here is no rate")
    expect(page.locator(".episodes")).to_contain_text("nobody handed them in")
    figures.first.locator("summary").press("Enter")
    assert figures.first.locator("li").inner_text() == f"Step 2: {EVIL[:60]}" and page.evaluate("window.pwned") is None
    axe(page)
    figures.first.get_by_role("button", name="Stop: ").press("Enter")
    expect(figures.first.locator("canvas")).to_be_visible()
    expect(figures.first.locator("img")).to_be_hidden()
    expect(figures.last.locator("img")).to_be_visible()


def test_pictures_that_no_verification_has_played_again_are_labelled_in_the_row_and_beside_them(
    browser: Open, tmp_path: Path
) -> None:
    board = with_films("a", "b")
    reason = "8x8, seed 0: pictures not verified: episode 2: played again, the policy takes other actions"
    films = board.details["a"].episodes
    assert films is not None
    labelled = replace(films, pictures="pictures not verified", verification=(reason,))
    board = replace(
        board,
        entries=tuple(replace(row, pictures=labelled.pictures if row.id == "a" else "") for row in board.entries),
        details={**board.details, "a": replace(board.details["a"], episodes=labelled)},
    )
    file = write(board, tmp_path)
    page = browser(file)
    expect(page.get_by_role("row").filter(has_text="pictures not verified")).to_have_count(1)
    page = browser(file, "#open=a")
    wait_until_settled(page)
    page.locator(".episodes > summary").click()
    expect(page.locator(".episodes")).to_contain_text(reason)
    expect(page.locator(".episodes")).not_to_contain_text("nobody handed them in")


def test_episodes_stand_still_for_a_reader_who_prefers_less_motion(browser: Open, tmp_path: Path) -> None:
    page = browser(write(with_films("a"), tmp_path), "#open=a", reduced_motion="reduce", width=375)
    wait_until_settled(page)
    page.locator(".episodes > summary").click()
    figure = page.locator("figure.animation").first
    expect(figure.locator("canvas")).to_be_visible()
    expect(figure.locator("img")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    figure.get_by_role("button", name="Play: ").press("Space")
    expect(figure.locator("img")).to_be_visible()


def test_the_page_keeps_its_size_and_the_best_rows_their_episodes(
    browser: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = with_films("d", "a", "c", "b", ranks=(None, 2, 1, 3))
    none = {name: replace(details, episodes=None) for name, details in board.details.items()}
    bare = len(render(replace(board, details=none)).encode())
    size = len(inline.inert(boards.films())) + ELEMENT
    monkeypatch.setattr(leaderboard_page, "PAGE", bare + ELEMENT + 2 * size + 150)
    text = render(board)
    assert re.findall(r'id="episodes-(.)"', text) == ["c", "a"] and len(text.encode()) <= leaderboard_page.PAGE
    assert "The episodes of 2 rows are left out for want of room; the rows with the best places keep theirs." in text
    assert "The episodes of 5 rows are left out" in render(replace(board, without_episodes=3))
    page = browser(write(board, tmp_path), "#open=b")
    wait_until_settled(page)
    assert page.locator(".episodes").count() == 0


def test_what_is_no_base64_becomes_no_picture(browser: Open, tmp_path: Path) -> None:
    board = with_films("a")
    films = board.details["a"].episodes
    assert films is not None
    evil = replace(films, films=(replace(films.films[0], webp='","x":"data:text/html,<script>1</script>'),))
    changed = replace(board, details={"a": replace(board.details["a"], episodes=evil)})
    page = browser(write(changed, tmp_path), "#open=a")
    wait_until_settled(page)
    page.locator(".episodes > summary").click()
    assert page.locator("figure.animation img").get_attribute("src") is None
