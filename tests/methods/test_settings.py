"""What holds of every registered part's settings, and of every method's ablations."""

import pytest

from guidebench.harness import registry, settings
from guidebench.harness.plan import matrix, variations


@pytest.mark.parametrize("kind", ["suite", *registry.PARTS, "launcher"])
def test_every_setting_of_every_part_has_a_meaning_and_a_source(kind: str) -> None:
    """Settings of datasets need no source."""
    for name in registry.names(kind):
        for field in settings.fields(registry.get(kind, name)).values():
            assert field.meaning and (field.source or kind == "dataset"), (name, field.name)


POLE, GAME = ["suite=classic", "task=CartPole-v1"], ["suite=crafter_ood", "task=wood_sword"]
TASKS = {
    "bc": ["suite=bin_sorting", "task=forward"], "dsadf_transfer": [*GAME, "pretraining.task=deforestation"],
    "model_as_agent": GAME, "model_with_planner": GAME, "per": POLE, "relo": POLE,
    "sac": ["suite=point_maze", "task=umaze"],
}  # fmt: skip
"""Method without a default task -> a task."""
ABLATED = [name for name in registry.names("method") if registry.get("method", name).ablations and name != "cal_ql"]
"""Methods with ablations that fit one task; those of Cal-QL are for several."""


@pytest.mark.parametrize("name", ABLATED)
def test_every_ablation_is_a_cell_of_its_own(name: str) -> None:
    words = [f"method={name}", "profile=smoke", *TASKS.get(name, [])]
    cells = variations.ablations(matrix.plan([*words, *first_task(words)])).cells
    assert len({cell.id for cell in cells}) == len(cells)
    overlapping = 2 if name == "vlm_rb" else 0  # two of its ablations set what the method has by default
    assert len(cells) == 1 + len(registry.get("method", name).ablations) - overlapping


def first_task(words: list[str]) -> list[str]:
    """Return a word that names the plan's first task, or none if the words name one."""
    named = any(word.startswith("task=") for word in words)
    return [] if named else [f"task={matrix.plan(words).cells[0].names.task}"]
