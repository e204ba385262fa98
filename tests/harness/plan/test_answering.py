"""Which model is refused for which kind of call."""

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import answering
from guidebench.harness.plan.names import Chosen

AGENT = Chosen("agent", "agent", "prior_guided")


def test_a_chat_that_answers_no_choices_is_refused_for_them_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.get("agent", "prior_guided"), "puts", {"prior": ("choice",)})
    for name in ("transformers", "openai"):
        answering.check((AGENT, Chosen("prior", "chat", name)))
    monkeypatch.setattr(registry.get("chat", "openai"), "answers", ("judge", "chat"))
    with pytest.raises(UserError, match=r"calls of kind 'choice' to its prior, and chat 'openai' answers only judge"):
        answering.check((AGENT, Chosen("prior", "chat", "openai"), Chosen("learner", "learner", "prior_dqn")))


def test_a_part_that_uses_probabilities_refuses_a_chat_that_tells_none() -> None:
    chat = registry.get("chat", "openai")
    parts = (AGENT, Chosen("prior", "chat", "openai"))
    answering.check_choices(parts, "prior", chat(answer="choice", choice_by="label"))
    with pytest.raises(UserError, match=r"role 'prior', and prior\.choice_by=enum tells none but the chosen candidate"):
        answering.check_choices(parts, "prior", chat(answer="choice", choice_by="enum"))
