"""RL-VLM-F as a recipe: what it turns on, where its settings are from, and what it refuses."""

from typing import Any

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix, variations

METHOD = "method=rl_vlm_f"


def cells(*words: str) -> dict[str, Any]:
    """Return name of an ablation, or `full` -> its cell."""
    plan = variations.ablations(matrix.plan([METHOD, "task=drawer-open", *words]))
    return {plan.matrix[cell.id].name: cell for cell in plan.cells}


def test_it_is_reproduced_as_rl_sallm_f_does_and_each_ablation_changes_its_part() -> None:
    by_ablation = cells()
    assert set(by_ablation) == {"full", "double_check", "sees=state"}
    full = by_ablation["full"]
    guide, teacher, chat = (full.section(kind) for kind in ("guide", "teacher", "chat"))
    assert (full.names.suite, full.names.part("learner"), full.model) == ("metaworld_pbrl", "sac", "gpt-4o")
    assert (guide.sees, guide.segment, guide.budget, guide.queries, guide.every) == ("frame", 1, 2_000, 20, 5_000)
    assert not teacher.double_check and (chat.detail, chat.temperature, chat.delay) == ("high", 0.0, 1)
    assert full.section("drawing").camera == "corner2"
    assert by_ablation["double_check"].section("teacher").double_check
    assert by_ablation["sees=state"].section("guide").sees == "state"
    (local,) = matrix.plan([METHOD, "task=drawer-open", "chat=transformers"]).cells
    assert local.model == "qwen2_5_vl_7b" and local.section("guide").sees == "frame"


@pytest.mark.parametrize("suite", ["metaworld_pbrl", "metaworld", "point_maze"])
def test_every_task_of_a_suite_that_draws_and_resets_critics_is_taught(suite: str) -> None:
    tasks = registry.get("suite", suite).tasks[:8]
    plan = matrix.plan([METHOD, f"suite={suite}", f"task={','.join(tasks)}"])
    assert len(plan.cells) == len(tasks) and all(cell.section("drawing") is not None for cell in plan.cells)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chat=scripted"], "it reads the prompts of teacher 'llm' alone"),
        (["teacher=oracle"], r"guide\.sees=frame, and no part of the cell shows frames"),
        (["teacher=llm", "chat=scripted"], r"name teacher=vlm or set guide\.sees=state"),
        (["teacher.prompt=Which is better?"], r"teacher\.prompt lacks \{goal\}"),
        (["guide.frame_size=46"], r"guide\.frame_size=46: expected int in \[47, 1024\]"),
        (["guide.sees=pixels"], r"guide\.sees"),
        (["chat.model=clip"], "answers no chats"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(words: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        matrix.plan([METHOD, "task=drawer-open", *words])
