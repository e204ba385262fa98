"""Perturbed frames: the world is unchanged, only objects look different, and `sprite` no longer recognises them."""

from typing import Any

import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Floor, Lava

from guidebench.suites.minigrid_doorkey import DoorKeyDrawing, MiniGridDoorKey, Sprite
from guidebench.suites.minigrid_doorkey.perturbations import SWAP, TEXTURED
from guidebench.suites.minigrid_doorkey.task import DoorKey
from tests.suites.minigrid_doorkey.test_sprite import scene

PERTURBED = ("sprite_swap", "texture")
TILE = 8
WALL, DOOR, KEY, GOAL = 2, 4, 5, 8
ASIDE, BEFORE_DOOR, IN_DOOR, AT_GOAL = (2, 2, 1), (3, 4, 0), (4, 4, 0), (6, 6, 1)


def tiles(snapshots: np.ndarray, perturbation: str = "none", **settings: Any) -> np.ndarray:
    """Return how each cell is drawn, uint8 [L, column, row, TILE, TILE, 3]."""
    draw = DoorKeyDrawing(**{"tile_size": TILE, "perturbation": perturbation, **settings}).spawn("8x8")
    frames = draw(np.atleast_2d(snapshots))
    pixels = frames.shape[1] // 8
    return frames.reshape(-1, 8, pixels, 8, pixels, 3).transpose(0, 3, 1, 2, 4, 5)


def episode(seed: int, skill: float = 0.7) -> np.ndarray:
    """Return snapshots [L, n] of a whole episode on 8x8 that takes the key and opens and closes the door."""
    task, draw = DoorKey(8), np.random.default_rng(seed)
    task.reset(seed)
    shots = [task.snapshot()]
    while True:
        step = task.step(task.expert() if draw.random() < skill else int(draw.integers(5)))
        shots.append(task.snapshot())
        if step.terminated or step.truncated:
            assert step.success
            return np.stack(shots)


@pytest.mark.parametrize(("perturbation", "kinds"), [("sprite_swap", (KEY, DOOR, GOAL)), ("texture", None)])
def test_the_tiles_of_objects_and_no_others_look_otherwise(perturbation: str, kinds: tuple[int, ...] | None) -> None:
    shots = episode(1)
    codes = shots[:, :-3].reshape(-1, 8, 8, 3)
    if kinds is None:  # every object, the agent too
        objects = codes[..., 0] != 1
        objects[np.arange(len(shots)), shots[:, -3], shots[:, -2]] = True
    else:
        objects = np.isin(codes[..., 0], kinds)
    differs = (tiles(shots) != tiles(shots, perturbation)).any(axis=(3, 4, 5))
    assert objects.any() and not objects.all() and np.array_equal(differs, objects)


@pytest.mark.parametrize("direction", [None, 2])
def test_swapped_sprites_are_minigrids_own_in_the_same_colour(direction: int | None) -> None:
    def look(snapshot: np.ndarray, x: int, y: int) -> bytes:
        snapshot = snapshot.copy()
        snapshot[-3:] = (x, y, direction) if direction is not None else (1, 1, 0)
        return tiles(snapshot, "sprite_swap")[0, x, y].tobytes()

    def render(thing: Any) -> bytes:
        return Grid.render_tile(thing, direction, tile_size=TILE).astype(np.uint8).tobytes()

    assert look(scene(True, 2, ASIDE), 2, 3) == render(Lava())
    assert look(scene(False, 2, ASIDE), 4, 4) == look(scene(False, 1, ASIDE), 4, 4) == render(Box("yellow"))
    assert look(scene(False, 0, ASIDE), 4, 4) == render(Floor("yellow"))
    assert look(scene(False, 0, ASIDE), 6, 6) == render(Ball("green"))
    assert look(scene(False, 0, ASIDE), 2, 3) == render(None)  # a key that was taken is gone


def test_a_texture_follows_from_its_seed_in_every_episode_and_drawer() -> None:
    first, second = episode(1), episode(4)
    drawer = DoorKeyDrawing(TILE, "texture").spawn("8x8")
    drawer(second)
    alone = DoorKeyDrawing(TILE, "texture").spawn("8x8")(first)
    assert np.array_equal(drawer(first), alone)
    seeds = [tiles(first, "texture", seed=seed)[0] for seed in (0, 1)]
    objects = first[0, :-3].reshape(8, 8, 3)[..., 0] != 1
    assert all((a != b).any() for a, b in zip(seeds[0][objects], seeds[1][objects], strict=True))


def test_each_object_has_one_texture_and_each_state_and_direction_its_own() -> None:
    doors = [scene(True, state, ASIDE) for state in range(3)]
    agents = [scene(True, 2, (2, 2, direction)) for direction in range(4)]
    drawn_tiles = tiles(np.stack([*doors, *agents]), "texture")
    first = drawn_tiles[0]
    walls = np.argwhere(scene(True, 0, ASIDE)[:-3].reshape(8, 8, 3)[..., 0] == WALL)
    assert len({first[x, y].tobytes() for x, y in walls}) == 1
    looks = {first[0, 0].tobytes(), first[2, 3].tobytes(), first[6, 6].tobytes()}
    looks |= {drawn_tiles[i, 4, 4].tobytes() for i in range(3)} | {drawn_tiles[3 + i, 2, 2].tobytes() for i in range(4)}
    assert len(looks) == sum(map(len, TEXTURED.values())) == 10


@pytest.mark.parametrize("tile_size", [4, 5, 8, 32])
def test_every_channel_of_a_textured_pixel_is_at_an_end_and_both_ends_are_there(tile_size: int) -> None:
    drawn_tiles = tiles(scene(True, 2, ASIDE), "texture", tile_size=tile_size)[0]
    for x, y in ((0, 0), (2, 3), (4, 4), (6, 6)):
        pixels = drawn_tiles[x, y].reshape(-1, 3)
        colours = np.unique(pixels, axis=0).astype(int)
        assert len(colours) == 2 and (colours.sum(axis=0) == 255).all()


def test_a_texture_shows_what_the_agent_stands_on() -> None:
    beside, inside, at_goal = tiles(np.stack([scene(False, 0, a) for a in (ASIDE, IN_DOOR, AT_GOAL)]), "texture")
    middle = slice(1, -1)
    for over, under, place in ((inside, beside, (4, 4)), (at_goal, beside, (6, 6))):
        changed = (over[place] != under[place]).any(-1)
        assert changed[middle, middle].any() and not changed[[0, -1]].any() and not changed[:, [0, -1]].any()


EVENTS = {
    "key": [scene(True, 2, ASIDE), scene(False, 2, ASIDE)],
    "door": [scene(False, 2, BEFORE_DOOR), scene(False, 0, BEFORE_DOOR)],
    "goal": [scene(False, 0, (6, 5, 1)), scene(False, 0, AT_GOAL)],
}


@pytest.mark.parametrize("perturbation", PERTURBED)
def test_the_sprite_judge_says_no_to_every_perturbed_event(perturbation: str) -> None:
    """This checks the instrument: the judge looks at pixels alone."""
    judge = Sprite().spawn(MiniGridDoorKey(), "8x8")
    standard, perturbed = (DoorKeyDrawing(TILE, p).spawn("8x8") for p in ("none", perturbation))
    clips = [np.stack(snapshots) for snapshots in EVENTS.values()] + [episode(seed) for seed in range(4)]
    assert judge([standard(clip) for clip in clips]) == [1.0] * 7
    assert judge([perturbed(clip) for clip in clips]) == [0.0] * 7


def test_the_swap_names_what_is_shown_and_what_can_be_drawn() -> None:
    looks = {name for names in TEXTURED.values() for name in names}
    assert set(SWAP) <= looks and set(SWAP.values()) <= {"lava", "box", "floor", "ball"}
