"""Which model is refused for which kind of call."""

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import answering
from guidebench.harness.plan.names import Chosen


def test_a_server_is_refused_for_choices_and_a_local_model_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Chosen("agent", "agent", "prior_guided")
    monkeypatch.setattr(registry.get("agent", "prior_guided"), "puts", {"prior": ("choice",)})
    answering.check((agent, Chosen("prior", "chat", "transformers")))
    with pytest.raises(UserError, match=r"calls of kind 'choice' to its prior, and chat 'openai' answers only judge"):
        answering.check((agent, Chosen("prior", "chat", "openai")))
