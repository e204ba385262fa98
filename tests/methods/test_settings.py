"""What holds of every registered part's settings."""

from __future__ import annotations

import pytest

from guidebench.harness import registry, settings


@pytest.mark.parametrize("kind", ["suite", *registry.PARTS, "launcher"])
def test_every_setting_of_every_part_has_a_meaning_and_a_source(kind: str) -> None:
    """What a dataset holds, and which of it is taken, has no source."""
    for name in registry.names(kind):
        for field in settings.fields(registry.get(kind, name)).values():
            assert field.meaning and (field.source or kind == "dataset"), (name, field.name)
