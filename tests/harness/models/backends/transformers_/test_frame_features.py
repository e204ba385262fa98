from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.models.backends.transformers_.frame_features import distinct
from guidebench.harness.models.backends.transformers_.judging import Judging
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from guidebench.harness.models.calls import JudgeCall

PROMPT = 'Is the goal reached in this clip? Reply with exactly "Answer: Yes" or "Answer: No".'


@pytest.mark.parametrize("shown", ["video", "images"])
@pytest.mark.parametrize(("name", "each"), [("perception_lm", 1), ("qwen_vl", 4 * 4)])
def test_the_vision_tower_sees_each_different_frame_once(
    tiny: Callable[..., Path], clips: list[Any], name: str, shown: Any, each: int
) -> None:
    """Clips of frames a a b b and b b a c show three; Qwen's tower takes 4 x 4 patches of each, and of a video two
    frames at a time, so aa, bb and ac. The part is filled up to what two clips without equal frames would fill."""
    judge = Judging(load(Source(str(tiny(name)), dtype="float32")), "prefill", shown)
    a, b, c = clips[0][:3]
    calls = [JudgeCall(np.stack(frames), PROMPT) for frames in ((a, a, b, b), (b, b, a, c))]
    judge(calls)  # before the first batch, clips of noise are computed both ways
    body = judge._loaded.model.model
    tower = body.vision_tower if name == "perception_lm" else body.visual
    seen: list[int] = []
    tower.register_forward_pre_hook(
        lambda module, given, named: seen.append(len((*given, *named.values())[0])), with_kwargs=True
    )
    judge(calls)
    of_two = 4 if name == "qwen_vl" and shown == "video" else 8
    assert seen == [of_two * each]
    seen.clear()
    judge(calls[:1])
    assert seen == [2 * each], "a clip that is computed alone fills nothing up"


def test_stretches_of_frames_are_told_apart_by_their_pixels() -> None:
    one, two = np.array([[7], [7], [8]]), np.array([[8], [9], [7]])
    assert distinct([one, two], 1) == ([0, 2, 4], [0, 0, 1, 1, 2, 0])
    assert distinct([one, one], 2) == ([0, 1], [0, 1, 0, 1])
