"""The scripted chat on painted views, on bin_sorting's real frames, and the forms of its replies."""

from typing import Any

import numpy as np
import pytest

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.kagi import prompts, reading
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.questions import Candidates, WaypointQuestion
from guidebench.methods.kagi.scripted import (
    SPOILS,
    ViewReader,
    aimed,
    looked,
    spoilt,
    view_of,
)
from tests.methods.kagi.scenes import ASKED, CANDIDATES, painted

BLOCKS = {"green": (0.40, 0.60, 0.65), "red": (0.55, 0.42, 0.72), "blue": (0.60, 0.60, 0.62)}


def asked(instruction: str = ASKED.instruction, **more: Any) -> WaypointQuestion:
    return ASKED._replace(instruction=instruction, **more)


def shown(about: WaypointQuestion, frame: Array) -> list[Array]:
    """The images of a prompt."""
    return [part for part in prompts.message(about, frame).content if not isinstance(part, str)]


def seen(frame: Array, instruction: str = ASKED.instruction, colour: str = "green") -> Any:
    """Where it sees the thing and the place."""
    found = looked(shown(ASKED, frame), instruction, colour)
    assert found is not None
    return found


def read(about: WaypointQuestion, frame: Array, reader: ViewReader | None = None) -> dict[str, Any]:
    reply = (reader or ViewReader(0, 0))((prompts.message(about, frame),))
    return reading.selected(reply, about.grid, about.candidates)


@pytest.mark.parametrize("size", [64, 100, 200])
@pytest.mark.parametrize("colour", BLOCKS)
def test_a_thing_is_seen_where_it_was_painted_below_lines_and_points(size: int, colour: str) -> None:
    found = seen(painted(BLOCKS, size), f"put the {colour} block into the left bin", colour)
    assert found.thing == pytest.approx(BLOCKS[colour], abs=0.012)
    assert looked(shown(ASKED, painted(BLOCKS, size)), "put the orange block into the left bin", "orange") is None


def test_places_are_found_and_an_unknown_one_is_the_middle_of_the_target_points() -> None:
    above = view_of(shown(ASKED, painted(BLOCKS))[0])
    for place, (u, v) in {
        "left bin": (0.17, 0.5), "right bin": (0.83, 0.5), "tray": (0.5, 0.5), "near side of the tray": (0.5, 0.601),
        "far side of the tray": (0.5, 0.399), "left side of the tray": (0.385, 0.5),
    }.items():  # fmt: skip
        assert aimed(above, f"move the red block to the {place}") == pytest.approx((u, v), abs=0.012), place
    assert aimed(above, "put the red block away") is None
    assert seen(painted(BLOCKS), "put the red block away", "red").place[:2] == pytest.approx((0.15, 0.5), abs=0.01)
    bare = seen(painted(BLOCKS, tray=False))
    assert bare.place == pytest.approx((0.15, 0.5, 0.65), abs=0.01), "as high as the thing"


def test_a_place_on_the_table_is_as_high_as_the_tray_shows_it() -> None:
    """The tray spans v .35 to .65 and h .8 to .6: a thing at v .6 lies at h .633; at .65 it is .017 lower than that,
    and so is its place at v .5, where the table is at .7."""
    found = seen(painted(BLOCKS))
    assert found.thing == pytest.approx((0.4, 0.6, 0.65), abs=0.01)
    assert found.place == pytest.approx((0.17, 0.5, 0.717), abs=0.01)
    hidden = painted({"green": BLOCKS["green"]})
    hidden[:, 100:] = painted({})[:, 100:]
    assert seen(hidden).thing[2] == pytest.approx(0.633, abs=0.01), "the table's height"


def test_it_writes_a_path_from_the_thing_to_the_place_and_selects_the_nearest_points() -> None:
    """Green lies in c4 at (1 - .65) * 6 = 2.1, the left bin's middle in b4 at (1 - .717) * 6 = 1.7."""
    found = read(asked(), painted(BLOCKS))
    assert found["blocks"] == [["c4", 3], ["c4", 2], ["b4", 3], ["b4", 2]]
    assert (found["grasp"], found["target"]) == (5, 5)
    moved = Candidates([[0.1, 0.1], [0.41, 0.59], [0.9, 0.9]], [[0.15, 0.5], [0.9, 0.1]])
    found = read(asked(candidates=moved), painted(BLOCKS))
    assert (found["grasp"], found["target"]) == (2, 1)
    begun = read(asked(start=(0.5, 0.75, 0.3)), painted(BLOCKS))
    assert begun["blocks"][:2] == [["d5", 4], ["c4", 3]]


def test_it_reads_grid_and_views_from_the_prompt() -> None:
    fine = read(asked(grid=Grid(10)), painted(BLOCKS))
    ends = fine["blocks"][2], fine["blocks"][-1]
    assert ends == (["e7", 4], ["b6", 3]), "green begins tile e7; 10 * (1 - .65) = 3.5, 10 * (1 - .715) = 2.85"
    flat = read(asked(grid=Grid(6, heights=False)), painted(BLOCKS))
    assert flat["blocks"] == [["c4", None], ["b4", None]] and flat["waypoints"][0] == [2.5 / 6, 3.5 / 6]


def test_what_it_cannot_see_or_does_not_know_is_said_in_prose() -> None:
    for message, prose in (
        (
            prompts.message(asked("put the purple block into the left bin"), painted(BLOCKS)),
            "nothing purple in the view",
        ),
        (prompts.message(asked("open the drawer"), painted(BLOCKS)), "The task names no colour that I know."),
        (Message("user", ("Hello",)), ""),
    ):
        reply = ViewReader(0, 0)((message,))
        with pytest.raises(Misread, match="no JSON object"):
            reading.selected(reply, Grid(6), CANDIDATES)
        assert prose in reply


FRAMES = painted(BLOCKS)[None].repeat(20, 0)
FRAMES[:, 0, 0] = np.arange(20)[:, None]  # every frame is another one


def test_errors_take_another_thing_at_the_stated_rate_and_repeat_on_retries() -> None:
    right = ["c4", 2]
    paths = [read(asked(), frame, ViewReader(0, 0.2))["blocks"] for frame in FRAMES]
    wrong = [path[1] for path in paths if right not in path]
    assert abs(len(wrong) / 20 - 0.2) < 3 * np.sqrt(0.2 * 0.8 / 20)
    assert {*map(tuple, wrong)} == {("d3", 2), ("d4", 2)}, "the red block or the blue one"
    alone = painted({"green": BLOCKS["green"]})
    assert read(asked(), alone)["blocks"][1] == right
    shifted = read(asked(), alone, ViewReader(0, 1))["blocks"]
    assert shifted in ([["b4", 3], ["b4", 2], ["a4", 3], ["a4", 2]], [["d4", 3], ["d4", 2], ["c4", 3], ["c4", 2]])
    messages = (prompts.message(asked(), alone), Message("assistant", ("?",)), Message("user", ("Again",)))
    assert ViewReader(0, 1)(messages[:1]) == ViewReader(0, 1)(messages)


def test_malformed_replies_come_at_the_stated_rate_in_every_way_and_are_refused() -> None:
    refused = []
    for frame in FRAMES:
        messages = (prompts.message(asked(), frame),)
        reply = ViewReader(0.2, 0)(messages)
        try:
            reading.selected(reply, Grid(6), CANDIDATES)
        except Misread:
            refused.append(reply)
            retried = (*messages, Message("assistant", (reply,)), Message("user", ("Again",)))
            assert ViewReader(0.2, 0)(retried) == ViewReader(0.2, 0)(retried)
    assert abs(len(refused) / 20 - 0.2) < 3 * np.sqrt(0.2 * 0.8 / 20)
    valid = prompts.reply("P1", "Q1", [("c4", 3), ("c4", 2)])
    flat = prompts.reply("P1", "Q1", [("c4", None), ("c3", None)])
    for grid, reply in ((Grid(6), valid), (Grid(6, heights=False), flat)):
        for way in SPOILS:
            with pytest.raises(Misread):
                reading.selected(spoilt(reply, way, grid), grid, CANDIDATES)
