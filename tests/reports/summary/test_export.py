from __future__ import annotations

import json

from guidebench.reports.summary import export
from tests.reports.conftest import Writer

UER = {0: {100: [0, 0, 0, 0], 200: [1, 1, 1, 0], 300: [1, 1, 0, 0]}}


def test_the_json_form_has_null_for_what_is_not_defined(writer: Writer) -> None:
    writer.cell("a", UER)
    content = json.loads(json.dumps(export.plain(writer.summary()), allow_nan=False))
    (row,) = content["rows"]
    assert row["final"] == {"estimate": 0.5, "low": None, "high": None}
    assert [point["score"]["estimate"] for point in row["curve"]] == [0.0, 0.75, 0.5]
    assert row["runs"] == ["grid/8x8/uer-a/seed-0"]
