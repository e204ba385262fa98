"""The doctor in front of real servers: which ways of scoring each bears."""

import pytest

from guidebench.harness.findings import Finding
from guidebench.harness.models import checkup, single_calls


def checked(served, **given: object) -> dict[str, Finding]:
    settings = {"model": served.name, "base_url": served.url, **given}
    config = single_calls.judge({"judge": "openai"} | {f"judge.{key}": value for key, value in settings.items()})
    return {finding.name: finding for finding in checkup.findings(config)}


def test_transformers_serve_can_only_be_read(transformers_serve) -> None:
    found = checked(transformers_serve, scoring="literal")
    assert [found[name].ok for name in ("prefill", "logprobs", "literal")] == [None, None, True], found
    assert "continue" in found["prefill"].text and "log-probabilities" in found["logprobs"].text
    assert checked(transformers_serve)["logprobs"].ok is False, "the way that was chosen has to work"


@pytest.mark.slow
def test_vllm_bears_every_way(vllm) -> None:
    found = checked(vllm, scoring="prefill", timeout=600.0)  # the first call warms it up
    assert found["server"] == Finding("server", True, f"{vllm.url}/ lists 'tiny'")
    ways = [found[name] for name in ("prefill", "logprobs", "literal")]
    assert all(way.ok for way in ways), ways
    assert "mass" in found["prefill"].text
