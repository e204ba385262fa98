"""`bench watch`: seconds from a row on disk to the page, for an HTTP client that listens and for a page in Chromium.

    python -m benchmarks.watch [--methods 4] [--tasks 1] [--seeds 5] [--rows 20]

The study is written to a temporary directory, finished but for one run, whose log gets one evaluation of ten episodes
at a time. A row is on the page when the table of results counts its evaluation; its curve is drawn a little later. For
the client it is there when it has fetched what an event told it of. Without Chromium the client stands alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchmarks import benchmark_process, report
from benchmarks.table import Line

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVALUATIONS, BEGUN = 50, 5
"""Evaluations of a run, and those of the growing run before the first measurement."""
PATIENCE = 120.0
"""Seconds after which a row counts as lost."""
COUNTED = """wanted => [...document.querySelectorAll("#results tbody tr")].some((row) =>
  row.cells[0].textContent.startsWith("method-0") && [...row.cells].some((cell) => cell.textContent === wanted))"""
DRAWN = """() => {
  const plot = document.querySelector("figure.chart .plot");
  return plot && "drawn" in plot.dataset && !document.querySelector(".plot.coming");
}"""


def growing(study: Path) -> tuple[Path, list[list[str]]]:
    """Make one run of a study unfinished; return its log, with the first evaluations, and the lines of the others."""
    import pandas as pd

    run = sorted(study.glob("synthetic/task-0/method-0-*/seed-0"))[0]
    rows = pd.read_parquet(run / "evaluations.parquet")
    (run / "evaluations.parquet").unlink()
    content = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**content, "status": "stopped"}))
    lines = [line + "\n" for line in rows.to_json(orient="records", lines=True).splitlines()]
    blocks = [lines[at : at + report.EPISODES] for at in range(0, len(lines), report.EPISODES)]
    log = run / "evaluations.jsonl"
    log.write_text("".join(line for block in blocks[:BEGUN] for line in block))
    return log, blocks[BEGUN:]


@contextmanager
def watched(study: Path) -> Iterator[str]:
    """Start `bench watch` on a study and yield its address."""
    arguments = ["watch", str(study)]
    process = benchmark_process.start(sys.executable, "guidebench.__main__", arguments, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        yield address[0]
    finally:
        process.terminate()
        process.wait()


class Client:
    """Listens for events, and fetches the part of the page that has changed."""

    def __init__(self, address: str) -> None:
        self._host = urlsplit(address).netloc
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        connection.request("GET", "/events")
        self._stream = connection.getresponse()
        self._version = ""

    def until(self, text: str) -> float:
        """Wait until the table of results shows a text; return the time, by `time.perf_counter`."""
        while True:
            line = self._stream.readline()
            version = json.loads(line[6:])["versions"]["results"] if line.startswith(b"data: ") else self._version
            if version == self._version:
                continue
            connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
            connection.request("GET", "/parts/results")
            answer = connection.getresponse()
            self._version = str(answer.getheader("ETag")).strip('"')
            if f"<td>{text}</td>" in answer.read().decode():
                return time.perf_counter()


@contextmanager
def opened(address: str) -> Iterator[Page | None]:
    """Yield the page in Chromium, or None where there is no Chromium."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1_000 * PATIENCE)
        page.goto(address)
        yield page
        browser.close()


def measure(methods: int, tasks: int, seeds: int, rows: int) -> dict[str, Any]:
    """Return medians and worst cases over rows, which are written at random times."""
    rng = random.Random(0)
    taken: dict[str, list[float]] = {"client": [], "page": [], "curve": []}
    with tempfile.TemporaryDirectory() as directory:
        study = Path(directory) / "study"
        report.write(study, methods, tasks, seeds, EVALUATIONS)
        log, blocks = growing(study)
        began = time.perf_counter()
        with watched(study) as address, opened(address) as page, ThreadPoolExecutor(1) as pool:
            client, number = Client(address), BEGUN
            client.until(f"{number} × {report.EPISODES}")
            first = time.perf_counter() - began
            if page is not None:
                page.wait_for_function(DRAWN)
            for block in blocks[:rows]:
                number += 1
                time.sleep(rng.uniform(0.5, 1.5))
                counted_text = f"{number} × {report.EPISODES}"
                listening = pool.submit(client.until, counted_text)
                with open(log, "a") as file:
                    file.write("".join(block))
                written = time.perf_counter()
                if page is not None:
                    page.wait_for_function(COUNTED, arg=counted_text)
                    taken["page"].append(time.perf_counter() - written)
                    page.wait_for_function(DRAWN)
                    taken["curve"].append(time.perf_counter() - written)
                taken["client"].append(listening.result() - written)
    return {
        "runs": methods * tasks * seeds,
        "first_seconds": first,
        **{f"{name}_seconds": statistics.median(waits) for name, waits in taken.items() if waits},
        **{f"{name}_worst_seconds": max(waits) for name, waits in taken.items() if waits},
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    label = f"bench watch, {figures['runs']:,} runs, seconds from a row on disk"
    for name, place in (("client", "to a client"), ("page", "to the page"), ("curve", "to its curve")):
        if (took := figures.get(f"{name}_seconds")) is not None:
            worst = figures[f"{name}_worst_seconds"]
            yield Line(f"{label} {place}", f"{took:.2f} s, at most {worst:.2f} s", "", worst, "<2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20, help=f"at most {EVALUATIONS - BEGUN} (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    options = parser.parse_args()
    figures = measure(options.methods, options.tasks, options.seeds, options.rows)
    if options.json:
        print(json.dumps(figures))
        return
    print(
        f"bench watch, {figures['runs']:,} runs, {figures['first_seconds']:.1f} s until the first curves; row to page:"
    )
    for name in ("client", "page", "curve"):
        if f"{name}_seconds" in figures:
            print(f"  {name}: {figures[f'{name}_seconds']:.2f} s, at most {figures[f'{name}_worst_seconds']:.2f} s")


if __name__ == "__main__":
    main()
