from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from guidebench import results
from guidebench.reports.rendering import charts, figures, inline, page
from guidebench.reports.summary import judges
from guidebench.reports.summary.listings import Listed
from tests.reports.conftest import Writer, write_rows

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., "Page"]
CURVES = {seed: {100: [1, 0], 200: [1, 1]} for seed in (0, 1)}
EVIL = "<script>alert(1)</script>"
FILTER = "image => getComputedStyle(image).filter"


def _page(writer: Writer) -> str:
    study, summary = writer.summarised(name=f"study {EVIL}")
    judged, timed = (results.noted(study, log) for log in ("judgements", "timings"))
    judgings = judges.judging(study.cells, judged, timed, {row.cell.id: row.label for row in summary.rows})
    curves = figures.Gallery("Learning curves", "", figures.learning_curves(summary.rows))
    return page.render(study, summary, [curves], [Listed("Judges", (), judges.listings(judgings))])


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


Tags = list[tuple[str, dict[str, str | None]]]


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Tags:
    writer = Writer(tmp_path_factory.mktemp("tags") / "study")
    names = {key: f"{key[0]}{EVIL}" for key in ("method", "task", "model", "variant")} | {"backend": "scripted"}
    settings = {f"x{EVIL}": {"value": EVIL, "source": "", "layer": EVIL}}
    provenance = {"commit": EVIL, "packages": {EVIL: EVIL}, "hardware": EVIL}
    writer.cell("a", CURVES, settings=settings, provenance=provenance, status={1: "failed"}, error=EVIL, **names)
    writer.cell("b", CURVES, task=f"t{EVIL}")
    parser = _Tags()
    parser.feed(_page(writer))
    return parser.tags


def test_nothing_from_a_file_becomes_markup_and_the_page_needs_no_network(tags: Tags) -> None:
    kinds = [attributes.get("type") for tag, attributes in tags if tag == "script"]
    assert kinds == ["application/json", "application/gzip", None], "a chart, the program that draws it, and our own"
    for _tag, attributes in tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "srcset", "action", "data"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#"))
    policies = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [inline.policy(inline.script(*page.SCRIPTS), charts.bundle())]


def test_every_image_has_words_and_every_table_a_caption(tags: Tags) -> None:
    (image,) = (attributes for tag, attributes in tags if tag == "img")
    assert "Learning curves on" in (image["alt"] or "")
    assert base64.b64decode((image["src"] or "").split(",")[1]).startswith(b"\x89PNG")
    names = [tag for tag, _ in tags]
    assert names.count("table") == names.count("caption") > 2


def test_the_page_shows_numbers_judge_differences_and_the_runs_they_come_from(writer: Writer) -> None:
    low, high = ({"learner.lr": {"value": value, "source": "", "layer": "command line"}} for value in (0.1, 0.2))
    root = writer.cell("a", CURVES, method="vlm_rb", backend="scripted", model="sprite", settings=low)
    rows = [{"asked": 1, "applied": 5, "score": score, "slots": 2, "events": 1} for score in (0.9, 0.1)]
    write_rows(root / "seed-0", "judgements", rows)
    timing = {"step": 200, "seconds": 8.0, "wait_seconds": 2.0, "clips": 2, "judge_seconds": 0.5}
    write_rows(root / "seed-0", "timings", [timing])
    writer.cell("b", CURVES, settings=high)
    text = " ".join(re.sub(r"<[^>]+>", " ", _page(writer)).split())
    assert "sprite (scripted) hand-written for this task 0.500 of 2 4 2.0 0.250 0.2500" in text
    assert "Judges beside the task&#39;s own events: privileged information, for diagnosis only" in text
    assert "vlm_rb · sprite grid/8x8 0.500 of 2 0.500 of 2 — " in text
    assert "learner.lr 0.1 (command line) 0.2 (command line)" in text
    assert "grid/8x8/vlm_rb-a/seed-0 grid/8x8/vlm_rb-a/seed-1" in text
    assert "abc123 torch 2.0 processor some CPU, cores 2 4" in text
    assert r"\begin{tabularx}" in text and r"Needs \usepackage{booktabs}\usepackage{tabularx} ." in text


def test_configurations_with_the_same_settings_share_a_column(writer: Writer) -> None:
    other = {"learner.lr": {"value": 0.5, "layer": "method"}, "replay.alpha": {"value": 0.6, "layer": "replay"}}
    writer.cell("a", CURVES, task="easy")
    writer.cell("b", CURVES, task="hard")
    writer.cell("c", CURVES, task="easy", method="per", settings=other)
    columns, differing = page.differences(*writer.summarised())
    assert columns == ["uer", "per"]
    assert differing == {
        "learner.lr": [("0.0001", "learner"), ("0.5", "method")],
        "replay.alpha": [("—", ""), ("0.6", "replay")],
    }


@pytest.fixture
def hostile(writer: Writer, tmp_path: Path) -> Path:
    """Write the report page of two methods on two tasks, one method with a name that contains markup; return its
    path."""
    for task in ("easy", f"t{EVIL}"):
        names = {"task": task, "backend": "scripted"}
        writer.cell(f"a{task[:1]}", CURVES, method=f"m{EVIL}", model=f"j{EVIL}", variant=f"v{EVIL}", **names)
        writer.cell(f"b{task[:1]}", {seed: {100: [0, 0], 200: [0, 1]} for seed in (0, 1)}, task=task)
    (tmp_path / "report.html").write_text(_page(writer))
    return tmp_path / "report.html"


@pytest.mark.waits
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375)])
def test_the_page_can_be_read_light_and_dark_and_at_phone_width_whatever_names_say(
    hostile: Path, browser: Open, axe: Callable[[Page], None], scheme: str, width: int
) -> None:
    page_ = browser(hostile, width=width, color_scheme=scheme)
    page_.wait_for_selector(".plot[data-drawn] svg")
    page_.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page_.evaluate("document.documentElement.scrollWidth") <= width
    assert f"m{EVIL} (v{EVIL})" in page_.locator(".legend").first.inner_text()
    axe(page_)


def _brightness(element: Locator) -> float:
    from PIL import Image

    with Image.open(io.BytesIO(element.screenshot())) as picture:
        return float(np.asarray(picture.convert("L"), dtype=float).mean())


@pytest.mark.waits
def test_drawn_figures_are_dark_on_a_dark_page_and_frames_stay_as_they_were(
    writer: Writer, tmp_path: Path, browser: Open
) -> None:
    writer.cell("a", CURVES)
    study, summary = writer.summarised()
    (curves,) = figures.learning_curves(summary.rows)
    gallery = figures.Gallery("Figures", "", [curves._replace(chart=None)])
    frames = [results.Picture("grid/8x8", "none", curves.png)]
    (tmp_path / "report.html").write_text(page.render(study, summary, [gallery], [], frames))
    page_ = browser(tmp_path / "report.html", color_scheme="dark")
    figure, frame = page_.locator("img.figure"), page_.locator(".frames img")
    assert _brightness(figure) < 60 < 200 < _brightness(frame)
    page_.locator("select.theme").select_option("light")
    assert _brightness(figure) > 200
    page_.locator("select.theme").select_option("dark")
    assert figure.evaluate(FILTER) != "none" and frame.evaluate(FILTER) == "none"
    page_.emulate_media(media="print")
    assert figure.evaluate(FILTER) == "none"


@pytest.mark.waits
def test_rows_are_sorted_and_on_paper_and_without_scripts_the_figure_stands_for_the_chart(
    hostile: Path, browser: Open
) -> None:
    page_ = browser(hostile)
    page_.wait_for_selector(".plot[data-drawn]")
    table = page_.locator("table", has_text="AUC").first
    for expected in (["0.50", "1.00"], ["1.00", "0.50"]):
        table.get_by_role("button", name="Final success").press("Enter")
        texts = table.locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert [text.split()[0] for text in texts] == expected, "a row is sorted by its number"
    figure = page_.locator("figure.drawn").first
    assert figure.locator(".plot").is_visible() and not figure.locator("img").is_visible()
    page_.emulate_media(media="print")
    assert figure.locator("img").is_visible() and not figure.locator(".plot").is_visible()
    figure = browser(hostile, java_script_enabled=False).locator("figure.drawn").first
    assert figure.locator("img").is_visible() and not figure.locator(".plot").is_visible()
