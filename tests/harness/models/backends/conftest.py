"""Fixtures for backends: clips for tiny real models, which are never looked up on the Hub."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tests.conftest import require

require("transformers")


@pytest.fixture
def clips() -> list[Any]:
    """Five clips of noise, uint8 [4, 56, 56, 3]."""
    return list(np.random.default_rng(0).integers(0, 256, (5, 4, 56, 56, 3), dtype=np.uint8))


@pytest.fixture
def allocated() -> Iterator[list[int]]:
    """Counts of numbers of the parameters that modules make in memory, not on the meta device."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    counts: list[int] = []

    def note(owner: Any, name: str, parameter: Any) -> None:
        if parameter is not None and parameter.device.type != "meta":
            counts.append(parameter.numel())

    hook = register_module_parameter_registration_hook(note)
    yield counts
    hook.remove()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, since parallel test processes share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
