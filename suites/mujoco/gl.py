"""The OpenGL backend of a process without a display: EGL if a GPU's driver offers it, otherwise Mesa's software
renderer, OSMesa.

`MUJOCO_GL=egl` or `=osmesa` in the environment overrides this choice. MuJoCo itself reads that variable only when it is
first imported, so contexts are created here, when the first is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import importlib
import os
from typing import Any, Literal

from guidebench.harness.errors import UserError
from guidebench.harness.findings import Finding

PACKAGE = "libosmesa6"
SOFTWARE = b"EGL_MESA_device_software"
"""The extension by which EGL marks a device that is no GPU."""
EXTENSIONS, PLATFORM_DEVICE, MOST = 0x3055, 0x313F, 16
"""EGL_EXTENSIONS, EGL_PLATFORM_DEVICE_EXT, and the maximum number of devices queried."""


@functools.cache
def backend() -> Literal["egl", "osmesa"]:
    """Return this process's backend; UserError, naming the package to install, if there is none. Call it before
    importing MuJoCo, which under `MUJOCO_GL=osmesa` loads Mesa at import."""
    asked = os.environ.get("MUJOCO_GL", "").lower()
    if asked == "egl" and ctypes.util.find_library("EGL") is None:
        raise UserError("MUJOCO_GL=egl, and EGL is missing; unset it, or install a GPU's driver or libegl1")
    if asked == "egl" or (asked != "osmesa" and gpu()):
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


def before_mesa() -> None:
    """Load Triton, Torch's compiler, if it is installed. Triton and Mesa each contain an LLVM, and a process that loads
    Mesa's first crashes when it loads the other."""
    with contextlib.suppress(ImportError):
        importlib.import_module("triton._C.libtriton")


def context(width: int, height: int) -> Any:
    """Return a new MuJoCo context, with `make_current()` and `free()`; UserError if there is no OpenGL."""
    if backend() == "egl":
        from mujoco.egl import GLContext
    else:
        from mujoco.osmesa import GLContext
    return GLContext(width, height)


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
