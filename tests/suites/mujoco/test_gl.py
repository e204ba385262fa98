"""Which OpenGL implementation draws, and what is reported where there is none."""

import os
import subprocess
import sys

import pytest

from guidebench.harness.commands import cli, doctor_
from guidebench.suites.mujoco import gl
from tests.conftest import need
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
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)  # an earlier test may have drawn


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


@pytest.mark.parametrize(("choice", "words"), [("glfw", "MUJOCO_GL=glfw, so MuJoCo"), ("", "MUJOCO_GL is unset")])
def test_a_glfw_that_cannot_be_loaded_is_named_before_mujoco_is_imported(monkeypatch, choice, words):
    monkeypatch.setenv("MUJOCO_GL", choice)
    monkeypatch.setitem(sys.modules, "glfw", None)
    check_refused(f"{words}.*GLFW cannot be loaded .*pip install glfw.*MUJOCO_GL=osmesa", gl.before_mujoco)
    monkeypatch.setenv("MUJOCO_GL", "disable")
    gl.before_mujoco()


@pytest.mark.parametrize(("gpu", "loads"), [(True, []), (False, ["triton"])])
def test_egl_without_a_gpu_is_mesas_so_triton_is_loaded_before_it(monkeypatch, gpu, loads):
    loaded = []
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libEGL.so.1")
    monkeypatch.setattr(gl, "gpu", lambda: gpu)
    monkeypatch.setattr(gl, "before_mesa", lambda: loaded.append("triton"))
    gl.before_mujoco()
    assert loaded == loads


def test_a_command_whose_model_is_asked_about_the_task_says_what_is_missing_to_draw(
    nothing, monkeypatch, capsys, tmp_path
):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    command = ["run", "suite=bin_sorting", "method=kagi", "profile=smoke", "seeds=1", f"output={tmp_path / 'study'}"]
    assert cli.main(command) != 0
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("bench: MUJOCO_GL=osmesa, and OSMesa is missing") and "install libosmesa6" in error


def test_doctor_names_the_package(nothing):
    (opengl_finding,) = [finding for finding in doctor_._system() if finding.name == "opengl"]
    assert opengl_finding.ok is None and "apt-get install libosmesa6" in opengl_finding.text


@pytest.mark.parametrize("choice", ["", "egl"])
def test_a_process_that_has_drawn_in_software_can_still_load_a_model(choice, opengl):
    """Mesa's LLVM loaded before triton's would crash the process (signal 11), whether OSMesa or EGL loads it."""
    need("OSMesa", "libosmesa6", library=True)
    pytest.importorskip("triton")
    code = (
        "from guidebench.suites.mujoco import gl; gl.backend(); context = gl.context(16, 16); context.make_current(); "
        "import mujoco; model = mujoco.MjModel.from_xml_string('<mujoco/>'); "
        "drawn = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50); "
        "import triton; print('loaded'); drawn.free(); context.free()"
    )
    environment = {**os.environ, "MUJOCO_GL": choice, "PYOPENGL_PLATFORM": ""}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    if choice == "egl" and run.returncode == 1:  # a machine without EGL, or without a driver of it
        assert "UserError: MUJOCO_GL=egl, and EGL is missing" in run.stderr or "egl gives no OpenGL" in run.stderr
    else:
        assert (run.returncode, run.stdout) == (0, "loaded\n"), run.stderr[-1000:]


ABSENT = "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
DRAWS = """
from guidebench.suites.bin_sorting import BinDrawing, BinSorting
suite = BinSorting(observation="state")
task = suite.make("forward")
task.reset(0)
print(BinDrawing().spawn("forward")(task.snapshot()[None]).shape)
"""
MAKES = "from guidebench.harness import registry; print(registry.get('suite', 'metaworld_mt10')().make('mt10'))"


def osmesa(program: str) -> tuple[int, str, str]:
    """Run a program in a new interpreter that uses OSMesa; return its exit code, output and last line of errors."""
    command, environment = [sys.executable, "-c", program], {**os.environ, "MUJOCO_GL": "osmesa"}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return run.returncode, run.stdout, (run.stderr.splitlines() or [""])[-1]


def test_where_osmesa_is_chosen_any_order_of_imports_draws_or_is_told_why_not():
    """MuJoCo loads Mesa when it is imported, by whichever package."""
    need("OSMesa", "libosmesa6", library=True)
    pytest.importorskip("triton")
    expected = (0, "(1, 100, 100, 3)\n", "")
    assert osmesa("import guidebench.suites.bin_sorting.task\n" + DRAWS) == expected
    assert osmesa("import triton, mujoco\n" + DRAWS) == expected
    code, _, error = osmesa("import metaworld\n" + MAKES)
    assert code == 1 and "imported with MUJOCO_GL=osmesa before guidebench" in error and "unset MUJOCO_GL" in error


def test_the_guard_of_a_suite_refuses_an_import_of_mujoco_that_cannot_succeed():
    code, _, error = osmesa(ABSENT + "import guidebench.suites.metaworld.dynamics")
    assert code == 1 and "UserError: MUJOCO_GL=osmesa, and OSMesa is missing" in error
