"""The game against the package, step for step; and its state."""

import hashlib

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench import testing
from guidebench.suites.crafter import game as module
from guidebench.suites.crafter.game import CODES, ITEMS, MATERIALS, OBJECT_PICTURES, Game, Members
from tests.refusals import check_refused


def same_step(game, peer, action):
    """Take one action on both and compare everything that the package tells."""
    _, reward, done, _ = game.step(action)
    _, expected, ended, info = peer.step(action)
    assert (reward, done) == (expected, ended)
    assert game.player.inventory == info["inventory"] and game.player.achievements == info["achievements"]
    assert np.array_equal(game.player.pos, info["player_pos"])
    assert game.dead == (info["discount"] == 0)
    return done, info


def test_two_thousand_random_steps_are_the_packages(peer):
    """Also at night, where the package draws noise at every step and the game takes as many numbers undrawn."""
    game, other = Game(40, 9, 64, 10_000), peer(5, always=False, area=(40, 40))  # a world of 64 takes long to make
    random = np.random.default_rng(0)
    game.begin(5)
    other.reset()
    episodes, lives = 0, 0
    for number, action in enumerate(random.integers(0, 17, 2_000).tolist()):
        done, info = same_step(game, other, action)
        if number % 10 == 0:
            assert np.array_equal(game.semantic(), info["semantic"])
        if done:
            episodes, lives = episodes + 1, lives + game.dead
            game.begin(None)
            other.reset()
    assert np.array_equal(game.world.random.get_state()[1], other._world.random.get_state()[1])
    assert episodes > 5 and lives == episodes and other.nights > 100


@pytest.mark.parametrize(("view", "size"), [(9, 84), (7, 40)])
def test_another_picture_takes_other_numbers_and_stays_the_packages(peer, keep_alive, view, size):
    game, other = Game(32, view, size, 400), peer(2, area=(32, 32), view=(view, view), size=(size, size), length=400)
    game.begin(2)
    other.reset()
    actions = np.random.default_rng(1).integers(0, 17, 400).tolist()
    for action in actions:
        done, info = same_step(game, other, action)
        assert np.array_equal(game.semantic(), info["semantic"])
        if not game.dead:
            keep_alive(game.player, other._player)
    assert done and other.nights > 50


def test_the_size_of_the_picture_changes_what_happens_at_night(keep_alive):
    games = [Game(32, 9, size, 400) for size in (64, 84)]
    for game in games:
        game.begin(3)
    equal = []
    for _ in range(300):
        for game in games:
            game.step(0)
            keep_alive(game.player)
        equal.append(np.array_equal(games[0].semantic(), games[1].semantic()))
        assert games[0].daylight == games[1].daylight
    night = next(step for step in range(1, 301) if 1 - abs(np.cos(np.pi * (step / 300 % 1 + 0.3))) ** 3 < 0.5)
    assert night == 148 and all(equal[: night - 1]) and not all(equal)


def test_members_keep_the_order_of_entry():
    members = Members()
    for name in "cab":
        members.add(name)
    members.remove("c")
    members.add("c")
    members.add("a")
    assert (list(members), len(members)) == (["a", "b", "c"], 3)


def test_what_is_seen_is_what_lies_around_the_player():
    game = Game(16, 9, 64, 100)
    game.begin(0)
    (_, y), world = game.player.pos.tolist(), game.world
    if world[1, y][1] is not None:
        world.remove(world[1, y][1])
    world.move(game.player, np.array((1, y)))
    game.changed()
    materials, things = game.visible_cells()
    assert materials.shape == things.shape == (9, 7)
    assert (materials[:3] == 0).all() and (materials[3:] > 0).all()  # column 0 of the world is at 3
    for column in range(3, 9):
        for row in range(7):
            material, thing = world[column - 3, y + row - 3]
            assert materials[column, row] == MATERIALS.index(material) + 1
            assert things[column, row] == (0 if thing is None else CODES[thing.texture])
    assert OBJECT_PICTURES[things[4, 3] - 1] == "player-down"


def test_names_are_the_packages():
    from crafter import Env, constants

    assert len(MATERIALS) == 12 and len(ITEMS) == 16 and len(constants.achievements) == 22
    textures = {path.stem for path in (constants.root / "assets").glob("*.png")}
    assert set(OBJECT_PICTURES) - textures == set() or set(OBJECT_PICTURES) - textures == {"fence"}
    ids = Env(seed=0)._sem_view._obj_ids
    assert [ids[kind] for kind in module.KINDS[:-1]] == list(range(13, 19))


def play(game, actions):
    """Return a digest of everything that `actions` show."""
    digest = hashlib.sha256()
    for action in actions:
        _, reward, done, _ = game.step(action)
        materials, things = game.visible_cells()
        digest.update(repr((reward, done, game.levels())).encode() + materials.tobytes() + things.tobytes())
        digest.update(game.semantic().tobytes())
        if done:
            game.begin(None)
    return digest.hexdigest()


def test_a_state_restored_at_night_beside_every_kind_of_creature_continues_identically(keep_alive):
    """Zombies, skeletons, arrows and plants have counters of their own."""
    from crafter import objects

    one = Game(32, 9, 64, 10_000)
    one.begin(1)
    for action in np.random.default_rng(0).integers(0, 17, 200).tolist():
        one.step(action)
        keep_alive(one.player)
    world, (x, y) = one.world, one.player.pos.tolist()
    made = []
    for dx, dy, cls, more in (
        (2, 0, objects.Zombie, (one.player,)),
        (0, 3, objects.Skeleton, (one.player,)),
        (-3, 0, objects.Arrow, (np.array((1, 0)),)),
        (0, -2, objects.Plant, ()),
    ):
        world[x + dx, y + dy] = "grass"
        if world[x + dx, y + dy][1] is None:
            world.add(cls(world, (x + dx, y + dy), *more))
            made.append(cls)
    assert len(made) >= 3
    for _ in range(4):
        one.step(0)
    one.player.sleeping = True
    state = testing._stored(one.state())
    other = Game(32, 9, 64, 10_000)
    other.load_state(state)
    assert other.noise is not None and one.noise is not None
    actions = np.random.default_rng(5).integers(0, 17, 700).tolist()
    assert play(one, actions) == play(other, actions)


def test_a_state_of_another_area_is_refused():
    small, large = Game(16, 9, 64, 100), Game(32, 9, 64, 100)
    small.begin(0)
    check_refused(r"\(16, 16\) cells does not fit an area of \(32, 32\)", large.load_state, small.state())
