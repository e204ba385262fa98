"""What `bench doctor` reports of a model: its files, the memory it needs, and a small call that is really made."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import registry
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


def findings_of(judge: str = "transformers", **settings: Any) -> dict[str, Finding]:
    """Return name -> finding for a judge with these settings."""
    config = single_calls.judge({"judge": judge} | {f"judge.{key}": value for key, value in settings.items()})
    return {finding.name: finding for finding in checkup.findings(config)}


def test_a_model_directory_is_weighed_loaded_and_asked(qwen: Path) -> None:
    findings = findings_of(model=str(qwen), device="cpu")
    assert "at work in float32 on cpu" in findings["memory"].text, "a small model's precision"
    assert list(findings) == ["files", "digest", "memory", "call"] and all(finding.ok for finding in findings.values())
    assert findings["digest"].text == digests.of_model(qwen)
    millions = sum(file.stat().st_size for file in qwen.glob("*.safetensors")) / 4e6
    stated = re.match(r"(\S+) billion parameters", findings["files"].text)
    assert stated is not None and float(stated[1]) * 1e3 == pytest.approx(millions, rel=0.1)
    probability = re.match(
        r"P\(yes\) (0\.\d+) of a mass of (0\.\d+) for yes and no; .* with loading", findings["call"].text
    )
    assert probability is not None and 0 < float(probability[1]) < 1 and 0 < float(probability[2]) < 1


def test_a_gguf_file_is_weighed_loaded_and_asked_and_a_base_model_is_named(tiny: Callable[..., Path]) -> None:
    for template, names in ((True, []), (False, ["template"])):
        file = tiny("gguf", template=template) / "model.gguf"
        config = registry.get("chat", "transformers")(model=str(file), dtype="float32", device="cpu")
        findings = {finding.name: finding for finding in checkup.findings(config, "chat")}
        assert list(findings) == ["files", *names, "digest", "memory", "call"]
        assert not any(finding.ok is False for finding in findings.values())
        assert "of llama" in findings["files"].text and findings["digest"].text == digests.of_model(file)
        assert findings["call"].text.startswith("answered ")


def test_the_command_adds_the_model_to_the_machine(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json", "judge=transformers", f"judge.model={qwen}", "judge.dtype=float32"])
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert {"torch", "disk", "transformers", "files", "memory", "call"} <= set(findings)
    assert findings["call"]["ok"] is True and code == int(any(finding["ok"] is False for finding in findings.values()))
    assert cli.main(["doctor", "--json", "chat=transformers", f"chat.model={qwen}", "chat.dtype=float32"]) == code
    chat_findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert chat_findings["call"]["ok"] is True and chat_findings["call"]["text"].startswith("answered ")
    assert cli.main(["doctor", f"judge.model={qwen}"]) == 2
    assert "add judge=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda directory: (directory / "config.json").unlink(), "has no config.json"),
        (lambda directory: (directory / "model.safetensors").unlink(), "holds no .*safetensors"),
        (lambda directory: (directory / "model.safetensors").write_bytes(b"\x80\x04K\x01."), "is damaged"),
        (
            lambda directory: (directory / "model.safetensors.index.json").write_text(
                '{"weight_map": {"x": "model-2.safetensors"}}'
            ),
            "lacks model-2.safetensors",
        ),
        (lambda directory: (directory / "model.safetensors.index.json").write_text("[]"), "is damaged"),
    ],
)
def test_a_model_that_is_not_whole_is_not_loaded_and_told_why(qwen: Path, tmp_path: Path, damage, says: str) -> None:
    copy = tmp_path / "model"
    shutil.copytree(qwen, copy)
    damage(copy)
    findings = findings_of(model=str(copy))
    assert list(findings) == ["files"] and findings["files"].ok is False
    assert str(copy) in findings["files"].text and re.search(says, findings["files"].text)


def test_a_model_that_is_not_here_is_never_downloaded_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    findings = findings_of(model="perception_lm_1b")
    assert list(findings) == ["recipe", "files"] and findings["recipe"].ok and findings["files"].ok is None
    assert "hf download facebook/Perception-LM-1B" in findings["files"].text and "2.0 GB" in findings["files"].text
    assert "neither a directory" in findings_of(model=str(tmp_path / "none"))["files"].text
    assert "use it through openai" in findings_of(model="gpt-4o")["files"].text


def test_memory_that_is_not_there_is_said_before_it_is_tried(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_free_memory", lambda device: 1e5)
    assert "choose a smaller model" in findings_of(model=str(qwen), dtype="float32", device="cpu")["memory"].text


TOKENS = {"content": [{"token": " Yes", "logprob": -0.1, "top_logprobs": [
    {"token": " Yes", "logprob": -0.105}, {"token": " No", "logprob": -2.303}]}]}  # fmt: skip
"""Log-probabilities of 0.9 and 0.1."""


def answer_as_hosted(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
    """Answer as a hosted server does: with log-probabilities, but without continuing a partial answer."""
    if path == "/models":
        return 200, {"object": "list", "data": [{"id": "canned-1"}, {"id": "gpt-4o-mini-2024-07-18"}]}
    if "continue_final_message" in body:
        return 400, {"error": {"message": "unknown parameter: continue_final_message"}}
    return 200, completion("Answer: Yes", TOKENS if body.get("logprobs") else None)


def test_a_server_s_ways_of_scoring_are_told_by_trying_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(answer_as_hosted) as url:
        findings = findings_of("openai", base_url=url)
        strange = findings_of("openai", base_url=url, model="strange", scoring="prefill")
    assert list(findings) == ["recipe", "key", "server", "prefill", "logprobs", "literal", "choice"]
    assert [finding.ok for finding in findings.values()] == [True, None, True, None, True, True, None]
    assert "0.15 / 0.6 USD" in findings["recipe"].text and "not set" in findings["key"].text
    assert "lists 'gpt-4o-mini-2024-07-18'" in findings["server"].text
    assert "does not continue" in findings["prefill"].text
    assert findings["logprobs"].text.startswith(
        "P(yes) 0.900 of a mass of 1.000 for yes and no, by canned-1 as it says; "
    )
    assert findings["literal"].text.startswith("P(yes) 1.000, by canned-1")
    assert "expected a letter from A to B, got 'Answer: Yes'" in findings["choice"].text
    assert strange["prefill"].ok is False, "the way that was chosen has to work"
    assert "does not list 'strange', but canned-1" in strange["server"].text


def test_a_server_that_is_away_or_turns_a_key_away_is_told_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-test-0123456789abcdef"
    monkeypatch.setenv("MY_SERVER_KEY", key)
    with serving(lambda path, body, headers: (401, {"error": {"message": f"bad {headers['authorization']}"}})) as url:
        refused = findings_of("openai", base_url=url, model="any", key_variable="MY_SERVER_KEY")
    unreachable = findings_of("openai", base_url=url, model="any", key_variable="MY_SERVER_KEY", timeout=5.0)
    assert list(refused) == list(unreachable) == ["key", "server"]
    assert refused["key"] == Finding("key", True, "MY_SERVER_KEY is set")
    assert "check MY_SERVER_KEY" in refused["server"].text and refused["server"].ok is False
    assert "no connection" in unreachable["server"].text and unreachable["server"].ok is False
    assert key not in repr((refused, unreachable))


def test_each_way_of_choosing_is_tried_at_a_server() -> None:
    """The server scores no prompts, gives the labels equal chances, and writes yes."""

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        if path == "/models":
            return 200, {"data": [{"id": "m"}]}
        if "response_format" in body:
            return 200, completion('{"answer": "yes"}')
        equal = [{"token": label, "logprob": -1.5} for label in "ABC"]
        return 200, completion("A", {"content": [{"token": "A", "logprob": -1.5, "top_logprobs": equal}]})

    with serving(answers) as url:
        chat = registry.get("chat", "openai")(model="m", base_url=url, answer="choice", choice_by="label")
        findings = {finding.name: finding for finding in checkup.findings(chat, "chat")}
    assert [findings[way].ok for way in ("prompt", "label", "enum")] == [None, False, True]
    assert "no log-probabilities of a prompt" in findings["prompt"].text and "-1.5 for each" in findings["label"].text
    assert findings["enum"].text.startswith("candidate 1 of 3")
