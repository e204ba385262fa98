"""`make real`: what it asks, without asking it."""

import pytest

from guidebench.harness.models.access import Local
from guidebench.harness.plan import matrix
from tools import real


@pytest.mark.parametrize("smoke", [True, False])
def test_real_models_answer_in_every_role_that_can_choose(smoke: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("crafter", "metaworld"):
        pytest.importorskip(package)
    monkeypatch.setattr(Local, "content", lambda self: None)  # the files need not be here
    roles = set()
    for command, *words in real.commands(smoke, "runs/real"):
        assert command == "run"
        for cell in matrix.plan(words).cells:
            chats = {part.role for part in cell.models if getattr(cell.section(part.role), "answer", "") == "choice"}
            assert chats and {cell.section(role).model for role in chats} == {"smollm2_135m"}
            roles |= chats
    assert roles == {"performer", "scorer", "prior", "chat"}
