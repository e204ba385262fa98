"""What the hand-written segmenter reads in an instruction, and finds in pixels painted by hand."""

import numpy as np
import pytest

from guidebench.harness.interfaces import Array
from guidebench.methods.kagi import colours
from tests.refusals import check_refused


def painted() -> Array:
    """A view of 100 pixels: brown tray in the middle, a light bin at its left and a dark one at its right, a red block
    on the tray, an orange one in the left bin, and pale blue of an arm below."""
    image = np.full((100, 100, 3), (25, 30, 45), np.uint8)
    image[30:60, 35:65] = (160, 130, 105)
    image[32:58, 5:30] = (210, 210, 210)
    image[32:58, 70:95] = (85, 85, 90)
    image[40:47, 50:57] = (240, 70, 70)
    image[36:43, 10:17] = (250, 140, 40)
    image[70:100, 40:60] = (130, 150, 190)
    image[0:30, 50] = (157, 158, 160)
    return image


@pytest.mark.parametrize(
    ("rgb", "hue", "saturation", "chroma", "value"),
    [
        ((255, 0, 0), 0, 1, 1, 1),
        ((0, 255, 0), 120, 1, 1, 1),
        ((0, 0, 255), 240, 1, 1, 1),
        ((255, 127.5, 0), 29.9, 1, 1, 1),
        ((51, 102, 102), 180, 0.5, 0.2, 0.4),
        ((255, 0, 51), 348, 1, 1, 1),
        ((90, 90, 90), 0, 0, 0, 0.353),
        ((0, 0, 0), 0, 0, 0, 0),
    ],
)
def test_hue_saturation_and_value_by_hand(
    rgb: tuple[float, ...], hue: float, saturation: float, chroma: float, value: float
) -> None:
    pixels = colours.look(np.array([[rgb]]).astype(np.uint8))
    assert [float(channel[0, 0]) for channel in pixels] == pytest.approx([hue, saturation, chroma, value], abs=2e-2)
    hues = np.arange(0, 360, 0.5)
    members = [colours._between(hues, *borders) for borders in colours.HUES.values()]
    assert (np.sum(members, axis=0) == 1).all(), "every hue has one colour"


def test_blocks_and_places_of_a_painted_view() -> None:
    pixels = colours.look(painted())
    blocks = colours.blocks(pixels)
    assert {name: int(mask.sum()) for name, mask in blocks.items()} == {"red": 49, "orange": 49}
    assert blocks["red"][40:47, 50:57].all() and blocks["orange"][36:43, 10:17].all()
    places = colours.places(pixels)
    assert {*places} == {*colours.PLACES}
    assert places["tray"].sum() == 30 * 30 - 49 and not (places["tray"] & blocks["red"]).any()
    assert places["left bin"].sum() == 26 * 25 - 49 and places["left bin"][50, 10] and places["right bin"][50, 80]
    assert places["right bin"].sum() == 26 * 25
    # The tray's rows 30 to 60: its middle is 45, its half side 15, so that a side begins 5.25 pixels from the middle.
    rows, columns = (np.nonzero(places[name])[axis] for name, axis in (("near side", 0), ("left side", 1)))
    assert (rows.min(), rows.max()) == (50, 59) and (columns.min(), columns.max()) == (35, 44)
    assert np.nonzero(places["far side"])[0].max() == 39 and np.nonzero(places["right side"])[1].min() == 55


def test_what_cannot_be_seen_has_no_mask() -> None:
    empty = colours.look(np.full((50, 50, 3), 30, np.uint8))
    assert colours.blocks(empty) == {} == colours.places(empty)
    speck = np.zeros((100, 100, 3), np.uint8)
    for pixel, count in ((9, 0), (10, 5)):  # 4 of 10,000 pixels are none; 5 are a blob
        speck[5, 5:pixel] = (240, 20, 20)
        mask = colours.block(colours.look(speck), "red")
        assert (0 if mask is None else mask.sum()) == count
    speck[20:26, 20:26] = (240, 20, 20)
    mask = colours.block(colours.look(speck), "red")
    assert mask is not None and mask.sum() == 36 and mask[20:26, 20:26].all(), "of two parts the larger"


@pytest.mark.parametrize(
    ("text", "colour", "place"),
    [
        ("put the red block into the left bin", "red", "left bin"),
        ("take the blue block out of the left bin and put it on the tray", "blue", "tray"),
        ("move the orange block to the far side of the tray", "orange", "far side"),
        ("Move the Purple block to the Left side of the tray", "purple", "left side"),
    ],
)
def test_an_instruction_names_a_thing_and_a_place(text: str, colour: str, place: str) -> None:
    assert (colours.colour_in(text), colours.place_in(text)) == (colour, place)


def test_an_instruction_without_a_known_word_is_an_error() -> None:
    check_refused(
        r"'open the drawer' names no colour .*\(red, orange, .*segmenter=transformers",
        colours.colour_in,
        "open the drawer",
    )
    check_refused(
        r"names no place .*\(left bin, right bin, tray", colours.place_in, "put the red block into the reddish box"
    )
