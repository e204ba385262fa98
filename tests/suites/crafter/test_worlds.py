"""Worlds compared with those of the package's generator."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import constants, objects, worldgen

from guidebench.suites.crafter import worlds
from guidebench.suites.crafter.game import CHUNK, World


def generated(generator, seed, area):
    world = World(area, constants.materials, CHUNK)
    world.reset(seed)
    player = objects.Player(world, (area[0] // 2, area[1] // 2))
    world.add(player)
    generator(world, player)
    return world


@pytest.mark.parametrize(("area", "seeds"), [((64, 64), 4), ((9, 9), 12), ((33, 20), 6)])
def test_a_world_is_the_packages_with_its_creatures_and_the_stream_that_follows(area, seeds):
    kinds = set()
    for seed in range(seeds):
        world, expected = (generated(generate, seed, area) for generate in (worlds.generate, worldgen.generate_world))
        assert np.array_equal(world._mat_map, expected._mat_map)
        creatures, expected_creatures = (
            [(type(creature), creature.pos.tolist()) for creature in w.objects] for w in (world, expected)
        )
        assert creatures == expected_creatures
        assert [*world._chunks] == [*expected._chunks] and np.array_equal(world._obj_map, expected._obj_map)
        (_, words, *rest), (_, expected_words, *expected_rest) = (w.random.get_state() for w in (world, expected))
        assert np.array_equal(words, expected_words) and rest == expected_rest
        kinds |= {kind for kind, _ in creatures}
    assert len(kinds) == 4 if area == (64, 64) else kinds
