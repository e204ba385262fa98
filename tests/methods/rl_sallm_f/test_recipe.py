"""RL-SaLLM-F and PEBBLE with raw labels as recipes: what each turns on, where they fit, and a short run of it all."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import registry, settings
from guidebench.harness.models.backends import recipes
from guidebench.harness.plan import matrix, variations
from guidebench.harness.run import study
from tests.logs import log_rows
from tests.methods.contract import MAZE, PREFERENCE
from tests.refusals import check_refused

pytest.importorskip("metaworld")
TASK = "task=button-press"
SHORT = (
    "guide.pretraining=200", "guide.every=100", "guide.queries=4", "guide.budget=12", "guide.segment=5",
    "guide.hidden=[16]", "guide.ensemble=2", "guide.epochs=2", "guide.updates_after_reset=2", "learner.hidden=[16]",
    "learner.learning_starts=100", "learner.batch_size=32", "training.steps=500", "evaluation.every=500",
    "evaluation.episodes=1",
)  # fmt: skip


def cells(method: str) -> dict[str, Any]:
    """Return name of an ablation, or `full` -> its cell."""
    plan = variations.ablations(matrix.plan([f"method={method}", TASK]))
    return {plan.matrix[cell.id].name: cell for cell in plan.cells}


def teaching(cell: Any) -> dict[str, Any]:
    """Return the teacher's settings that differ from RL-SaLLM-F's."""
    reference = settings.identity(registry.get("teacher", "llm")())
    return {
        name: value for name, value in settings.identity(cell.section("teacher")).items() if value != reference[name]
    }


def test_the_paper_is_the_default_and_each_ablation_changes_its_part() -> None:
    """Version of the model and its price, no randomness, 1000 tokens, and training waits (§6.2, §3.2)."""
    by_ablation = cells("rl_sallm_f")
    assert {name: teaching(cell) for name, cell in by_ablation.items()} == {
        "full": {},
        "no_double_check": {"double_check": False},
        "no_llm_labels": {"double_check": False, "keep_sampled": False},
        "no_self_augmentation": {"augment": "none"},
        "decision_transformer": {"augment": "decision_transformer"},
        "soft_labels": {"undecided": "soft"},
        "one_shot": {"shots": 1},
        "larger_model": {},
    }
    assert {cell.model for name, cell in by_ablation.items() if name != "larger_model"} == {"gpt-4o-mini"}
    assert by_ablation["larger_model"].model == "gpt-4o"
    assert {cell.names.parts for cell in by_ablation.values()} == {by_ablation["full"].names.parts}
    assert teaching(cells("pebble_llm")["full"]) == {"double_check": False, "augment": "none"}, "raw labels"
    chat = by_ablation["full"].section("chat")
    assert recipes.server_name(chat.model) == "gpt-4o-mini-2024-07-18"
    assert (chat.temperature, chat.max_tokens, chat.delay) == (0.0, 1000, 1)


@pytest.mark.parametrize("suite", ["metaworld_pbrl", "point_maze"])
def test_every_task_whose_states_can_be_told_in_words_is_taught(suite: str) -> None:
    pytest.importorskip("gymnasium_robotics")
    tasks = registry.get("suite", suite).tasks
    assert all(registry.get("suite", suite)().coordinates(task) for task in tasks)
    words = (f"suite={suite}", f"task={','.join(tasks[:3])}", "chat=scripted")
    assert len(matrix.plan(["method=rl_sallm_f,pebble_llm", *words]).cells) == 2 * len(tasks[:3])


def test_states_that_cannot_be_told_in_words_are_refused_with_the_reason() -> None:
    check_refused(
        r"teacher 'llm' does not fit suite 'classic'.*cannot be told in words",
        matrix.plan,
        ["method=rl_sallm_f", "suite=classic", "task=Pendulum-v1"],
    )


def test_labels_come_after_their_delay_and_those_of_both_orders_have_a_better_segment_imagined(train: Any) -> None:
    """The hand-written chat is asked through the model process."""
    pytest.importorskip("gymnasium_robotics")
    command = [*f"method=rl_sallm_f {MAZE} {PREFERENCE} chat=scripted chat.malformed=0.2".split(), "seeds=[0,1]"]
    command = [word for word in command if not word.startswith(("guide.queries", "guide.budget"))]
    command += ["guide.queries=4", "guide.budget=12", "chat.delay=5", "chat.first_bias=0.5"]
    study = train(*command, packs=[(0, 1)])
    rows = [row for run in study.glob("*/*/*/seed-*") for row in log_rows(run, "labels")]
    assert len(rows) == 2 * 12 and {row["step"] - row["asked"] for row in rows} == {5}
    assert {row["outcome"] for row in rows} >= {"labelled", "inconsistent"}
    assert any(row.get("imagined") == "kept" and row["reward_imagined"] > row["reward_chosen"] for row in rows)


def test_the_decision_transformer_learns_from_an_expert_that_loses_its_success(train: Any) -> None:
    """The solver of door-open opens the door within 100 of 500 steps, then pushes it too far, in every episode."""
    sizes = [word.replace("=500", "=310") for word in SHORT]
    command = ("suite=metaworld_pbrl", "task=door-open", "method=rl_sallm_f", "chat=scripted", *sizes)
    expert = ("teacher.augment=decision_transformer", "teacher.expert_episodes=1", "teacher.expert_updates=5")
    (run,) = train(*command, *expert, "seeds=[0]", packs=[(0,)]).glob("*/*/*/seed-0")
    rows = log_rows(run, "labels")
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    assert any(row.get("imagined") == "kept" for row in rows)


def test_too_few_expert_episodes_are_an_error_before_a_run_begins(tmp_path: Path) -> None:
    expert = ("teacher.augment=decision_transformer", "teacher.expert_episodes=1", "guide.segment=100")
    command = ("method=rl_sallm_f", "task=door-open", "chat=scripted", "profile=smoke", "seeds=1", *expert)
    plan = matrix.plan([*command, f"output={tmp_path / 'study'}"])
    check_refused(r"demonstrate door-open 3 succeeded and 0 took more than guide.segment=100", study.carry_out, plan)
    assert not list((tmp_path / "study").rglob("run.json"))
