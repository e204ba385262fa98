"""The pages of measured studies: what one shows of a study with claims, and that every study says what it found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generated import measured
from guidebench.harness.claims import Claim, Claims, key_of
from tests.reports.conftest import Writer

GUIDED, BASE, PLACEBO = ("method=vlm_rb",), ("method=uer",), ("method=vlm_rb", "models=placebo")
README = """# study

The base learns nothing.

## Command

`bench run suite=grid`, and [more](../../../docs/methods/per.md).

## In full

Seeds are few.
"""


def curves(claims: Claims, level: int) -> dict[int, dict[int, list[int]]]:
    return {seed: {0: [0] * 10, 100: [1] * level + [0] * (10 - level)} for seed in claims.seeds}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study whose guided row succeeds in 8 of 10 episodes, its base row and its placebo in 1."""
    claim = Claim(GUIDED, BASE, PLACEBO, "final success", "higher", True)
    claims = Claims((claim,), "", ("suite=grid",), n=5, delta=0.2, sigma=0.1, pilot="", hours=1.0)
    writer = Writer(tmp_path / "study")
    judge = {"method": "vlm_rb", "backend": "scripted", "model": "sprite", "parts": {"judge": "sprite"}}
    clock = {"timings": {seed: [{"step": 100, "seeds": 5, "seconds": 3_600.0}] for seed in claims.seeds}}
    writer.cell("base", curves(claims, 1), steps=100, rows=clock)
    writer.cell("guided", curves(claims, 8), steps=100, **judge)
    placebo = {"method": "vlm_rb", "backend": "placebo", "model": "placebo", "parts": {"judge": "placebo"}}
    writer.cell("placebo", curves(claims, 1), steps=100, **placebo)
    rows = {key_of(GUIDED): ["guided"], key_of(BASE): ["base"], key_of(PLACEBO): ["placebo"]}
    directory = writer.claim(claims, rows)
    (directory / "README.md").write_text(README)
    return directory


def test_a_study_with_claims_shows_its_verdict_curve_table_and_what_it_does_not_show(study: Path) -> None:
    markdown = measured.section(measured.read(study))
    finding = "**final success of vlm_rb exceeds that of uer: shown.**"
    assert markdown.startswith(f"## `study` {{: #study }}\n\n{measured.CAVEAT}\n\n{finding}")
    assert (
        "| row | final success | difference to uer | p | seeds needed | seeds | difference to its placebo |" in markdown
    )
    (row,) = (line for line in markdown.splitlines() if line.startswith("| vlm_rb · sprite |"))
    # p is 2 / 252, by Holm twice as much beside two rows
    assert "| 0.016 |" in row and "0.70" in row and "p 0.008 (final success) |" in row
    assert markdown.count("<polyline") == 3 and "Mean success over seeds while training" in markdown
    assert "Hours of its workers: 1.0." in markdown, "five seeds trained together for an hour"
    assert "[more](../methods/per.md)" in markdown and "claims.json" in markdown
    folded = markdown.partition("<details")[2]
    assert "Seeds are few." in folded
    assert "Of 2 differences to a reference 1 are shown" in folded


def test_a_study_without_claims_has_the_finding_of_its_readme(study: Path) -> None:
    of_study = measured.read(study)._replace(claimed=None)
    assert "**The base learns nothing.**" in measured.section(of_study)
    assert "difference to its placebo" not in measured.section(of_study)


@pytest.mark.parametrize("readme", measured.addresses(), ids=lambda readme: Path(readme).parent.name)
def test_a_measured_study_says_what_it_found_in_a_sentence_or_has_claims(readme: str) -> None:
    file = measured.ROOT / readme
    if not file.with_name("claims.json").is_file():
        words = measured.words(file)
        assert words.finding and len(words.finding) < 200 and re.search(r"\w\.$", words.finding)
        assert words.command
