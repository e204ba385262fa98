import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import extras
from guidebench.harness.commands import list_

ROOT = Path(__file__).parents[2]
GROUPS = {"suites", "dev", "docs", "peers"}
"""Extras of pyproject.toml that no part needs by itself."""


def test_the_table_holds_every_extra_that_a_part_may_need() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.EXTRAS) == set(declared) - GROUPS
    for name, extra in extras.EXTRAS.items():
        assert len(extra.modules) == len(declared[name]), name
        assert extras.is_installed(name), f"make test installs {name}"


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        ({"url": "file:///a/b%20c", "dir_info": {"editable": True}}, "pip install -e '/a/b c[ray]'"),
        ({"url": "file:///dist/guidebench-1.whl", "archive_info": {}}, "pip install '/dist/guidebench-1.whl[ray]'"),
        ({"url": "file:///checkout", "dir_info": {}}, "pip install '/checkout[ray]'"),
        (
            {"url": "https://host/project", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'guidebench[ray] @ git+https://host/project@abc'",
        ),
        (None, "pip install 'guidebench[ray]'"),
    ],
)
def test_the_line_installs_an_extra_from_where_this_copy_came(origin: Any, line: str, monkeypatch) -> None:
    monkeypatch.setattr(extras, "_origin", lambda: origin)
    assert extras.install_line("ray") == line


def test_in_the_environment_of_a_checkout_make_adds_the_extra(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "Makefile").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(extras, "_origin", lambda: {"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert extras.install_line("ray") == f"make -C {tmp_path} extra E=ray"
    monkeypatch.chdir(tmp_path)
    assert extras.install_line("ray") == "make extra E=ray"


def test_a_list_says_what_is_not_installed_and_how_large_it_is(monkeypatch, capsys) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "mujoco")
    monkeypatch.setattr(extras, "install_line", lambda extra: f"INSTALL {extra}")
    list_.run(list_.argparse.Namespace(kind="suite", json=False))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["point_maze"].endswith("(not installed, 312 MB: INSTALL mujoco)")
    assert not any("not installed" in lines[suite] for suite in ("crafter", "minigrid_doorkey", "housekeep"))
