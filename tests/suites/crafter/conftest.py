"""Shared by the suite's tests: the package's own environment, and players that survive a night."""

import pytest


@pytest.fixture(scope="session")
def peer():
    from tests.suites.crafter.peer import Peer

    return Peer


def _keep_alive(*players):
    for player in players:
        player.inventory.update(health=9, food=9, drink=9)
        player._last_health = 9


@pytest.fixture(scope="session")
def keep_alive():
    """Return a function that fills the needs of players, so that they survive a night."""
    return _keep_alive


@pytest.fixture
def field():
    """Return a game whose player stands alone on a large field of grass and faces down."""
    from guidebench.suites.crafter.game import Game

    game = Game(32, 9, 64, 100)
    game.begin(0)
    for creature in game.world.objects:
        if creature is not game.player:
            game.world.remove(creature)
    game.world._mat_map[:] = 2
    return game
