"""What the tests of the suite share: the package's own environment, and players that live through a night."""

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
    """Fill the needs of players, so that they live through a night."""
    return _keep_alive
