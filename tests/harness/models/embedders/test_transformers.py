from pathlib import Path

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.models.embedders.transformers_ import Transformers
from tests.cell_views import cell_view


def test_it_is_registered_and_refuses_a_model_that_embeds_nothing() -> None:
    assert registry.get("embedder", "transformers") is Transformers
    assert Transformers().fits(cell_view()) == "" == Transformers(model="an/unknown-one").fits(cell_view())
    refusal = Transformers(model="perception_lm_1b").fits(cell_view())
    assert "embeds nothing" in refusal and "embedder.model" in refusal


def test_it_tells_the_width_of_a_known_model_and_of_a_converted_file(tmp_path: Path) -> None:
    save = pytest.importorskip("safetensors.numpy").save_file
    file, other = tmp_path / "liv.safetensors", tmp_path / "other.safetensors"
    save({"text_projection": np.zeros((16, 24), np.float32), "logit_scale": np.zeros((), np.float32)}, file)
    save({"weight": np.zeros(3, np.float32)}, other)
    (tmp_path / "damaged.safetensors").write_bytes(b"\xff" * 40)
    widths = {
        "liv": 1024, "clip": 512, "openai/clip-vit-large-patch14": 768, "gpt2": 768, "an/unknown-one": None,
        "perception_lm_1b": None, str(file): 24, str(other): None, str(tmp_path / "damaged.safetensors"): None,
        str(tmp_path / "absent.safetensors"): None,
    }  # fmt: skip
    assert {model: Transformers(model=model).dimensions() for model in widths} == widths
