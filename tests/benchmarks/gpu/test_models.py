"""The models have the published sizes, and what judges them is the project's own backend."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import judging
from benchmarks.gpu import models
from benchmarks.gpu.judging import Judge


@pytest.mark.parametrize(("name", "published"), [("perception_lm", 1_533_524_992), ("qwen_vl", 3_754_622_976)])
def test_parameters_are_as_many_as_published(name: str, published: int) -> None:
    """Qwen2.5-VL 3B has 3.75 billion parameters; Perception-LM 1B has 1.24 billion of Llama 3.2 1B, .29 of the tower
    and .006 of the projector."""
    model = models.network(models.made(name, full=True).config, "meta", torch.bfloat16)
    assert sum(part.numel() for part in model.parameters()) == published


@pytest.mark.parametrize("name", models.MAKERS)
def test_clips_are_judged_by_the_backend_in_any_batch(name: str, tmp_path: Path) -> None:
    loaded = models.load(name, tmp_path, full=False, device="cpu", dtype=torch.float32)
    assert loaded.kind == "vision" and all(part.isfinite().all() for part in loaded.model.parameters())
    clips = judging.noise(3, 4)
    scores = []
    for batch in (1, 3):
        judge = Judge(loaded, batch)
        calls = [judging.JudgeCall(clip, judging.PROMPT) for clip in clips]
        scores.append([verdict.yes for call in calls for verdict in judge.model._judging([call])])
        assert judging.judge(judge.model, clips) > 0
        if name == "qwen_vl":
            fast = judge.model._judging._exact
            assert [(cached, agrees) for (cached, _), agrees in fast.items()] == [(True, True)], "of the prompt"
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)
    assert np.isfinite(scores).all()
