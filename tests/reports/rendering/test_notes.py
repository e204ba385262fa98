"""A reader meets at most five notes, the most important first, and finds all of them below."""

import random

from guidebench.reports.rendering.notes import LINES, arranged
from guidebench.reports.rendering.page import environment
from guidebench.reports.summary.summaries import SMOKE

MANY = [
    *(f"grid/{size}, uer: its records do not say how long evaluations took" for size in range(9)),
    "grid/8x8: uer never succeeded, so steps to its best are not defined",
    "grid, per: left out of the aggregates over tasks (no evaluations of hard)",
    "runs of different commits stand side by side (a: 1 run; b: 2 runs)",
    "grid/8x8, uer: seed 1 failed at step 200 of 300: ValueError: no",
    "the section probes is not shown: probes.parquet cannot be read",
    SMOKE,
]


def test_five_lines_come_first_by_importance_whatever_the_order_of_the_notes() -> None:
    shuffled = random.Random(0).sample(MANY, len(MANY))
    notes = arranged(shuffled)
    assert notes.first == (SMOKE, MANY[13], MANY[12], MANY[11], MANY[10]) and len(notes.first) == LINES
    assert sorted(notes.rest) == sorted(MANY)


def test_one_sentence_about_many_rows_is_one_line() -> None:
    assert arranged(MANY[:9]).first == (
        "grid/0, uer, grid/1, uer and 7 more: its records do not say how long evaluations took",
    )
    assert arranged(MANY[:2]) == (tuple(MANY[:2]), ()), "nothing is folded that the lines hold"


def test_a_page_folds_what_does_not_come_first() -> None:
    template = environment().from_string('{% import "parts.html.j2" as parts with context %}{{ parts.notes(notes) }}')
    html = template.render(notes=arranged(MANY))
    above, _, folded = html.partition("<details>")
    assert above.count("<li>") == LINES and above.index("Smoke means nothing") < above.index("cannot be read")
    assert folded.count("<li>") == len(MANY) and "All 15 notes in full" in folded
    assert "<details>" not in template.render(notes=arranged(MANY[:2]))
