"""Tiny real models, made once for the session, as the configurations of embedders name them; studies written by hand,
for the sections of methods in reports."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reports.conftest import writer

__all__ = ["writer"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny("clip")` is the directory of the model that `tiny_models.clip` makes."""
    pytest.importorskip("transformers")
    from tests.harness.models import tiny_models

    base = tmp_path_factory.mktemp("tiny")
    return lambda name: getattr(tiny_models, name)(base / name)
