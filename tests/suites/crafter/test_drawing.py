"""Pictures from snapshots against the package's; perturbed pictures."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench.suites.crafter.drawing import CrafterDrawer
from guidebench.suites.crafter.game import CODES, MATERIALS, OBJECT_PICTURES, Game
from guidebench.suites.crafter.perturbations import FLOOR, SWAP
from guidebench.suites.crafter.settings import CrafterDrawing
from guidebench.suites.crafter.snapshots import Scene, pack, unpack
from tests.refusals import check_refused

WIDTH, HEIGHT = 9, 7


def scene(materials="grass", thing="", noise=None, daylight=0.8, sleeping=False):
    """A view full of one material, with an object at column 2, row 3."""
    cells = np.full((WIDTH, HEIGHT), MATERIALS.index(materials) + 1, np.uint8)
    things = np.zeros((WIDTH, HEIGHT), np.uint8)
    if thing:
        things[2, 3] = CODES[thing]
    return Scene(cells, things, bytes([9, 9, 9, 9] + [0] * 12), sleeping, daylight, noise)


def test_pictures_of_a_day_and_a_night_are_the_packages(peer, keep_alive):
    """Also of a size other than that of the dynamics, for which the package would draw other numbers."""
    game, other = Game(64, 9, 64, 10_000), peer(4)
    game.begin(4)
    first = other.reset()
    drawer, larger = CrafterDrawer(64), CrafterDrawer(101)
    assert np.array_equal(drawer(pack(game.scene())[None])[0], first)
    random, asleep, nights, edge = np.random.default_rng(0), 0, 0, 0
    for number in range(330):
        action = int(random.integers(17)) if number < 100 else 6 if 220 < number < 260 else int(random.integers(1, 6))
        game.step(action)
        picture, _, _, _ = other.step(action)
        snapshot = pack(game.scene())
        assert np.array_equal(drawer(snapshot[None])[0], picture), number
        if number % 10 == 0:
            assert np.array_equal(larger(snapshot[None])[0], other.again(101)), number
        asleep, nights = asleep + game.player.sleeping, nights + (game.noise is not None)
        edge += (game.visible_cells()[0] == 0).any()
        if number < 220:
            keep_alive(game.player, other._player)
            game.player.inventory["energy"] = other._player.inventory["energy"] = 5
    assert nights > 100 and asleep > 20


def test_every_cell_and_item_looks_as_in_the_package(peer):
    """At the edge of the world, with every object around and every item in the inventory."""
    from crafter import objects

    game, other = Game(16, 9, 64, 100), peer(0, area=(16, 16))
    game.begin(0)
    other.reset()
    for world, player in ((game.world, game.player), (other._world, other._player)):
        world.move(player, np.array((1, 8)))
        for number, material in enumerate(MATERIALS):
            world[2 + number % 3, 6 + number // 3] = material
        for thing in [thing for thing in world.objects if thing is not player]:
            world.remove(thing)
        for row, cls in enumerate((objects.Cow, objects.Zombie, objects.Skeleton, objects.Plant)):
            more = (player,) if cls in (objects.Zombie, objects.Skeleton) else ()
            world.add(cls(world, (3, 6 + row), *more))
        for row, facing in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
            world.add(objects.Arrow(world, (4, 6 + row), np.array(facing)))
        world[3, 9][1].grown = 301
        player.inventory.update({name: number % 10 for number, name in enumerate(player.inventory)})
    game.changed()
    assert len(np.unique(game.visible_cells()[1])) == 10
    assert np.array_equal(CrafterDrawer(64)(pack(game.scene())[None])[0], other.render())


def test_drawing_changes_neither_world_nor_stream(keep_alive):
    drawn, plain, drawer = Game(32, 9, 64, 400), Game(32, 9, 64, 400), CrafterDrawer(64)
    for game in (drawn, plain):
        game.begin(0)
    for _ in range(250):
        drawer.draw(drawn.scene())
        for game in (drawn, plain):
            game.step(0)
            keep_alive(game.player)
        assert pack(drawn.scene()).tobytes() == pack(plain.scene()).tobytes()
    assert drawn.noise is not None


def test_a_snapshot_is_read_as_it_was_packed():
    words = np.arange(624, dtype=np.uint32)
    one = scene("water", "cow", (words, 33), daylight=0.25, sleeping=True)
    other = unpack(pack(one))
    assert pack(one).shape == (2528 + 2 * 63,)
    assert np.array_equal(other.materials, one.materials) and np.array_equal(other.things, one.things)
    assert (other.inventory, other.sleeping, other.daylight) == (one.inventory, True, 0.25)
    assert other.noise is not None and np.array_equal(other.noise[0], words) and other.noise[1] == 33


def test_a_picture_too_small_for_its_cells_is_refused():
    check_refused(r"set drawing\.size to at least 18", CrafterDrawer(17).draw, scene())


def cells(draw, *scenes):
    """What is drawn of each cell of the world, uint8 [L, column, row, 7, 7, 3], at 64 pixels."""
    frames = draw(np.stack([pack(each) for each in scenes])).transpose(0, 2, 1, 3)
    inner = frames[:, :63, :49]
    return inner.reshape(-1, WIDTH, 7, HEIGHT, 7, 3).transpose(0, 1, 3, 2, 4, 5)


@pytest.mark.parametrize("perturbation", ["sprite_swap", "texture"])
def test_what_a_perturbation_names_looks_otherwise_and_nothing_else(perturbation):
    plain, other = (CrafterDrawing(size=64, perturbation=name).spawn("game") for name in ("none", perturbation))
    for name in (*MATERIALS, *OBJECT_PICTURES[:-1]):
        shown = scene(name) if name in MATERIALS else scene("grass", name)
        differs = (cells(plain, shown) != cells(other, shown)).any((0, 3, 4, 5))
        named = name in SWAP if perturbation == "sprite_swap" else name not in FLOOR
        assert differs.any() == named, name
        if name in OBJECT_PICTURES:
            assert differs.sum() == named


def test_swapped_sprites_are_the_packages():
    swapped, plain = (CrafterDrawing(size=64, perturbation=name).spawn("game") for name in ("sprite_swap", "none"))
    for name, drawn in SWAP.items():
        one, other = ((scene(n) if n in MATERIALS else scene("grass", n)) for n in (name, drawn))
        assert np.array_equal(cells(swapped, one), cells(plain, other))
