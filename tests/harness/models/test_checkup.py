"""What the doctor says of a model: its files, the memory it needs, and a call really put to it."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.findings import Finding
from guidebench.harness.identity import digests
from guidebench.harness.models import checkup, single_calls
from tests.conftest import require
from tests.harness.models.canned import completion, serving

require("transformers")


@pytest.fixture
def qwen(tiny: Callable[..., Path]) -> Path:
    return tiny("qwen_vl")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def checked(judge: str = "transformers", **given: Any) -> dict[str, Finding]:
    """Name -> finding for `judge.model=…` and the like."""
    config = single_calls.judge({"judge": judge} | {f"judge.{key}": value for key, value in given.items()})
    return {finding.name: finding for finding in checkup.findings(config)}


def test_a_model_directory_is_weighed_loaded_and_asked(qwen: Path) -> None:
    found = checked(model=str(qwen), dtype="float32", device="cpu")
    assert list(found) == ["files", "digest", "memory", "call"] and all(finding.ok for finding in found.values())
    assert found["digest"].text == digests.of_model(qwen)
    millions = sum(file.stat().st_size for file in qwen.glob("*.safetensors")) / 4e6
    stated = re.match(r"(\S+) billion parameters", found["files"].text)
    assert stated is not None and float(stated[1]) * 1e3 == pytest.approx(millions, rel=0.1)
    said = re.match(r"P\(yes\) (0\.\d+) of a mass of (0\.\d+) for yes and no; .* with loading", found["call"].text)
    assert said is not None and 0 < float(said[1]) < 1 and 0 < float(said[2]) < 1


def test_the_command_adds_the_model_to_the_machine(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json", "judge=transformers", f"judge.model={qwen}", "judge.dtype=float32"])
    found = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert {"torch", "disk", "transformers", "files", "memory", "call"} <= set(found)
    assert found["call"]["ok"] is True and code == int(any(finding["ok"] is False for finding in found.values()))
    assert cli.main(["doctor", "--json", "chat=transformers", f"chat.model={qwen}", "chat.dtype=float32"]) == code
    told = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert told["call"]["ok"] is True and told["call"]["text"].startswith("answered ")
    assert cli.main(["doctor", f"judge.model={qwen}"]) == 2
    assert "add judge=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda where: (where / "config.json").unlink(), "has no config.json"),
        (lambda where: (where / "model.safetensors").unlink(), "holds no .*safetensors"),
        (lambda where: (where / "model.safetensors").write_bytes(b"\x80\x04K\x01."), "is damaged"),
        (
            lambda where: (where / "model.safetensors.index.json").write_text(
                '{"weight_map": {"x": "model-2.safetensors"}}'
            ),
            "lacks model-2.safetensors",
        ),
        (lambda where: (where / "model.safetensors.index.json").write_text("[]"), "is damaged"),
    ],
)
def test_a_model_that_is_not_whole_is_not_loaded_and_told_why(qwen: Path, tmp_path: Path, damage, says: str) -> None:
    copy = tmp_path / "model"
    shutil.copytree(qwen, copy)
    damage(copy)
    found = checked(model=str(copy))
    assert list(found) == ["files"] and found["files"].ok is False
    assert str(copy) in found["files"].text and re.search(says, found["files"].text)


def test_a_model_that_is_not_here_is_never_downloaded_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    found = checked(model="perception_lm_1b")
    assert list(found) == ["recipe", "files"] and found["recipe"].ok and found["files"].ok is None
    assert "hf download facebook/Perception-LM-1B" in found["files"].text and "2.0 GB" in found["files"].text
    assert "neither a directory" in checked(model=str(tmp_path / "none"))["files"].text
    assert "use it through openai" in checked(model="gpt-4o")["files"].text


def test_memory_that_is_not_there_is_said_before_it_is_tried(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_free_memory", lambda device: 1e5)
    assert "choose a smaller model" in checked(model=str(qwen), dtype="float32", device="cpu")["memory"].text


TOKENS = {"content": [{"token": " Yes", "logprob": -0.1, "top_logprobs": [
    {"token": " Yes", "logprob": -0.105}, {"token": " No", "logprob": -2.303}]}]}  # fmt: skip
"""Log-probabilities of 0.9 and 0.1."""


def hosted(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
    """A server as hosted ones are: log-probabilities are told, and a begun answer is not continued."""
    if path == "/models":
        return 200, {"object": "list", "data": [{"id": "canned-1"}, {"id": "gpt-4o-mini-2024-07-18"}]}
    if "continue_final_message" in body:
        return 400, {"error": {"message": "unknown parameter: continue_final_message"}}
    return 200, completion("Answer: Yes", TOKENS if body.get("logprobs") else None)


def test_a_server_s_ways_of_scoring_are_told_by_trying_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(hosted) as url:
        found = checked("openai", base_url=url)
        strange = checked("openai", base_url=url, model="strange", scoring="prefill")
    assert list(found) == ["recipe", "key", "server", "prefill", "logprobs", "literal"]
    assert [finding.ok for finding in found.values()] == [True, None, True, None, True, True]
    assert "0.15 / 0.6 USD" in found["recipe"].text and "not set" in found["key"].text
    assert "lists 'gpt-4o-mini-2024-07-18'" in found["server"].text
    assert "does not continue" in found["prefill"].text
    assert found["logprobs"].text.startswith("P(yes) 0.900 of a mass of 1.000 for yes and no, by canned-1 as it says; ")
    assert found["literal"].text.startswith("P(yes) 1.000, by canned-1")
    assert strange["prefill"].ok is False, "the way that was chosen has to work"
    assert "does not list 'strange', but canned-1" in strange["server"].text


def test_a_server_that_is_away_or_turns_a_key_away_is_told_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-test-0123456789abcdef"
    monkeypatch.setenv("MY_SERVER_KEY", key)
    with serving(lambda path, body, headers: (401, {"error": {"message": f"bad {headers['authorization']}"}})) as url:
        refused = checked("openai", base_url=url, model="any", key_variable="MY_SERVER_KEY")
    gone = checked("openai", base_url=url, model="any", key_variable="MY_SERVER_KEY", timeout=5.0)
    assert list(refused) == list(gone) == ["key", "server"]
    assert refused["key"] == Finding("key", True, "MY_SERVER_KEY is set")
    assert "check MY_SERVER_KEY" in refused["server"].text and refused["server"].ok is False
    assert "no connection" in gone["server"].text and gone["server"].ok is False
    assert key not in repr((refused, gone))
