"""Starts, sub-goals, ends and survival of the tasks; and the scripted player."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import objects

from guidebench.suites.crafter.game import ACTIONS
from guidebench.suites.crafter_ood import CrafterOod
from guidebench.suites.crafter_ood.expert import Expert
from guidebench.suites.crafter_ood.quests import FREE_PLAY, QUESTS, Subgoal
from guidebench.suites.crafter_ood.task import OodTask
from tests.refusals import check_refused
from tests.suites.crafter_ood.conftest import put_before_player

WITH_GOAL = [name for name in QUESTS if name != FREE_PLAY]


@pytest.mark.parametrize("name", QUESTS)
def test_starts_are_the_papers(name):
    task, quest = CrafterOod().make(name), QUESTS[name]
    task.reset(0)
    game = task._game
    inventory = {tool: count for tool, count in list(game.player.inventory.items())[4:] if count}
    assert inventory == dict(quest.inventory)
    assert not any(game.player.achievements.values())
    near, _ = game.world.nearby(game.player.pos, 1)
    assert ("table" in near) == quest.table
    zombies = any(isinstance(creature, objects.Zombie) for creature in game.world.objects)
    assert zombies == quest.zombies
    assert not task.events().any() and task.outcomes() == {"completion": 0, "alive": 1, "impossible actions": 0}


def test_zombies_neither_begin_nor_appear_without_them_and_do_with_them(keep_well):
    def appeared(**settings):
        task = CrafterOod(**settings).make("deforestation")
        task.reset(1)
        count = 0
        for _ in range(260):
            task.step(0)
            keep_well(task._game.player)
            count += sum(isinstance(creature, objects.Zombie) for creature in task._game.world.objects)
        return count

    assert appeared() == appeared(zombies="off") == 0 < appeared(zombies="on")


def test_subgoals_are_met_in_order_and_the_goal_ends_the_episode(field, act):
    task = field("wood_sword")
    assert task.completion() == 0
    put_before_player(task, "tree")
    act(task, "do nothing")
    assert task.events().nonzero()[0].tolist() == [0]  # beside a tree
    for count in range(3):
        assert not act(task, "chop tree").success
        assert task.events().any() == (count == 2)
        put_before_player(task, "tree")
    assert task._game.player.inventory["wood"] == 3 and task.completion() == 0.5
    put_before_player(task, "grass")
    step = act(task, "place crafting table")
    assert task.events().nonzero()[0].tolist() == [2]
    assert (step.reward, step.success, step.terminated) == (0, False, False)
    step = act(task, "make wood sword")
    assert (step.reward, step.success, step.terminated, step.truncated) == (1, True, True, False)
    assert task.completion() == 1 and all(task.subgoals().values())
    assert list(task.subgoals()) == [
        "1 find tree", "2 chop trees", "3 place crafting table", "4 make wood sword",
    ]  # fmt: skip


def test_deforestation_finds_anew_before_each_tree(field, act):
    task = field("deforestation")
    event_numbers = []
    for _ in range(4):
        put_before_player(task, "tree")
        event_numbers.append(act(task, "do nothing").success or task.events().nonzero()[0].tolist())
        act(task, "chop tree")
        event_numbers.append(task.events().nonzero()[0].tolist())
    assert event_numbers == [[0], [1], [2], [3], [4], [5], [6], [7]]


def test_a_goal_reached_without_its_steps_is_a_success_of_less_completion(field, act):
    """A cow can be eaten without a sword: then neither the sword nor what it requires counts as done."""
    task = field("attack_cow")
    game = task._game
    x, y = game.player.pos.tolist()
    cow = objects.Cow(game.world, (x, y + 1))
    cow.health = 1
    game.world.add(cow)
    step = act(task, "attack cow")
    assert step.success and step.terminated
    assert task.completion() == 2 / 6  # find cow, attack cow
    assert not task.subgoals()["4 make wood sword"]


def test_death_ends_the_episode_or_begins_it_anew(field, act):
    task = field("wood_sword")
    put_before_player(task, "lava")
    step = act(task, "move down")
    assert step.terminated and not step.success and task.deaths == 1 and task.outcomes()["alive"] == 0
    task = field("stone_sword_short", death="restart", length=20)
    task._game.player.inventory["wood"] = 0
    put_before_player(task, "lava")
    step = act(task, "move down")
    assert not step.terminated and not step.truncated and task.deaths == 1
    assert task._game.player.inventory["wood"] == 2 and task._game.player.health == 9
    assert task.outcomes()["alive"] == 0
    for _ in range(19):
        step = act(task, "do nothing")
    assert step.truncated and not step.terminated


def test_without_hunger_the_player_lives_on(field, act):
    task = field(length=500)
    for _ in range(500):
        step = act(task, "do nothing")
    assert step.truncated and list(task._game.player.inventory.values())[:4] == [9, 9, 9, 9]
    task = field(hunger=True, length=500)
    lived = 0
    while not (step := act(task, "do nothing")).terminated and not step.truncated:
        lived += 1
    assert 300 < lived < 400  # idle life is about 340 steps


def test_a_world_too_small_for_the_start_is_refused():
    suite = CrafterOod(area=9)
    for call in (suite.ready, suite.make):
        check_refused(r"suite\.area=9 is too small for the task 'make an iron sword'", call, "iron_sword")
    check_refused(
        r"none of 50 worlds of suite.area=9 holds the start of.*iron.*raise suite\.area",
        OodTask("iron_sword", suite).reset,
        0,
    )


def test_a_world_without_what_the_task_needs_is_passed_over():
    task = CrafterOod(area=24).make("mine_diamond")
    episodes = set()
    for seed in range(4):
        task.reset(seed)
        episodes.add(task._game._episode)
        assert (task._game.world._mat_map == 10).any() and (task._game.world._mat_map == 9).any()
    plain = CrafterOod(area=24).make("deforestation")
    plain.reset(0)
    assert plain._game._episode == 1 < max(episodes)


def test_finding_is_an_action_that_takes_a_step(field, act):
    task = field(actions="find")
    game, (x, y) = task._game, task._game.player.pos.tolist()
    game.world[x + 3, y] = "tree"
    game.changed()
    task._explored.look(game)
    for _ in range(3):
        act(task, "find tree")
    assert game.player.pos.tolist() == [x + 2, y] and task.impossible == 1  # it faces the tree after two
    assert task.find("tree") is None and str(task._actions[task.find("grass")]).startswith("move")


@pytest.fixture
def keep_well():
    def fill(player):
        player.inventory.update(health=9, food=9, drink=9)
        player._last_health = 9

    return fill


@pytest.mark.parametrize("name", WITH_GOAL)
def test_the_scripted_player_reaches_the_goal(name):
    task = CrafterOod().make(name)
    for seed in (0, 1):
        task.reset(seed)
        event_counts = np.zeros(15, int)
        while True:
            step = task.step(task.expert())
            event_counts += task.events()
            if step.terminated or step.truncated:
                break
        assert step.success and task.completion() == 1 and task.deaths == 0
        assert event_counts[: len(QUESTS[name].subgoals)].tolist() == [1] * len(QUESTS[name].subgoals)


def test_the_scripted_player_eats_drinks_and_sleeps():
    """It survives 1,200 steps without a goal within reach, three times an idle life."""
    task = CrafterOod(length=1_200, hunger=True).make("deforestation")
    task.reset(3)
    player = task._game.player

    never = Subgoal("never", "collect_wood", 10_000, "tree")
    for _ in range(1_200):
        name = Expert(task._game, task._explored).act(never)
        task._game.step(ACTIONS.index(name))
        task._explored.look(task._game)
    assert player.health > 0 and min(player.inventory[need] for need in ("food", "drink")) > 0
    done = player.achievements
    assert done["eat_cow"] >= 2 and done["collect_drink"] >= 10 and done["wake_up"] >= 1
