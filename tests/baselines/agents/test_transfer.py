"""The method `transfer`: the policy of its stage, unchanged, on another task."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates, stages
from tests.refusals import check_refused

pytest.importorskip("crafter")
SMALL = (
    "suite=crafter_ood", "profile=smoke", "suite.area=16", "suite.test_length=12", "learner.trunk=[8]",
    "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=16", "training.steps=40",
    "evaluation.every=40", "pretraining.training.steps=60", "pretraining.evaluation.every=60",
)  # fmt: skip


def test_the_policy_of_the_stage_is_evaluated_and_does_not_change(train: Callable[..., Path]) -> None:
    words = [word for word in SMALL if word != "profile=smoke"]
    home = train(*words, "method=transfer", "task=wood_sword", "pretraining.task=deforestation", packs=[(0,)])
    learnt, final = (
        load_file(next(home.glob(f"*/{task}/{method}-*/seed-0/{stages.POLICY}")))
        for task, method in (("deforestation", "sparse"), ("wood_sword", "transfer"))
    )
    assert learnt.keys() == final.keys() and all(np.array_equal(final[name], learnt[name]) for name in learnt)
    rows = results.load(home)
    task_rows = rows[rows["task"] == "wood_sword"]
    assert task_rows["step"].tolist() == [40, 40] and (task_rows["length"] <= 12).all()


def test_steps_that_only_place_an_evaluation_may_be_few() -> None:
    few = ("training.steps=10", "evaluation.every=10")
    words = [word for word in SMALL if not word.startswith(("training.", "evaluation."))]
    stage, cell = matrix.plan([*words, "method=transfer", "task=wood_sword", *few]).trained
    assert estimates.counted(cell) < estimates.counted(stage)
    with pytest.raises(UserError, match=r"learner\.learning_starts=16: nothing would be learnt"):
        matrix.plan([*(word for word in words if "pretraining" not in word), "method=sparse", *few])


def test_what_no_stage_has_learnt_is_not_evaluated() -> None:
    words = [word for word in SMALL if "pretraining" not in word]
    check_refused(
        r"transfer evaluates what .* has learnt, and it has no pre-training stage",
        matrix.plan,
        [*words, "method=transfer", "task=wood_sword", "pretraining=none"],
    )
    dual = ["method=dsadf_transfer", "task=wood_sword", "pretraining.task=deforestation"]
    dual += [f"{role}=scripted" for role in ("planner", "reflector", "performer", "scorer", "text_embedder")]
    idle = ("pretraining.agent.trains=false", "pretraining.agent.router=model", "text_embedder.width=384")
    check_refused(
        "the pre-training stage learns nothing either; name a method that learns", matrix.plan, [*words, *dual, *idle]
    )


def test_a_method_that_learns_nothing_has_no_stage() -> None:
    both = matrix.plan([*SMALL[:2], "method=random,sparse", "pretraining=apt_exploration,ellm_exploration"]).cells
    assert [(cell.names.method, len(cell.stages)) for cell in both] == [("random", 0), ("sparse", 1), ("sparse", 1)]
    check_refused(
        r"none of the chosen methods \(random\) learns anything",
        matrix.plan,
        [*SMALL[:2], "method=random", "pretraining=apt_exploration"],
    )
    assert matrix.plan([*SMALL[:2], "method=random", "pretraining=none"]).cells[0].stage is None
