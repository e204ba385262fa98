"""DSADF (Dou et al. 2025): a slow system plans, reflects and acts where a fast one, a learner, is not proficient.

The method `dsadf` is both systems together. The method `model_as_agent` is made of the slow system's parts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import cite
from guidebench.methods.dsadf import chats as chats  # registers the hand-written chats
from guidebench.methods.dsadf import seeing as seeing  # registers the agent that sees frames
from guidebench.methods.dsadf.dual_system import DualSystem
from guidebench.methods.dsadf.slow_system import CRAFTER_HINT, OF_CRAFTER, ON_HOUSEKEEP, performers, planners

SERVED = cite("qwen2_5_vl_7b", "DSADF, §4.2.2: Qwen 2.5-VL 7B")
PLANS = cite("gpt-4o", "DSADF, §5.3: GPT-4o")
SMALL_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
"""LLaMA-3.1 as a performer (DSADF, table 7; its size: choice, since §5.3.3 counts it among the small models)."""
SCORES = cite("gpt-4o", "DSADF, §4.4: the slow system's model, as that of its plans")
SENTENCES = cite("text", "choice: the sentences are what the slow system is told")
PICTURES = cite("grey_text", "ELLM, released code: pictures in grey, here with the sentences of the slow system")
LAST = "choice: it does not learn, so only the last evaluation is run"
ON_CRAFTER: Mapping[str, Any] = {
    "suite.observation": SENTENCES,
    "suite.impossible": cite("masked", "choice: DSADF's text has the actions of each object (§3.1)"),
    "suite.actions": cite("find", "choice: DSADF's text has the coordinates of objects (§3.1)"),
    "agent.hint": cite(CRAFTER_HINT, OF_CRAFTER),
}
ROOM: Mapping[str, Any] = {
    **ON_HOUSEKEEP,
    "suite.observation": SENTENCES,
    "agent.infer": cite(True, "DSADF, §5.4: the target is inferred from sampled steps"),
    "agent.memory": cite(65_536, "choice: its 448 sub-goals take 57 kB"),
}
"""Settings of dsadf on Housekeep."""
ON_PROFILE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "crafter_ood": {"paper": {"suite.observation": PICTURES}},
    "housekeep": {"smoke": {"agent.history": cite(100, "smoke profile: a third of its steps")}},
}
MODELS: Mapping[str, Any] = {
    "planner.openai.model": PLANS,
    "reflector.openai.model": PLANS,
    "scorer.openai.model": SCORES,
    "performer.openai.model": SERVED,
    "performer.transformers.model": SERVED,
}

register.method("dsadf")(
    Method(
        summary="a learner trained by the sub-goals of a language model's plans, and a model that acts where it is "
        "not proficient",
        agent="dual_system",
        learner="dueling_dqn",
        suite="crafter_ood",
        defaults=MODELS,
        on_suite={"crafter_ood": ON_CRAFTER, "housekeep": ROOM},
        on_profile=ON_PROFILE,
        ablations={
            "variation=II": {"agent.router": "rl"},
            "variation=III": {"agent.router": "model", "agent.trains": False},
            "variation=V": {"agent.reflect": False},
            "threshold=0.5": {"agent.threshold": 0.5},
            "threshold=0.9": {"agent.threshold": 0.9},
            "similarity=0.9": {"agent.beta": 0.9},
        },
        citation=DualSystem.citation,
    )
)
register.method("dsadf_transfer")(
    Method(
        summary="evaluations alone, of what dsadf has learnt on another task: its policy and its memory",
        agent="dual_system",
        learner="dueling_dqn",
        suite="crafter_ood",
        pretraining="dsadf",
        pretrains_on_own_task=True,
        defaults={**MODELS, "agent.trains": cite(False, "DSADF, §5.3.2: tasks that were not trained on")},
        on_suite={
            "crafter_ood": {**ON_CRAFTER, "evaluation.every": cite(2_000_000, LAST)},
            "housekeep": {**ROOM, "evaluation.every": cite(4_000_000, LAST)},
        },
        on_profile=ON_PROFILE,
        ablations={
            "variation=II": {"agent.router": "rl"},
            "variation=V": {"agent.reflect": False},
            **planners("deepseek", "qwen2.5-72b", "llama-3.1-405b"),
            **performers("llava-1.5", SMALL_LLAMA),
            "threshold=0.5": {"agent.threshold": 0.5},
            "threshold=0.9": {"agent.threshold": 0.9},
        },
        citation=DualSystem.citation,
    )
)
