from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.reports.conftest import Reported, Writer

CURVES = {seed: {100: [1, 0], 200: [1, 1]} for seed in (0, 1)}


def test_a_report_is_written_its_files_named_and_the_same_again(
    writer: Writer, report: Callable[..., Reported], tmp_path: Path
) -> None:
    writer.cell("a", CURVES, steps=200)
    first = report(writer.finish())
    names = {"report.html", "table.tex", "summary.json", "curves-grid-8x8.png", "curves-grid-8x8.pdf"}
    assert first.code == 0 and {path.name for path in first.home.iterdir()} == names
    assert all(str(first.home / name) in first.out for name in names) and "1.00 [1.00, 1.00]" in first.out
    again = report(writer.directory, "--output", str(tmp_path / "again"), "--json")
    for name in names:
        assert (first.home / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    document = json.loads(again.out)  # all that is printed
    assert document["rows"][0]["best"] == 1.0 and document["resamples"] == 200
    assert any(name.endswith("report.html") for name in document["files"])


def test_how_latex_shows_uncertainty_is_chosen_on_the_command_line(
    writer: Writer, report: Callable[..., Reported], unrendered: None
) -> None:
    writer.cell("a", CURVES, steps=200)
    reported = report(writer.finish(), "--spread", "pm", "--siunitx")
    text = reported.text("table.tex")
    assert reported.code == 0 and "1.00 +- 0.00" in text and r"\usepackage{siunitx}" in text
    assert r"\usepackage{siunitx}" in reported.text()


def test_a_paper_s_wording_is_chosen_on_the_command_line(
    writer: Writer, report: Callable[..., Reported], unrendered: None
) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    words = ["--latex-caption", "Mine", "--latex-label", "tab:x", "--latex-rename", "uer=Uniform"]
    reported = report(root, *words, "--latex-columns", "score, auc")
    text = reported.text("table.tex")
    assert r"\caption{Mine.}\label{tab:x}" in text and "\nUniform & " in text and "Best" not in text
    assert reported.code == 0 and "Uniform" in reported.text()
    wrong = report(root, "--latex-columns", "acu")
    assert wrong.code == 2 and "unknown column 'acu'; did you mean 'auc'?" in wrong.err
    other = report(root, "--paper", "vlm_rb", *words)
    assert other.code == 2 and "--latex-caption belongs to a study's table.tex, not to --paper" in other.err


def test_a_running_study_gives_a_partial_report_that_names_what_is_missing(
    writer: Writer, report: Callable[..., Reported], unrendered: None
) -> None:
    writer.cell("a", {}, planned=[0])
    assert "no numbers" in report(writer.finish()).out, "without evaluations it is reported as such"
    writer.cell("a", {0: CURVES[0]}, status={0: "running"}, planned=[0, 1])
    with open(writer.finish() / "grid/8x8/uer-a/seed-0/evaluations.jsonl", "a") as file:
        file.write('{"study": "s", "cel')
    reported = report(writer.directory)
    printed = " ".join(reported.out.split())
    assert "seed 0 is running at step 200 of 300" in printed and "seed 1 has not started" in printed
    assert reported.code == 0 and "was cut short and is left out" in printed and "Partial report" in reported.text()


def test_faults_are_one_message_that_names_the_value(
    writer: Writer, tmp_path: Path, report: Callable[..., Reported], unrendered: None
) -> None:
    writer.cell("a", CURVES)
    root = writer.finish()
    (tmp_path / "file").touch()
    for study, arguments, words in (
        (tmp_path / "nowhere", [], "nowhere: the directory does not exist"),
        (root, ["--resamples", "3"], "--resamples 3"),
        (root, ["--output", str(tmp_path / "file")], "cannot be written"),
    ):
        reported = report(study, *arguments)
        assert reported.code == 2 and words in reported.err
