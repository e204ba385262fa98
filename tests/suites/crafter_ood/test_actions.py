"""Verb-noun actions in scenes made by hand: what each does, and when it is impossible."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import objects

from guidebench.suites.crafter_ood.actions import actions, primitive
from tests.suites.crafter_ood.conftest import put_before_player


def primitives(task):
    return {str(action): primitive(action, task._game) for action in task._actions}


def test_there_are_28_pairs_38_with_find_and_ellms_139():
    assert [len(actions(kind)) for kind in ("pairs", "find", "product")] == [28, 38, 6 + 7 * 19]
    assert set(actions("pairs")) <= set(actions("product")) and set(actions("pairs")) < set(actions("find"))
    assert len({str(action) for action in actions("product")}) == 139


@pytest.mark.parametrize(
    ("thing", "inventory", "possible"),
    [
        ("tree", {}, {"chop tree"}),
        ("grass", {}, {"chop grass"}),
        ("water", {}, {"drink water"}),
        ("stone", {}, set()),
        ("stone", {"wood_pickaxe": 1}, {"mine stone"}),
        ("coal", {"wood_pickaxe": 1}, {"mine coal"}),
        ("iron", {"wood_pickaxe": 1}, set()),
        ("iron", {"stone_pickaxe": 1}, {"mine iron"}),
        ("diamond", {"iron_pickaxe": 1}, {"mine diamond"}),
        (objects.Cow, {}, {"attack cow", "eat cow"}),
        (objects.Zombie, {}, {"attack zombie"}),
        (objects.Skeleton, {}, {"attack skeleton"}),
        ("lava", {}, set()),
    ],
)
def test_do_is_possible_with_the_noun_that_the_player_faces_alone(field, thing, inventory, possible):
    task = field(actions="product")
    put_before_player(task, thing)
    task._game.player.inventory.update(inventory)
    assert {name for name, does in primitives(task).items() if does == "do"} == possible


def test_a_plant_can_be_eaten_when_it_is_ripe(field):
    task = field()
    game = task._game
    x, y = game.player.pos.tolist()
    plant = objects.Plant(game.world, (x, y + 1))
    game.world.add(plant)
    assert primitives(task)["eat plant"] is None
    plant.grown = 301
    assert primitives(task)["eat plant"] == "do"


def test_placing_takes_the_materials_and_the_place(field):
    task = field()
    inventory = task._game.player.inventory
    assert all(does is None for name, does in primitives(task).items() if name.startswith("place"))
    inventory.update(wood=2, stone=4, sapling=1)
    assert primitives(task)["place furnace"] is None, "there is no table near"
    x, y = task._game.player.pos.tolist()
    task._game.world[x + 1, y - 1] = "table"
    assert {name: does for name, does in primitives(task).items() if name.startswith("place")} == {
        "place stone": "place_stone",
        "place crafting table": "place_table",
        "place furnace": "place_furnace",
        "place plant": "place_plant",
    }
    task._game.player.pos[:] = (0, y)
    task._game.world[1, y + 1] = "table"
    task._game.world[0, y + 1] = "grass"
    assert primitives(task)["place furnace"] == "place_furnace", "at the edge of the world too"
    inventory.update(wood=1, stone=3)
    assert (primitives(task)["place crafting table"], primitives(task)["place furnace"]) == (None, None)
    put_before_player(task, "water")
    assert (primitives(task)["place stone"], primitives(task)["place plant"]) == ("place_stone", None)


def test_making_takes_the_materials_and_what_must_be_near(field):
    task = field()
    world, inventory = task._game.world, task._game.player.inventory
    x, y = task._game.player.pos.tolist()
    inventory.update(wood=1, stone=1, coal=1, iron=1)
    assert not any(does for name, does in primitives(task).items() if name.startswith("make"))
    world[x + 1, y + 1] = "table"
    possible = {name for name, does in primitives(task).items() if does and name.startswith("make")}
    assert possible == {"make wood pickaxe", "make stone pickaxe", "make wood sword", "make stone sword"}
    world[x - 1, y - 1] = "furnace"
    assert primitives(task)["make iron sword"] == "make_iron_sword"
    inventory.update(iron=0)
    assert primitives(task)["make iron sword"] is None


def test_an_impossible_action_changes_no_more_than_doing_nothing_and_is_counted(field, act):
    task, other = field(), field()
    put_before_player(task, "tree")
    put_before_player(other, "tree")
    for wrong in ("mine stone", "eat cow", "make wood sword", "sleep", "place furnace"):
        act(task, wrong)
        act(other, "do nothing")
    assert (task.impossible, other.impossible) == (5, 0)
    assert [variant.outcomes()["impossible actions"] for variant in (task, other)] == [5, 0]
    assert task._game.player.inventory == other._game.player.inventory
    assert np.array_equal(task._game.semantic(), other._game.semantic())
    act(task, "chop tree")
    assert task._game.player.inventory["wood"] == 1 and task.impossible == 5
    task.reset()
    assert task.impossible == 0


def test_possible_actions_are_shown_if_asked_for(field, act):
    task = field(impossible="masked")
    put_before_player(task, "tree")
    admissible = act(task, "do nothing").observation["admissible"]
    names = [str(action) for action, possible in zip(task._actions, admissible, strict=True) if possible]
    assert names == ["do nothing", "move left", "move right", "move up", "move down", "chop tree"]
    assert np.array_equal(task.admissible(), admissible == 1)


def test_a_sleeping_player_does_nothing_and_nothing_is_counted(field, act):
    task = field()
    task._game.player.inventory["energy"] = 3
    act(task, "sleep")
    act(task, "mine iron")
    assert task._game.player.sleeping and task.impossible == 0
    assert [str(a) for a, possible in zip(task._actions, task.admissible(), strict=True) if possible] == ["do nothing"]
