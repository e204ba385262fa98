"""What the player remembers of the world, and paths through it, in worlds made by hand."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import objects

from guidebench.suites.crafter.game import ACTIONS, CODES
from guidebench.suites.crafter_ood.navigation import CODE, beside, facing, find, near
from tests.refusals import check_refused

TABLE = "find crafting table"


def show(task):
    task._game.changed()
    task._explored.look(task._game)


def walk(task, noun, dig=False, limit=60):
    """Take the actions that `find` chooses, up to `limit`, and return them."""
    actions = []
    while (step := find(task._explored, task._game, noun, dig)) is not None and len(actions) < limit:
        actions.append(step)
        task._game.step(ACTIONS.index(step))
        task._explored.look(task._game)
        assert not task._game.dead
    return actions


def test_only_what_was_in_view_is_known(field):
    task = field()
    x, y = task._game.player.pos.tolist()
    known_cells = task._explored.materials > 0
    assert known_cells.sum() == 9 * 7 and known_cells[x - 4 : x + 5, y - 3 : y + 4].all()
    task._game.step(2)
    task._explored.look(task._game)
    assert (task._explored.materials > 0).sum() == 10 * 7 and (task._explored.materials[x - 4] > 0).any()
    assert not task._explored.things.any()


def test_a_creature_is_where_it_was_last_seen(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    cow = objects.Cow(game.world, (x + 2, y))
    game.world.add(cow)
    show(task)
    assert np.argwhere(task._explored.locate("cow")).tolist() == [[x + 2, y]]
    assert task._explored.things[x + 2, y] == CODES["cow"]
    game.world.move(cow, np.array((x + 3, y)))
    show(task)
    assert np.argwhere(task._explored.locate("cow")).tolist() == [[x + 3, y]]


def test_what_the_player_places_is_found_once_it_was_in_view(field, act):
    task = field(actions="find", impossible="masked")
    (x, y), number = task._game.player.pos.tolist(), [str(action) for action in task._actions].index(TABLE)
    assert not task.admissible()[number] and task.find("crafting table") is None
    act(task, TABLE)
    assert task.impossible == 1 and task._game.player.pos.tolist() == [x, y]
    task._game.world[x + 3, y] = "table"
    show(task)
    assert task.admissible()[number]
    act(task, TABLE)
    assert task._game.player.pos.tolist() == [x + 1, y]


def test_sentences_tell_where_things_of_the_task_were_last_in_view(field):
    task = field("iron_sword_short", directions=True, observation="text")
    x, y = task._game.player.pos.tolist()
    assert "known places" not in task.text()
    task._game.world[x - 3, y - 2] = task._game.world[x + 3, y + 3] = "iron"
    task._game.world[x, y + 1] = "table"
    task._game.world[x + 1, y] = "coal"  # which this task does not seek
    show(task)
    assert task.text().endswith(" known places: iron 3 left and 2 up, crafting table 1 down.")
    observation = task.step(0).observation
    assert bytes(observation["text"]).rstrip(b"\0").decode() == task.text()
    assert "known places" not in field("iron_sword_short", observation="text").text()


def test_find_ends_beside_it_and_facing_it(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    game.world[x + 3, y] = "tree"
    show(task)
    assert walk(task, "tree") == ["move_right", "move_right"]
    assert beside(game, "tree") and tuple(game.player.facing) == (1, 0) and game.player.pos.tolist() == [x + 2, y]
    game.player.facing = (0, 1)
    assert walk(task, "tree") == ["move_right"] and game.player.pos.tolist() == [x + 2, y]  # a turn


def test_ways_go_around_what_blocks_and_never_touch_lava(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    game.world[x + 3, y] = "tree"
    for row in (-1, 0, 1):
        game.world[x + 1, y + row] = "lava"
    show(task)
    actions = walk(task, "tree")
    assert actions == ["move_up", "move_up", "move_right", "move_right", "move_right", "move_down"]
    assert beside(game, "tree")


def test_without_tools_rock_blocks_and_with_them_it_is_dug_through(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    world = game.world
    world[x + 3, y] = "tree"
    world._mat_map[x + 2, :] = CODE["stone"]
    show(task)
    task._explored.materials[:] = world._mat_map
    assert find(task._explored, game, "tree", dig=True) is None
    game.player.inventory["wood_pickaxe"] = 1
    game.player.facing = (0, 1)
    assert walk(task, "tree", dig=True) == ["move_right", "do", "move_right"]
    assert game.player.inventory["stone"] == 1


def test_water_is_crossed_with_stones(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    game.world[x + 3, y] = "tree"
    game.world._mat_map[x + 2, :] = CODE["water"]
    show(task)
    task._explored.materials[:] = game.world._mat_map
    game.player.inventory.update(wood_pickaxe=1, stone=1)
    assert walk(task, "tree", dig=True) == ["move_right", "place_stone", "do", "move_right"]


def test_what_is_not_known_is_looked_for(field):
    task = field()
    game, (x, y) = task._game, task._game.player.pos.tolist()
    game.world[x, y - 12] = "iron"
    actions = walk(task, "iron", limit=400)
    assert len(actions) > 5 and beside(game, "iron")


def test_an_unknown_noun_is_named(field):
    check_refused("'gold' cannot be found: known are water, grass", find, field()._explored, field()._game, "gold")


def test_states_that_face_and_cells_that_are_near():
    target = np.zeros((4, 4), bool)
    target[1, 2] = True
    states = {tuple(state) for state in np.argwhere(facing(target)).tolist()}
    assert states == {(2, 2, 0), (0, 2, 1), (1, 3, 2), (1, 1, 3)}
    assert np.argwhere(near(target)).tolist() == [[x, y] for x in (0, 1, 2) for y in (1, 2, 3)]
