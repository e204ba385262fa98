"""The hand-written segmenter and tracker on frames that bin sorting draws, and their errors."""

import asyncio
import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Answer, Call, SegmentCall, TrackCall
from guidebench.harness.models.calls.segment import mask_of
from guidebench.harness.plan import matrix
from guidebench.methods.kagi.keypoints import Keypoints
from guidebench.methods.kagi.segmenters import ColourSegmenter, ColourTracker, ScriptedSegmenter, ScriptedTracker
from guidebench.methods.kagi.tracking import Tracking, positions
from tests.methods.kagi.test_colours import painted
from tests.refusals import check_refused

INSTRUCTION = "put the red block into the right bin"
SIZE = 100


def named_masks(call: SegmentCall, error: float = 0.0) -> dict[str, Array]:
    """Return meaning -> mask of the named things."""
    masks = ColourSegmenter(error)(call)
    assert call.fault(masks) == ""
    return {mask["means"]: mask_of(mask["runs"], call.image.shape[:2]) for mask in masks if mask["means"]}


def test_it_names_the_thing_and_its_place() -> None:
    call = SegmentCall(painted(), (), INSTRUCTION)
    named = named_masks(call)
    assert named["thing"].sum() == 49 and named["thing"][40:47, 50:57].all()
    assert named["place"].sum() == 26 * 25 and named["place"][40, 80]
    assert len(ColourSegmenter(0.0)(call)) == 5, "two blocks, a tray and two bins"
    other = named_masks(dataclasses.replace(call, text="move the orange block to the near side of the tray"))
    assert other["thing"][36:43, 10:17].all() and np.nonzero(other["place"])[0].min() == 50
    assert [*named_masks(dataclasses.replace(call, text="put the green block into the left bin"))] == ["place"]


def test_an_error_takes_another_block_at_its_rate() -> None:
    images = painted()[None].repeat(100, 0)
    images[:, 99, 0] = np.arange(100)[:, None]
    calls = [SegmentCall(image, (), INSTRUCTION) for image in images]
    wrong, again = ([bool(named_masks(call, 0.3)["thing"][40, 12]) for call in calls] for _ in range(2))
    assert 0.18 < np.mean(wrong) < 0.42 and wrong == again, "equal calls have equal answers"
    assert all(named_masks(call, 1.0)["thing"][40, 12] for call in calls[:5])
    lone = painted()
    lone[36:43, 10:17] = 210
    assert named_masks(SegmentCall(lone, (), INSTRUCTION), 1.0)["thing"][43, 53], "there is no other block"


def test_instructions_without_a_known_colour_are_refused() -> None:
    check_refused(
        "names no colour that the hand-written segmenter knows",
        ColourSegmenter(0.0),
        SegmentCall(painted(), (), "open the drawer"),
    )
    check_refused("names no colour", ColourTracker(0.0), TrackCall(painted()[None], (1.0, 1.0), "open the drawer"))


def test_it_follows_a_colour_until_it_is_hidden() -> None:
    frames = np.stack([painted()] * 3)
    frames[1, 40:47, 50:57] = frames[2, 40:47, 50:57] = (160, 130, 105)
    frames[1, 35:42, 40:47] = (240, 70, 70)
    call = TrackCall(frames, (52.0, 44.0), INSTRUCTION)
    assert ColourTracker(0.0)(call).tolist() == [[52, 44, 1], [42, 39, 1], [0, 0, 0]]
    assert ColourTracker(1.0)(call)[:, :2].tolist() == [[13.5, 39.5]] * 3, "the orange block, which stays"
    assert call.fault(ColourTracker(0.0)(call)) == ""


def test_short_names_mean_the_parts_of_their_role_and_small_calls_are_answered() -> None:
    for config, role, kind in ((ScriptedSegmenter, "segmenter", "segment"), (ScriptedTracker, "tracker", "track")):
        assert registry.get("embedder", registry.meant("embedder", "scripted", role)) is config
        suite: Any = None
        small = registry.get("call", kind).small()
        assert config.answers == (kind,) and small.fault(small.answered_by(config().spawn(suite, ""))) == ""


@functools.cache
def draw_episode(task: str, seed: int, steps: int = 1) -> tuple[Array, str, Array, str]:
    """Return an episode of the scripted policy: frames of both views side by side, its instruction, the positions of
    the named block [L, 3] and the block's place."""
    pytest.importorskip("ogbench")
    kind = registry.get("suite", "bin_sorting")
    world: Any = kind(observation="state", reset_free=False).make(task)
    world.reset(seed)
    shots, poses = [], []
    for _ in range(steps):
        shots.append(world.snapshot())
        poses.append(world._world.poses[world._block, :3].copy())
        world.step(world.expert())
    frames = kind.drawing(size=SIZE, camera="both").spawn(task)(np.stack(shots))
    return frames, world.instruction, np.stack(poses), world._place


def answered_by(model: Any) -> Any:
    async def ask(call: Call) -> Answer:
        return Answer(model(call))

    return ask


@pytest.mark.parametrize(("task", "seed"), [("forward", 0), ("other", 2)])
def test_keypoints_of_drawn_layouts_lie_on_the_block_and_in_its_place(task: str, seed: int) -> None:
    from guidebench.suites.bin_sorting import cameras, layout

    frames, instruction, poses, place = draw_episode(task, seed)

    keypoints = asyncio.run(Keypoints()({"instruction": instruction}, frames, answered_by(ColourSegmenter(0.0))))
    assert keypoints is not None and keypoints["objects"] == (7 if place.endswith("side") else 6)
    block = cameras.project("top", poses[:1] + np.array([0, 0, layout.BLOCK]), SIZE)[0]
    grasp, target = (np.array(keypoints[name]) * SIZE for name in ("grasp", "target"))
    assert (np.linalg.norm(grasp - block, axis=1) < 4).all(), "a block is 7 pixels wide"
    tray = layout.TRAY, layout.TRAY_HALF
    centre, half = (layout.BINS[place.split()[0]], layout.BIN_HALF) if place.endswith("bin") else tray
    corners = cameras.project("top", np.array([[*(centre - half), 0], [*(centre + half), 0]]), SIZE)
    assert ((target > corners.min(axis=0)) & (target < corners.max(axis=0))).all()


@pytest.mark.slow
def test_the_tracker_follows_a_carried_block_in_both_views() -> None:
    from guidebench.suites.bin_sorting import cameras

    frames, instruction, poses, _ = draw_episode("forward", 0, 30)
    above, side = (cameras.project(camera, poses, 1) for camera in ("top", "side"))

    content = {"instruction": instruction, "point": above[0].tolist(), "side": side[0].tolist()}
    tracked = positions(asyncio.run(Tracking()(content, frames, answered_by(ColourTracker(0.0)))) or [])
    true = np.concatenate([above, side[:, 1:]], axis=1)
    visible = ~np.isnan(tracked[:, 0])
    assert visible[0] and visible.mean() > 0.3 and np.ptp(true[:, 0]) > 0.2, "the block is carried aside"
    assert np.abs(tracked - true)[visible].max() < 0.06


@pytest.mark.parametrize(
    ("role", "models"),
    [("segmenter", "segmenter=scripted"), ("tracker", "segmenter=transformers guide.object=true tracker=scripted")],
)
def test_tasks_whose_instruction_it_cannot_read_are_refused_while_a_command_is_planned(role: str, models: str) -> None:
    pytest.importorskip("metaworld")
    words = (
        "suite=metaworld_mt10 task=drawer-open method=sac guide=waypoints drawing.camera=both waypoints=oracle "
        f"classifier=oracle {models}"
    )
    check_refused(
        f"^{role} 'scripted_{role}' does not fit .* names no colour that the hand-writ", matrix.plan, words.split()
    )
