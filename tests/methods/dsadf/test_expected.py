"""How many calls a dry run announces, by hand; and which models a variation does without."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.plan import config, matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import estimates
from tests.methods.dsadf.test_runs import SCRIPTED, SMALL

pytest.importorskip("crafter")
SIZES = ("training.steps=95", "evaluation.every=40", "evaluation.episodes=2", "suite.length=30", "suite.test_length=12")
SERVED = tuple(f"{role}.base_url=http://localhost:1/v1" for role in ("planner", "reflector", "performer", "scorer"))
OBSERVED = ("suite=crafter_ood", "suite.observation=text", "suite.impossible=masked", "suite.actions=find")


def planned(*words: str) -> Cell:
    (cell,) = matrix.plan(["profile=smoke", "task=wood_sword", *words]).cells
    return cell


def asked(cell: Cell) -> dict[str, int]:
    """Role -> the calls that the agent expects."""
    agent, there = cell.section("agent"), config.cell_view(cell)
    return {part.role: agent.expected_usage(there, part.role).calls for part in cell.models}


@pytest.mark.parametrize(
    ("words", "expected"),
    [  # three evaluations of two episodes of 12 steps: 72 actions and six plans; four episodes begin in 95 steps
        (("method=model_as_agent", *OBSERVED), {"performer": 72}),
        (("method=model_with_planner", *OBSERVED), {"performer": 72, "planner": 12, "reflector": 6}),
        (("method=model_with_planner", "agent.again=revised", *OBSERVED),
         {"performer": 72, "planner": 6, "reflector": 6}),
        (("method=model_with_planner", "agent.replans=3", "agent.patience=5", *OBSERVED),  # two fit in 12 steps
         {"performer": 72, "planner": 36, "reflector": 18}),
        (("method=dsadf",), {"performer": 72, "planner": 20, "reflector": 10, "scorer": 45, "text_embedder": 50}),
        (("method=dsadf", "agent.router=rl"), {"planner": 20, "reflector": 10, "scorer": 45, "text_embedder": 50}),
        (("method=dsadf", "agent.reflect=false"),
         {"performer": 72, "planner": 10, "scorer": 45, "text_embedder": 50}),
        (("method=dsadf", "agent.router=model", "agent.trains=false"),
         {"performer": 72, "planner": 12, "reflector": 6}),
        (("method=dsadf_transfer", "pretraining.task=deforestation"),
         {"performer": 72, "planner": 12, "reflector": 6, "text_embedder": 50}),
    ],
)  # fmt: skip
def test_the_calls_of_each_role(words: tuple[str, ...], expected: dict[str, int]) -> None:
    starts = ("learner.learning_starts=32",) * ("dsadf" in words[0])  # those that learn begin to before their end
    assert asked(planned(*words, *SIZES, *starts)) == expected


def test_a_dry_run_says_what_is_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("task=wood_sword", "method=dsadf", "profile=smoke", "seeds=2", *SIZES, "learner.learning_starts=32")
    words += ("models=paper", *SERVED, "text_embedder=scripted", "text_embedder.width=384", "--dry-run")
    assert cli.main(["run", *words]) == 0
    told = capsys.readouterr().out
    assert "qwen2_5_vl_7b is asked about 144 times (18,720 tokens read and 720 written)" in told
    # 2 seeds × (72 steps × 4 questions × 3 calls × 4 attempts + 2 × 8 rejections), and 3 + 2 before training
    assert f"and at most about {2 * (3_456 + 16) + 5:,} times" in told and told.count("and at most") == 2
    # 2 × (10 plans, 10 reflections, 10 final plans, 45 scores)
    read, written = 20 * (610 + 660 + 750) + 90 * 170, 20 * (150 + 200 + 150) + 90 * 10
    assert f"gpt-4o is asked about 150 times ({read:,} tokens read and {written:,} written" in told


def test_without_a_performer_none_is_needed_or_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Variation II asks none, so its server need not be there and no row is named after it."""
    given = [word for word in SCRIPTED if not word.startswith("performer")]
    words = ["run", *given, "task=wood_sword", "method=dsadf", "profile=smoke", "models=paper", "--dry-run"]
    assert cli.main(words) == 1 and "performer.base_url=" in capsys.readouterr().out
    assert cli.main([*words, "agent.router=rl"]) == 0 and "qwen" not in capsys.readouterr().out
    cell = planned(*given, "method=dsadf", "models=paper", "agent.router=rl")
    assert "performer" in cell.names.sections, "it stays in the cell's identity"
    assert {part.role for part in cell.models} == {"planner", "reflector", "scorer", "text_embedder"} == cell.consulted
    assert estimates.by_model(cell) == []


def test_system_1_alone_is_trained_and_evaluated_without_a_performer(train: Callable[..., Path]) -> None:
    words = [word for word in SMALL if not word.startswith("performer")]
    words += ["task=wood_sword", "training.steps=40", "evaluation.every=40", "evaluation.episodes=2"]
    study = train(*words, "method=dsadf", "seeds=[0]", "agent.router=rl", packs=[(0,)])
    trials = results.load(study, log="trials")
    assert len(trials) == 2 and (trials["fast"] > 0).all() and not trials["performed"].any()
    assert "performer" not in set(results.load(study, log="spending")["role"])
