"""Frames drawn from snapshots, compared with MiniGrid's own frames."""

import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.envs.doorkey import DoorKeyEnv

from guidebench.suites.minigrid_doorkey.drawing import DoorKeyDrawer
from guidebench.suites.minigrid_doorkey.task import DoorKey

TO_MINIGRID = (0, 1, 2, 3, 5)


@pytest.mark.parametrize(("size", "tile_size", "steps"), [(5, 32, 60), (8, 8, 200), (8, 5, 200), (16, 7, 150)])
def test_frames_equal_get_frame_without_highlight(size, tile_size, steps):
    task, peer, draw = DoorKey(size), DoorKeyEnv(size=size), np.random.default_rng(size)
    snapshots, frames, under = [], [], set()

    def keep() -> None:
        snapshots.append(task.snapshot())
        frames.append(peer.get_frame(highlight=False, tile_size=tile_size))
        cell = peer.grid.get(*peer.agent_pos)
        under.add("floor" if cell is None else cell.type)

    peer.reset(seed=9)
    task.reset(9)
    keep()
    for _ in range(steps):
        action = task.expert() if draw.random() < 0.8 else int(draw.integers(5))
        step = task.step(action)
        peer.step(TO_MINIGRID[action])
        keep()
        if step.terminated or step.truncated:
            task.reset()
            peer.reset()
            keep()
    drawn_frames = DoorKeyDrawer(size, tile_size)(np.stack(snapshots))
    assert under == {"floor", "door", "goal"}
    assert drawn_frames.dtype == np.uint8 and drawn_frames.shape == (len(frames), size * tile_size, size * tile_size, 3)
    assert np.array_equal(drawn_frames, np.stack(frames))


def test_other_colours_and_shut_doors_are_drawn_as_minigrid_draws_them():
    task = DoorKey(5)
    task.reset(0)
    snapshot = task.snapshot()
    cells = snapshot[:-3].reshape(5, 5, 3)
    cells[2, 2], cells[1, 1], cells[3, 1] = (4, 3, 1), (5, 0, 0), (4, 2, 0)
    snapshot[-3:] = (1, 3, 2)
    grid, _ = Grid.decode(cells)
    expected = grid.render(6, (1, 3), 2)
    assert np.array_equal(DoorKeyDrawer(5, 6)(snapshot[None])[0], expected)


def test_frames_belong_to_the_caller():
    task, drawer = DoorKey(5), DoorKeyDrawer(5, 4)
    task.reset(0)
    snapshots = task.snapshot()[None]
    first = drawer(snapshots)
    copy = first.copy()
    first[:] = 0
    assert np.array_equal(drawer(snapshots), copy)
