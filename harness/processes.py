"""Faster start and exit of our processes: importing torch creates half a million objects, and exiting frees them."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import NoReturn

OBJECTS = 100_000
"""New objects between two runs of the cyclic garbage collector (choice). Python's default of 700 rescans everything
that is being imported repeatedly, which is a fifth of the time to import torch."""
LOST = 120
"""Exit code of the interpreter if output could not be flushed."""


def begin() -> None:
    """Raise the garbage collector's threshold. Call it before large imports."""
    gc.set_threshold(OBJECTS)


def leave(code: int) -> NoReturn:
    """Exit like the interpreter (join threads, run `atexit` functions, flush output) but without freeing modules, which
    takes most of a second with torch."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:  # the reader went away
            pass
        except OSError:
            code = code or LOST
    os._exit(code)
