from __future__ import annotations

from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.recipes import Method
from guidebench.reports.summary import bibtex, citations
from tests.reports.conftest import Writer, on_record

REQUIRED = {
    "article": {"title", "author", "journal", "year"},
    "inproceedings": {"title", "author", "booktitle", "year"},
    "misc": {"title", "author"},
}
CITED = [kind for kind in registry.KINDS if kind != "launcher"]  # launchers do not affect results
PARTS_WITH_CITATION = [(kind, name) for kind in CITED for name in registry.names(kind)]
PARTS = {"learner": "dqn", "replay": "per", "guide": "none", "agent": "standard", "judge": "sprite"}


OF_THINGS = {f"{kind} {name}": bibtex.text(registry.get(kind, name).citation) for kind, name in PARTS_WITH_CITATION}
OF_PROJECT = {"project": bibtex.text(citations.GUIDEBENCH), "statistics": bibtex.text(citations.RLIABLE)}


@pytest.mark.parametrize("name", [*OF_THINGS, *OF_PROJECT])
def test_every_registered_thing_gives_whole_entries_or_says_why_it_has_none(name: str) -> None:
    citation = {**OF_THINGS, **OF_PROJECT}[name]
    entries = bibtex.entries(citation)
    assert entries or (citation.startswith("% ") and name in OF_THINGS), "a comment (%) says why nothing is cited"
    for entry in entries:
        assert REQUIRED[entry.kind] <= set(entry.fields) and not {"doi", "url"} & set(entry.fields), entry.key
        assert all(value.strip() for value in entry.fields.values())
        year = entry.fields.get("year", "2000")
        assert year.isdecimal() and 1950 < int(year) < 2100


def test_one_key_stands_for_one_work() -> None:
    texts: dict[str, str] = {}
    for entry in (entry for text in OF_THINGS.values() for entry in bibtex.entries(text)):
        assert texts.setdefault(entry.key, entry.text) == entry.text, entry.key


def study(directory: Path, **cells: dict) -> results.StudyRecord:
    """Write a study; each keyword is a cell's name with the changes from an ordinary cell."""
    writer = Writer(directory)
    for name, changes in cells.items():
        names = {"suite": "minigrid_doorkey", "task": "8x8", "method": "per", "parts": PARTS, **changes}
        writer.cell(name, {0: {300: [1]}}, **{**names, "record": {"parts": on_record(names.pop("parts"))}})
    return results.study(writer.finish())


def test_each_entry_is_printed_once_under_all_that_use_it(tmp_path: Path) -> None:
    cited = citations.cite(study(tmp_path / "s", a={}, b={"task": "5x5"}, c={"method": "uer"}))
    assert [entry.key for entry in bibtex.entries(cited.text)] == [
        "guidebench", "agarwal2021deep", "chevalierboisvert2023minigrid", "schaul2016prioritized", "mnih2015human",
        "vanhasselt2016double", "lin1992self",
    ]  # fmt: skip
    assert "% method per, replay per\n@inproceedings{schaul2016prioritized," in cited.text
    assert "% judge sprite: nothing to cite: hand-written for this task\n" in cited.text and cited.missing == ()


def test_what_is_not_installed_is_named_and_the_rest_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = study(tmp_path / "s", a={"method": "theirs", "parts": {**PARTS, "replay": "theirs"}})
    assert cli.main(["cite", str(record.directory)]) == 0
    out, err = capsys.readouterr()
    assert "% method theirs: not installed here; install the package that it comes from\n" in out
    assert "bench cite: replay theirs: not installed here" in err
    assert {"mnih2015human", "chevalierboisvert2023minigrid"} <= {entry.key for entry in bibtex.entries(out)}


def test_a_run_made_elsewhere_borrows_no_entry_by_its_name(tmp_path: Path) -> None:
    cited = citations.cite(study(tmp_path / "s", a={"backend": "external", "learner": "", "parts": {}}))
    assert "schaul" not in cited.text and cited.missing == ("method per: made elsewhere; its entry is not known here",)


@pytest.mark.parametrize(
    ("citation", "says"),
    [
        ("", "it gives no citation"),
        ("Smith 2020", "its citation is not BibTeX"),
        (Path("nowhere.bib"), "its citation cannot be read"),
        ("@misc{mnih2015human, title = {Another}, author = {B, A}}", "has the key mnih2015human, as a different one"),
    ],
)
def test_a_plug_in_without_a_good_entry_is_named(tmp_path: Path, citation: str | Path, says: str) -> None:
    with registry.fresh():
        registry.register.method("sloppy")(Method(summary="", citation=citation))
        cited = citations.cite(study(tmp_path / "s", a={}, b={"method": "sloppy"}))
    (problem,) = cited.missing
    assert problem.startswith("method sloppy: ") and says in problem
    assert "% " + problem in cited.text and len(bibtex.entries(cited.text)) == 6
