"""What every part of a cell declares of itself."""

from __future__ import annotations

import pytest

from guidebench.harness import registry, settings


@pytest.mark.parametrize(
    "kind", ["learner", "replay", "guide", "agent", "judge", "teacher", "chat", "embedder", "launcher"]
)
def test_every_setting_has_a_meaning_and_a_source(kind: str) -> None:
    for name in registry.names(kind):
        for field in settings.fields(registry.get(kind, name)).values():
            assert field.meaning and field.source, (name, field.name)
