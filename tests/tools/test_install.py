import subprocess
from pathlib import Path

import pytest

from tools import install

LISTING = """:env:.find-links='/wheels'
global.find-links='/other'
global.index-url='https://mirror/simple'
install.extra-index-url='file:///one file:///two'
freeze.user='no'
"""


def test_uv_looks_where_pip_is_configured_to_look() -> None:
    options = install.pip_options(LISTING)
    assert options["find-links"] == "/wheels", "the environment comes first"
    assert install.uv_options(options) == [
        *("--default-index", "https://mirror/simple", "--find-links", "/wheels"),
        *("--index", "file:///one", "--index", "file:///two", "--index-strategy", "unsafe-best-match"),
    ]
    assert install.uv_options(install.pip_options("")) == []


@pytest.mark.parametrize(
    ("gpu", "torch_present", "kinds"),
    [(False, False, ["cpu", "uv", "pip"]), (True, False, ["uv", "pip"]), (False, True, ["uv", "pip"])],
)
def test_the_cpu_build_of_torch_is_tried_where_neither_a_gpu_nor_torch_is(gpu, torch_present, kinds, monkeypatch):
    monkeypatch.setattr(install.sys, "platform", "linux")
    commands = install.attempts("suites", "python", {}, gpu, torch_present)
    assert ["cpu" if "cpu" in words else words[2] for words in commands] == kinds
    assert all(words[-1] == f"{install.ROOT}[suites]" for words in commands)


def test_where_uv_fails_pip_installs_and_a_failure_of_both_is_an_error(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    calls: list[list[str]] = []
    failing = {"uv"}

    def run(words, **options):
        calls.append(words)
        failed = words[2] in failing and "-e" in words
        return subprocess.CompletedProcess(words, int(failed), stdout="")

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install, "gpu_present", lambda: True)
    assert install.main([str(tmp_path), "suites"]) == 0
    assert [words[2] for words in calls if "-e" in words] == ["uv", "pip"]
    assert "trying again with pip" in capsys.readouterr().out
    failing.add("pip")
    assert install.main([str(tmp_path), "suites"]) == 1 and "docs/installing.md" in capsys.readouterr().err
