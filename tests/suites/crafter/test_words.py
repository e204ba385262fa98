"""Sentences about scenes made by hand."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import constants, objects

from guidebench.suites.crafter.observations import LONGEST_TEXT
from guidebench.suites.crafter.words import FEELINGS, SIGHTS, THINGS, listed, nearby, plain, text


def told(game):
    game.changed()
    return text(game)


def test_a_full_scene_in_the_form_of_ellm(field):
    x, y = field.player.pos.tolist()
    world = field.world
    world[x + 1, y], world[x - 4, y + 3], world[x + 5, y], world[x, y - 1] = "table", "tree", "diamond", "sand"
    world.add(objects.Cow(world, (x, y + 1)))
    world.add(objects.Arrow(world, (x - 1, y), np.array((0, 1))))
    field.player.inventory.update(wood=3, sapling=1, wood_pickaxe=1, food=8, energy=2)
    assert told(field) == (
        "you see cow, crafting table, grass, and tree. you are targeting cow. "
        "you have in your inventory plant, wood, and wood pickaxe. you feel hungry and sleepy."
    )


def test_without_needs_and_inventory_only_the_view_is_told(field):
    assert told(field) == "you see grass. you are targeting grass."
    field.player.facing = (1, 0)
    field.world[field.player.pos[0] + 1, field.player.pos[1]] = "lava"
    assert told(field) == "you see grass and lava."


def test_what_a_creature_covers_is_not_mentioned_nor_what_is_outside_the_world(field):
    field.world._mat_map[:] = 5  # sand
    x, y = field.player.pos.tolist()
    field.world[x, y + 1] = "grass"
    plant = objects.Plant(field.world, (x, y + 1))
    field.world.add(plant)
    assert told(field) == "you see plant. you are targeting plant."
    plant.grown = 301
    assert told(field) == "you see plant. you are targeting plant."
    field.world.move(field.player, np.array((0, 0)))
    field.player.facing = (-1, 0)
    assert told(field) == ""


def test_lists_in_a_sentence():
    assert [listed(names) for names in ([], ["cow"], ["cow", "tree"], ["a", "b", "c"])] == [
        "",
        "cow",
        "cow and tree",
        "a, b, and c",
    ]


def test_the_longest_text_fits_its_part():
    items = [plain(name) for name in list(constants.items)[4:]]
    longest = (
        f"you see {listed(sorted({*SIGHTS.values(), *THINGS.values()}))}. you are targeting crafting table. "
        f"you have in your inventory {listed(items)}. you feel {listed(list(FEELINGS.values()))}."
    )
    assert len(longest.encode()) <= LONGEST_TEXT


def test_what_is_within_a_distance_of_the_player(field):
    """The sum of columns and rows: a table at 1, lava at 1 + 1 and an arrow at 2 are near, a zombie at 2 + 1 is not."""
    x, y = field.player.pos.tolist()
    world = field.world
    world[x + 1, y], world[x - 1, y + 1] = "table", "lava"
    world.add(objects.Arrow(world, (x, y - 2), np.array((0, 1))))
    world.add(objects.Zombie(world, (x + 2, y + 1), field.player))
    field.changed()
    local = np.stack(field.visible_cells(), -1)[None]
    (two,), (three,), (one,) = nearby(local, 2), nearby(local, 3), nearby(local, 1)
    assert two == {"crafting table", "lava", "arrow", "grass"} and three == two | {"zombie"}
    assert one == {"crafting table", "grass"}
