"""Submissions pushed and pulled by the Hub's official client, against a stand-in of the Hub's HTTP interface."""

import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.results.submissions import hub
from tests import programs
from tests.conftest import skip_or_fail
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
        skip_or_fail("huggingface_hub is missing; make extra E=hub")
    with serving() as hub:
        yield hub


@pytest.fixture
def settings(server: Hub, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process whose Hub client uses the stand-in server; the client reads it when it is
    imported."""
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")}
    hub_settings = {"HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}
    off = dict.fromkeys(("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_TELEMETRY"), "1")
    return {**inherited, **hub_settings, **off, "NO_PROXY": "127.0.0.1,localhost"}


@pytest.fixture
def submit(settings: dict[str, str], trained: Path, tmp_path: Path) -> Callable[..., programs.Exit]:
    """`submit("mine.zip")` packs the study into a file and pushes it to me/board."""
    return lambda file, **more: programs.bench(
        "submit", str(trained), "--output", file, "--push", "me/board", env={**settings, **more}, cwd=tmp_path
    )


@pytest.fixture
def pulled(settings: dict[str, str], tmp_path: Path) -> Callable[..., dict[str, list]]:
    def run(repo: str = "me/board", **more: str) -> dict[str, list]:
        process = programs.python(PULL, repo, str(tmp_path / "board"), env={**settings, **more}, cwd=tmp_path)
        assert process.code == 0, process.err
        outcome: dict[str, list] = json.loads(process.out.splitlines()[-1])
        return outcome

    return run


@pytest.mark.parametrize("regular_up_to", [0, 10**9], ids=["large", "regular"])
def test_what_one_pushes_another_pulls(
    server: Hub, submit: Callable[..., programs.Exit], pulled: Callable[..., dict[str, list]], tmp_path: Path,
    regular_up_to: int,
) -> None:  # fmt: skip
    server.regular_up_to = regular_up_to
    process = submit("mine.zip")
    assert process.code == 0, process.err
    assert f"pushed: {server.url}/datasets/me/board/commit/" in process.out
    name = manifest_of(tmp_path / "mine.zip").directory
    assert server.repos == {"me/board": {f"submissions/{name}.zip": (tmp_path / "mine.zip").read_bytes()}}
    assert {"POST /api/repos/create", "POST /api/datasets/me/board/commit/main"} <= {*server.received}
    assert ("PUT /storage/ID" in server.received) == (regular_up_to == 0) and pulled() == {
        "added": [name],
        "refused": [],
    }
    assert (tmp_path / "board" / "submissions" / name / "study.json").is_file()
    assert submit("mine.zip").code == 0 and len(server.repos["me/board"]) == 1


def test_hostile_archives_are_named_and_the_rest_is_added(
    server: Hub, pulled: Callable[..., dict[str, list]], archive: Path, forged: Callable[..., Path], cell: str
) -> None:
    good = archive.read_bytes()
    bad = forged(lambda contents: contents.update({f"{cell}/seed-0/policy.safetensors": b"\x80\x05."})).read_bytes()
    server.repos["me/board"] = {
        "README.md": b"# a board", "submissions/a.zip": bad, "submissions/b.zip": good, "submissions/c.zip": good[:-1],
        "submissions/<b>.zip": good, "submissions/d.zip/../../e.zip": good, "elsewhere/f.zip": b"PK", "g.pkl": b"\x80",
    }  # fmt: skip
    outcome = pulled()
    assert outcome["added"] == [manifest_of(archive).directory]
    refused = dict(outcome["refused"])
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
    assert path == "a.zip" and "more than the" in reason and not (tmp_path / "board").exists()


def test_a_repository_or_login_that_is_not_there_is_told(
    server: Hub, submit: Callable[..., programs.Exit], pulled: Callable[..., dict[str, list]], tmp_path: Path
) -> None:
    process = submit("a.zip", HF_TOKEN="hf_wrong")
    assert process.code == 2 and "hf auth login" in process.err and "Traceback" not in process.err
    assert "hf_wrong" not in process.err + process.out and (tmp_path / "a.zip").is_file()
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    for repo, more in (("me/nothing", {}), ("me/board", {"HF_HUB_OFFLINE": "1"}), ("me/board", nowhere)):
        assert f"the Hub does not serve {repo}" in str(pulled(repo, **more)["error"])


def test_what_is_no_repository_or_would_not_be_added_is_not_pushed(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repo in ("board", "me/board/more", "../x", "me/", "me/<b>", "", "me/bo ard"):
        with pytest.raises(UserError, match="is no dataset repository; expected OWNER/NAME"):
            hub.ready(repo)
    (tmp_path / "bad.zip").write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"bad\.zip is refused"):
        hub.push(tmp_path / "bad.zip", "me/board")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"install the extra hub \(\d+ MB\): "):  # before anything is packed
        hub.ready("me/board")
