"""The hand-written goals, checked against the game's own sentences about scenes built by hand."""

from collections.abc import Mapping

import pytest

pytest.importorskip("crafter")

from guidebench.harness.models.calls import Message
from guidebench.methods.ellm.dialogue import prompt
from guidebench.methods.ellm.goals import Words
from guidebench.methods.ellm.scripted import NEEDS, PromptReader
from guidebench.suites.crafter import words
from guidebench.suites.crafter.captions import DEEDS
from guidebench.suites.crafter.game import ITEMS, MATERIALS, Game
from guidebench.suites.crafter.measures import within_reach

PLENTY = {name: 9 for name in ITEMS[4:]}


def scene(materials: tuple[str, ...], **inventory: int) -> Game:
    """A player on a field of grass, hungry, thirsty and tired, with materials beside it and things in its inventory."""
    game = Game(32, 9, 64, 100)
    game.begin(0)
    for thing in game.world.objects:
        if thing is not game.player:
            game.world.remove(thing)
    game.world._mat_map[:] = 1 + MATERIALS.index("grass")
    x, y = game.player.pos.tolist()
    for number, name in enumerate(materials):
        game.world[x - 4 + number, y - 1] = name
    game.player.inventory.update({**dict.fromkeys(ITEMS[4:], 0), "food": 5, "drink": 5, "energy": 5, **inventory})
    game.changed()
    return game


def suggested(game: Game) -> set[str]:
    text = prompt(words.text(game), DEEDS, Words.of(DEEDS), 256)
    return {*PromptReader(0.0)((Message("user", (text,)),))["goals"]}


def possible(game: Game) -> set[str]:
    return {deed for deed, may in zip(DEEDS, within_reach(game).tolist(), strict=True) if may}


def test_a_furnace_is_suggested_where_a_table_is_in_sight() -> None:
    """The package alone places one anywhere."""
    assert suggested(scene((), stone=4)) == possible(scene((), stone=4)) - {"place furnace"}
    assert "place furnace" in suggested(scene(("table",), stone=4)) & possible(scene((), stone=4))


@pytest.mark.parametrize(("inventory", "deeds"), [({"sapling": 1}, {"place plant"}), ({"stone": 1}, {"place stone"})])
def test_a_sapling_is_a_plant_in_sentences(inventory: Mapping[str, int], deeds: set[str]) -> None:
    game = scene((), **inventory)
    assert suggested(game) == possible(game) == {"chop grass", "sleep", *deeds} and {*NEEDS} == {*DEEDS}
    assert ("you have in your inventory plant." in words.text(game)) == ("sapling" in inventory)


@pytest.mark.parametrize(
    "inventory", [PLENTY, {}, {"wood": 9}, {"stone_pickaxe": 1, "wood_pickaxe": 1, "wood": 2, "stone": 4}]
)
@pytest.mark.parametrize(
    "materials", [("table",), ("table", "furnace"), ("tree", "stone", "coal", "iron", "diamond", "water"), ()]
)
def test_with_enough_of_each_thing_it_suggests_what_the_rules_allow(
    materials: tuple[str, ...], inventory: Mapping[str, int]
) -> None:
    game = scene(materials, **inventory)
    assert suggested(game) == possible(game) - ({"place furnace"} if "table" not in materials else set())
