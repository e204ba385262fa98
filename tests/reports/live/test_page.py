"""The page of `bench watch` in Chromium, while rows are written."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.reports.conftest import PATIENCE, Writer, hear
from tests.reports.live.conftest import Watch, append, row

Start = Callable[..., Watch]
pytestmark = pytest.mark.waits
EVIL = "</script><img src=x onerror=alert(1)><b>bold"


@pytest.fixture
def opened(chromium: Browser, watch: Start) -> Iterator[Callable[[Path], Page]]:
    """Return a function that opens the page of a study; the test fails if the page requests another server or logs an
    error."""
    contexts, faults = [], []

    def open_(study: Path, **options: Any) -> Page:
        watched = watch(study)
        context = chromium.new_context(viewport={"width": 1280, "height": 700}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        hear(page, faults, watched.address)
        page.goto(watched.address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not faults


def mark_document(page: Page) -> None:
    """Mark the document, so that a test can tell it from a reloaded one."""
    page.evaluate("window.sameDocument = true")


def cells(page: Page, name: str) -> list[str]:
    """Return the texts of a column of the table of results."""
    table = page.locator("#results table").first
    heads = [text.split(" ↕")[0].strip() for text in table.locator("thead th").all_inner_texts()]
    return table.locator(f"tbody tr > :nth-child({heads.index(name) + 1})").all_inner_texts()


def test_a_study_appears_and_grows_without_a_reload(
    opened: Callable[..., Page], writer: Writer, axe: Callable[[Page], None]
) -> None:
    page = opened(writer.directory)
    expect(page.locator("#state")).to_contain_text("study does not exist yet")
    mark_document(page)
    axe(page)
    run = writer.cell("a", {0: {}, 1: {}}, status={0: "stopped", 1: "stopped"}, planned=[0, 1, 2]) / "seed-0"
    writer.finish("first")
    expect(page.locator("#state")).to_contain_text("3 runs of 1 configuration")
    expect(page.locator("h1")).to_have_text("first")
    expect(page.locator("#results")).to_have_text("No run has finished an evaluation yet, so there are no curves.")
    expect(page.locator("#runs tbody tr")).to_have_count(3)
    for seed in (0, 1):
        append(run.with_name(f"seed-{seed}"), row(100, 0, False, seed=seed), row(100, 1, seed=seed))
    expect(page.locator("#results tbody th")).to_have_text(["uer · quick"])
    page.wait_for_selector(".plot[data-drawn] svg")
    assert "ends at 0.50 after 100 steps" in str(page.locator(".drawing").get_attribute("aria-label"))
    for seed in (0, 1):
        append(run.with_name(f"seed-{seed}"), row(200, 0, seed=seed), row(200, 1, seed=seed))
    drawing = page.locator(".plot:not(.coming) .drawing")
    expect(drawing).to_have_attribute("aria-label", re.compile("ends at 1.00 after 200 steps"))
    assert page.locator(".plot").count() == 1 and cells(page, "Final success")[0].startswith("1.00")
    expect(page.locator("#runs svg.spark")).to_have_count(2)
    axe(page)
    assert page.evaluate("window.sameDocument")


def test_a_run_that_fails_shows_its_error_and_a_new_run_its_row(
    opened: Callable[..., Page], writer: Writer, axe: Callable[[Page], None]
) -> None:
    writer.cell("a", {0: {100: [1]}})
    writer.finish()
    page = opened(writer.directory)
    expect(page).to_have_title("1 of 1 run finished: study-of-tests")
    mark_document(page)
    writer.cell("b", {0: {100: [0]}}, method="per", status={0: "failed"}, error="Traceback\nValueError: no such thing")
    writer.finish()
    failed = page.locator("#runs tr", has_text="per")
    expect(failed).to_contain_text("ValueError: no such thing")
    expect(page.locator("#results tbody th")).to_have_text(["uer", "per"])
    expect(page).to_have_title("1 of 2 runs finished: study-of-tests")
    failed.locator("summary").click()
    expect(failed.locator("pre")).to_have_text("Traceback\nValueError: no such thing")
    axe(page)
    assert page.evaluate("window.sameDocument")


def test_notes_of_several_rows_are_one_line_and_all_are_folded_below(
    opened: Callable[..., Page], writer: Writer
) -> None:
    for number in range(4):
        writer.cell(f"c{number}", {0: {100: [1]}, 1: {}}, method=f"m{number}", status={0: "finished", 1: "failed"})
    writer.finish()
    notes = opened(writer.directory).locator("#state .notes")
    expect(notes.locator("> ul > li", has_text="and 2 more: ").first).to_be_visible()
    expect(notes.locator("details summary")).to_have_text(re.compile(r"All \d+ notes in full"))


def test_what_a_reader_did_stays_when_rows_arrive(opened: Callable[..., Page], writer: Writer) -> None:
    for number, success in enumerate((1, 0, 1, 0)):
        writer.cell(
            f"c{number}", {0: {100: [success]}, 1: {}}, method=f"m{number}", status={1: "failed"}, error="one\ntwo"
        )
    writer.finish()
    page = opened(writer.directory)
    page.wait_for_selector(".plot[data-drawn] svg")
    head = page.locator("#results thead th", has_text="Final success")
    head.get_by_role("button").click()
    head.get_by_role("button").click()
    assert [text[:4] for text in cells(page, "Final success")] == ["1.00", "1.00", "0.00", "0.00"]
    page.locator("#runs summary").first.click()
    page.locator("#runs tr", has_text="m3").first.scroll_into_view_if_needed()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#runs caption'))")
    head.get_by_role("button").evaluate("button => button.focus({preventScroll: true})")
    scrolled = page.evaluate("scrollY")
    assert scrolled > 0
    mark_document(page)
    run = writer.directory / "grid/8x8/m3-c3/seed-1"
    append(run, row(100, 0, cell="c3", seed=1) | {"method": "m3"})
    expect(page.locator("#results tbody tr", has_text="m3")).to_contain_text("[0.00, 1.00]")
    assert [text[:4] for text in cells(page, "Final success")] == ["1.00", "1.00", "0.50", "0.00"]
    assert head.get_attribute("aria-sort") == "descending"
    assert page.locator("#runs details[open]").count() == 1
    assert page.evaluate("String(getSelection())") == page.locator("#runs caption").inner_text()
    assert page.evaluate("document.activeElement.closest('th')?.getAttribute('aria-sort')") == "descending"
    assert abs(page.evaluate("scrollY") - scrolled) < 40  # an interval may take one more line
    assert page.evaluate("window.sameDocument")


def test_texts_of_a_study_stay_texts(opened: Callable[..., Page], writer: Writer) -> None:
    writer.cell(
        "a", {0: {100: [1]}, 1: {100: [0]}}, status={1: "failed"}, error=f"Traceback\n{EVIL}", variant=EVIL, model=EVIL
    )
    writer.finish(EVIL)
    page = opened(writer.directory)
    expect(page.locator("h1")).to_have_text(EVIL)
    expect(page.locator("#runs tr", has_text="failed")).to_contain_text(EVIL)
    page.wait_for_selector(".plot[data-drawn] svg")
    (writer.directory / "grid/8x8/uer-a/seed-0/run.json").write_text(f'"{EVIL}"')
    study_record = json.loads((writer.directory / "study.json").read_text())
    (writer.directory / "study.json").write_text(json.dumps({**study_record, "command": [EVIL], "study": f"{EVIL}!"}))
    expect(page.locator("h1")).to_have_text(f"{EVIL}!")
    expect(page.locator("#state code")).to_have_text(EVIL)
    assert page.locator("b, img").count() == 0


def test_a_page_whose_server_ended_says_so_and_follows_the_next(
    chromium: Browser, watch: Start, writer: Writer
) -> None:
    writer.cell("a", {0: {100: [1]}})
    first = watch(writer.finish())
    page = chromium.new_page()
    page.goto(first.address)
    expect(page.locator("#results tbody th")).to_have_text(["uer · quick"])
    expect(page.locator("#lost")).to_be_hidden()
    assert first.end()[0] == 0
    expect(page.locator("#lost")).to_contain_text("connection to bench watch is lost")
    writer.cell("b", {0: {100: [0]}}, method="per")
    writer.finish()
    watch(writer.directory, "--port", first.address.strip("/").rsplit(":", 1)[1])
    expect(page.locator("#results tbody th")).to_have_text(["uer", "per"])
    expect(page.locator("#lost")).to_be_hidden()
    page.close()


def test_links_lead_to_the_report_and_to_the_pages_of_runs(opened: Callable[..., Page], writer: Writer) -> None:
    writer.cell("a", {0: {100: [0], 200: [1]}})
    shutil.rmtree(writer.finish() / "grid/8x8/uer-a/seed-1", ignore_errors=True)
    page = opened(writer.directory)
    expect(page.locator("#made")).to_contain_text("of ")
    page.get_by_role("link", name="The full report").click()
    expect(page.locator("h1")).to_have_text("study-of-tests")
    page.locator("summary", has_text="Which runs each row comes from").click()
    page.locator("a", has_text="seed-0").click()
    expect(page.locator("h1")).to_have_text("uer · quick, seed 0")
    page.get_by_role("link", name="Report of the study").click()
    expect(page).to_have_title("study-of-tests: report")
