"""Whole runs: with the hand-written chat, a tiny language model, and a served one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.harness.execution import Models
from guidebench.harness.playback.reevaluation import evaluate_run
from tests.harness.models.canned import completion, serving

SMALL = (
    "suite=housekeep", "method=linvit", "suite.length=25", "learner.trunk=[8]", "learner.hidden=[8]",
    "learner.batch_size=8", "learner.learning_starts=16", "learner.train_every=4", "learner.epsilon_end=0.5",
)  # fmt: skip
SHORT = (*SMALL, "training.steps=60", "training.capacity=100", "evaluation.every=30", "evaluation.episodes=2")
SHORTER = (*SMALL, "training.steps=24", "training.capacity=100", "evaluation.every=24", "evaluation.episodes=1")


def last(study: Path, what: str) -> Any:
    return results.load(study, log=what).sort_values("step").groupby("seed").tail(1).sort_values("seed")


def test_a_served_model_is_asked_once_about_each_state_and_its_failures_are_counted(
    train: Callable[..., Path],
) -> None:
    """The server names an action that is none, and cannot be read where everything in view is a metre away or more."""
    pytest.importorskip("openai")
    asked: list[str] = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        prompt = body["messages"][0]["content"] if body else ""
        if "The actions:" not in prompt:  # the small question before training
            return 200, completion("yes")
        asked.append(prompt)
        return 200, completion('{"weights": {"turn left": 1, "fly": 3}}' if "(0." in prompt else "Hm.")

    served = ("prior=openai", "agent.smoothing=0.0001", "agent.retries=0", "seeds=[0]")
    with serving(answers) as url:
        study = train(*SHORT, *served, f"prior.base_url={url}", packs=[(0,)])
    assert len(set(asked)) == len(asked)
    states = [re.search("^The state: (.*)$", prompt, re.MULTILINE)[1] for prompt in asked]  # type: ignore[index]
    assert all("you hold" in state for state in states)
    (spent,), (told,) = (last(study, what).to_dict("records") for what in ("ledger", "metrics"))
    unread = sum("(0." not in prompt for prompt in asked)
    assert (spent["questions"], spent["failures"]) == (len(asked), unread) and 0 < unread < len(asked)
    assert told["texts/unknown_names"] > 0 and told["texts/failed"] <= unread and np.isfinite(told["loss"])
    assert told["texts/unknown_names"] == pytest.approx(told["texts/distinct"] - told["texts/failed"])


@pytest.mark.parametrize("words", [("guide=rnd", "replay=per"), ("guide=self_imitation", "replay=aer")])
def test_it_works_with_guides_and_replays_of_the_standard_agent_and_is_evaluated_again_without_its_model(
    train: Callable[..., Path], words: tuple[str, ...]
) -> None:
    study = train(*SHORT, "prior=scripted", *words, "seeds=[0]", packs=[(0,)])
    assert last(study, "metrics")["loss"].notna().all()
    (run,) = study.glob("*/*/*/seed-0")
    first = evaluate_run(run, None, None, episodes=2, seed=3, models=Models(mode="record"))
    assert evaluate_run(run, None, None, episodes=2, seed=3) == first
