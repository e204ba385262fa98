"""Calls that are refused by an error that names what is wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from guidebench.harness.errors import UserError


def check_refused(message: str, call: Callable[..., Any], /, *positional: Any, **keywords: Any) -> None:
    """Check that a call raises a `UserError` whose message matches the regular expression `message`."""
    with pytest.raises(UserError, match=message):
        call(*positional, **keywords)
