"""RL-SaLLM-F: a language model labels pairs of segments, checks its labels in the other order, and imagines better
segments.

`pebble_llm` is the same without check and imagination, the baseline of the paper's figure 1b. Both are built from
`baselines`: guide `preference`, teacher `llm`, and a chat.
"""

from __future__ import annotations

from guidebench.baselines.teachers.llm import Llm
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import cite

register.method("rl_sallm_f")(
    Method(
        summary="a reward learnt from a language model's preferences, checked in both orders, and imagined segments",
        suite="metaworld_pbrl",
        learner="sac",
        guide="preference",
        teacher="llm",
        chat="openai",
        ablations={
            "no_double_check": {"teacher.double_check": False},
            "no_llm_labels": {"teacher.double_check": False, "teacher.keep_sampled": False},
            "no_self_augmentation": {"teacher.augment": "none"},
            "decision_transformer": {"teacher.augment": "decision_transformer"},
            "soft_labels": {"teacher.undecided": "soft"},
            "one_shot": {"teacher.shots": 1},
            "larger_model": {"chat": "openai", "chat.model": "gpt-4o"},
        },
        citation=Llm.citation,
    )
)
register.method("pebble_llm")(
    Method(
        summary="a reward learnt from a language model's preferences, unchecked",
        suite="metaworld_pbrl",
        learner="sac",
        guide="preference",
        teacher="llm",
        chat="openai",
        defaults={
            "teacher.llm.double_check": cite(False, "RL-SaLLM-F, §4 and figure 1b"),
            "teacher.llm.augment": cite("none", "RL-SaLLM-F, §4 and figure 1b"),
        },
        ablations={"double_check": {"teacher.double_check": True}},
        citation=Llm.citation,
    )
)
