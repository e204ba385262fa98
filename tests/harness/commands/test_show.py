"""`bench show` stays readable in terminals of any width."""

import re

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.plan import config, matrix

WORDS = ("suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "profile=quick")


@pytest.mark.parametrize("width", [60, 100])
def test_a_narrow_terminal_gets_a_paragraph_for_each_setting(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["show", *WORDS]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    (cell,) = matrix.plan(WORDS).cells
    paragraphs = {
        match[1]: " ".join(match[2].split())
        for match in re.finditer(r"^([a-z_]+\.[a-z_0-9]+) = (.*\n(?: {4}.*\n)*)", out, re.MULTILINE)
    }
    for section, fields in config.cell_fields(cell.names).items():
        for name, field in fields.items():
            paragraph, value = paragraphs[f"{section}.{name}"], cell.settings[f"{section}.{name}"]
            words = (" ".join(text.split()) for text in (field.meaning, f"[{value.layer}] {value.source}"))
            assert all(text.strip() in paragraph for text in words), "no word is broken, and nothing is left out"


def test_a_pipe_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert cli.main(["show", *WORDS]) == 0
    assert re.search(r"^setting +value +unit +set by +source +meaning", capsys.readouterr().out, re.MULTILINE)
