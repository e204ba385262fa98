"""Each kind of observation against the package's own view of the same state."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from PIL import Image

from guidebench.suites.crafter import Crafter
from guidebench.suites.crafter.game import ITEMS, MATERIALS, OBJECT_PICTURES
from guidebench.suites.crafter.observations import ITEMS as ITEM_COUNT
from guidebench.suites.crafter.observations import LONGEST_TEXT, space
from guidebench.suites.crafter.observations import MATERIALS as MATERIAL_COUNT
from guidebench.suites.crafter.observations import THINGS as THING_COUNT


def test_the_counts_of_codes_are_the_packages():
    assert (len(MATERIALS), len(OBJECT_PICTURES), len(ITEMS)) == (MATERIAL_COUNT, THING_COUNT, ITEM_COUNT)


def test_symbols_are_the_view_the_inventory_and_the_light(peer):
    task, other = Crafter().make("game"), peer(9)
    record = task.reset(9)
    other.reset()
    for action in np.random.default_rng(0).integers(0, 17, 160).tolist():
        record = task.step(action).observation
        _, _, _, info = other.step(action)
    x, y = info["player_pos"]
    materials = other._world._mat_map[x - 4 : x + 5, y - 3 : y + 4]
    assert record["local"].shape == (9, 7, 2) and np.array_equal(record["local"][..., 0], materials)
    assert OBJECT_PICTURES[record["local"][4, 3, 1] - 1].startswith("player")
    cows = (info["semantic"][x - 4 : x + 5, y - 3 : y + 4] == 14) == (
        record["local"][..., 1] == OBJECT_PICTURES.index("cow") + 1
    )
    assert cows.all()
    levels = list(info["inventory"].values())
    assert (record["status"].tolist(), record["inventory"].tolist()) == (levels[:4], levels[4:])
    assert record["daylight"] == np.float32(other._world.daylight) and record["daylight"] < 0.5


def test_the_semantic_kind_is_the_packages_semantic_view(peer):
    task, other = Crafter(observation="semantic").make("game"), peer(3)
    task.reset(3)
    other.reset()
    record, info = task.step(2).observation, other.step(2)[3]
    assert np.array_equal(record["world"][..., 0], info["semantic"])


def test_the_text_part_is_the_tasks_text():
    task = Crafter(observation="text").make("game")
    task.reset(0)
    record = task.step(4).observation
    assert record["text"].tobytes().rstrip(b"\0").decode() == task.text() != ""
    assert record["text"].shape == (LONGEST_TEXT,)


def test_grey_text_is_the_pictures_of_grey_and_the_tasks_text():
    task, grey = (Crafter(observation=kind, size=84).make("game") for kind in ("grey_text", "grey"))
    records, pictures = [task.reset(2)], [grey.reset(2)]
    for action in (1, 5, 4, 4):
        records.append(task.step(action).observation)
        pictures.append(grey.step(action).observation)
    assert all(
        np.array_equal(record["picture"], picture["picture"]) for record, picture in zip(records, pictures, strict=True)
    )
    assert records[-1]["text"].tobytes().rstrip(b"\0").decode() == task.text() != ""
    assert records[0].dtype == space("grey_text", 64, 9, 84).numpy and records[0]["picture"].shape == (84, 84, 4)


def test_pixels_are_the_packages_observation(peer, keep_alive):
    task, other = Crafter(observation="pixels").make("game"), peer(6)
    assert np.array_equal(task.reset(6), other.reset())
    for action in np.random.default_rng(0).integers(0, 17, 180).tolist():
        observation, expected = task.step(action).observation, other.step(action)[0]
        assert np.array_equal(observation, expected)
        keep_alive(task._game.player, other._player)
    assert task._game.noise is not None


def test_grey_is_the_four_newest_pictures_the_oldest_first(peer):
    task, other = Crafter(observation="grey", size=84).make("game"), peer(6, size=(84, 84))

    def grey(picture):
        return np.asarray(Image.fromarray(picture).convert("L"))

    frames = [grey(other.reset())] * 4
    assert np.array_equal(task.reset(6)["picture"], np.stack(frames, -1))
    for action in (1, 2, 3, 5, 4, 4):
        frames.append(grey(other.step(action)[0]))
        assert np.array_equal(task.step(action).observation["picture"], np.stack(frames[-4:], -1))


def test_a_stored_transition_of_symbols_takes_few_bytes():
    assert space("symbols", 64, 9, 64).numpy.itemsize == 9 * 7 * 2 + 12 + 4 + 4
    assert space("pixels", 64, 9, 64).shape == (64, 64, 3)
