import importlib.util

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.judges.transformers_ import Transformers


def test_a_missing_extra_is_named_as_a_package_and_missing_files_as_the_judge_s_model(monkeypatch) -> None:
    with pytest.raises(UserError, match=r"^judge=transformers judge\.model=/nowhere: there is nothing at this path"):
        Transformers(model="/nowhere").ready()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else find(name))
    with pytest.raises(
        UserError, match=r"^judge=transformers: the package transformers is missing; install the extra vlm"
    ):
        Transformers(model="/nowhere").ready()
