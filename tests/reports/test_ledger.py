from __future__ import annotations

import results
from harness.records import schema
from reports import ledger
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [1]}, 1: {100: [1]}}


def entry(step: int, calls: int, billed: int, usd: float = 0.0, failures: int = 0) -> dict[str, float]:
    return {name: 0 for name in schema.LEDGER} | {
        "step": step, "calls": calls, "billed_calls": billed, "usd": usd, "failures": failures,
    }  # fmt: skip


def test_a_row_sums_what_each_run_had_spent_at_its_last_step(writer: Writer) -> None:
    root = writer.cell("a", CURVES, method="vlm_rb", backend="openai", model="gpt-4o-mini")
    write_rows(root / "seed-0", "ledger", [entry(50, 3, 3, 0.25), entry(100, 7, 5, 0.5, failures=1)])
    write_rows(root / "seed-1", "ledger", [entry(100, 7, 0, 0.5)])
    (found,) = ledger.spent(results.study(writer.finish()), {"a": "the label"})
    assert (found.label, found.model, found.runs) == ("the label", "gpt-4o-mini (openai)", 2)
    assert (found.calls, found.billed_calls, found.usd, found.failures) == (14, 5, 1.0, 1)


def test_hand_written_judges_have_no_bill(writer: Writer) -> None:
    root = writer.cell("a", CURVES, method="vlm_rb", backend="scripted", model="sprite")
    write_rows(root / "seed-0", "ledger", [entry(100, 7, 7)])
    assert ledger.spent(results.study(writer.finish()), {}) == []
