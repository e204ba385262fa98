"""A leaderboard's page in Chromium: milliseconds until it is usable and to sort it, on a desktop and on a phone.

    python -m benchmarks.leaderboard_browser PAGE [--repeats 5]

The page is usable when its table is painted and responds. Sorting lasts from the press of a column's button until the
rows are painted in their new order; with all suites selected, every suite's table is on the page. Figures are medians.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS = (1280, 375)
"""Viewport sizes in pixels: a desktop and a phone."""
PAINTED = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
SORT = f"""async () => {{
  const button = document.querySelector('th[data-column="score"] button');
  const started = performance.now();
  button.click();
  return (await {PAINTED}) - started;
}}"""


def browser_times(page_file: Path, repeats: int = 5) -> dict[str, float]:
    """Return name -> milliseconds: `usable_WIDTH` and `sort_WIDTH` of the initial view, and with `_all` for all suites.

    Empty without Chromium or Playwright.
    """
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if chromium is None:
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        home = page_file.resolve().as_uri()
        milliseconds: dict[str, float] = {}
        for width in WIDTHS:
            for name, link in (("", home), ("_all", f"{home}#suite=*")):
                times = [_once(browser, link, width) for _ in range(repeats)]
                milliseconds[f"usable_{width}{name}"] = round(median(usable for usable, _ in times), 1)
                milliseconds[f"sort_{width}{name}"] = round(median(sort for _, sort in times), 1)
        browser.close()
        return milliseconds


def _once(browser: Browser, link: str, width: int) -> tuple[float, float]:
    context: Any = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("html[data-ready]")
    usable = page.evaluate("performance.getEntriesByName('usable')[0].startTime")
    sort = median(page.evaluate(SORT) for _ in range(4))
    context.close()
    return usable, sort


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(browser_times(options.page, options.repeats), indent=2))


if __name__ == "__main__":
    main()
