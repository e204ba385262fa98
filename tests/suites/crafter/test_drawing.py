"""Pictures drawn from snapshots compared with the package's; perturbed pictures."""

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


def scene(materials="grass", creature="", noise=None, daylight=0.8, sleeping=False):
    """Return a view full of one material, with an object at column 2, row 3."""
    cells = np.full((WIDTH, HEIGHT), MATERIALS.index(materials) + 1, np.uint8)
    creatures = np.zeros((WIDTH, HEIGHT), np.uint8)
    if creature:
        creatures[2, 3] = CODES[creature]
    return Scene(cells, creatures, bytes([9, 9, 9, 9] + [0] * 12), sleeping, daylight, noise)


def test_pictures_of_a_day_and_a_night_are_the_packages(peer, keep_alive):
    """Pictures of another size than that of the dynamics too, for which the package would use other random numbers."""
    game, package_env = Game(64, 9, 64, 10_000), peer(4)
    game.begin(4)
    first = package_env.reset()
    drawer, larger = CrafterDrawer(64), CrafterDrawer(101)
    assert np.array_equal(drawer(pack(game.scene())[None])[0], first)
    random, asleep, nights, edge = np.random.default_rng(0), 0, 0, 0
    for number in range(330):
        action = int(random.integers(17)) if number < 100 else 6 if 220 < number < 260 else int(random.integers(1, 6))
        game.step(action)
        picture, _, _, _ = package_env.step(action)
        snapshot = pack(game.scene())
        assert np.array_equal(drawer(snapshot[None])[0], picture), number
        if number % 10 == 0:
            assert np.array_equal(larger(snapshot[None])[0], package_env.again(101)), number
        asleep, nights = asleep + game.player.sleeping, nights + (game.noise is not None)
        edge += (game.visible_cells()[0] == 0).any()
        if number < 220:
            keep_alive(game.player, package_env._player)
            game.player.inventory["energy"] = package_env._player.inventory["energy"] = 5
    assert nights > 100 and asleep > 20


def test_every_cell_and_item_looks_as_in_the_package(peer):
    """The player stands at the edge of the world, with every object around and every item in the inventory."""
    from crafter import objects

    game, package_env = Game(16, 9, 64, 100), peer(0, area=(16, 16))
    game.begin(0)
    package_env.reset()
    for world, player in ((game.world, game.player), (package_env._world, package_env._player)):
        world.move(player, np.array((1, 8)))
        for number, material in enumerate(MATERIALS):
            world[2 + number % 3, 6 + number // 3] = material
        for creature in [creature for creature in world.objects if creature is not player]:
            world.remove(creature)
        for row, cls in enumerate((objects.Cow, objects.Zombie, objects.Skeleton, objects.Plant)):
            more = (player,) if cls in (objects.Zombie, objects.Skeleton) else ()
            world.add(cls(world, (3, 6 + row), *more))
        for row, facing in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
            world.add(objects.Arrow(world, (4, 6 + row), np.array(facing)))
        world[3, 9][1].grown = 301
        player.inventory.update({name: number % 10 for number, name in enumerate(player.inventory)})
    game.changed()
    assert len(np.unique(game.visible_cells()[1])) == 10
    assert np.array_equal(CrafterDrawer(64)(pack(game.scene())[None])[0], package_env.render())


def test_drawing_changes_neither_world_nor_stream(keep_alive):
    drawn_game, plain, drawer = Game(32, 9, 64, 400), Game(32, 9, 64, 400), CrafterDrawer(64)
    for game in (drawn_game, plain):
        game.begin(0)
    for _ in range(250):
        drawer.draw(drawn_game.scene())
        for game in (drawn_game, plain):
            game.step(0)
            keep_alive(game.player)
        assert pack(drawn_game.scene()).tobytes() == pack(plain.scene()).tobytes()
    assert drawn_game.noise is not None


def test_a_snapshot_is_read_as_it_was_packed():
    words = np.arange(624, dtype=np.uint32)
    packed_scene = scene("water", "cow", (words, 33), daylight=0.25, sleeping=True)
    unpacked = unpack(pack(packed_scene))
    assert pack(packed_scene).shape == (2528 + 2 * 63,)
    assert np.array_equal(unpacked.materials, packed_scene.materials) and np.array_equal(
        unpacked.things, packed_scene.things
    )
    assert (unpacked.inventory, unpacked.sleeping, unpacked.daylight) == (packed_scene.inventory, True, 0.25)
    assert unpacked.noise is not None and np.array_equal(unpacked.noise[0], words) and unpacked.noise[1] == 33


def test_a_picture_too_small_for_its_cells_is_refused():
    check_refused(r"set drawing\.size to at least 18", CrafterDrawer(17).draw, scene())


def cells(draw, *scenes):
    """Return how each cell of the world is drawn, uint8 [L, column, row, 7, 7, 3], at 64 pixels."""
    frames = draw(np.stack([pack(scene) for scene in scenes])).transpose(0, 2, 1, 3)
    inner = frames[:, :63, :49]
    return inner.reshape(-1, WIDTH, 7, HEIGHT, 7, 3).transpose(0, 1, 3, 2, 4, 5)


@pytest.mark.parametrize("perturbation", ["sprite_swap", "texture"])
def test_what_a_perturbation_names_looks_otherwise_and_nothing_else(perturbation):
    plain, other = (CrafterDrawing(size=64, perturbation=name).spawn("game") for name in ("none", perturbation))
    for name in (*MATERIALS, *OBJECT_PICTURES[:-1]):
        world_scene = scene(name) if name in MATERIALS else scene("grass", name)
        differs = (cells(plain, world_scene) != cells(other, world_scene)).any((0, 3, 4, 5))
        is_perturbed = name in SWAP if perturbation == "sprite_swap" else name not in FLOOR
        assert differs.any() == is_perturbed, name
        if name in OBJECT_PICTURES:
            assert differs.sum() == is_perturbed


def test_swapped_sprites_are_the_packages():
    swapped, plain = (CrafterDrawing(size=64, perturbation=name).spawn("game") for name in ("sprite_swap", "none"))
    for name, shown_name in SWAP.items():
        original, stand_in = ((scene(n) if n in MATERIALS else scene("grass", n)) for n in (name, shown_name))
        assert np.array_equal(cells(swapped, original), cells(plain, stand_in))
