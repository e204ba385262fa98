"""A board as one self-contained page: table data is stored as plain JSON, row details are compressed by suite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from guidebench.harness.errors import count
from guidebench.reports.leaderboard.board import TABS, Board, Curve, Details, Entry, Estimate, Tab, claim
from guidebench.reports.leaderboard.rows import RANKED
from guidebench.reports.rendering import charts, inline
from guidebench.reports.rendering.page import environment

SHARED = ("elements.js", "theme.js", "tables.js", "charts.js", "animations.js")
BOARD_SCRIPTS = ("state", "statistics", "testing", "columns", "listing", "opened", "comparing", "main")
"""Scripts of templates/leaderboard/, in dependency order."""


ELEMENT = 200
"""Bytes of the element that holds a row's episodes, besides them."""
PAGE = 12_000_000
"""Most bytes of a page with episodes. Without room for all of them the rows with the best places keep theirs."""


def render(board: Board) -> str:
    """Return the page of a board as HTML that needs no network and no other file; the same board gives the same
    text."""
    text = _page(board, {}, board.without_episodes)
    episodes, without, room = dict[str, Any](), 0, PAGE - len(text.encode()) - ELEMENT
    for row in sorted(board.entries, key=claim):
        if (films := board.details[row.id].episodes) is None:
            continue
        content = inline.inert(films)
        room = -1 if without else room - len(content.encode()) - ELEMENT
        if room < 0:
            without += 1
        else:
            episodes[row.id] = content
    return _page(board, episodes, board.without_episodes + without) if episodes or without else text


def _page(board: Board, episodes: Mapping[str, Any], without: int) -> str:
    """Return the HTML of the page. `episodes`: row id -> JSON of its films; `without`: number of rows whose films are
    left out for want of room."""
    script = inline.script(*SHARED, *(f"leaderboard/{name}.js" for name in BOARD_SCRIPTS))
    curve_of_key = {curve.key: curve for details in board.details.values() for curve in _curves(details)}
    text = (
        environment()
        .get_template("leaderboard/page.html.j2")
        .render(
            board=board,
            policy=inline.policy(script, charts.bundle()),
            script=script,
            vega=charts.packed_bundle(),
            data=inline.inert(
                {
                    "tabs": {tab: TABS[tab] for tab in TABS if any(_shown_in(row) == tab for row in board.entries)},
                    "scripted": TABS["scripted"],
                    "suites": board.suites,
                    "fields": [*(field.name for field in fields(Entry)), "shown_in"],
                    "entries": [[*_values(row), _shown_in(row)] for row in board.entries],
                    "curves": {
                        key: charts.curves(curve.unit, curve.of, (0.0, 1.0) if curve.share else None)
                        for key, curve in sorted(curve_of_key.items())
                    },
                }
            ),
            episodes=episodes,
            notes=(*board.notes, *([_left_out(without)] if without else [])),
            packs=[inline.packed_json(_pack(board, suite.name)) for suite in board.suites],
        )
    )
    return text.encode("utf-8", "replace").decode("utf-8")  # A file's name may contain bytes that are not valid text.


def _left_out(rows: int) -> str:
    remark = f"The episodes of {count(rows, 'row')} are left out for want of room"
    return f"{remark}; the rows with the best places keep theirs."


def _curves(details: Details) -> Iterator[Curve]:
    yield details.curve
    for task in details.tasks:
        yield task.curve


def _shown_in(row: Entry) -> Tab:
    """Return the tab that lists the row: a row of a scripted judge is listed beside those of its profile, though ranked
    apart."""
    return RANKED.get(row.profile, row.tab) if row.tab == "scripted" else row.tab


def _values(row: Entry) -> list[Any]:
    """Return the values of an entry's fields without their names, which would be half of the page; an estimate as
    [value, low, high]."""
    values = [getattr(row, field.name) for field in fields(Entry)]
    return [[value.value, value.low, value.high] if isinstance(value, Estimate) else value for value in values]


def _pack(board: Board, suite: str) -> dict[str, Any]:
    """Return the details of a suite's rows as field -> row id -> value, so that repeated values lie close together and
    compress well.

    Each picture is stored once; frames refer to it by its index.
    """
    details_of = {row.id: board.details[row.id] for row in board.entries if row.suite == suite}
    pictures: dict[str, int] = {}
    pack: dict[str, Any] = {
        field.name: {id_: getattr(details, field.name) for id_, details in details_of.items()}
        for field in fields(Details)
        if field.name != "episodes"  # each row has an element of its own for them, which is read when it opens
    }
    pack["frames"] = {
        id_: [
            {"caption": frames.caption, "picture": pictures.setdefault(frames.png, len(pictures))}
            for frames in details.frames
            if re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", frames.png)
        ]
        for id_, details in details_of.items()
    }
    return {**pack, "pictures": list(pictures)}
