"""The bound on calls that a dry run prints is never exceeded: worked examples, and a server that fails in every way."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.models.calls import Usage
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.harness.parts import Most
from guidebench.harness.plan import matrix
from guidebench.harness.run import call_bounds
from tests.harness.models.canned import completion, serving


def test_attempts_repairs_and_retries_multiply() -> None:
    """7 questions of 3 calls with 4 attempts are 84 calls; the second and third call also read the earlier ones."""
    chat = OpenAI(model="unpriced", attempts=4, max_tokens=20)
    bound = call_bounds.questions(Most(7, calls=3, prompt=100, reminder=30), chat)
    prompt_tokens = 3 * (100 + 64) + (1 + 2) * (20 + 30 + 2 * 64)
    assert bound == Usage(84, 28 * prompt_tokens, 84 * 20)
    repaired = call_bounds.questions(Most(7, prompt=100, schema=True), chat)
    assert repaired.calls == 84, "one call, and two repairs"
    assert repaired.tokens_in == 28 * (3 * (100 + 64 + 1_000) + 3 * (20 + 1_000 + 2 * 64))


def test_clips_of_demonstrations_steps_and_the_reference_episode_are_counted() -> None:
    """A DoorKey 5x5 episode has at most 250 steps and may end at any of them; clips have 32 steps."""
    judge = ("judge=openai", "judge.model=unpriced", "judge.prompt=well done?", "judge.attempts=2")
    words = [
        "suite=minigrid_doorkey",
        "task=5x5",
        "method=vlm_rb",
        "profile=smoke",
        "training.demonstrations=3",
        *judge,
    ]
    (cell,) = matrix.plan(words).trained
    bounds = call_bounds.conversations(cell, "judge")
    assert bounds is not None and {(bound.calls, bound.images) for bound in bounds} == {(1, 32)}
    assert [bound.questions for bound in bounds] == [3 * 8 + cell.steps, 1 + -(-(250 - 32) // 4)]
    (part,) = cell.models
    bound = call_bounds.of_run(cell, part)
    calls = 2 * sum(conversation.questions for conversation in bounds)
    assert bound is not None and bound.calls == calls + 2 * 8 and bound.images == 32 * calls
    assert bound.tokens_out == 8 * calls, "a judge's answer has at most 8 tokens"


def test_clips_of_episodes_that_nothing_ends_are_whole() -> None:
    judge = ("judge=openai", "judge.model=unpriced", "judge.prompt=well done?")
    words = ["suite=metaworld", "task=reach", "method=vlm_rb", "profile=smoke", "training.steps=1000", *judge]
    (cell,) = matrix.plan(words).trained
    bounds = call_bounds.conversations(cell, "judge")
    assert bounds is not None and bounds[0].questions == 2 * -(-500 // 32)


def test_a_bound_is_known_without_the_package_of_servers() -> None:
    """A dry run of a study with local models works without the extra `openai`."""
    program = "import sys; sys.modules['openai'] = None; import guidebench.harness.run.call_bounds"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


class Failing:
    """A server that rejects a field once, fails every other request, never gives a readable answer, and counts a token
    for each byte."""

    def __init__(self) -> None:
        self.spent = Usage()

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        self.spent = self.spent.plus(Usage(calls=1))
        if "max_tokens" in body:
            return 400, {"error": {"message": "max_tokens is not supported, use max_completion_tokens"}}
        if self.spent.calls % 2:
            return 500, {"error": {"message": "try again"}}
        tokens_in = sum(len(json.dumps(message, ensure_ascii=False).encode()) for message in body["messages"])
        tokens_out = body["max_completion_tokens"]
        self.spent = self.spent.plus(Usage(tokens_in=tokens_in, tokens_out=tokens_out))
        reply = completion("I would fly away, since " + "\u00e9" * tokens_out)
        return 200, reply | {"usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": 0}}


def test_a_server_that_fails_in_every_way_stays_below_the_bound(train: Callable[..., Path]) -> None:
    pytest.importorskip("crafter")
    pytest.importorskip("openai")
    server = Failing()
    with serving(server.answer) as url:
        words = (
            "suite=crafter_ood", "task=wood_sword", "suite.actions=find", "suite.impossible=masked", "suite.area=32",
            "suite.test_length=3", "training.steps=1", "evaluation.every=1", "evaluation.episodes=2", "seeds=[0]",
            "method=model_as_agent", "agent.retries=1", "performer=openai", "performer.model=m",
            "performer.temperature=1", "performer.attempts=2", f"performer.base_url={url}",
        )  # fmt: skip
        train(*words, packs=[(0,)])
        bound = call_bounds.by_model(matrix.plan([*words, "profile=smoke"]).trained, 1, contacted=False)["m"]
    spent = server.spent
    assert bound.calls == 2 * 3 * 2 * 2 + 2 * 8 and bound.tokens_out == 24 * 32
    assert 6 * 2 < spent.calls <= bound.calls and spent.tokens_in <= bound.tokens_in
    assert 0 < spent.tokens_out <= bound.tokens_out
