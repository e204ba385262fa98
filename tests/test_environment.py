"""What CI promises is there: a test that skips without an optional package must not be able to skip in CI unseen."""

import importlib.util
import os

import pytest


@pytest.mark.skipif(os.environ.get("CI_REQUIRES_SYSTEM") != "1", reason="promised in CI alone")
@pytest.mark.parametrize(
    "package",
    [
        "axe_playwright_python",
        "fastapi",
        "gymnasium_robotics",
        "huggingface_hub",
        "jsonschema",
        "mujoco",
        "ogbench",
        "open_clip",
        "openai",
        "playwright",
        "timm",
        "torchvision",
        "transformers",
    ],
)
def test_an_optional_package_is_installed_in_ci(package: str) -> None:
    assert importlib.util.find_spec(package) is not None, f"{package} is missing; `make test` installs it"
