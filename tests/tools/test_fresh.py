from __future__ import annotations

import pytest

from tools import fresh
from tools.fresh import Step

PAGE = """
Run these:

    bench list                    # all parts
    bench status runs/doorkey
    bench submit runs/doorkey

```sh
bench run suite=classic method=uer \\
  output=runs/doorkey
bench status runs/doorkey
bench doctor judge.model=PATH
```
"""


def test_a_command_that_trains_is_planned_one_with_a_placeholder_fails_and_none_submits() -> None:
    assert fresh.steps({"page": PAGE}) == [
        Step("bench run suite=classic method=uer    output=runs/doorkey", dry=True),
        Step("bench status runs/doorkey"),
        Step("bench doctor judge.model=PATH", placeholder="PATH"),
        Step("bench list"),
    ]


@pytest.mark.parametrize(
    ("step", "code", "output", "fails"),
    [
        (Step("bench status runs/doorkey"), 0, "", False),
        (Step("bench status runs/doorkey"), 2, "no study at runs/doorkey", True),
        (Step("bench compare runs/lambda --against runs/doorkey"), 2, "no study at runs/lambda: …", False),
        (Step("bench run suite=classic", dry=True), 1, "missing: a key", False),
        (Step("bench run suite=classic", dry=True), 2, "unknown suite", True),
        (Step("bench doctor judge.model=PATH", placeholder="PATH"), 2, "no model at PATH", False),
        (Step("bench doctor judge.model=PATH", placeholder="PATH"), 0, "missing  files  PATH is not here", False),
        (Step("bench doctor judge.model=PATH", placeholder="PATH"), 1, "Traceback", True),
    ],
)
def test_a_command_may_lack_what_a_newcomer_lacks_and_nothing_else(
    step: Step, code: int, output: str, fails: bool
) -> None:
    assert bool(fresh.failure(step, code, output)) == fails
