"""The doctor with real servers: which ways of scoring each server supports."""

import pytest

from guidebench.harness.findings import Finding
from guidebench.harness.models import checkup, single_calls


def findings_of(server, **changes: object) -> dict[str, Finding]:
    settings = {"model": server.name, "base_url": server.url, **changes}
    config = single_calls.judge({"judge": "openai"} | {f"judge.{key}": value for key, value in settings.items()})
    return {finding.name: finding for finding in checkup.findings(config)}


@pytest.mark.release
def test_transformers_serve_can_only_be_read(transformers_serve) -> None:
    findings = findings_of(transformers_serve, scoring="literal")
    assert [findings[name].ok for name in ("prefill", "logprobs", "literal")] == [None, None, True], findings
    assert "continue" in findings["prefill"].text and "log-probabilities" in findings["logprobs"].text
    assert findings_of(transformers_serve)["logprobs"].ok is False, "the way that was chosen has to work"


@pytest.mark.release
def test_vllm_bears_every_way(vllm) -> None:
    findings = findings_of(vllm, scoring="prefill", timeout=600.0)  # the first call warms it up
    assert findings["server"] == Finding("server", True, f"{vllm.url}/ lists 'tiny'")
    ways = [findings[name] for name in ("prefill", "logprobs", "literal")]
    assert all(way.ok for way in ways), ways
    assert "mass" in findings["prefill"].text
