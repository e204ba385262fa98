from __future__ import annotations

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.models.judges.openai_ import OpenAI
from guidebench.harness.models.judges.transformers_ import Transformers
from guidebench.harness.plan import matrix


def test_it_is_registered() -> None:
    assert registry.get("judge", "openai") is OpenAI
    assert registry.get("judge", "transformers") is Transformers


@pytest.mark.parametrize("pasted", ["sk-proj-0123456789abcdef", "hf_AbCdEfGhIjKl", "Bearer 0123456789", ""])
def test_a_key_pasted_for_the_name_of_its_variable_is_refused_and_not_repeated(pasted: str) -> None:
    with pytest.raises(UserError, match="takes the name of an environment variable") as error:
        matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "judge=openai", f'judge.key_variable="{pasted}"'])
    assert not pasted or pasted not in str(error.value)
