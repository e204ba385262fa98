"""What tasks on Crafter tell and show of their game, whatever its actions and rewards are."""

from __future__ import annotations

from guidebench.harness.interfaces import Array
from guidebench.suites.crafter import words
from guidebench.suites.crafter.game import Game
from guidebench.suites.crafter.measures import within_reach
from guidebench.suites.crafter.snapshots import pack


class GameViews:
    """A task whose game is `_game`."""

    _game: Game

    def text(self) -> str:
        """Return the present state in sentences (`guidebench.suites.crafter.words`)."""
        return words.text(self._game)

    def measures(self) -> Array:
        """Return which deeds the player could do next, float32 [deeds]
        (`guidebench.suites.crafter.measures.within_reach`)."""
        return within_reach(self._game)

    def snapshot(self) -> Array:
        """Return what a picture shows, uint8 [2654] for a view of 9 cells (`guidebench.suites.crafter.snapshots`)."""
        return pack(self._game.scene())
