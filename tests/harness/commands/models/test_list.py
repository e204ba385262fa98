"""`bench models list` names every recipe, the calls it serves, and its price or why it has none."""

import json

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.models.backends import recipes


def test_every_recipe_has_a_row_that_tells_a_price_from_the_want_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line[:1].strip()}
    assert set(recipes.names()) <= set(rows)
    assert "0.15 / 0.60" in rows["gpt-4o-mini"] and "2024-07-18" in rows["gpt-4o-mini"]
    assert "own weights" in rows["clip"] and "embed" in rows["clip"]
    assert "unknown" in rows["imagebind"] and "none yet" in rows["imagebind"]


def test_json_holds_all_there_is_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "list", "--json"]) == 0
    models = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert list(models) == recipes.names()
    assert models["gpt-4o"]["price"]["usd_out"] == 10.0 and models["gpt-4o"]["price"]["held"] == "2024-08-06"
    assert (models["liv"]["pricing"], models["imagebind"]["pricing"]) == ("free", "unknown")
