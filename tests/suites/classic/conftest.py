"""OpenGL, which Gymnasium and we draw with."""

from __future__ import annotations

import os

import pytest

from harness.errors import UserError


@pytest.fixture
def opengl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips a test where nothing can be drawn, naming the package; fails where CI has promised it. Gymnasium is told to
    draw with what we draw with."""
    from harness.mujoco import gl

    try:
        monkeypatch.setenv("MUJOCO_GL", gl.backend())
    except UserError as missing:
        if os.environ.get("CI_REQUIRES_SYSTEM") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
