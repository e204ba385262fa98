"""Names of actions and captions of steps, which prompts list."""

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.capabilities import NamesActions, NamesDeeds, Telling


@pytest.mark.parametrize(
    ("suite", "task", "settings", "number", "name"),
    [
        ("crafter", "game", {}, 11, "make wood pickaxe"),
        ("crafter_ood", "deforestation", {}, 11, "chop tree"),
        ("crafter_ood", "deforestation", {"actions": "product"}, 138, "make iron sword"),
        ("housekeep", "adjustment_1", {}, 5, "grab or release"),
    ],
)
def test_each_action_has_a_name_of_its_own(suite, task, settings, number, name):
    config = registry.get("suite", suite)(**settings)
    assert isinstance(config, NamesActions)
    names = config.action_names(task)
    assert len(names) == len(set(names)) == config.spaces(task)[1].count
    assert names[number] == name


@pytest.mark.parametrize(("suite", "task"), [("crafter", "game"), ("crafter_ood", "deforestation")])
def test_deeds_are_captions_of_what_is_done(suite, task):
    config = registry.get("suite", suite)()
    assert isinstance(config, NamesDeeds)
    deeds = config.deeds(task)
    assert len(deeds) == len(set(deeds)) == 23, "22 of ELLM's goals and the blow at a cow"
    assert {"chop tree", "place crafting table", "attack cow", "eat cow", "sleep"} < set(deeds)
    assert not {"wake up", "move left", ""} & set(deeds)


def test_random_play_has_deeds_moves_and_no_other_captions():
    pytest.importorskip("crafter")
    from guidebench.suites.crafter.captions import DEEDS

    config = registry.get("suite", "crafter")(area=32)
    task, captions = config.make("game"), set()
    assert isinstance(task, Telling)
    rng = np.random.default_rng(0)
    task.reset(1)
    for _ in range(1_000):
        if (step := task.step(int(rng.integers(17)))).terminated or step.truncated:
            task.reset()
        captions.add(task.caption())
    assert captions - set(DEEDS) == {"", "wake up", "move left", "move right", "move up", "move down"}
    assert len(captions & set(DEEDS)) > 5
