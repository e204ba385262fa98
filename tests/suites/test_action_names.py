"""Names of actions, which prompts list."""

import pytest

from guidebench.harness import registry
from guidebench.harness.capabilities import NamesActions


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
