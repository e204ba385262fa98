"""Captions of steps, compared with changes in the package's own environment and with scenes made by hand."""

import collections

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import constants, objects

from guidebench.harness.capabilities import HasCaptions
from guidebench.suites.crafter import Crafter
from guidebench.suites.crafter.captions import PHRASES
from guidebench.suites.crafter.game import ACTIONS
from guidebench.suites.crafter_ood import CrafterOod
from guidebench.suites.crafter_ood.actions import actions

DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
GATHERED = {"wood": "chop tree", "sapling": "chop grass"}
RICH = dict.fromkeys(("sapling", "wood", "stone", "coal", "iron", "diamond"), 5)


def expected_caption(before, after, action):
    """Return the caption implied by inventory, counters and position of the package's environment before and after a
    step, or None where they do not determine it."""
    gained = {item for item, count in after["inventory"].items() if count > before["inventory"][item]}
    counted = {
        achievement
        for achievement, count in after["achievements"].items()
        if count > before["achievements"][achievement]
    }
    if action.startswith(("make_", "place_")):
        thing = action.replace("table", "crafting_table").replace("_", " ")
        return thing if counted - {"wake_up"} else ""
    if action == "do" and (raw := gained & set(RICH)):
        (item,) = raw
        return GATHERED.get(item, f"mine {item}")
    if action.startswith("move_"):
        moved = tuple(after["player_pos"] - before["player_pos"])
        return action.replace("_", " ") if moved == DIRECTIONS[action[5:]] else ""
    return None


def test_captions_tell_what_changed_in_the_packages_environment(peer, keep_alive):
    captions = collections.Counter()
    for seed in (0, 5):
        task, package_env = Crafter(area=48).make("game"), peer(seed, always=False, area=(48, 48))
        task.reset(seed)
        package_env.reset()
        for number in np.random.default_rng(seed).integers(0, 17, 400).tolist():
            keep_alive(task._game.player, package_env._player)
            for player in (task._game.player, package_env._player):
                player.inventory.update(RICH, energy=9)  # fewer than nine things, so that what is gathered shows
                player.sleeping = False
            before = {
                "inventory": dict(package_env._player.inventory),
                "achievements": dict(package_env._player.achievements),
                "player_pos": package_env._player.pos.copy(),
            }
            task.step(number)
            _, _, _, after = package_env.step(number)
            expected = expected_caption(before, after, ACTIONS[number])
            if expected is not None:
                assert task.caption() == expected
            captions[task.caption()] += 1
    tools = {f"make {material} {tool}" for material in ("wood", "stone") for tool in ("pickaxe", "sword")}
    placed = {"place crafting table", "place furnace", "place stone", "place plant"}
    assert {*placed, *tools, "chop tree", "chop grass", "mine stone", "move left", "move up", ""} <= set(captions)


def test_every_achievement_has_a_phrase_of_ellms_actions():
    assert set(PHRASES) == set(constants.achievements)
    action_names = {str(action) for action in actions("product")}
    assert {phrase for phrase in PHRASES.values() if phrase not in action_names} == {"wake up"}


def put_before_player(game, cls, *rest):
    x, y = game.player.pos.tolist()
    creature = cls(game.world, (x, y + 1), *rest)
    game.world.add(creature)
    return creature


def do(game, action="do"):
    game.step(ACTIONS.index(action))
    return game.caption


def test_a_cow_is_attacked_until_it_is_eaten(field):
    cow = put_before_player(field, objects.Cow)
    cow.random = np.random.RandomState(0)
    cow.move = lambda direction: None
    assert [do(field) for _ in range(3)] == ["attack cow", "attack cow", "eat cow"]  # of health 3
    assert field.player.achievements["eat_cow"] == 1


@pytest.mark.parametrize(("cls", "name"), [(objects.Zombie, "zombie"), (objects.Skeleton, "skeleton")])
def test_a_blow_and_a_defeat_are_captioned_alike(field, cls, name):
    enemy = put_before_player(field, cls, field.player)
    enemy.move = lambda direction: None
    field.player.inventory["stone_sword"] = 1  # damage 3
    enemy.health = 4
    assert do(field) == f"attack {name}" and not field.player.achievements[f"defeat_{name}"]
    assert do(field) == f"attack {name}" and field.player.achievements[f"defeat_{name}"] == 1


def test_a_plant_is_eaten_when_it_is_ripe(field):
    plant = put_before_player(field, objects.Plant)
    assert do(field) == ""
    plant.grown = 400
    assert do(field) == "eat plant"


def test_sleep_and_waking_are_captioned_and_what_is_done_on_waking_comes_first(field):
    assert do(field, "sleep") == "", "the player is not tired"
    field.player.inventory["energy"] = 8
    assert do(field, "sleep") == "sleep" and do(field, "move_left") == "sleep", "a sleeping player takes no action"
    field.player.inventory["energy"] = 9
    assert do(field, "noop") == "wake up"
    field.player.inventory["energy"] = 8
    do(field, "sleep")
    field.player.inventory.update(energy=9, stone=1)
    assert do(field, "place_stone") == "place stone" and field.player.achievements["wake_up"] == 2


def test_drinking_and_what_is_impossible(field):
    x, y = field.player.pos.tolist()
    field.world[x, y + 1] = "water"
    assert [do(field, name) for name in ("do", "move_down", "noop", "make_iron_sword")] == ["drink water", "", "", ""]


@pytest.mark.parametrize("task", [Crafter(area=32).make("game"), CrafterOod(area=32).make("deforestation")])
def test_tasks_have_captions_of_the_last_step_alone(task):
    assert isinstance(task, HasCaptions)
    task.reset(0)
    assert task.caption() == ""
    captions = []
    for number in (1, 2, 3, 4):  # the moves of both suites
        task.step(number)
        captions.append(task.caption())
    assert "move left" in captions or "move right" in captions
    task.load_state(task.state())
    assert task.caption() == ""
    task.reset()
    assert task.caption() == ""


def test_a_caption_outlives_the_world_in_which_the_player_died():
    task = CrafterOod(death="restart", area=32).make("deforestation")
    task.reset(0)
    game = task._game
    game.player.inventory.update(health=1)
    for creature in game.world.objects:
        if creature is not game.player:
            game.world.remove(creature)
    x, y = game.player.pos.tolist()
    game.world[x - 1, y] = "lava"
    task.step(1)  # move left
    assert task.deaths == 1 and task.caption() == "move left"
