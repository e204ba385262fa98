"""A converted file decides neither how much memory is taken nor what is downloaded."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.open_clip_ import OpenClipEmbedding


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        ("ViT-B-32", "is no ViT-B-32: .*Missing key"),
        ("hf-hub:somebody/model", "an architecture 'hf-hub:somebody/model', which open_clip does not list"),
        ("local-dir:/tmp", "an architecture 'local-dir:/tmp', which open_clip does not list"),
    ],
)
def test_an_architecture_that_its_weights_do_not_fill_is_refused_without_its_memory(
    tmp_path: Path, allocated: list[int], architecture: str, says: str
) -> None:
    pytest.importorskip("open_clip")
    save_file({"a": torch.ones(1)}, tmp_path / "clip.safetensors", {"open_clip": architecture})
    with pytest.raises(UserError, match=says):
        OpenClipEmbedding(str(tmp_path / "clip.safetensors"), "float32", torch.device("cpu"))
    assert not allocated
