"""Every method starts with nothing but `profile=smoke`, on every suite that it fits: no weights, server or key."""

from collections.abc import Mapping

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix

FITS: Mapping[str, str] = {}
"""Method -> the suites on which it can be planned; on others it needs another learner, observation or task."""


def refusal(method: str, suite: str) -> str:
    """Why a smoke run cannot be planned, or ""; it asks no foundation model."""
    try:
        plan = matrix.plan([f"suite={suite}", f"method={method}", "profile=smoke"])
    except UserError as error:
        return str(error)
    backends = {cell.section(part.role).backend for cell in plan.trained for part in cell.models}
    return "" if backends <= {"scripted", "oracle"} else f"asks a model: {backends}"


@pytest.mark.parametrize("method", registry.names("method"))
def test_a_method_starts_at_profile_smoke_without_another_word(method: str) -> None:
    refused = {suite: why for suite in registry.names("suite") if (why := refusal(method, suite))}
    assert " ".join(suite for suite in registry.names("suite") if suite not in refused) == FITS[method], refused
    roles = {role for role, kinds in registry.roles().items() if kinds & {*registry.MODELS}}
    assert not {suite: why for suite, why in refused.items() if why.split(" ")[0] in roles}, "a model is no reason"
