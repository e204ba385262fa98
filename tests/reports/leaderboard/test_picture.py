"""The picture of docs/leaderboard.md, which this test makes: the page of results/measured as a reader first sees it.

    GUIDEBENCH_PICTURES=rewrite python -m pytest -n 0 tests/reports/leaderboard/test_picture.py

draws it anew. Fonts differ between machines, so that pixels are not compared. The file carries the words that it shows
(`KEY`), and those are compared with what the page says now.
"""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page

from guidebench.reports.leaderboard import gathering
from guidebench.reports.leaderboard.page import render
from guidebench.results import MEASURED

PICTURE = Path(__file__).parents[3] / "docs" / "leaderboard.png"
SIZE = (1200, 1040)
KEY = "words"
"""Name of the PNG text chunk with the picture's words, a JSON list from top to bottom."""
REWRITE = "GUIDEBENCH_PICTURES"
COLOURS = 64
WORDS = """() => [
    ...document.querySelectorAll("[role=tab], #suites h2, #suites caption, #suites thead, #suites tbody tr")
  ].map((each) => [each.getBoundingClientRect().bottom, each.innerText.replace(/\\s+/g, " ").trim()])"""


def test_the_picture_in_the_docs_shows_what_the_page_says(browser: Callable[..., Page], tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(render(gathering.gather([MEASURED], tmp_path / "board")), encoding="utf-8")
    page = browser(file, width=SIZE[0], height=SIZE[1], color_scheme="light")
    page.wait_for_selector("html[data-ready]")
    lines = [(bottom, words) for bottom, words in page.evaluate(WORDS)]
    screenshot = page.screenshot()
    if os.environ.get(REWRITE) == "rewrite":
        _write(screenshot, [words for bottom, words in lines if bottom <= SIZE[1]])
    with Image.open(PICTURE) as picture:
        recorded_lines = json.loads(picture.info[KEY])
        recorded = np.asarray(picture.convert("L"), dtype=float)
    hint = f"docs/leaderboard.png is out of date; draw it anew with {REWRITE}=rewrite"
    assert len(recorded_lines) > 5 and recorded_lines == [words for _, words in lines][: len(recorded_lines)], hint
    for pixels in (recorded, np.asarray(Image.open(io.BytesIO(screenshot)).convert("L"), dtype=float)):
        assert pixels.shape == SIZE[::-1], hint
        bands = np.array_split(pixels, 4)  # light paper with some ink on every part
        assert all(band.mean() > 200 and band.std() > 8 for band in bands)


def _write(screenshot: bytes, words: list[str]) -> None:
    """Write a screenshot with few colours, which takes a quarter of the bytes, and the words that it shows."""
    metadata = PngInfo()
    metadata.add_itxt(KEY, json.dumps(words, ensure_ascii=False))
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(PICTURE, "PNG", pnginfo=metadata, optimize=True)
