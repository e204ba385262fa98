"""How our processes begin and end: torch has half a million objects to import and to take down again."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import NoReturn

OBJECTS = 100_000
"""New objects between two searches for garbage in cycles (choice). Python's own 700 make it search through everything
that is being imported, again and again: a fifth of the time that importing torch takes."""
LOST = 120
"""Exit code of the interpreter where what was printed could not be written."""


def begin() -> None:
    """To be called before anything large is imported."""
    gc.set_threshold(OBJECTS)


def leave(code: int) -> NoReturn:
    """End this process as the interpreter does (threads, what is registered with `atexit`, what was printed), except
    that no module is taken down: with torch, that alone takes most of a second."""
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
