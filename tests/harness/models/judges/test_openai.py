from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.models.judges.openai_ import OpenAI
from guidebench.harness.plan import matrix
from tests.there import there


def test_it_judges_where_it_has_a_prompt_and_says_how_to_get_one() -> None:
    assert registry.get("judge", "openai") is OpenAI
    assert OpenAI(prompt="Is the door open?").fits(there()) == ""
    assert "bench models prompt" in OpenAI().fits(there())


def test_how_it_is_reached_and_priced_is_no_part_of_a_cells_id() -> None:
    known = {field.name for field in dataclasses.fields(OpenAI)}
    assert known - set(settings.identity(OpenAI())) == {
        "base_url", "key_variable", "price_in", "price_out", "in_flight", "timeout", "attempts",
    }  # fmt: skip


def test_every_setting_says_what_it_means_and_where_its_default_is_from() -> None:
    assert all(field.meaning and field.source for field in settings.fields(OpenAI).values())


@pytest.mark.parametrize("pasted", ["sk-proj-0123456789abcdef", "hf_AbCdEfGhIjKl", "Bearer 0123456789", ""])
def test_a_key_pasted_for_the_name_of_its_variable_is_refused_and_not_repeated(pasted: str) -> None:
    with pytest.raises(UserError, match="takes the name of an environment variable") as error:
        matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "judge=openai", f'judge.key_variable="{pasted}"'])
    assert not pasted or pasted not in str(error.value)


def test_its_configuration_imports_nothing_heavy() -> None:
    heavy = {"torch", "openai", "jsonschema"}
    asked = f"import sys, guidebench.harness.models.judges.openai_; print(sorted({heavy} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
