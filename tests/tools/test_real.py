"""`make real`: what it asks, without asking it."""

import pytest

from guidebench.harness.models.access import Local
from guidebench.harness.plan import matrix
from tools import real


@pytest.mark.parametrize("smoke", [True, False])
def test_real_models_answer_in_every_role_that_reads_text_alone(smoke: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("crafter", "metaworld"):
        pytest.importorskip(package)
    monkeypatch.setattr(Local, "content", lambda self: None)  # the files need not be here
    forms: dict[str, str] = {}
    for command, *words in real.commands(smoke, "runs/real"):
        assert command == "run"
        for cell in matrix.plan(words).cells:
            chats = {part.role: cell.section(part.role) for part in cell.models if part.kind == "chat"}
            assert chats and {chat.model for chat in chats.values()} == {"smollm2_135m"}
            forms |= {role: chat.answer for role, chat in chats.items()}
    written = dict.fromkeys(("planner", "reflector"), "schema")
    assert forms == {**dict.fromkeys(("performer", "scorer", "prior", "chat"), "choice"), **written}
