from __future__ import annotations

import base64
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from guidebench.reports.leaderboard.board import Estimate
from guidebench.reports.rendering import charts, inline


def test_data_on_a_page_end_no_element_and_no_line_and_have_the_digits_that_it_shows() -> None:
    evil = {"</script>": "<!--<script>&lt;\u2028\u2029", "half a character": "\udc80"}
    text = inline.inert(evil)
    assert not set(text) & set("<>&\u2028\u2029") and json.loads(text) == {**evil, "half a character": "?"}
    values = [Estimate(0.123456, float("nan"), float("inf")), np.float64(2.0), -128.68471, 0.00012345, True, None]
    assert inline.plain(values) == [{"value": 0.1235, "low": None, "high": None}, 2, -128.6847, 0.0001234, True, None]
    assert inline.plain({1: (10**6,)}) == {"1": [10**6]}
    assert inline.packed("</script>") == inline.packed("</script>"), "the same bytes each time"
    assert gzip.decompress(base64.b64decode(inline.packed("</script>"))) == b"</script>"


def test_a_policy_names_exactly_the_scripts_of_the_page() -> None:
    script = inline.script("tables.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = {part.split()[0]: part.split()[1:] for part in inline.policy(script).split("; ")}
    assert allowed["default-src"] == ["'none'"] and allowed["script-src"] == [f"'sha256-{digest}'"]
    assert "script-src 'none'" in inline.policy()


def test_the_title_of_an_axis_holds_nothing_that_an_expression_could() -> None:
    assert charts.title("steps, \u2028'\"]};`$<script>\\ of 100 %") == "steps, script of 100 %"
    assert '"title": "steps"' in json.dumps(charts.curves("\u2028steps'", "success rate"))


@pytest.mark.parametrize("file", sorted(inline.TEMPLATES.rglob("*.js")), ids=lambda file: file.name)
def test_no_script_makes_markup_or_code_of_text(file: Path) -> None:
    text = file.read_text()
    assert not [
        word for word in ("innerHTML", "insertAdjacent", "eval(", "Function(", "document.write") if word in text
    ]
