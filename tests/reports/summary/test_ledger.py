from __future__ import annotations

from collections.abc import Mapping

import pytest

from guidebench import results
from guidebench.harness.records import role_counts, schema
from guidebench.harness.records.role_counts import RoleCount
from guidebench.reports.summary import ledger
from guidebench.reports.summary.rows import lacking
from tests.reports.conftest import Writer, write_rows

CURVES = {0: {100: [1]}, 1: {100: [1]}}


def bill_row(step: int, calls: int, billed: int, usd: float = 0.0, failures: int = 0) -> dict[str, float]:
    return {name: 0 for name in schema.LEDGER} | {
        "step": step, "calls": calls, "billed_calls": billed, "usd": usd, "failures": failures,
    }  # fmt: skip


def spent(writer: Writer, labels: Mapping[str, str]) -> list[ledger.Spent]:
    study = results.study(writer.finish())
    return ledger.spent(study.cells, results.noted(study, "ledger"), results.noted(study, "spending"), labels)


def test_a_row_sums_what_each_run_had_spent_at_its_last_step(writer: Writer) -> None:
    writer.cell(
        "a",
        CURVES,
        method="vlm_rb",
        backend="openai",
        model="gpt-4o-mini",
        rows={
            "ledger": {
                0: [bill_row(50, 3, 3, 0.25), bill_row(100, 7, 5, 0.5, failures=1)],
                1: [bill_row(100, 7, 0, 0.5)],
            }
        },
    )
    (bill,) = spent(writer, {"a": "the label"})
    assert (bill.label, bill.model, bill.runs) == ("the label", "gpt-4o-mini (openai)", 2)
    assert (bill.calls, bill.billed_calls, bill.usd, bill.failures) == (14, 5, 1.0, 1)
    writer.cell("a", CURVES, method="vlm_rb", backend="scripted", model="sprite")
    assert spent(writer, {}) == [], "hand-written judges have no bill"


def test_roles_stand_apart_below_what_they_took_together(writer: Writer) -> None:
    names = {"method": "plans", "backend": "openai+transformers", "model": "large+clip"}
    parts = {
        "planner": {"kind": "chat", "name": "openai", "backend": "openai", "model": "large"},
        "seer": {"kind": "embedder", "name": "transformers", "backend": "transformers", "model": "clip"},
    }
    root = writer.cell("a", CURVES, **names, record={"parts": parts})
    for seed in (0, 1):
        write_rows(root / f"seed-{seed}", "ledger", [bill_row(100, 7, 5, 0.5)])
        calls = {"planner": (1, 2), "seer": (5, 5)}
        roles = [
            {"role": role} | bill_row(step, calls[role][at], 0) for at, step in enumerate((50, 100)) for role in calls
        ]
        write_rows(root / f"seed-{seed}", "spending", roles)
    assert [(bill.model, bill.calls, bill.runs) for bill in spent(writer, {})] == [
        ("large+clip (openai+transformers)", 14, 2),
        ("planner: large (openai)", 4, 2),
        ("seer: clip (transformers)", 10, 2),
    ]


def write_answers(writer: Writer, cell: str, answer: str, questions: int, failures: int, retried: int | None) -> None:
    """Write a cell whose prior answers in a form; `answer` is the form, "" for a record from before there were any."""
    part = {"kind": "chat", "name": "openai", "backend": "openai", "model": "small"}
    settings = {"prior.answer": {"value": answer}} if answer else {}
    names = {"method": "linvit", "backend": "openai", "model": "small"}
    root = writer.cell(cell, {0: {100: [1]}}, **names, record={"parts": {"prior": part}, "settings": settings})
    tally = role_counts.written({"prior": RoleCount(questions, failures, "", retried)})
    row = bill_row(100, 9, 9, failures=failures) | {"questions": questions, "roles": tally, "tokens_out": 70}
    write_rows(root / "seed-0", "ledger", [row])


def test_a_row_says_what_share_was_read_at_first_and_what_share_text_had(writer: Writer) -> None:
    write_answers(writer, "a", "schema", 8, 1, 0)
    bills = spent(writer, {})
    assert [(bill.answers, *bill.shares) for bill in bills] == [("schema", "87.5 %", "87.5 %", "not asked")]
    write_answers(writer, "b", "text", 10, 5, 4)
    bills = spent(writer, {})
    assert [(bill.answers, *bill.shares) for bill in bills] == [
        ("schema", "87.5 %", "87.5 %", "10.0 %"), ("text", "10.0 %", "50.0 %", "—"),
    ]  # fmt: skip
    full, brief = ledger.listings(bills)
    assert "10.0 %" in full.lines[0] and "87.5 % / 87.5 %" in brief.lines[0]
    assert ledger.plain(bills)[1]["readable"] == {"questions": 10, "failures": 5, "retried": 4}
    write_answers(writer, "b", "", 10, 5, None)
    assert [bill.shares for bill in spent(writer, {})] == [("87.5 %", "87.5 %", "—"), ("—", "50.0 %", "—")]


def write_pair(writer: Writer, failures: int, questions: int | None = 100) -> None:
    """Write a cell whose runs all beat its rival's; `failures` questions of each run have no answer."""
    model = {"method": "vlm_rb", "backend": "openai", "model": "gpt-4o-mini"}
    root = writer.cell("a", {seed: {100: [1] * 10} for seed in range(5)}, steps=100, **model)
    for seed in range(5):
        counted = {} if questions is None else {"questions": questions}
        write_rows(root / f"seed-{seed}", "ledger", [bill_row(100, 7, 7, failures=failures) | counted])
    writer.cell("b", {seed: {100: [0] * 9 + [seed % 2]} for seed in range(5)}, steps=100, method="uer")


def test_answers_are_counted_over_runs_where_they_were_counted(writer: Writer) -> None:
    write_pair(writer, failures=4)
    (answered,) = ledger.answered(results.study(writer.finish())).values()
    assert answered[:2] == (500, 20) and answered.enough
    assert str(answered) == "20 of 500 questions to models got no answer (4.0 %)"
    assert ledger.Answered(10, 1).enough and not ledger.Answered(100, 11).enough


def test_every_role_needs_nine_in_ten_answers_and_a_part_may_say_what_too_few_mean(writer: Writer) -> None:
    """Of 300 questions 5 have no answer, but 3 of these are among the planner's 6; the scorer is a hand-written
    model."""
    model = {"method": "dsadf", "backend": "openai+scripted", "model": "gpt-4o+scripted_scorer"}
    parts = {
        "planner": {"kind": "chat", "name": "openai", "backend": "openai", "model": "gpt-4o"},
        "performer": {"kind": "chat", "name": "openai", "backend": "openai", "model": "gpt-4o"},
        "scorer": {"kind": "chat", "name": "scripted_scorer", "backend": "scripted"},
    }
    root = writer.cell("a", {seed: {100: [1] * 10} for seed in range(2)}, steps=100, record={"parts": parts}, **model)
    for seed, remark in enumerate(("", "routed without scores")):
        counts = {
            "planner": RoleCount(3, 1 + seed), "performer": RoleCount(137, 0),
            "scorer": RoleCount(10, 1 + seed, remark),
        }  # fmt: skip
        row = bill_row(100, 7, 7, failures=2 + 2 * seed) | {"questions": 150, "roles": role_counts.written(counts)}
        write_rows(root / f"seed-{seed}", "ledger", [row])
    (answered,) = ledger.answered(results.study(writer.finish())).values()
    assert answered.roles == (("planner", RoleCount(6, 3)), ("performer", RoleCount(274, 0)))
    assert answered.share > 0.9 and not answered.enough and not answered._replace(remarks=()).enough
    assert str(answered) == (
        "routed without scores; 6 of 300 questions to models got no answer (2.0 %); 3 of 6 as planner"
    )
    (row,) = writer.summary().rows
    assert row.lacks and lacking(row) == "routed without scores"


@pytest.mark.parametrize("text", ["[]", "3", '{"planner": [1, 2, ""]}', '{"planner": [2, 1, "\\u001b"]}', "{" * 9_000])
def test_a_stranger_s_counts_by_role_are_checked(writer: Writer, text: str) -> None:
    model = {"method": "vlm_rb", "backend": "openai", "model": "gpt-4o-mini"}
    root = writer.cell("a", {0: {100: [1]}}, steps=100, **model)
    write_rows(root / "seed-0", "ledger", [bill_row(100, 7, 7) | {"questions": 9, "roles": text}])
    (answered,) = ledger.answered(results.study(writer.finish())).values()
    assert "column 'roles'" in answered.unread and not answered.enough


@pytest.mark.parametrize(
    ("failures", "questions", "alone", "message"),
    [
        (11, 100, True, "55 of 500 questions to models got no answer (11.0 %)"),
        (10, 100, False, "50 of 500 questions to models got no answer (10.0 %)"),
        (90, None, False, ""),
    ],
    ids=["many failures", "some failures", "an early record that counts no questions"],
)
def test_a_row_without_nine_in_ten_answers_is_noted_and_neither_leads_nor_is_compared(
    writer: Writer, failures: int, questions: int | None, alone: bool, message: str
) -> None:
    write_pair(writer, failures, questions)
    summary = writer.summary()
    notes = "\n".join(summary.notes)
    better, other = sorted(summary.rows, key=lambda row: row.cell.id)
    assert (better.alone, better.leading, other.alone, other.leading) == (alone, not alone, False, False)
    assert message in notes and ("no answer" in notes) == bool(message)
    assert ("less than 90% of its questions answered, so it is compared with no other row" in notes) == alone
