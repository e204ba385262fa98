"""model_as_agent: a language model acts alone, step by step, and optionally follows a larger model's plans.

DSADF compares itself with such agents (§5.3.2, tables 4 and 5; variations III and IV of tables 8 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from guidebench.harness.interfaces import Agent, Build
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import cite
from guidebench.methods.dsadf.slow_system import (
    CRAFTER_HINT,
    OF_CRAFTER,
    ON_HOUSEKEEP,
    Performs,
    Plans,
    performers,
)

DSADF = "DSADF, §5.3.2"


@register.agent("model_as_agent")
@dataclass(frozen=True)
class ModelAsAgent(Performs):
    """A chat names the action of each step, given the state in sentences and the actions that are possible by name; a
    run takes no training steps, only its evaluations."""

    version: ClassVar[int] = 1

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.model_as_agent.agent import LoneAgent

        return LoneAgent(self, build)


@register.agent("model_with_planner")
@dataclass(frozen=True)
class ModelWithPlanner(Plans):
    """A chat acts towards the sub-goals of a plan, which another chat wrote and reflected on as the episode began."""

    version: ClassVar[int] = 2

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.model_as_agent.agent import PlannedAgent

        return PlannedAgent(self, build)


LAST = "choice: it does not learn, so only the last evaluation is run"
SENTENCES = {"suite.observation": cite("text", "choice: the sentences are what the model is told")}
ON_SUITE: Mapping[str, Mapping[str, Any]] = {
    "crafter": SENTENCES,
    "crafter_ood": {**SENTENCES, "evaluation.every": cite(2_000_000, LAST)},
    "housekeep": {**SENTENCES, "evaluation.every": cite(4_000_000, LAST)},
}
"""Settings of both methods by suite. They are evaluated after as many steps as the suite's training has; profiles other
than `paper` evaluate as often as they say."""
ON_PROFILE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    suite: {"paper": SENTENCES} for suite in ("crafter", "crafter_ood")
}
"""Observations in the profile `paper`: sentences, in place of the suites' pictures."""
CHATS: Mapping[str, Any] = {
    "performer.openai.model": cite("qwen2_5_vl_7b", f"{DSADF}: Qwen2.5-VL-7B"),
    "performer.transformers.model": cite("qwen2_5_vl_7b", f"{DSADF}: Qwen2.5-VL-7B"),
}

register.method("model_as_agent")(
    Method(
        summary="a language model names each action, given the state in sentences",
        agent="model_as_agent",
        defaults=CHATS,
        on_suite=ON_SUITE,
        on_profile=ON_PROFILE,
        ablations={"recent=0": {"agent.recent": 0}, **performers("llava-1.5", "gpt-4o", "qwen2.5-72b")},
        citation=Performs.citation,
    )
)
register.method("model_with_planner")(
    Method(
        summary="a language model names each action towards the sub-goals of a plan that another model wrote",
        agent="model_with_planner",
        defaults={
            **CHATS,
            "planner.openai.model": cite("gpt-4o", "DSADF, §5.3: GPT-4o"),
            "reflector.openai.model": cite("gpt-4o", "DSADF, §5.3: GPT-4o"),
        },
        on_suite={
            **ON_SUITE,
            "crafter_ood": {**ON_SUITE["crafter_ood"], "agent.hint": cite(CRAFTER_HINT, OF_CRAFTER)},
            "housekeep": {**ON_SUITE["housekeep"], **ON_HOUSEKEEP},
        },
        on_profile=ON_PROFILE,
        ablations={
            "reflection=none": {"agent.reflect": False},
            "reflection=revised": {"agent.again": "revised"},
            "recent=0": {"agent.recent": 0},
            **performers("llava-1.5"),
        },
        citation=Performs.citation,
    )
)
