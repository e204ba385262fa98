"""Synthetic studies with numbers chosen by hand, written as the harness writes them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import pytest

from guidebench import results
from guidebench.baselines.guides.preference import Preference
from guidebench.harness import logs
from guidebench.harness.claims import CLAIMS, Claims
from guidebench.harness.commands import cli
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.logs import Log
from guidebench.harness.records import schema
from guidebench.harness.registry import MODELS
from guidebench.reports.rendering import figures
from guidebench.reports.summary import summaries
from guidebench.reports.summary.summaries import Summary
from tests.conftest import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IDENTITY = {
    "suite": "grid",
    "task": "8x8",
    "method": "uer",
    "learner": "dqn",
    "backend": "",
    "model": "",
    "profile": "quick",
}


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
"""A picture of one pixel."""
LOGS = {**schema.ASKING["judge"], **logs.together([("guide 'preference'", Preference.logs)])}


def on_record(parts: Mapping[str, str], backend: str = "", model: str = "") -> dict[str, dict[str, str]]:
    """Return the parts as cell.json records them: kind -> kind, name and, for models (or the teacher where there is no
    model), backend and model."""
    answering = [kind for kind in MODELS if parts.get(kind)] or ["teacher"]
    model_fields = {"backend": backend, "model": model}
    return {
        kind: {"kind": kind, "name": name, **(model_fields if kind in answering and backend else {})}
        for kind, name in parts.items() if name
    }  # fmt: skip


@dataclass
class Writer:
    """Writes a synthetic study below `directory`: call `cell(...)` for each cell, then `finish()`."""

    directory: Path
    cells: dict[str, Any] = field(default_factory=dict)

    def cell(
        self,
        name: str,
        curves: Mapping[int, Mapping[int, Sequence[float]]],
        *,
        steps: int = 300,
        variant: str = "",
        status: Mapping[int, str] | None = None,
        planned: Sequence[int] | None = None,
        settings: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
        error: str | None = None,
        matrix: Mapping[str, str] | None = None,
        parts: Mapping[str, str] | None = None,
        score: Score = SUCCESS,
        declared: Mapping[str, Log] | None = None,
        record: Mapping[str, Any] | None = None,
        rows: Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]] | None = None,
        **identity: str,
    ) -> Path:
        """Write a cell and its runs; return the cell's directory. `curves`: seed -> step -> score of each episode, by
        default its success, 0 or 1, with half of that as return; under another score every episode is a failure.
        `declared`: logs of its parts, by default those of a judge and of preferences. `record`: entries of cell.json to
        replace, or to leave out if None. `rows`: log -> seed -> rows of a run's log."""
        names = {**IDENTITY, **identity}
        directory = f"{names['suite']}/{names['task']}/{names['method']}-{name}".replace("<", "_").replace(">", "_")
        root = self.directory / directory
        cell_record = {
            "schema": schema.SCHEMA_VERSION,
            "cell": name,
            **names,
            "steps": steps,
            "variant": variant,
            "settings": settings or {"learner.lr": {"value": 1e-4, "source": "paper, table 3", "layer": "learner"}},
            "versions": {"suite": 1},
            "parts": on_record(parts or {}, names["backend"], names["model"]),
            "score": asdict(score),
            "logs": logs.plain(LOGS if declared is None else declared),
            **(record or {}),
        }
        _write(root / "cell.json", {key: value for key, value in cell_record.items() if value is not None})
        self.cells[name] = {
            "directory": directory,
            "seeds": sorted(planned if planned is not None else curves),
            "label_variant": variant,
            **({"matrix": dict(matrix)} if matrix else {}),
        }
        for seed, curve in curves.items():
            state = (status or {}).get(seed, "finished")
            run = {
                "schema": schema.SCHEMA_VERSION,
                "status": state,
                "seed": seed,
                "step": max(curve, default=0),
                "steps": steps,
                "error": error if state == "failed" else None,
                "provenance": provenance
                or {
                    "commit": "abc123",
                    "dirty": False,
                    "packages": {"torch": "2.0"},
                    "hardware": {"processor": "some CPU", "cores": 2},
                },
            }
            _write(root / f"seed-{seed}" / "run.json", run)
            evaluations = [
                {
                    **dict.fromkeys(schema.EVALUATION),
                    **{"study": "s", "cell": name, **names, "seed": seed, "step": step, "episode": episode},
                    **_episode(score, value),
                }
                for step, scores in curve.items()
                for episode, value in enumerate(scores)
            ]
            write_rows(root / f"seed-{seed}", "evaluations", evaluations, parquet=state == "finished")
        for log, runs in (rows or {}).items():
            for seed, run_rows in runs.items():
                write_rows(root / f"seed-{seed}", log, run_rows)
        return root

    def finish(self, name: str = "study-of-tests") -> Path:
        command = ["bench", "run", "suite=grid"]
        _write(
            self.directory / "study.json",
            {"schema": schema.SCHEMA_VERSION, "study": name, "command": command, "cells": self.cells},
        )
        return self.directory

    def claim(self, claims: Claims, rows: Mapping[str, Sequence[str]]) -> Path:
        """Write the study with these claims; `rows`: row, its words joined by a space -> names of its cells."""
        directory = self.finish()
        _write(directory / CLAIMS, claims.as_json())
        edit(directory / "study.json", claims={"digest": claims.digest, "rows": rows})
        return directory

    def judged_beside(self, curves: Mapping[int, Mapping[int, Sequence[int]]], uer: Mapping[int, Any]) -> None:
        """Write a cell of uer, and one of vlm_rb with a scripted judge and a changed setting."""
        judge = {"method": "vlm_rb", "backend": "scripted", "model": "sprite"}
        self.cell("a", uer, steps=200)
        self.cell("b", curves, steps=200, variant="replay.alpha=0.5", **judge)

    def summarised(self, reps: int = 200, name: str = "study-of-tests") -> tuple[results.StudyRecord, Summary]:
        """Finish the study and return its record and the summary of a report on it."""
        study = results.study(self.finish(name))
        return study, summaries.summarise(study, results.load(study), reps=reps)

    def summary(self, reps: int = 200, name: str = "study-of-tests") -> Summary:
        return self.summarised(reps, name)[1]


def _episode(score: Score, worth: float) -> dict[str, Any]:
    """Return the columns of an evaluation row that depend on the episode's score."""
    if score == SUCCESS:
        return {"return": 0.5 * worth, "success": bool(worth), "length": 10}
    columns = {"return": float(worth) if score.name == "return" else 0.5, "success": False, "length": 10}
    return {**columns, schema.SCORE: float(worth)} if score.recorded else columns


def write_rows(directory: Path, log: str, rows: Sequence[Mapping[str, Any]], *, parquet: bool = False) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    if parquet:
        path = directory / f"{log}.parquet"
        pd.DataFrame(list(rows)).to_parquet(path, index=False)
    else:
        path = directory / f"{log}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def edit(path: Path, **changes: Any) -> None:
    """Replace top-level keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class Reported(NamedTuple):
    """Exit code, output and directory of a `bench report` command."""

    code: int
    out: str
    err: str
    home: Path
    """Directory of its files."""

    def text(self, name: str = "report.html") -> str:
        return (self.home / name).read_text()

    def json(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.text("summary.json"))
        return summary


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., Reported]:
    """`report(study, "--siunitx", …)` runs `bench report` with few resamples."""

    def run(study: Path, *words: str) -> Reported:
        capsys.readouterr()
        code = cli.main(["report", "--resamples", "200", str(study), *words])
        return Reported(code, *capsys.readouterr(), study / "report")

    return run


def without_pictures() -> Iterator[None]:
    """Lay out figures and describe them in words, but do not render them, for tests of the text around them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "saved", lambda figure: (PNG, b"%PDF"))
        yield


unrendered = pytest.fixture(without_pictures)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "study")


def ending(*finals: int) -> dict[int, dict[int, list[int]]]:
    """Return curves of seeds (seed -> step -> successes) that have 0 of 4 successes at step 100 and `finals[seed]` of 4
    at 200."""
    return {seed: {100: [0] * 4, 200: [1] * final + [0] * (4 - final)} for seed, final in enumerate(finals)}


def pair(writer: Writer, second: str = "per") -> None:
    """Write cells of uer and another method on two tasks; on the second they tie."""
    for task, uer, other in (("easy", (0, 1), (2, 4)), ("hard", (2, 2), (2, 2))):
        writer.cell(f"uer-{task}", ending(*uer), steps=200, task=task)
        writer.cell(f"per-{task}", ending(*other), steps=200, task=task, method=second)


@pytest.fixture
def two(writer: Writer) -> Writer:
    """A writer with the cells of `pair`."""
    pair(writer)
    return writer


@pytest.fixture
def pdflatex() -> Callable[[Path], str]:
    """Return a function that compiles a LaTeX document in its directory and returns pdfLaTeX's output."""
    if shutil.which("pdflatex") is None:
        skip_or_fail("pdflatex is missing; install texlive-latex-base, texlive-latex-recommended and texlive-science")

    def compile_(document: Path) -> str:
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", document.name]
        process = subprocess.run(command, cwd=document.parent, capture_output=True, timeout=120)
        output = process.stdout.decode(errors="replace")  # the log is not always UTF-8
        assert process.returncode == 0, output[-2000:]
        return output

    return compile_


@pytest.fixture
def typeset(tmp_path: Path, pdflatex: Callable[[Path], str]) -> Callable[[str, Sequence[str]], str]:
    """Return a function that compiles LaTeX for a column of 3.3 inches with these packages and returns pdfLaTeX's
    output."""

    def compile_(body: str, packages: Sequence[str]) -> str:
        lacking = [
            name for name in packages if subprocess.run(["kpsewhich", f"{name}.sty"], capture_output=True).returncode
        ]
        if lacking and os.environ.get("CI_REQUIRES_SYSTEM") != "1":
            pytest.skip(f"LaTeX lacks {', '.join(lacking)}; install texlive-science")
        loaded = "".join(rf"\usepackage{{{name}}}" for name in packages)
        page = r"\documentclass{article}\usepackage[textwidth=3.3in]{geometry}"
        document = tmp_path / "table.tex"
        document.write_text(f"{page}{loaded}\n\\begin{{document}}\n{body}\\end{{document}}\n", encoding="utf-8")
        return pdflatex(document)

    return compile_


def label_row(query: int, label: float | None = 1.0, truth: float = 1.0, **more: Any) -> dict[str, Any]:
    """Return a row of the log `labels` as a guide writes it: two queries a session, applied ten steps after they were
    asked."""
    session = query // 2
    return {
        **{"step": 100 * session + 110, "asked": 100 * session + 100, "session": session, "query": query},
        **{"outcome": "labelled" if label is not None else "inconsistent", "truth": truth, "kept": label is not None},
        **{"reward_0": 1.0 - truth, "reward_1": truth, "learned_0": 0.0, "learned_1": 0.5},
        **({"preference": label} if label is not None else {}),
        **more,
    }


PATIENCE = 30_000
"""Milliseconds within which a browser must have acted, however busy the machine is."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium once for each file of tests: while Playwright is open, an event loop runs in this thread,
    and tests of other files begin their own."""
    executable = shutil.which("chromium")
    if executable is None:
        skip_or_fail("chromium is missing; install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


def hear(page: Page, faults: list[str], home: str) -> None:
    """Append to `faults` whatever a page must not do: log an error, open a dialog, or request an address that does not
    begin with `home`."""
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: None if request.url.startswith(home) else faults.append(request.url[:200]))


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """`browser(file, "#hash", width=375)` opens a page and returns it; the test fails if a page requests any other
    address or logs an error. Further keywords are those of Playwright's `new_context`."""
    contexts, faults = [], []

    def open_(file: Path, link: str = "", *, width: int = 1280, height: int = 900, **options: Any) -> Page:
        home = file.resolve().as_uri()
        context = chromium.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        hear(page, faults, home)
        page.on("popup", lambda popup: faults.append(f"opened {popup.url}"))
        page.goto(home + link)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def axe() -> Callable[[Page], None]:
    """Return a function that fails with axe-core's findings on a page in its present state."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page: Page) -> None:
        findings = Axe().run(page)
        assert findings.violations_count == 0, findings.generate_report()

    return check
