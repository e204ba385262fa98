"""The OpenGL backend of a process without a display: EGL if a GPU's driver offers it, otherwise Mesa's software
renderer, OSMesa.

`MUJOCO_GL=egl` or `=osmesa` in the environment overrides this choice. MuJoCo itself reads that variable only when it is
first imported, so contexts are created here, when the first is needed. Its other values (glfw, which needs a display)
do not change what draws here, but with them `import mujoco` loads GLFW.

With `MUJOCO_GL=osmesa`, `import mujoco` loads Mesa, and EGL without a GPU is Mesa's as well. What must come before that
is done by a guard in the import system (`guard`), because packages such as metaworld import MuJoCo too.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from typing import Any, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.findings import Finding

PACKAGE = "libosmesa6"
PACKAGES = {"osmesa": PACKAGE, "egl": "libegl1 and a GPU's driver"}
LIBRARIES = {"osmesa": "OSMesa", "egl": "EGL"}
TRITON = "triton._C.libtriton"
"""The module that contains Triton's LLVM."""
SOFTWARE = b"EGL_MESA_device_software"
"""The extension by which EGL marks a device that is no GPU."""
EXTENSIONS, PLATFORM_DEVICE, MOST = 0x3055, 0x313F, 16
"""EGL_EXTENSIONS, EGL_PLATFORM_DEVICE_EXT, and the maximum number of devices queried."""

BACKENDS = ("egl", "osmesa")
DISABLED = ("disable", "disabled", "off", "false", "0")
"""Values of MUJOCO_GL with which MuJoCo loads nothing to draw with."""
OTHERS = ("", "glfw", "glx", "enable", "enabled", "on", "true", "1", *DISABLED)
"""Further values of MUJOCO_GL with which MuJoCo can be imported."""


def requested_backend() -> str:
    """Return the backend that the environment asks for, or "". Raise UserError for values with which MuJoCo cannot be
    imported."""
    choice, platform = os.environ.get("MUJOCO_GL", ""), os.environ.get("PYOPENGL_PLATFORM", "")
    word = choice.lower().strip()
    if word not in (*BACKENDS, *OTHERS):
        raise UserError(
            f"MUJOCO_GL={choice}: MuJoCo knows no such way to draw; set it to egl (the driver of a GPU) or osmesa "
            f"(software), or unset it"
        )
    if word in BACKENDS and platform.lower() not in ("", word):
        raise UserError(f"MUJOCO_GL={choice} and PYOPENGL_PLATFORM={platform} contradict each other; unset the latter")
    return word if word in BACKENDS else ""


@functools.cache
def backend() -> Literal["egl", "osmesa"]:
    """Return this process's backend; UserError, naming the package to install, if there is none. Call it before
    importing MuJoCo, which under `MUJOCO_GL=osmesa` loads Mesa at import."""
    before_mujoco()
    if (requested := requested_backend()) == "egl" or (requested != "osmesa" and gpu()):
        return "egl"
    if ctypes.util.find_library("OSMesa") is None:
        raise UserError(
            "frames cannot be drawn: no GPU driver offers EGL, and OSMesa, which draws without a GPU, is missing; "
            f"install it (Debian, Ubuntu: apt-get install {PACKAGE}), or choose a judge or replay that needs no frames"
        )
    before_mesa()
    return "osmesa"


def finding() -> Finding:
    """Return whether this machine can draw MuJoCo's frames, for `bench doctor`."""
    try:
        return Finding("opengl", True, f"{backend()} draws MuJoCo's frames for judges")
    except UserError as error:
        return Finding("opengl", None, str(error))


def before_mujoco() -> None:
    """Prepare this process for the import of MuJoCo. Raise UserError for values of MUJOCO_GL with which the import
    would fail, because the backend does not exist or its library is missing, and as `before_mesa` does."""
    if (requested := requested_backend()) and ctypes.util.find_library(LIBRARIES[requested]) is None:
        raise UserError(
            f"MUJOCO_GL={requested}, and {LIBRARIES[requested]} is missing, so MuJoCo cannot be imported; unset the "
            f"variable, or install the library (Debian, Ubuntu: apt-get install {PACKAGES[requested]})"
        )
    if not requested and os.environ.get("MUJOCO_GL", "").lower().strip() not in DISABLED:
        _check_glfw()
    if requested == "osmesa" or (requested == "egl" and not gpu()):
        before_mesa()


def _check_glfw() -> None:
    """Raise UserError if GLFW, which `import mujoco` loads unless MUJOCO_GL names another library, cannot be loaded."""
    choice = os.environ.get("MUJOCO_GL", "")
    try:
        importlib.import_module("glfw")
    except Exception as error:  # of the import system, of ctypes, or of GLFW
        raise UserError(
            f"{f'MUJOCO_GL={choice}' if choice else 'MUJOCO_GL is unset'}, so MuJoCo loads GLFW at import, and GLFW "
            f"cannot be loaded ({type(error).__name__}: {str(error)[:200]}); install it (pip install glfw), or set "
            f"MUJOCO_GL=osmesa (software; Debian, Ubuntu: apt-get install {PACKAGE}) or egl (a GPU's driver)"
        ) from None


def before_mesa() -> None:
    """Load Triton, Torch's compiler, if it is installed. Triton and Mesa each contain an LLVM, and a process that loads
    Mesa's first crashes when it loads the other; raise UserError if Mesa is loaded already."""
    if TRITON in sys.modules or importlib.util.find_spec("triton") is None:
        return
    if mesa_is_loaded():
        raise UserError(
            "MuJoCo was imported with MUJOCO_GL=osmesa before guidebench, so Mesa's LLVM is loaded, and this process "
            "would crash when PyTorch loads Triton, which contains another one; unset MUJOCO_GL (guidebench draws with "
            "OSMesa wherever no GPU does), or import triton before mujoco, metaworld and other packages that use it"
        )
    with contextlib.suppress(ImportError):
        importlib.import_module(TRITON)


def mesa_is_loaded() -> bool:
    """Return whether this process has loaded OSMesa."""
    library = ctypes.util.find_library("OSMesa")
    try:
        return library is not None and bool(ctypes.CDLL(library, mode=os.RTLD_NOLOAD))
    except OSError:
        return False


class _Guard(MetaPathFinder):
    """Finds no module, and does what must precede the import of MuJoCo, whichever package imports it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == "mujoco":
            before_mujoco()


def guard() -> None:
    """Have `import mujoco` in this process do first what must precede it (`before_mujoco`), with the same errors."""
    if not any(isinstance(finder, _Guard) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Guard())


def context(width: int, height: int) -> Any:
    """Return a new MuJoCo context, with `make_current()` and `free()`; UserError, naming the cause and the variable to
    set, if there is no OpenGL."""
    chosen = backend()
    try:
        return importlib.import_module(f"mujoco.{chosen}").GLContext(width, height)
    except Exception as error:  # of a driver, of ctypes, or of PyOpenGL
        other = "osmesa" if chosen == "egl" else "egl"
        raise UserError(
            f"frames cannot be drawn: {chosen} gives no OpenGL context ({type(error).__name__}: {str(error)[:300]}); "
            f"set MUJOCO_GL={other} (Debian, Ubuntu: apt-get install {PACKAGES[other]}), or look at MUJOCO_GL, "
            f"MUJOCO_EGL_DEVICE_ID and PYOPENGL_PLATFORM, of which each may be unset"
        ) from None


def gpu() -> bool:
    """Return whether EGL can draw on a GPU here. The library itself is queried, because a wrong choice by PyOpenGL
    cannot be undone."""
    try:
        library = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    library.eglGetProcAddress.restype = ctypes.c_void_p
    library.eglInitialize.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    devices, pointer = (ctypes.c_void_p * MOST)(), ctypes.c_void_p

    def extension(name: bytes, result: Any, *arguments: Any) -> Any:
        address = library.eglGetProcAddress(name)
        return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None

    query = extension(b"eglQueryDevicesEXT", ctypes.c_uint, ctypes.c_int, pointer, pointer)
    tell = extension(b"eglQueryDeviceStringEXT", ctypes.c_char_p, pointer, ctypes.c_int)
    display = extension(b"eglGetPlatformDisplayEXT", pointer, ctypes.c_uint, pointer, pointer)
    count = ctypes.c_int()
    if None in (query, tell, display) or not query(MOST, devices, ctypes.byref(count)):
        return False
    graphic = [device for device in devices[: count.value] if SOFTWARE not in (tell(device, EXTENSIONS) or b"")]
    return any(library.eglInitialize(display(PLATFORM_DEVICE, device, None), None, None) for device in graphic)
