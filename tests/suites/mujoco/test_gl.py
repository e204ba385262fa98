"""Which OpenGL draws, and what is said where there is none."""

import subprocess
import sys

import pytest

from guidebench.harness.commands import doctor_
from guidebench.suites.mujoco import gl
from tests.refusals import check_refused


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    gl.backend.cache_clear()
    yield
    gl.backend.cache_clear()


@pytest.fixture
def nothing(monkeypatch):
    monkeypatch.setattr(gl, "gpu", lambda: False)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)  # of an earlier test that has drawn


@pytest.mark.parametrize(("gpu", "expected"), [(True, "egl"), (False, "osmesa")])
def test_a_gpu_draws_where_there_is_one(monkeypatch, gpu, expected):
    monkeypatch.setattr(gl, "gpu", lambda: gpu)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libOSMesa.so.8")
    assert gl.backend() == expected


def test_the_environment_decides_otherwise(monkeypatch):
    monkeypatch.setattr(gl, "gpu", lambda: True)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libOSMesa.so.8")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert gl.backend() == "osmesa"


def test_nothing_to_draw_with_is_an_error_that_names_the_package(nothing):
    check_refused("apt-get install libosmesa6", gl.backend)


def test_asking_for_what_is_not_there_is_an_error_too(nothing, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    check_refused("MUJOCO_GL=egl, and EGL is missing", gl.backend)


def test_doctor_names_the_package(nothing):
    (found,) = [finding for finding in doctor_._system() if finding.name == "opengl"]
    assert found.ok is None and "apt-get install libosmesa6" in found.text


def test_a_process_that_has_drawn_in_software_can_still_load_a_model(opengl):
    """Mesa's LLVM before triton's is a crash."""
    pytest.importorskip("triton")
    code = (
        "from guidebench.suites.mujoco import gl; gl.backend(); context = gl.context(16, 16); context.make_current(); "
        "import mujoco; model = mujoco.MjModel.from_xml_string('<mujoco/>'); "
        "drawn = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50); "
        "import triton; print('loaded'); drawn.free(); context.free()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "loaded\n"), run.stderr[-1000:]
