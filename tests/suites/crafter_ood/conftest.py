"""Shared by the suite's tests: a task whose player stands alone on a field of grass."""

import pytest


@pytest.fixture
def field():
    """Return a function that makes a task by name and settings, clears the world around its player, and lets it look
    anew."""

    def make(name="deforestation", **settings):
        from guidebench.suites.crafter_ood import CrafterOod

        task = CrafterOod(**{"area": 32, **settings}).make(name)
        task.reset(0)
        game = task._game
        for creature in game.world.objects:
            if creature is not game.player:
                game.world.remove(creature)
        game.world._mat_map[:] = 2
        game.player.facing = (0, 1)
        game.changed()
        task._explored.forget()
        task._explored.look(game)
        return task

    return make


@pytest.fixture
def act():
    """Return a function that takes the action of a name, such as `chop tree`."""

    def take(task, name):
        return task.step([str(action) for action in task._actions].index(name))

    return take


def put_before_player(task, thing):
    """Put a material or a creature in front of the player, who is turned to face down."""
    from crafter import objects

    game = task._game
    x, y = game.player.pos.tolist()
    game.player.facing = (0, 1)
    game.world[x, y + 1] = thing if isinstance(thing, str) else "grass"
    if not isinstance(thing, str):
        game.world.add(thing(game.world, (x, y + 1), *([game.player] if thing is not objects.Cow else [])))
    game.changed()
    task._explored.look(game)
