"""A dry run reports what the machine lacks, and a run does so before it writes anything."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.methods.linvit import dialogue

SMOKE = ("suite=minigrid_doorkey", "profile=smoke")
VLM_RB = (*SMOKE, "method=vlm_rb")


def refusal(capsys: pytest.CaptureFixture[str], directory: Path, *overrides: str) -> str:
    """Return the message with which both a dry run and a run refuse the same plan."""
    command = ["run", *overrides, f"output={directory}"]
    assert cli.main([*command, "--dry-run"]) == 1
    dry = capsys.readouterr().out
    assert cli.main(command) == 2
    message = capsys.readouterr().err.removeprefix("bench: ").splitlines()[0]
    assert f"missing: {message}" in dry
    assert not directory.exists()
    return message


def test_device_cuda_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = refusal(capsys, tmp_path / "s", *SMOKE, "method=uer", "device=cuda")
    assert "finds no GPU here; use device=cpu" in message


@pytest.mark.parametrize(
    ("overrides", "package"),
    [
        (("suite=metaworld", "task=button-press", "method=sac"), "metaworld"),
        (("suite=ogbench_scene", "task=drawer", "method=uer"), "ogbench"),
        (("suite=point_maze", "method=sac"), "gymnasium_robotics"),
        (("suite=classic", "task=HalfCheetah-v5", "method=sac"), "mujoco"),
    ],
)
def test_a_missing_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, overrides, package: str
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest))
    message = refusal(capsys, tmp_path / "s", *overrides, "profile=smoke")
    assert f"needs the package {package}" in message and "install the extra mujoco (312 MB): " in message


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (("judge=transformers", "judge.model=/nowhere/model"), "there is nothing at this path"),
        (("judge=openai", "models.cassette=/nowhere/study"), "no recorded calls there"),
        (("judge=openai", "models.mode=replay"), "holds no recorded calls"),
    ],
)
def test_a_missing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, overrides, says: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert says in refusal(capsys, tmp_path / "s", *VLM_RB, *overrides)


def test_a_schema_that_cannot_be_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., Path]
) -> None:
    pytest.importorskip("llguidance")
    fields = {"weights": {"type": "integer", "minimum": 2, "maximum": 1}}
    nothing = {"type": "object", "properties": fields, "required": ["weights"]}
    monkeypatch.setattr(dialogue, "schema", lambda names: nothing)
    words = ("suite=housekeep", "method=linvit", "profile=smoke", "prior=transformers", f"prior.model={tiny('llama')}")
    message = refusal(capsys, tmp_path / "s", *words, "prior.dtype=float32", "prior.answer=schema")
    assert "prior.answer=schema: the JSON schema of an answer cannot be compiled (Unsatisfiable schema" in message
