"""What a reader should read first: at most five lines, the most important before the others.

Notes that say one thing of several rows are one line. Everything stands in full below the lines: folded on a page, and
in `summary.json`, which a terminal names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from guidebench.reports.summary.summaries import SMOKE

LINES = 5
"""Most lines that are read first."""
NAMED = 2
"""Most rows that a line names, of more that it is about."""
ORDER = (
    re.escape(SMOKE),
    r"cannot be read|could not|raised|is not shown|no row is shown|nothing could be filled",
    r"seed \d+ (failed|stopped|is running|has not started)|compared with no other row|not compared|failed or missing",
    r"different commits|uncommitted changes|model not here|instrument check|unanswered|have no usable answer|no answer",
    r"left out|tables and figures show|are tested|no interval|aggregates",
    r"",
    r"its records do not say",
)
"""Patterns of notes, the most important first: what makes numbers meaningless, then wrong, missing, mixed or fewer. The
empty pattern stands for all others; what follows it comes last."""


class Notes(NamedTuple):
    """Notes arranged for a reader: a few lines first, all of them after."""

    first: tuple[str, ...]
    """At most `LINES` lines."""
    rest: tuple[str, ...]
    """All notes in full, if the lines do not hold them; in the order of importance."""


def arranged(notes: Sequence[str]) -> Notes:
    """Order notes by importance and merge those that say one sentence of several rows."""
    ordered = sorted(dict.fromkeys(notes), key=_importance)
    lines = _merge_rows(ordered)
    first = tuple(lines[:LINES])
    return Notes(first, () if set(first) == set(ordered) else tuple(ordered))


def _importance(note: str) -> int:
    others = ORDER.index("")
    matches = (place for place, pattern in enumerate(ORDER) if pattern and re.search(pattern, note))
    return next(matches, others)


def _merge_rows(notes: Sequence[str]) -> list[str]:
    """Return one line for each sentence of notes `ROW: SENTENCE`, with the rows that it is about before it."""
    sentences: dict[str, list[str]] = {}
    for note in notes:
        row, colon, sentence = note.partition(": ")
        sentences.setdefault(sentence if colon else note, []).append(row if colon else "")
    lines = []
    for sentence, places in sentences.items():
        if len(places) > NAMED:
            lines.append(f"{', '.join(places[:NAMED])} and {len(places) - NAMED} more: {sentence}")
        else:
            lines += [f"{row}: {sentence}" if row else sentence for row in places]
    return lines
