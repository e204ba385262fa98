from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.reports.commands import report as command
from tests.reports.conftest import Writer

CURVES = {seed: {100: [1, 0], 200: [1, 1]} for seed in (0, 1)}


def test_a_report_is_written_and_its_files_named(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    assert command.main([str(root), "--resamples", "200"]) == 0
    printed = capsys.readouterr().out
    names = {"report.html", "table.tex", "summary.json", "curves-grid-8x8.png", "curves-grid-8x8.pdf"}
    assert {path.name for path in (root / "report").iterdir()} == names
    assert all(str(root / "report" / name) in printed for name in names)
    assert "1.00 [1.00, 1.00]" in printed


def test_how_latex_shows_uncertainty_is_chosen_on_the_command_line(writer: Writer) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    assert command.main([str(root), "--resamples", "200", "--spread", "pm", "--siunitx"]) == 0
    text = (root / "report" / "table.tex").read_text()
    assert "1.00 +- 0.00" in text and r"\usepackage{siunitx}" in text
    assert r"\usepackage{siunitx}" in (root / "report" / "report.html").read_text()


def test_a_paper_s_wording_is_chosen_on_the_command_line(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    asked = ["--latex-caption", "Mine", "--latex-label", "tab:x", "--latex-rename", "uer=Uniform"]
    assert command.main([str(root), "--resamples", "200", *asked, "--latex-columns", "score, auc"]) == 0
    text = (root / "report" / "table.tex").read_text()
    assert r"\caption{Mine.}\label{tab:x}" in text and "\nUniform & " in text and "Best" not in text
    assert "Uniform" in (root / "report" / "report.html").read_text()
    capsys.readouterr()
    assert command.main([str(root), "--latex-columns", "acu"]) == 1
    assert "unknown column 'acu'; did you mean 'auc'?" in capsys.readouterr().err
    assert command.main([str(root), "--paper", "vlm_rb", *asked]) == 1
    assert "--latex-caption belongs to a study's table.tex, not to --paper" in capsys.readouterr().err


def test_the_same_study_gives_the_same_files(writer: Writer, tmp_path: Path) -> None:
    writer.cell("a", CURVES, steps=200)
    root = writer.finish()
    for name in ("one", "two"):
        assert command.main([str(root), "--resamples", "200", "--output", str(tmp_path / name)]) == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_json_is_all_that_is_printed_with_json(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.cell("a", CURVES, steps=200)
    assert command.main([str(writer.finish()), "--resamples", "200", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rows"][0]["best"] == 1.0 and content["resamples"] == 200
    assert any(name.endswith("report.html") for name in content["files"])


def test_a_running_study_gives_a_partial_report_that_names_what_is_missing(
    writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.cell("a", {0: CURVES[0]}, status={0: "running"}, planned=[0, 1])
    root = writer.finish()
    with open(root / "grid/8x8/uer-a/seed-0/evaluations.jsonl", "a") as file:
        file.write('{"study": "s", "cel')
    assert command.main([str(root), "--resamples", "200"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "seed 0 is running at step 200 of 300" in printed
    assert "seed 1 has not started" in printed
    assert "was cut short and is left out" in printed
    assert "Partial report" in (root / "report" / "report.html").read_text()


def test_a_study_without_evaluations_is_reported_as_such(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.cell("a", {}, planned=[0])
    assert command.main([str(writer.finish()), "--resamples", "200"]) == 0
    assert "no numbers" in capsys.readouterr().out


def test_faults_are_one_message_that_names_the_value(
    writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.cell("a", CURVES)
    root = writer.finish()
    (tmp_path / "file").touch()
    for arguments, words in (
        ([str(tmp_path / "nowhere")], "nowhere: the directory does not exist"),
        ([str(root), "--resamples", "3"], "--resamples 3"),
        ([str(root), "--resamples", "200", "--output", str(tmp_path / "file")], "cannot be written"),
    ):
        assert command.main(arguments) == 1
        assert words in capsys.readouterr().err


def test_finding_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, guidebench.reports.commands.report; "
        "heavy = {'numpy', 'pandas', 'duckdb', 'matplotlib', 'torch', 'jinja2', 'rich'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
