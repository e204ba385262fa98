"""Which masks are things, which of them are grasped, where points are sampled, and the answer of the dialogue."""

import asyncio
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Answer, Call, SegmentCall
from guidebench.harness.models.calls.segment import mask_json
from guidebench.methods.kagi.keypoints import Keypoints, chosen, core, farthest, halves, sample, spread, things

SIZE = 40


def box(row: int, column: int, height: int, width: int) -> Array:
    """Return a mask of a 40-pixel view that is one box."""
    mask = np.zeros((SIZE, SIZE), bool)
    mask[row : row + height, column : column + width] = True
    return mask


def shows(mask: Array, points: Any) -> Array:
    """Whether a mask holds each of these points, fractions of the view."""
    columns, rows = (np.array(points) * SIZE).astype(int).T
    return mask[rows, columns]


BLOCK, OTHER, BIN, TRAY = box(10, 10, 5, 5), box(20, 30, 4, 6), box(5, 20, 15, 15), box(25, 2, 14, 20)


def run_dialogue(frames: Array, answer: Any, failure: str = "", **settings: Any) -> tuple[Any, list[SegmentCall]]:
    calls: list[SegmentCall] = []

    async def ask(call: Call) -> Answer:
        assert isinstance(call, SegmentCall)
        calls.append(call)
        return Answer(answer, failure)  # type: ignore[arg-type]

    return asyncio.run(Keypoints(**settings)({"instruction": "put it there"}, frames, ask)), calls


def test_only_the_view_from_above_is_segmented_at_a_grid_of_points() -> None:
    frames = np.zeros((1, SIZE, 2 * SIZE, 3), np.uint8)
    frames[:, :, :SIZE] = 7
    answer = [mask_json(BLOCK, 0.5, "thing"), mask_json(TRAY, 0.5, "place")]
    keypoints, calls = run_dialogue(frames, answer, grid=4)
    assert len(calls) == Keypoints.calls == 1 and calls[0].text == "put it there"
    assert calls[0].image.shape == (SIZE, SIZE, 3) and (calls[0].image == 7).all()
    assert calls[0].points == spread(SIZE, 4) and calls[0].points[:2] == ((5.0, 5.0), (15.0, 5.0))
    assert {*keypoints} == {"grasp", "target", "objects"} and keypoints["objects"] == 2
    assert run_dialogue(frames, None, "timeout")[0] is None


def test_named_masks_are_sampled_and_unnamed_ones_only_counted() -> None:
    masks = [mask_json(OTHER, 1.0), mask_json(BLOCK, 1.0, "thing"), mask_json(BIN, 1.0, "place")]
    keypoints = chosen(masks, SIZE, 0.9)
    assert keypoints is not None and keypoints["objects"] == 3
    assert len(keypoints["grasp"]) == len(keypoints["target"]) == 5
    assert shows(BLOCK, keypoints["grasp"]).all() and shows(BIN, keypoints["target"]).all()
    assert keypoints["grasp"][0] == [12.5 / SIZE, 12.5 / SIZE], "the middle of the block comes first"
    assert keypoints["target"][0] == [27.5 / SIZE, 12.5 / SIZE]


def test_an_object_that_nobody_sees_has_no_points() -> None:
    nothing, everything, thing, place = box(0, 0, 0, 0), box(0, 0, SIZE, SIZE), (1.0, "thing"), (1.0, "place")
    for masks in (
        [(OTHER, 1.0), (BIN, *place)], [(BLOCK, *thing), (BIN, 1.0)],
        [(BLOCK, 1.0)],  # there is nowhere to put it
        [(BLOCK, 0.5), (BIN, 0.5)],  # such masks are no things
        [], [(nothing, *thing), (BIN, *place)], [(everything, *thing), (BIN, *place)],
        [(BLOCK, *thing), (nothing, *place)],
    ):  # fmt: skip
        assert chosen([mask_json(*mask) for mask in masks], SIZE, 0.9) is None  # type: ignore[misc]


def test_without_words_small_things_are_grasped_and_large_ones_are_targets() -> None:
    masks = [mask_json(mask, score) for mask, score in ((TRAY, 0.99), (OTHER, 0.95), (BIN, 0.97), (BLOCK, 0.9))]
    keypoints = chosen(masks, SIZE, 0.9)
    assert keypoints is not None and keypoints["objects"] == 4
    assert shows(BLOCK | OTHER, keypoints["grasp"]).all() and shows(BIN | TRAY, keypoints["target"]).all()
    assert shows(BLOCK, keypoints["grasp"]).any() and shows(OTHER, keypoints["grasp"]).any(), (
        "each small thing has a point"
    )
    assert chosen(masks, SIZE, 0.9) == keypoints and len(keypoints["grasp"]) == len(keypoints["target"]) == 5


def test_masks_of_the_ground_specks_and_what_a_better_mask_shows_are_no_things() -> None:
    ground, quarter = box(0, 0, 40, 11), box(0, 0, 40, 10)
    shifted = box(10, 11, 5, 5)  # 20 of 30 pixels are BLOCK's: an overlap of 2/3, below .7
    nearly = box(10, 10, 5, 4)  # 20 of 25: .8
    scored = [(0.8, nearly), (0.9, BLOCK), (0.95, ground), (0.7, quarter), (0.6, shifted), (1.0, box(0, 0, 0, 0))]
    masks = things(scored)
    assert [mask.sum() for mask in masks] == [25, 400, 25] and (masks[0] == BLOCK).all() and (masks[2] == shifted).all()
    assert things([(1.0, box(3, 3, 1, 1))]), "1 pixel of 1,600 is more than a speck"


def test_the_border_is_where_areas_grow_most() -> None:
    """The areas of four things are 24, 25 | 225, 280."""
    for masks, sizes in (
        ([TRAY, BLOCK, BIN, OTHER], ([25, 24], [280, 225])), ([BLOCK], ([25], [])), ([], ([], [])),
        ([BLOCK, BLOCK], ([25, 25], [])),
    ):  # fmt: skip
        assert tuple([mask.sum() for mask in half] for half in halves(masks)) == sizes


def test_points_are_the_middle_and_then_the_farthest_of_the_core() -> None:
    mask = box(10, 10, 9, 9)  # depths 1 … 5; the core has depths of 2.5 and more: rows and columns 12 … 16
    deepest, inner = core(mask)
    assert deepest.tolist() == [14.5, 14.5] and len(inner) == 25 and inner.min() == 12.5 and inner.max() == 16.5
    assert sample([mask]).tolist() == [[14.5, 14.5], [12.5, 12.5], [16.5, 12.5], [12.5, 16.5], [16.5, 16.5]]
    edge = core(box(0, 0, 3, 3))
    assert edge[0].tolist() == [1.5, 1.5] and len(edge[1]) == 9, "the view's border counts as an edge"


def test_each_mask_has_a_point_and_of_many_the_farthest() -> None:
    marks = [box(0, 4 * at, 3, 3) for at in range(7)]  # middles at columns 1.5, 5.5, … 25.5
    assert sample(marks)[:, 0].tolist() == [1.5, 25.5, 13.5, 5.5, 9.5], "ties go to the first"
    assert sample(marks[:2])[:2].tolist() == [[1.5, 1.5], [5.5, 1.5]]
    assert sample([box(7, 7, 1, 1)]).tolist() == [[7.5, 7.5]] * 5, "too few pixels repeat"
    line = np.array([[0.0, 0], [1, 0], [4, 0], [9, 0]])
    assert farthest(line, np.zeros((0, 2)), 3)[:, 0].tolist() == [0, 9, 4]
    assert farthest(line, np.array([[8.0, 0]]), 2)[:, 0].tolist() == [8, 0]
