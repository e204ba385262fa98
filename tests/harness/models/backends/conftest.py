"""Tiny real models, each made once for a session, and clips for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tests.conftest import require
from tests.harness.models import tiny_models

require("transformers")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny("qwen_vl")` is the directory of the model that `tiny_models.qwen_vl` makes."""
    base = tmp_path_factory.mktemp("tiny")

    def made(name: str, **settings: Any) -> Path:
        marked = "-".join([name, *(f"{key}={value}" for key, value in settings.items())])
        return getattr(tiny_models, name)(base / marked, **settings)

    return made


@pytest.fixture
def clips() -> list[Any]:
    """Five clips of noise, uint8 [4, 56, 56, 3]."""
    return list(np.random.default_rng(0).integers(0, 256, (5, 4, 56, 56, 3), dtype=np.uint8))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The cores are shared by the processes that test."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
