"""Submissions pushed and pulled by the Hub's official client, against a stand-in of the Hub's HTTP interface."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.results.submissions import hub
from tests.results.submissions.conftest import manifest_of
from tests.results.submissions.hub_server import TOKEN, Hub, serving

PULL = """
import json, sys
from pathlib import Path
from guidebench.harness.errors import UserError
from guidebench.results.submissions import hub
try:
    found = hub.pull(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"added": [path.name for path in found.added], "refused": found.refused}))
except UserError as error:
    print(json.dumps({"error": str(error)}))
"""


@pytest.fixture
def server() -> Iterator[Hub]:
    if importlib.util.find_spec("huggingface_hub") is None:
        if os.environ.get("CI_REQUIRES_SYSTEM") == "1":
            pytest.fail("huggingface_hub is missing; `make test` installs it")
        pytest.skip("huggingface_hub is missing; pip install 'guidebench[hub]'")
    with serving() as found:
        yield found


@pytest.fixture
def python(server: Hub, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python with the client pointed at the stand-in; the client reads its settings when it is imported."""

    def run(*words: object, **settings: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")}
        own = {
            "HF_ENDPOINT": server.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(tmp_path / "hf"),
            "NO_PROXY": "127.0.0.1,localhost",
        }
        own |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, *map(str, words)]
        environment = {**kept, **own, **settings}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return run


@pytest.fixture
def pulled(python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Callable[..., dict[str, list]]:
    def run(repo: str = "me/board", **settings: str) -> dict[str, list]:
        done = python("-c", PULL, repo, tmp_path / "board", **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("regular_up_to", [0, 10**9], ids=["large", "regular"])
def test_what_one_pushes_another_pulls(
    server: Hub, python: Callable[..., subprocess.CompletedProcess[str]], pulled: Callable[..., dict[str, list]],
    trained: Path, tmp_path: Path, regular_up_to: int,
) -> None:  # fmt: skip
    server.regular_up_to = regular_up_to
    done = python("-m", "guidebench", "submit", trained, "--output", "mine.zip", "--push", "me/board")
    assert done.returncode == 0, done.stderr
    assert f"pushed: {server.url}/datasets/me/board/commit/" in done.stdout
    name = manifest_of(tmp_path / "mine.zip").directory
    assert server.repos == {"me/board": {f"submissions/{name}.zip": (tmp_path / "mine.zip").read_bytes()}}
    assert "POST /api/repos/create" in server.asked and "POST /api/datasets/me/board/commit/main" in server.asked
    assert ("PUT /storage/ID" in server.asked) == (regular_up_to == 0)
    assert pulled() == {"added": [name], "refused": []}
    assert (tmp_path / "board" / "submissions" / name / "study.json").is_file()
    again = python("-m", "guidebench", "submit", trained, "--output", "mine.zip", "--push", "me/board")
    assert again.returncode == 0 and len(server.repos["me/board"]) == 1


def test_hostile_archives_are_named_and_the_rest_is_added(
    server: Hub, pulled: Callable[..., dict[str, list]], archive: Path, forged: Callable[..., Path], cell: str
) -> None:
    good = archive.read_bytes()
    bad = forged(lambda contents: contents.update({f"{cell}/seed-0/policy.safetensors": b"\x80\x05."})).read_bytes()
    server.repos["me/board"] = {
        "README.md": b"# a board", "submissions/a.zip": bad, "submissions/b.zip": good, "submissions/c.zip": good[:-1],
        "submissions/<b>.zip": good, "submissions/d.zip/../../e.zip": good, "elsewhere/f.zip": b"PK", "g.pkl": b"\x80",
    }  # fmt: skip
    found = pulled()
    assert found["added"] == [manifest_of(archive).directory]
    refused = dict(found["refused"])
    assert set(refused) == {
        "submissions/a.zip", "submissions/c.zip", "submissions/<b>.zip", "submissions/d.zip/../../e.zip",
        "elsewhere/f.zip",
    }  # fmt: skip
    assert "no safetensors file" in refused["submissions/a.zip"] and "cut short" in refused["submissions/c.zip"]
    assert "its name is none" in refused["submissions/<b>.zip"]


def test_more_bytes_than_announced_are_not_taken(
    server: Hub, pulled: Callable[..., dict[str, list]], archive: Path, tmp_path: Path
) -> None:
    server.repos["me/board"], server.more = {"a.zip": archive.read_bytes()}, 2**22
    ((path, reason),) = pulled()["refused"]
    assert path == "a.zip" and "more than the" in reason
    assert not (tmp_path / "board").exists()


def test_a_repository_or_login_that_is_not_there_is_told(
    server: Hub, python: Callable[..., subprocess.CompletedProcess[str]], pulled: Callable[..., dict[str, list]],
    trained: Path, tmp_path: Path,
) -> None:  # fmt: skip
    assert "the Hub does not serve me/nothing" in str(pulled("me/nothing")["error"])
    done = python("-m", "guidebench", "submit", trained, "--output", "a.zip", "--push", "me/board", HF_TOKEN="hf_wrong")
    assert done.returncode == 2 and "hf auth login" in done.stderr and "Traceback" not in done.stderr
    assert "hf_wrong" not in done.stderr + done.stdout
    assert (tmp_path / "a.zip").is_file()
    offline = pulled(HF_HUB_OFFLINE="1")
    assert "the Hub does not serve me/board" in str(offline["error"])
    unreachable = pulled(HF_ENDPOINT="http://127.0.0.1:9")
    assert "the Hub does not serve me/board" in str(unreachable["error"])


def test_only_what_would_be_added_is_pushed(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"bad\.zip is refused"):
        hub.push(tmp_path / "bad.zip", "me/board")


def test_a_missing_client_names_its_extra_before_anything_is_packed(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'guidebench\[hub\]'"):
        hub.ready("me/board")


@pytest.mark.parametrize("repo", ["board", "me/board/more", "../x", "me/", "me/<b>", "", "me/bo ard"])
def test_what_is_no_repository_is_refused(repo: str) -> None:
    with pytest.raises(UserError, match="is no dataset repository; expected OWNER/NAME"):
        hub.ready(repo)
