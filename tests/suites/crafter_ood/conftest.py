"""What the tests of the suite share: a task whose player stands alone on a field of grass."""

import pytest


@pytest.fixture
def field():
    """Make a task by name and settings, clear its world around the player, and tell it of the new one."""

    def make(name="deforestation", **settings):
        from guidebench.suites.crafter_ood import CrafterOod

        task = CrafterOod(**{"area": 32, **settings}).make(name)
        task.reset(0)
        game = task._game
        for thing in game.world.objects:
            if thing is not game.player:
                game.world.remove(thing)
        game.world._mat_map[:] = 2
        game.player.facing = (0, 1)
        game.changed()
        task._explored.forget()
        task._explored.look(game)
        return task

    return make


@pytest.fixture
def act():
    """Take the action of this name, such as `chop tree`."""

    def take(task, name):
        return task.step([str(action) for action in task._actions].index(name))

    return take


def put(task, thing):
    """Put a material or a creature in front of the player, who faces down."""
    from crafter import objects

    game = task._game
    x, y = game.player.pos.tolist()
    game.player.facing = (0, 1)
    game.world[x, y + 1] = thing if isinstance(thing, str) else "grass"
    if not isinstance(thing, str):
        game.world.add(thing(game.world, (x, y + 1), *([game.player] if thing is not objects.Cow else [])))
    game.changed()
    task._explored.look(game)
