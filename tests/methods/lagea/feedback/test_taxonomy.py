"""The schema uses the keywords that a recorded call may have, and the codes of the paper."""

from guidebench.harness.models.calls import schemas
from guidebench.methods.lagea.feedback.taxonomy import CODES, ERRORS, SCHEMA, SUCCESSES


def test_the_schema_is_that_of_figure_9_within_the_allowed_keywords() -> None:
    schemas.check(SCHEMA)
    fields = (
        "task", "outcome", "primary_error", "secondary_factors", "key_frame_indices", "suggested_fix", "confidence",
        "summary",
    )  # fmt: skip
    assert (*SCHEMA["required"],) == (*SCHEMA["properties"],) == fields


def test_the_errors_are_those_of_table_6_and_no_code_is_both() -> None:
    assert [*ERRORS] == [
        "wrong_object", "bad_approach_direction", "failed_grasp", "insufficient_force", "drift_from_goal",
    ]  # fmt: skip
    assert "good_grasp" in SUCCESSES and not ERRORS.keys() & SUCCESSES and len(CODES) == 8
