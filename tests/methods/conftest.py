"""Studies written by hand, for the sections of methods in reports; models are never looked for on the Hub."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import writer

__all__ = ["writer"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def babbling(tiny: Callable[[str], Path]) -> Any:
    """A vision-language chat of random weights, whose replies are noise."""
    from guidebench.harness.models.chats.transformers_ import Transformers

    model = tiny("qwen_vl").with_name("babbling")
    shutil.copytree(tiny("qwen_vl"), model)
    config = json.loads((model / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 16_384  # its tokens are hardly longer than letters
    (model / "config.json").write_text(json.dumps(config))
    return Transformers(model=str(model), dtype="float32", max_tokens=24, temperature=1.0)
