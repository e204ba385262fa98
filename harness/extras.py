"""The optional extras of the package: which modules each one installs, and the shell command that installs it here."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from guidebench.harness.errors import UserError


class Extra(NamedTuple):
    """An extra of pyproject.toml."""

    modules: tuple[str, ...]
    """Modules that can be imported once the extra is installed."""
    megabytes: int
    """Size of what it adds to the core, installed (Linux, Python 3.11, the versions of constraints.txt)."""


EXTRAS = {
    "crafter": Extra(("crafter", "opensimplex"), 2),
    "mujoco": Extra(("mujoco", "gymnasium_robotics", "metaworld", "ogbench"), 312),
    "video": Extra(("imageio_ffmpeg",), 173),
    "minari": Extra(("h5py",), 17),
    "openai": Extra(("openai",), 33),
    "vlm": Extra(("transformers", "torchvision", "diffusers", "open_clip", "timm", "num2words", "llguidance"), 284),
    "tiny": Extra(("transformers", "accelerate", "gguf", "llguidance"), 118),
    "ray": Extra(("ray",), 244),
    "tensorboard": Extra(("tensorboard",), 56),
    "mlflow": Extra(("mlflow", "alembic", "sqlalchemy"), 131),
    "wandb": Extra(("wandb",), 90),
    "trackio": Extra(("trackio",), 62),
    "hub": Extra(("huggingface_hub",), 24),
}
"""Name -> extra. pyproject.toml has the requirements."""


def is_installed(extra: str) -> bool:
    """Return whether every module of an extra can be found; imports none of them."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra].modules)


def missing(need: str, extra: str) -> UserError:
    """Return the error for a missing package of an extra, with the extra's size and the command that installs it.
    `need`: which feature needs which package, such as `launcher=ray needs the package ray here`."""
    return UserError(f"{need}; install the extra {extra} ({EXTRAS[extra].megabytes} MB): {install_line(extra)}")


def install_line(extra: str) -> str:
    """Return the shell command that adds an extra to this installation, by where it was installed from (PEP 610)."""
    origin = _origin()
    if origin is None:  # from an index, which will also answer for the extra
        return f"pip install {shlex.quote(f'guidebench[{extra}]')}"
    address = str(origin.get("url", ""))
    place = url2pathname(urlsplit(address).path) if address.startswith("file:") else address
    if version := origin.get("vcs_info"):
        source = f"{version.get('vcs', 'git')}+{address}@{version.get('commit_id', '')}"
        return f"pip install {shlex.quote(f'guidebench[{extra}] @ {source}')}"
    if not origin.get("dir_info", {}).get("editable"):
        return f"pip install {shlex.quote(f'{place}[{extra}]')}"
    if Path(sys.prefix) == Path(place) / ".venv" and (Path(place) / "Makefile").is_file():
        inside = "" if Path.cwd() == Path(place) else f" -C {shlex.quote(place)}"
        return f"make{inside} extra E={extra}"
    return f"pip install -e {shlex.quote(f'{place}[{extra}]')}"


@functools.cache
def _origin() -> dict[str, Any] | None:
    """Return the record of where the package was installed from, or None if pip took it from an index."""
    for distribution in metadata.distributions(name="guidebench"):  # a checkout's egg-info, without it, may come first
        if text := distribution.read_text("direct_url.json"):
            with contextlib.suppress(ValueError):
                return dict(json.loads(text))
    return None
