"""Measures: which deeds the player could do next, by the game's own rules."""

import numpy as np

from guidebench.harness import registry
from guidebench.harness.capabilities import HasMeasures
from guidebench.suites.crafter.captions import DEEDS, MEASURES
from guidebench.suites.crafter.game import MATERIALS
from guidebench.suites.crafter.measures import within_reach


def possible(game) -> set[str]:
    game.changed()
    return {deed for deed, may in zip(DEEDS, within_reach(game).tolist(), strict=True) if may}


def put_item(game, **offsets) -> None:
    x, y = game.player.pos.tolist()
    for name, (dx, dy) in offsets.items():
        game.world._mat_map[x + dx, y + dy] = 1 + MATERIALS.index(name)


def test_on_a_field_only_grass_can_be_chopped(field) -> None:
    assert possible(field) == {"chop grass"}


def test_what_is_in_view_needs_its_tool(field) -> None:
    put_item(field, tree=(2, 0), stone=(-2, 1), iron=(0, 2), water=(3, 3))
    assert possible(field) == {"chop grass", "chop tree", "drink water"}
    field.player.inventory["wood_pickaxe"] = 1
    assert possible(field) == {"chop grass", "chop tree", "drink water", "mine stone"}
    field.player.inventory["stone_pickaxe"] = 1
    assert "mine iron" in possible(field)


def test_amounts_count_which_sentences_do_not_tell(field) -> None:
    field.player.inventory["wood"] = 1
    assert "place crafting table" not in possible(field)
    field.player.inventory["wood"] = 2
    assert "place crafting table" in possible(field)
    assert "make wood pickaxe" not in possible(field)
    put_item(field, table=(1, 1))
    assert {"make wood pickaxe", "make wood sword"} <= possible(field)
    assert "make stone sword" not in possible(field)
    field.player.inventory["stone"] = 1
    assert "make stone sword" in possible(field) and "place furnace" not in possible(field)


def test_a_tired_player_can_sleep(field) -> None:
    field.player.inventory["energy"] = 8
    assert "sleep" in possible(field)


def test_tasks_measure_it() -> None:
    for suite, name in (("crafter", "game"), ("crafter_ood", "deforestation"), ("crafter_ood", "free_play")):
        config = registry.get("suite", suite)()
        assert isinstance(config, HasMeasures) and config.measures(name) == MEASURES
        task = config.make(name)
        task.reset(0)
        task.step(0)
        measures = task.measures()
        assert measures.shape == (len(DEEDS),) and measures.dtype == np.float32 and measures.sum() > 0
