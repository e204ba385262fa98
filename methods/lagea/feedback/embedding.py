"""The call that turns the text of a reflection into a vector."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Call, CallResult, EmbedCall


class TextVector:
    """Turns a text into its vector (a Dialogue)."""

    calls = 1

    async def __call__(
        self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]
    ) -> Array | None:
        """Return the vector of the text `content`, float32 [1, d]; None if the model gave none."""
        found = await ask(EmbedCall((content,)))
        return None if found.failure else np.asarray(found.value)
