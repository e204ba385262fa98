"""Frames of the table, coarse and full, and what perturbations leave unchanged."""

import numpy as np

from guidebench.suites.bin_sorting import BinDrawing, BinSorting
from guidebench.suites.bin_sorting.cameras import project


def draw(task, **settings):
    return BinDrawing(**settings).spawn("forward")(task.snapshot()[None])[0].astype(int)


def test_coarse_frames_are_those_of_the_full_meshes_but_for_the_arms_surface(opengl, tasks):
    from guidebench.suites.bin_sorting import drawing, dynamics
    from guidebench.suites.mujoco.drawing import ModelDrawer

    task = tasks("forward")
    task.reset(1)
    for _ in range(6):
        task.step(task.expert())
    coarse = draw(task, size=128)
    full_drawer = ModelDrawer(dynamics.model(), drawing.SNAPSHOT, "side", (128, 128), rows=drawing.ROWS)
    full = full_drawer(task.snapshot()[None])[0].astype(int)
    off = np.abs(coarse - full).max(axis=-1) > 60
    assert 0 < off.mean() < 0.03
    assert not off[100:].any()  # the ground in front of the tray


def test_observed_images_are_those_of_the_cameras(opengl):
    task = BinSorting(cameras="both").make("forward")
    observation = task.reset(3)
    assert observation["side"].shape == observation["top"].shape == (100, 100, 3) and observation["goal"].sum() == 2
    for camera in ("side", "top"):
        assert np.array_equal(observation[camera], draw(task, camera=camera))
    stepped = task.step((1, 0, -1, 0, 0, 0, 0)).observation
    assert not np.array_equal(stepped["side"], observation["side"])
    only = BinSorting(cameras="top").make("forward").reset(3)
    assert only.dtype.names == ("top", "proprioception", "goal") and np.array_equal(only["top"], observation["top"])


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
        left_mean, right_mean = (frame[row, column].mean() for column, row in bins)
        assert (left_mean, right_mean)[brighter] > (left_mean, right_mean)[1 - brighter] + 40


def test_textures_hide_colours_and_leave_the_tray(opengl, tasks):
    task = tasks("forward")
    task.reset(0)
    plain, noisy = (draw(task, size=200, camera="top", perturbation=name) for name in ("none", "texture"))
    column, row = project("top", task._world.poses[:1, :3], 200).astype(int)[0]
    around = noisy[row - 3 : row + 4, column - 3 : column + 4].reshape(-1, 3)
    assert np.ptp(around, axis=0).max() > 60
    column, row = project("top", [(0.42, 0.24, 0)], 200).astype(int)[0]
    assert np.array_equal(noisy[row, column], plain[row, column])  # the bin's floor
