"""Every method starts with nothing but `profile=smoke`, on every suite that it fits: no weights, server or key."""

import re
from collections.abc import Mapping

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix

WORLDS = ("crafter", "crafter_ood", "housekeep")
ARMS = ("metaworld", "metaworld_mt10", "metaworld_pbrl")
DISCRETE = ("classic", *WORLDS, "minigrid_doorkey")
"""Suites whose profile `smoke` has tasks of discrete actions."""
FIXED = (*ARMS, "ogbench_scene", "point_maze")
"""Of the others, those whose goal is the same in each episode."""
CONTINUOUS = ("bin_sorting", *FIXED)
FITS: Mapping[tuple[str, ...], str] = {
    (*CONTINUOUS, *DISCRETE): "aer apt apt_exploration curiosity ero per random relo uer",
    CONTINUOUS: "bc cal_ql pebble robofume sac",
    DISCRETE: "self_imitation sparse transfer",
    (*FIXED, *DISCRETE): "liv liv_proj roboclip tadpole",
    FIXED: "furl furl_no_goal lagea lagea_released relay rl_vlm_f",
    WORLDS: "ellm ellm_exploration linvit model_as_agent model_with_planner",
    WORLDS[1:]: "dsadf dsadf_transfer",
    (*CONTINUOUS, *WORLDS, "minigrid_doorkey"): "vlm_rb",
    (*CONTINUOUS, *WORLDS[1:], "minigrid_doorkey"): "expert",
    ("bin_sorting", *ARMS, "ogbench_scene"): "kagi",
    ("bin_sorting", *ARMS): "moka",
    (*ARMS, "point_maze"): "pebble_llm rl_sallm_f",
    (*FIXED, "classic", "minigrid_doorkey"): "vlm_rm",
}
"""Suites -> the methods that can be planned on them; on others a method needs another learner, observation or task.

Of the methods that learn from preferences, those of language models need coordinates in metres, which ogbench_scene and
bin_sorting do not name, and that of pictures needs the same goal in each episode. No event occurs in classic, so that
nobody who is hand-written or told of events can judge its clips."""
EXPECTED = {method: {*suites} for suites, methods in FITS.items() for method in methods.split()}


def refusal(method: str, suite: str) -> str:
    """Return why a smoke run cannot be planned, or "" if it can; such a run asks no foundation model."""
    try:
        plan = matrix.plan([f"suite={suite}", f"method={method}", "profile=smoke"])
    except UserError as error:
        return str(error)
    backends = {cell.section(part.role).backend for cell in plan.trained for part in cell.models}
    assert backends <= {"scripted", "oracle"}, backends
    return ""


@pytest.mark.parametrize("method", registry.names("method"))
def test_a_method_starts_at_profile_smoke_without_another_word(method: str) -> None:
    refused = {suite: why for suite in registry.names("suite") if (why := refusal(method, suite))}
    assert {*registry.names("suite")} - refused.keys() == EXPECTED[method], refused
    roles = "|".join(role for role, kinds in registry.roles().items() if kinds & {*registry.MODELS})
    lacking_models = {
        suite: why for suite, why in refused.items() if re.match(rf"(in the .*: )?({roles}) '|.*models=", why)
    }
    assert not lacking_models or (method, *lacking_models) == ("vlm_rb", "classic"), (
        "the models are no reason, save that nothing happens"
    )
