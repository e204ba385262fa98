"""What VLM-RB's recipe declares: table 3's values with their sources, and overrides that fit the replay's fields."""

import pytest

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix, variations
from guidebench.methods.vlm_rb import VlmRb


def test_defaults_are_those_of_table_3_and_shares_outside_the_unit_interval_are_refused() -> None:
    defaults = {name: field.default for name, field in settings.fields(VlmRb).items()}
    assert (defaults["lambda_max"], defaults["clip_length"], defaults["threshold"]) == (0.5, 32, 0.5)
    with pytest.raises(UserError, match=r"replay.lambda_max=1.5: expected float or null in \[0, 1\]"):
        settings.build(VlmRb, {"lambda_max": 1.5}, "replay")


def test_table_4_is_declared_whole() -> None:
    ablations = registry.get("method", "vlm_rb").ablations
    declared = {layer["replay.lambda_max"] for layer in ablations.values() if "replay.lambda_max" in layer}
    assert declared == {None, 0.25, 0.5, 0.75, 1.0}


@pytest.mark.parametrize(("suite", "detector"), [("minigrid_doorkey", "sprite"), ("ogbench_scene", "motion")])
def test_the_papers_model_judges_in_its_profile_and_a_detector_in_the_small_ones(suite: str, detector: str) -> None:
    for profile, judge in {"paper": "transformers", "quick": detector, "smoke": detector}.items():
        command = [f"suite={suite}", "method=vlm_rb", f"profile={profile}"]
        assert {cell.names.part("judge") for cell in matrix.plan(command).cells} == {judge}
        assert {cell.names.part("judge") for cell in matrix.plan([*command, "judge=oracle"]).cells} == {"oracle"}
    (cell, *_) = matrix.plan([f"suite={suite}", "method=vlm_rb"]).cells
    assert (cell.section("judge").model, cell.model, cell.backend) == ("perception_lm_1b",) * 2 + ("transformers",)


def test_figure_7_and_a_boost_without_an_exponent_are_ablations() -> None:
    command = ["suite=minigrid_doorkey", "task=16x16", "method=vlm_rb"]
    plan = variations.ablations(matrix.plan(command), ["model"])
    assert {plan.matrix[cell.id].name: cell.model for cell in plan.cells} == {
        "full: model=perception_lm_1b": "perception_lm_1b",
        "model=perception_lm_3b": "perception_lm_3b",
        "model=perception_lm_8b": "perception_lm_8b",
    }
    full, boosted = variations.ablations(matrix.plan(command), ["alpha"]).cells
    replay = boosted.section("replay")
    assert (full.section("replay").alpha, replay.alpha, replay.td_boost) == (0.7, 1.0, True)
