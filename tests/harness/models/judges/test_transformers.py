from __future__ import annotations

import dataclasses
import subprocess
import sys

from guidebench.harness import registry, settings
from guidebench.harness.models.judges.transformers_ import Transformers
from tests.there import there


def test_it_judges_where_it_has_a_prompt_and_says_how_to_get_one() -> None:
    assert registry.get("judge", "transformers") is Transformers
    assert Transformers(prompt="Is the door open?").fits(there()) == ""
    assert "bench models prompt" in Transformers().fits(there())


def test_how_it_is_reached_is_no_part_of_a_cells_id() -> None:
    known = {field.name for field in dataclasses.fields(Transformers)}
    assert known - set(settings.identity(Transformers())) == {
        "device", "batch_size", "in_flight", "timeout", "attempts",
    }  # fmt: skip


def test_every_setting_says_what_it_means_and_where_its_default_is_from() -> None:
    assert all(field.meaning and field.source for field in settings.fields(Transformers).values())


def test_its_configuration_imports_nothing_heavy() -> None:
    heavy = {"torch", "transformers"}
    asked = f"import sys, guidebench.harness.models.judges.transformers_; print(sorted({heavy} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
