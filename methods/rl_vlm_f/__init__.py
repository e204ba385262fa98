"""RL-VLM-F: a vision-language model compares frames of two states, and the learnt reward reads frames too.

It is built from `baselines`: guide `preference`, teacher `vlm`, and a chat. Settings are those under which RL-SaLLM-F
reproduces it (app. B.4).
"""

from __future__ import annotations

from guidebench.baselines.teachers.vlm import Vlm
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import cite

register.method("rl_vlm_f")(
    Method(
        summary="a reward of frames, learnt from a vision-language model's preferences between pairs of them",
        suite="metaworld_pbrl",
        learner="sac",
        guide="preference",
        teacher="vlm",
        chat="openai",
        defaults={
            "guide.preference.sees": cite("frame", "RL-VLM-F's code, image_reward; RL-SaLLM-F, app. B.3"),
            "guide.preference.segment": cite(1, "RL-VLM-F's code, segment; RL-SaLLM-F, table 3: just one state"),
            "chat.openai.model": cite("gpt-4o", "RL-SaLLM-F, app. B.4"),
            "chat.openai.detail": cite("high", "RL-VLM-F's code"),
        },
        on_suite={
            suite: {"drawing.camera": cite("corner2", "RL-SaLLM-F, app. B.4: from a third person, the arm included")}
            for suite in ("metaworld", "metaworld_mt10", "metaworld_pbrl")
        },
        ablations={
            "double_check": {"teacher.double_check": True},
            "sees=state": {"guide.sees": "state"},
        },
        citation=Vlm.citation,
    )
)
