"""Frames of the table, coarse and full, and what perturbing them leaves alone."""

from __future__ import annotations

import numpy as np

from guidebench.suites.bin_sorting import BinDrawing, BinSorting
from guidebench.suites.bin_sorting.cameras import project

from .conftest import STATE


def draw(task, **how):
    return BinDrawing(**how).spawn("forward")(task.snapshot()[None])[0].astype(int)


def test_coarse_frames_are_those_of_the_full_meshes_but_for_the_arms_surface(opengl, tasks):
    from guidebench.suites.bin_sorting import drawing, dynamics
    from guidebench.suites.mujoco.drawing import ModelDrawer

    task = tasks("forward")
    task.reset(1)
    for _ in range(6):
        task.step(task.expert())
    coarse = draw(task, size=128)
    whole = ModelDrawer(dynamics.model(), drawing.SNAPSHOT, "side", (128, 128), rows=drawing.ROWS)
    full = whole(task.snapshot()[None])[0].astype(int)
    off = np.abs(coarse - full).max(axis=-1) > 60
    assert 0 < off.mean() < 0.03
    assert not off[100:].any()  # the ground in front of the tray


def test_full_quality_adds_shadows_and_smooth_edges_alone(opengl, tasks):
    task = tasks("forward")
    task.reset(1)
    off = np.abs(draw(task, size=128, quality="full") - draw(task, size=128)).max(axis=-1) > 60
    assert 0 < off.mean() < 0.15


def test_observed_images_are_those_of_the_cameras(opengl):
    task = BinSorting(cameras="both").make("forward")
    seen = task.reset(3)
    assert seen["side"].shape == seen["top"].shape == (100, 100, 3) and seen["goal"].sum() == 2
    for camera in ("side", "top"):
        assert np.array_equal(seen[camera], draw(task, camera=camera))
    stepped = task.step((1, 0, -1, 0, 0, 0, 0)).observation
    assert not np.array_equal(stepped["side"], seen["side"])
    only = BinSorting(cameras="top").make("forward").reset(3)
    assert only.dtype.names == ("top", "proprioception", "goal") and np.array_equal(only["top"], seen["top"])


def test_swapped_sprites_show_another_colour_and_the_other_bin(opengl, tasks):
    task = tasks("forward")
    task.reset(0)
    blocks = project("top", task._world.poses[:, :3], 200).astype(int)
    bins = project("top", [(0.42, 0.24, 0), (0.42, -0.24, 0)], 200).astype(int)
    plain, swapped = (draw(task, size=200, camera="top", perturbation=name) for name in ("none", "sprite_swap"))
    assert [int(plain[row, column].argmax()) for column, row in blocks] == [0, 1, 2]
    assert sorted(int(swapped[row, column].argmax()) for column, row in blocks) == [0, 1, 2]
    assert all(plain[row, column].argmax() != swapped[row, column].argmax() for column, row in blocks)
    for frame, brighter in ((plain, 0), (swapped, 1)):
        left, right = (frame[row, column].mean() for column, row in bins)
        assert (left, right)[brighter] > (left, right)[1 - brighter] + 40


def test_textures_hide_colours_by_their_seed_and_leave_the_tray(opengl, tasks):
    task = tasks("forward")
    task.reset(0)
    plain, *noisy = (
        draw(task, size=200, camera="top", **how)
        for how in ({}, *({"perturbation": "texture", "seed": seed} for seed in (0, 0, 1)))
    )
    assert np.array_equal(noisy[0], noisy[1]) and not np.array_equal(noisy[0], noisy[2])
    column, row = project("top", task._world.poses[:1, :3], 200).astype(int)[0]
    around = noisy[0][row - 3 : row + 4, column - 3 : column + 4].reshape(-1, 3)
    assert np.ptp(around, axis=0).max() > 60
    column, row = project("top", [(0.42, 0.24, 0)], 200).astype(int)[0]
    assert np.array_equal(noisy[0][row, column], plain[row, column])  # the bin's floor


def test_drawing_changes_no_episode(opengl):
    def episode(draws):
        task, rng = STATE.make("forward"), np.random.default_rng(0)
        drawer = BinDrawing(size=48, perturbation="sprite_swap").spawn("forward")
        seen = [task.reset(5).tobytes()]
        for _ in range(10):
            if draws:
                drawer(task.snapshot()[None])
            seen.append(task.step(rng.uniform(-1, 1, 7)).observation.tobytes())
        return seen, task.snapshot().tobytes()

    assert episode(True) == episode(False)


def test_both_cameras_are_shown_side_by_side_the_one_above_on_the_left(opengl, tasks):
    task = tasks("forward")
    task.reset(2)
    both = draw(task, camera="both", size=64)
    assert both.shape == (64, 128, 3)
    assert np.array_equal(both[:, :64], draw(task, camera="top", size=64))
    assert np.array_equal(both[:, 64:], draw(task, camera="side", size=64))
