"""Sections of a report: those of other packages stand beside ours, and one that fails costs itself alone."""

import json
import re
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from guidebench import methods, results
from guidebench.harness import logs
from guidebench.harness.commands import cli
from guidebench.harness.errors import Stopped
from guidebench.harness.logs import Log
from guidebench.harness.records import schema
from guidebench.harness.statistics import Interval
from guidebench.reports import sections
from guidebench.reports.rendering import figures
from guidebench.reports.sections import RESERVED, Section, Source
from guidebench.reports.summary.export import plain
from guidebench.reports.summary.grids import Grid
from tests.harness.test_logs import GUIDE, WORDS
from tests.reports.conftest import Writer, label_row, write_rows

pytestmark = pytest.mark.usefixtures("unrendered")
CURVES = {seed: {100: [1, 0], 200: [1, 1]} for seed in (0, 1)}
PLACES = """
from guidebench.reports.rendering import figures; from guidebench.reports.summary import grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.sections import Section


def load(source):
    rows = source.rows("waypoints")
    return {cell: mine.groupby("seed")["x"].mean() for cell, mine in rows.groupby("cell")}, source


def tables(found):
    means, source = found
    lines = {source.labels[cell]: (grids.over_runs(values, source.resamples, cell),) for cell, values in means.items()}
    return [Grid("Places <b>to go</b>", ("mean place",), lines, "Means over seeds.")]


def drawings(found, source):
    return [figures.Drawing("everywhere", "places-all", b"png", b"pdf", "places to go")]


SECTIONS = (
    Section(
        name="places", title="Places", order=650, needs=("waypoints",), words="Where it would go.", load=load,
        tables=tables, drawings=drawings, plain=lambda found: sorted(found[0]),
    ),
)
"""


def report(study: Path) -> tuple[dict[str, Any], str]:
    """Report on a study; return summary.json and the page."""
    assert cli.main(["report", str(study), "--resamples", "200"]) == 0
    return json.loads((study / "report" / "summary.json").read_text()), (study / "report" / "report.html").read_text()


def test_a_guide_of_another_package_logs_rows_and_adds_a_section_over_a_stop(
    plugin: Callable[..., Path], train: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin("marking_module", GUIDE, {"guide": "marks", "method": "marked"})
    plugin("marking_report", PLACES, {"section": "places"})
    stop_checks = iter(range(10_000))
    with pytest.raises(Stopped):
        train(*WORDS, packs=[(0,)], checkpoint_every=30, directory=tmp_path / "s", stop=lambda: next(stop_checks) > 110)
    study = train(*WORDS, packs=[(0,)], checkpoint_every=30, directory=tmp_path / "s")
    assert len(results.load(study, log="waypoints")) == 20
    summary, page = report(study)
    (cell,) = results.study(study).cells
    assert summary["places"] == [cell.id] and summary["preferences"] == [] and summary["notes"] != []
    assert not [note for note in summary["notes"] if "left out" in note]
    assert "Places &lt;b&gt;to go&lt;/b&gt;" in page and "Where it would go." in page and "<b>to go" not in page
    assert (study / "report" / "places-all.pdf").read_bytes() == b"pdf"
    assert "mean place" in capsys.readouterr().out and "Places" in (study / "report" / "table.tex").read_text()


IMPORTS = """from guidebench.reports.rendering.figures import Drawing as D
from guidebench.reports.summary.listings import Listing as L
from guidebench.reports.sections import Section
"""


def section(words: str, name: str = "bad") -> str:
    """Return the source of a module with one report section, which is shown before the built-in ones."""
    return f'SECTIONS = (Section("{name}", "Bad", 1, {words}),)'


@pytest.mark.parametrize(
    ("broken", "note"),
    [
        (
            "raise RuntimeError('no such thing')",
            "left out: the sections of bad_report (plug-in 'bad'), which raised RuntimeError: no such thing; tell "
            "those who wrote it (bad_report.py, line 4)",
        ),
        ("import sys; sys.exit(3)", "raised SystemExit: 3"),
        ("SECTIONS = (1,)", "a section of bad_report (plug-in 'bad'), since SECTIONS holds int; expected"),
        ("SECTIONS = (Section('bad', 'Bad', 1.5, print),)", "since the order of 'bad' is '1.5'; expected a whole"),
        (
            section("load=lambda s: 1, needs=('labels')"),
            "since 'bad' needs 'labels'; expected a tuple of names of logs",
        ),
        ("", "has no attribute 'SECTIONS'"),
        (section("load=lambda s: 1", "notes"), "since its name 'notes' belongs to what every report has; choose"),
        (section("load=lambda s: 1", "a/b"), "its name is 'a/b'; expected lower-case"),
        (section("load=lambda s: 1", "probes"), "taken by guidebench.reports.sections.builtin; choose another"),
        (
            section("load=lambda s: 1", "judges"),
            "a section of bad_report (plug-in 'bad'), since its name 'judges' is taken",
        ),
        (
            section("load=lambda s: 1 / 0"),
            "the section 'bad' of bad_report (plug-in 'bad'), which raised ZeroDivisionError: division by zero; tell "
            "those who wrote it (bad_report.py, line 4)",
        ),
        (section("load=lambda s: __import__('json').loads('}')"), "who wrote it (bad_report.py, line 4)"),
        (section("load=lambda s: s.rows('labels'), needs=('probes',)"), "add needs=('probes', 'labels',)"),
        (section("load=lambda s: [1], tables=lambda f: f"), "tables holds int"),
        (section("load=lambda s: {1}, plain=lambda f: f"), "TypeError: Object of type set"),
        (section("load=lambda s: 1, plain=lambda f: float('nan')"), "tell those who wrote it"),
        (section("load=lambda s: 1, drawings=lambda f, s: [f]"), "figures of the section 'bad' of bad_report (plug-in"),
        (section("load=lambda s: 1, listings=lambda f: [f]"), "listings holds int"),
        (section("load=lambda s: [L('t', ('n',), [('uer', 3)])], listings=lambda f: f"), "write numbers as text"),
        (
            section("load=lambda s: [L('t', ('n',), [('uer',)])], listings=lambda f: f"),
            "a line of 't' has not its name",
        ),
        (
            section("load=lambda s: [L('t', (), [], 'paper')], listings=lambda f: f"),
            "'t' is for 'paper'; expected one of",
        ),
        (section("load=lambda s: 1, drawings=lambda f, s: [D('w', '../x', b'', b'', '')]"), "be called '../x'"),
        (section("load=lambda s: 1, drawings=lambda f, s: [D('w', 'curves-grid-8x8', b'', b'', '')]"), "no free name"),
    ],
)
def test_a_section_that_fails_is_a_note_and_costs_itself_alone(
    plugin: Callable[..., Path], writer: Writer, broken: str, note: str
) -> None:
    sound = "\nSECTIONS += (Section('sound', 'Sound', 2, lambda s: 1, plain=lambda f: f),)\n"
    alone = "raise" in broken or "exit" in broken or not broken  # a module that cannot be imported has no sections
    plugin("bad_report", IMPORTS + broken + ("" if alone else sound), {"section": "bad"})
    writer.cell("a", CURVES, steps=200)
    summary, page = report(writer.finish())
    (text,) = [text for text in summary["notes"] if note in text]
    assert text.count(".py, line") == text.count("(bad_report.py, line"), "no line of Python's library or of ours"
    assert summary["rows"][0]["best"] == 1.0 and "<h2>Learning curves</h2>" in page
    assert alone or summary["sound"] == 1, "another section of the same module stands"


def test_an_import_hook_of_another_package_is_not_the_line_that_raised(
    plugin: Callable[..., Path], writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook wraps each module's loader, as wandb does once it is imported."""
    plugin("bad_report", "\nraise RuntimeError('no such thing')", {"section": "bad"})

    class Hook(MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            spec = PathFinder.find_spec(name, path) if name == "bad_report" else None
            if spec is not None and spec.loader is not None:
                spec.loader = Around(spec.loader)
            return spec

    class Around(Loader):
        def __init__(self, inner: Loader) -> None:
            self.inner = inner

        def create_module(self, spec: ModuleSpec) -> None:
            return None

        def exec_module(self, module: ModuleType) -> None:
            self.inner.exec_module(module)

    monkeypatch.setattr(sys, "meta_path", [Hook(), *sys.meta_path])
    writer.cell("a", CURVES, steps=200)
    summary, _ = report(writer.finish())
    (text,) = [text for text in summary["notes"] if "no such thing" in text]
    assert text.endswith("tell those who wrote it (bad_report.py, line 2)")


def test_a_damaged_log_costs_the_sections_that_need_it_alone_unless_no_cell_declares_it(writer: Writer) -> None:
    write_rows(writer.cell("a", CURVES, steps=200) / "seed-0", "labels", [label_row(0) | {"truth": 2.0}])
    content, page = report(writer.finish())
    assert [note for note in content["notes"] if "left out: the section 'Preferences': " in note]
    (note,) = (note for note in content["notes"] if "labels.jsonl, row 1, column 'truth': 2.0; expected" in note)
    assert note.endswith("; restore the file or delete the run's directory")
    assert content["preferences"] == [] and "Learning curves" in page
    writer.cell("a", CURVES, steps=200, declared={})
    content, _ = report(writer.finish())
    assert content["preferences"] == [] and not [note for note in content["notes"] if "preferences" in note.lower()]


GUIDED = {"method": "vlm_rb", "backend": "openai", "model": "gpt-4o-mini"}
SOUND = {
    "judgements": {"asked": 1, "applied": 2, "score": 0.9, "events": 1},
    "timings": {"step": 100, "seconds": 50.0},
    "ledger": {"step": 100, "questions": 9} | dict.fromkeys(schema.LEDGER, 0),
    "labels": label_row(0),
}


@pytest.mark.parametrize(
    ("log", "damage", "wrong", "lost"),
    [
        ("judgements", {"score": 2.0}, "column 'score': 2.0; expected a number in [0, 1]", {"Judges"}),
        ("timings", {"seconds": "long"}, "column 'seconds': 'long'; expected a finite number", {"Judges"}),
        ("ledger", {"calls": -1}, "column 'calls': -1; expected a whole number of at least 0", {"Model calls"}),
        ("labels", {"asked": None}, "column 'asked': None; expected a whole number", {"Preferences"}),
    ],
)
def test_a_damaged_file_is_named_and_all_tables_without_it_stand(
    writer: Writer, log: str, damage: dict[str, Any], wrong: str, lost: set[str]
) -> None:
    root = writer.cell("a", CURVES, steps=200, **GUIDED)
    for name, row in SOUND.items():
        write_rows(root / "seed-0", name, [row | (damage if name == log else {})])
    summary, page = report(writer.finish())
    notes = [note for note in summary["notes"] if f"{root}/seed-0/{log}.jsonl, row 1, {wrong}" in note]
    assert [note for note in notes if note.startswith("left out: the section ")], summary["notes"]
    assert set(re.findall("<h2>(Preferences|Judges|Model calls)</h2>", page)) == {
        "Preferences", "Judges", "Model calls"
    } - lost  # fmt: skip
    assert summary["rows"][0]["best"] == 1.0 and bool(summary["models"]) == (log != "ledger")


def test_a_row_whose_ledger_cannot_be_read_is_compared_with_none_and_costs_no_other_its_count(writer: Writer) -> None:
    for name, row in (("a", {"calls": -1}), ("b", {"failures": 8}), ("c", {})):
        writer.cell(name, CURVES, steps=200, variant=name, **GUIDED, rows={"ledger": {0: [SOUND["ledger"] | row]}})
    summary = writer.summary()
    notes = "\n".join(summary.notes)
    assert "vlm_rb (a): how many questions to models got no answer cannot be read: " in notes
    assert "a ledger that cannot be read, so it is compared with no other row" in notes
    assert "8 of 9 questions to models got no answer" in notes
    assert [row.cell.id for row in summary.rows if row.alone] == ["a", "b"]


def test_rows_of_a_log_that_other_columns_were_declared_for_are_left_out_by_name(writer: Writer) -> None:
    writer.cell("a", CURVES, steps=200, method="pebble", rows={"labels": {0: [label_row(0)]}})
    other = Log("somebody else's", {"step": logs.count("step"), "truth": logs.share("of another kind")})
    for name, declared in (("b", {"labels": other}), ("c", {})):
        writer.cell(
            name, CURVES, steps=200, method=name, declared=declared, rows={"labels": {0: [{"step": 100, "truth": 0.5}]}}
        )
    content, page = report(writer.finish())
    assert [entry["label"] for entry in content["preferences"]] == ["pebble"] and "Preferences</h2>" in page
    assert [note for note in content["notes"] if "rows are left out" in note] == [
        "grid/8x8, b: the log 'labels' that its parts declare has no column 'asked'; its rows are left out",
        "grid/8x8, c: its record does not declare the log 'labels'; its rows are left out",
    ]


def test_a_method_s_report_cannot_take_the_name_of_another_s_section(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, title in (("first_method", "First"), ("second_method", "Second")):
        folder = tmp_path / "methods" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        listing = f"listings=lambda f: [L('of {title}', ('count',), [('uer', '3')], tags={{'3': 'few'}})]"
        second_section = f'Section("{name}", "Own of {title}", 2, lambda s: 1, {listing})'
        (folder / "report.py").write_text(
            f'{IMPORTS}SECTIONS = (Section("ours", "{title}", 1, lambda s: 1, {listing}), {second_section})'
        )
    monkeypatch.setattr(methods, "__path__", [str(tmp_path / "methods")])
    writer.cell("a", CURVES, steps=200)
    summary, page = report(writer.finish())
    assert [note for note in summary["notes"] if "left out" in note] == [
        "left out: a section of guidebench.methods.second_method.report, since its name 'ours' is taken by "
        "guidebench.methods.first_method.report; choose another"
    ]
    headings = [heading for heading in re.findall("<h2>(.*?)</h2>", page) if "First" in heading or "Second" in heading]
    assert headings == ["First", "Own of First", "Own of Second"]
    assert page.count('<td>3 <span class="tag">few</span></td>') == 3 and "Learning curves</h2>" in page


def test_only_reports_import_the_report_of_a_method() -> None:
    """import-linter lets a method's `report.py` import `reports`; no other module of a method may do so through it."""
    for file in Path(methods.__path__[0]).rglob("*.py"):
        if file.name != "report.py":
            assert not re.search(r"^\s*(from|import) .*\breport\b", file.read_text(), re.MULTILINE), file


@pytest.fixture
def source(writer: Writer) -> Source:
    writer.cell("a", CURVES, steps=200)
    return Source(results.study(writer.finish()), writer.summary(), 200, {}, {"uer": 0})


def test_sections_come_in_their_order_and_read_a_log_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    orders = [section.order for section in sections.sections(notes)]
    assert orders == sorted(orders) and len(orders) >= 9 and not notes
    assert set(plain(source.summary)) < set(RESERVED), "names of what every report has are reserved"
    read: list[str] = []
    monkeypatch.setattr(results, "noted", lambda study, log: read.append(log) or pd.DataFrame({"value": [0.5]}))

    def spoilt(source: Source) -> list[float]:
        rows = source.rows("probes")
        numbers = list(rows["value"])
        rows.loc[0, "value"] = 7.0
        return numbers

    both = [Section(name, "Both", 1, load=spoilt, needs=("probes",)) for name in ("a", "b")]
    assert [section_.content for section_ in sections.build(both, source, notes)] == [[0.5], [0.5]] and not notes
    assert read == ["probes"], "and what the first changed the second does not see"


def test_a_table_with_too_few_numbers_in_a_line_is_refused_and_a_chart_of_no_rows_is_a_picture(source: Source) -> None:
    interval = Interval(*map(np.asarray, (0.5, 0.0, 1.0)))
    for grid, message in (
        (Grid("t", ("a", "b"), {"uer": (interval,)}), "has not an Interval for each"),
        (Grid("t", ("a",), {"uer": (0.5,)}), "has not an Interval"),  # type: ignore[dict-item]
        (Grid("t", ("a",), {"uer": (Interval(*[np.zeros(2)] * 3),)}), "holds arrays"),
        (Grid("t", (1,), {}), "are text"),  # type: ignore[arg-type]
    ):
        notes: list[str] = []
        section = Section("bad", "Bad", 1, load=lambda source: None, tables=lambda numbers, grid=grid: [grid])  # type: ignore[misc]
        assert sections.build([section], source, notes) == [] and message in notes[0]
    chart = figures.Chart("t", "x", "y", [figures.Curve("not a row", np.arange(2.0), Interval(*[np.zeros(2)] * 3))])
    drawing = figures.Drawing("w", "mine", b"", b"", "", chart)
    section = Section("mine", "M", 1, load=lambda source: None, drawings=lambda numbers, source: [drawing])
    (gallery,) = sections.galleries(sections.build([section], source, []), source, [])
    assert gallery.drawings[0].chart is None
