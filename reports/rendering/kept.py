"""A cache of values that take seconds to compute and never change, below $GUIDEBENCH_CACHE or ~/.cache/guidebench."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from guidebench.harness.records.files import write_bytes

Given = ParamSpec("Given")
Made = TypeVar("Made")


def kept(*packages: str) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Cache a function whose JSON value follows from its arguments, its module's text and these packages' versions.

    Where nothing can be stored, each process computes the value again.
    """

    def decorate(make: Callable[Given, Made]) -> Callable[Given, Made]:
        @functools.cache
        def found(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            path = _folder() / f"{make.__name__}-{_key(make, packages, args, kwargs)}.json"
            with contextlib.suppress(OSError, ValueError):
                return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
            made = make(*args, **kwargs)
            with contextlib.suppress(OSError):
                write_bytes(path, json.dumps(made).encode())
            return made

        return cast("Callable[Given, Made]", functools.wraps(make)(found))

    return decorate


def _folder() -> Path:
    return Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench") / "pages"


def _key(make: Callable[..., object], packages: tuple[str, ...], args: object, kwargs: object) -> str:
    modules = (Path(str(sys.modules[make.__module__].__file__)), Path(__file__).with_name("inline.py"))
    text = b"".join(module.read_bytes() for module in modules)
    versions = [version(package) for package in packages]
    return hashlib.sha256(text + repr((versions, args, kwargs)).encode()).hexdigest()[:16]
