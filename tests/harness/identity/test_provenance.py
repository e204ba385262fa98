"""Provenance of a result: commit, packages and hardware, and the OpenGL that drew the frames a judge saw."""

import pytest

from guidebench.harness.identity.provenance import provenance
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.suites.mujoco import gl


def cell(*overrides: str) -> Cell:
    (planned_cell,) = matrix.plan(["profile=smoke", *overrides]).cells
    return planned_cell


@pytest.mark.parametrize("backend", ["egl", "osmesa"])
def test_a_run_whose_judge_sees_frames_tells_which_opengl_drew_them(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(gl, "backend", lambda: backend)
    record = provenance("cpu", cell("suite=ogbench_scene", "method=vlm_rb"))
    assert record["hardware"]["opengl"] == backend


@pytest.mark.parametrize(
    "overrides",
    [
        ["suite=ogbench_scene", "method=uer"],
        ["suite=ogbench_scene", "method=vlm_rb", "judge=oracle"],
        ["suite=minigrid_doorkey", "method=vlm_rb"],
    ],
)
def test_where_no_frames_are_looked_at_or_no_opengl_draws_none_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str]
) -> None:
    monkeypatch.setattr(gl, "backend", lambda: pytest.fail("asked for OpenGL"))
    assert "opengl" not in provenance("cpu", cell(*overrides))["hardware"]


def test_it_names_no_machine() -> None:
    record = provenance("cpu")
    assert record.keys() == {"commit", "dirty", "packages", "hardware"}
    assert record["hardware"].keys() == {"processor", "cores", "device"} and record["hardware"]["device"] == "cpu"
