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


@pytest.mark.parametrize("media_kind", ["video", "images"])
@pytest.mark.parametrize(("name", "patches"), [("perception_lm", 1), ("qwen_vl", 4 * 4)])
def test_the_vision_tower_sees_each_different_frame_once(
    tiny: Callable[..., Path], clips: list[Any], name: str, media_kind: Any, patches: int
) -> None:
    """Clips of the frames a a b b and b b a c hold three different frames. Qwen's tower takes 4 x 4 patches of each
    frame, and two frames of a video at a time: aa, bb and ac. The batch is padded to the size of two clips without
    equal frames."""
    judge = Judging(load(Source(str(tiny(name)), dtype="float32")), "prefill", media_kind)
    a, b, c = clips[0][:3]
    calls = [JudgeCall(np.stack(frames), PROMPT) for frames in ((a, a, b, b), (b, b, a, c))]
    judge(calls)  # before the first batch, clips of noise are computed both ways
    body = judge._loaded.model.model
    tower = body.vision_tower if name == "perception_lm" else body.visual
    sizes: list[int] = []
    tower.register_forward_pre_hook(
        lambda module, inputs, settings: sizes.append(len((*inputs, *settings.values())[0])), with_kwargs=True
    )
    judge(calls)
    of_two = 4 if name == "qwen_vl" and media_kind == "video" else 8
    assert sizes == [of_two * patches]
    sizes.clear()
    judge(calls[:1])
    assert sizes == [2 * patches], "a single clip is not padded"


def test_stretches_of_frames_are_told_apart_by_their_pixels() -> None:
    first, second = np.array([[7], [7], [8]]), np.array([[8], [9], [7]])
    assert distinct([first, second], 1) == ([0, 2, 4], [0, 0, 1, 1, 2, 0])
    assert distinct([first, first], 2) == ([0, 1], [0, 1, 0, 1])
