"""Configurations of models: which settings enter a cell's id, that each is explained, and what they import."""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from guidebench.harness import settings
from guidebench.harness.models import study_models
from guidebench.harness.models.chats.openai_ import OpenAI as OpenAIChat
from guidebench.harness.models.chats.transformers_ import Transformers as TransformersChat
from guidebench.harness.models.embedders.scripted import Scripted
from guidebench.harness.models.embedders.transformers_ import Transformers as TransformersEmbedder
from guidebench.harness.models.judges.openai_ import OpenAI as OpenAIJudge
from guidebench.harness.models.judges.transformers_ import Transformers as TransformersJudge
from tests.cell_views import cell_view

SERVER = {"base_url", "key_variable", "price_in", "price_out", "in_flight", "timeout", "attempts"}
LOCAL = {"device", "batch_size", "in_flight", "timeout", "attempts", "digest"}
MODELS = [
    (OpenAIChat, SERVER), (OpenAIJudge, SERVER), (TransformersChat, LOCAL), (TransformersJudge, LOCAL),
    (TransformersEmbedder, LOCAL), (Scripted, {"timeout"}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "transport"), MODELS)
def test_how_a_model_is_reached_and_priced_is_no_part_of_a_cells_id(config: Any, transport: set[str]) -> None:
    assert {field.name for field in dataclasses.fields(config)} - set(settings.identity(config())) == transport


@pytest.mark.parametrize("config", [TransformersChat, TransformersJudge, TransformersEmbedder])
def test_once_its_digest_is_known_a_local_model_is_no_path_and_no_revision(config: Any) -> None:
    identity = settings.identity(config(digest=64 * "a"))
    assert {field.name for field in dataclasses.fields(config)} - set(identity) == LOCAL - {"digest"} | {
        "model", "revision"
    }  # fmt: skip
    assert identity["digest"] == 64 * "a"


def test_without_a_digest_its_identity_is_that_of_calls_recorded_before_there_were_digests() -> None:
    assert study_models.identity(TransformersEmbedder(model="/srv/clip")) == {
        "model": "/srv/clip", "revision": None, "dtype": "float32", "trust_remote_code": False,
        "backend": "transformers",
    }  # fmt: skip


@pytest.mark.parametrize("config", [config for config, _ in MODELS])
def test_every_setting_says_what_it_means_and_where_its_default_is_from(config: Any) -> None:
    for name, field in settings.fields(config).items():
        assert field.meaning and (field.source or (config, name) == (TransformersEmbedder, "model")), name


def test_a_chat_is_first_of_all_its_model() -> None:
    assert {next(iter(settings.fields(config))) for config in (OpenAIChat, TransformersChat)} == {"model"}


@pytest.mark.parametrize("judge", [OpenAIJudge, TransformersJudge])
def test_it_judges_where_it_has_a_prompt_and_says_how_to_get_one(judge: Any) -> None:
    assert judge(prompt="Is the door open?").fits(cell_view()) == ""
    assert "bench models prompt" in judge().fits(cell_view())


def test_configurations_import_nothing_heavy() -> None:
    modules = sorted({config.__module__ for config, _ in MODELS})
    program = f"import json, sys, {', '.join(modules)}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "openai", "jsonschema"} & {*json.loads(done.stdout)}
